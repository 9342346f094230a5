"""The direct path: queries to one backend through the same switch that bypass the load balancer.

A few flows that the lab adds forward frames for one of the lab's MAC addresses to the backend, with the same hops and
rewrites as a query to a VIP. A VIP is compared with this path, not with a cable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dnsteer.lab import openvswitch
from dnsteer.lab.topology import Client, Topology

COOKIE = 0x1AB << 52
"""Cookie of the lab's flows; `dnsteer` touches only flows with its own."""
_MASK = 0xFFF << 52
_PRIORITY = 65000


def flows(topology: Topology, server: str, client: Client) -> list[str]:
    """The flows between *client* and *server*, in both directions where the answers pass the switch."""
    host, target = topology.find(server)
    by = client.uplink if client.uplink in host.queries_by else host.queries_by[0]
    lines = [_flow(client.uplink, target.lab_mac, target.lab_mac, host.mac, by)]
    if host.passes:
        lines.append(_flow(by, client.return_mac, client.return_mac, client.mac, client.uplink))
    return lines


@contextlib.contextmanager
def direct_path(topology: Topology, server: str, client: Client) -> Iterator[None]:
    """Add the flows of the direct path from *client* to *server*, and remove them when the block ends."""
    bridge = topology.spec.switch.bridge
    close(bridge)
    try:
        openvswitch.ofctl(bridge, "add-flows", "-", stdin="\n".join(flows(topology, server, client)) + "\n")
        openvswitch.appctl("revalidator/wait")  # a datapath flow of the path before may still drop what comes
        yield
    finally:
        close(bridge)


def close(bridge: str) -> None:
    """Remove the lab's flows, also those of a demo that was killed."""
    openvswitch.ofctl(bridge, "del-flows", f"cookie={COOKIE:#x}/{_MASK:#x}")


def _flow(in_port: str, mac: str, source: str, destination: str, out_port: str) -> str:
    # The source MAC is rewritten as dnsteer does: the client's own would move in the fabric's table.
    output = "in_port" if in_port == out_port else f'output:"{out_port}"'
    rewrite = f"set_field:{source}->eth_src,set_field:{destination}->eth_dst"
    return (
        f'cookie={COOKIE:#x},table=0,priority={_PRIORITY},in_port="{in_port}",dl_dst={mac},actions={rewrite},{output}'
    )
