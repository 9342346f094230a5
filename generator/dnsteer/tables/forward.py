# SPDX-License-Identifier: Apache-2.0
"""Table forward: rewrites a query for its backend. The forwarding modes make its rows."""

from __future__ import annotations

from typing import NamedTuple

from dnsteer.spec.model.families import Reach
from dnsteer.tables.cookies import Subject
from dnsteer.tables.table import Table, rows_of_modes


class PortRewrite(NamedTuple):
    """The destination port of queries, which is the service's target port by then, and the backend's own port."""

    protocol: str
    port: int
    own: int


class ForwardRow(NamedTuple):
    """The rewrite of queries for one backend by the forwarding mode that the spec calls *word*.

    *family* is matched where a field of the IP header is written; ANY where none is, and one row serves both families.
    *address* is the new destination, empty if it stays; *out* is the output port, 0 for the ingress port. *ports* has the
    ports of all services of a pool with workers, since each worker has other ones; empty: no port changes here.
    *zone* is that of the tracker which keeps connections to the pool, 0 for none; *moves_port*: the port of what is kept
    changes here, behind the tracker, and not before. *tag* is the action that gives a query the backend's VLAN.
    *tunnel_end* is where the tunnel to the backend ends, empty for none, and *tunnel_key* its key.
    """

    subject: Subject
    word: str
    mode: int
    family: Reach
    pool: int
    backend: int
    mac: str
    address: str
    out: int
    ports: tuple[PortRewrite, ...] = ()
    zone: int = 0
    moves_port: bool = False
    tag: str = ""
    tunnel_end: str = ""
    tunnel_key: int = 0


TABLE = Table(
    name="forward",
    matches="forwarding mode, pool and backend",
    does="rewrites the packet for the backend",
    traffic=("queries", "second_pass", "tracked"),
    holds="backends",
    drops="no way to the backend",
    flows={
        "ip udp": "Towards the backend: its MAC, and with NAT its address. Matching the family makes the address writable. "
        "Register 7 says UDP: the counter of this flow is the backend's queries.",
        "ip tcp": "The same for TCP, so that segments of connections are not counted as queries.",
        "ipv6 udp": "The same for IPv6.",
        "ipv6 tcp": "The same for TCP over IPv6.",
    },
    uses={"forwards": ForwardRow},
    rows=rows_of_modes,
)
