# SPDX-License-Identifier: Apache-2.0
"""What the name servers' machines received, counted by their kernels: UDP datagrams and TCP segments.

A process's /proc/PID/net shows the network namespace that it lives in, so that this costs a few reads and disturbs nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dnsteer.lab.errors import LabError
from dnsteer.lab.state import LabState

_UDP_RECEIVED = ("InDatagrams", "NoPorts", "InErrors")
"""Read by a program, for no program, or dropped (wrong checksum, full buffer): every datagram is one of these."""


@dataclass(frozen=True)
class Received:
    """UDP datagrams, and TCP segments (connection set-up and acknowledgements too), IPv4 and IPv6 together."""

    udp: int
    tcp: int

    def __sub__(self, earlier: Received) -> Received:
        return Received(self.udp - earlier.udp, self.tcp - earlier.tcp)


class Counters:
    """The counters of every name server of *lab*, whose state must be a fresh one (`lab.status`).

    Backends that share a MAC address share a namespace, and so their counters: each shows what came for all of them.
    A datagram counts when the server has read it; wait a moment after a load before comparing exactly.
    """

    def __init__(self, lab: LabState) -> None:
        running = {p.namespace: p.pid for p in lab.processes if p.program == "nsd"}
        missing = sorted(s.name for s in lab.servers if s.namespace not in running)
        if missing:
            raise LabError(f"no process of name server {', '.join(missing)}: the counters are read by its id")
        self._pids = {s.name: running[s.namespace] for s in lab.servers}

    def read(self) -> dict[str, Received]:
        """What each name server has received since the lab was built. Raises LabError when one has ended."""
        return {name: _received(name, pid) for name, pid in self._pids.items()}

    def since(self, earlier: Mapping[str, Received]) -> dict[str, Received]:
        """What each has received since *earlier* was read."""
        return {name: now - earlier[name] for name, now in self.read().items()}


def _received(name: str, pid: int) -> Received:
    folder = Path(f"/proc/{pid}/net")
    try:
        old, new = (folder / "snmp").read_text("ascii"), (folder / "snmp6").read_text("ascii")
    except OSError as err:
        raise LabError(f"name server {name} (process {pid}) has ended: {err.strerror}") from None
    values = {**_pairs(old.splitlines()), **dict(line.split() for line in new.splitlines())}
    # TCP is counted once for both families.
    return Received(
        udp=sum(int(values[f"Udp{family}{what}"]) for family in ("", "6") for what in _UDP_RECEIVED),
        tcp=int(values["TcpInSegs"]),
    )


def _pairs(lines: Iterable[str]) -> dict[str, str]:
    """The values of /proc/net/snmp: a line of names after a protocol, then a line of numbers."""
    found: dict[str, str] = {}
    rows = iter(lines)
    for names, numbers in zip(rows, rows, strict=True):
        protocol, *columns = names.split()
        found.update(zip((protocol.rstrip(":") + c for c in columns), numbers.split()[1:], strict=True))
    return found
