# SPDX-License-Identifier: Apache-2.0
"""VIPs whose connections cannot be kept, or have none, and a tracker that nobody needs."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.spec import Flavor, Pool, Vip


def check_tracking(scope: Scope) -> Iterator[Finding]:
    """All findings of what is to be kept by the connection tracker."""
    spec = scope.spec
    for name, vip in spec.vips.items():
        if vip.keep is not None and vip.pool in spec.pools:
            yield from _of_vip(scope, ("vips", name, "keep"), vip, spec.pools[vip.pool])
    if derived.keeps_connections(spec):
        yield from _kernel(scope)
    if spec.switch.tracking is not None and not derived.keeps_connections(spec):
        yield scope.finding(
            ("switch", "tracking"),
            "tracking, and no VIP keeps connections",
            "keep: connections in a VIP",
            "without one nothing is tracked: set it there, or leave tracking out",
        )


def _kernel(scope: Scope) -> Iterator[Finding]:
    """Linux's tracker takes what follows a SYN for invalid while it has not seen the answer to it, and forgets the mark:
    table tcp_conntracks of net/netfilter/nf_conntrack_proto_tcp.c, an ACK in state SYN_SENT.
    """
    if scope.spec.switch.flavor is Flavor.OVS_KERNEL:
        name = next(name for name, vip in scope.spec.vips.items() if vip.keep is not None)
        yield scope.finding(
            ("vips", name, "keep"),
            "connections with flavor ovs-kernel",
            "ovs-doca, ovs-dpdk or ovs-netdev",
            "the kernel's tracker must see both directions of a connection, and sees that of clients alone: leave it out",
        )


def _of_vip(scope: Scope, path: Path, vip: Vip, pool: Pool) -> Iterator[Finding]:
    if all(e.protocol.value != "tcp" for e in derived.endpoints(vip)):
        yield scope.finding(
            path,
            "connections, and no service is over TCP",
            "a service such as dns, dot or doh",
            "UDP has none: leave it out",
        )
    if MODES[vip.forwarding].uses_extension(pool):
        way = f"selection {pool.selection.value}" if not MODES[vip.forwarding].by_extension else ""
        way = way or f"forwarding {vip.forwarding.value}"
        yield scope.finding(
            path,
            f"connections with {way}",
            "forwarding dsr or nat, and a selection of the switch's",
            "the extension forwards these queries, and does not track connections: leave keep out, or use "
            + ("selection: source-address" if way.startswith("selection") else "forwarding: dsr"),
        )
