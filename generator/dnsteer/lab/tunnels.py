"""Decapsulation on the name servers that tunnels lead to."""

from __future__ import annotations

from collections.abc import Callable

from dnsteer.lab import decap, names
from dnsteer.lab.topology import Host, Topology

_PROGRAM = names.RUN_DIR / "decap.o"


def attach_decap(topology: Topology, progress: Callable[[str], None]) -> None:
    """Attach the decapsulation program to every device that receives tunnels. The devices must have their addresses."""
    hosts = [host for host in topology.hosts if host.tunneled]
    if not hosts:
        return
    progress(f"attaching the decapsulation program on {len(hosts)} name servers (XDP)")
    decap.build(_PROGRAM)
    for host in hosts:
        for segment in host.queries_by:
            decap.attach(host.namespace, host.device(segment), _PROGRAM, remotes=_remotes(topology, host))


def _remotes(topology: Topology, host: Host) -> list[str]:
    """The only allowed tunnel sources: the extension's addresses, in the families that tunnels to *host* can use."""
    part = topology.spec.switch.extension
    assert part is not None
    own = {a.version for server in host.servers for a in server.addresses}
    return [str(a) for a in (part.ipv4, part.ipv6) if a is not None and a.version in own]
