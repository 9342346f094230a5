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
        if derived.tracks_answers(vip):
            yield from _tracked_nat(scope, name, vip)
        elif vip.keep is not None and vip.pool in spec.pools:
            yield from _of_vip(scope, ("vips", name, "keep"), vip, spec.pools[vip.pool])
    if derived.keeps_connections(spec):
        yield from _kernel(scope)
    if spec.switch.tracking is not None and not derived.keeps_connections(spec):
        yield scope.finding(
            ("switch", "tracking"),
            "tracking, and no VIP keeps connections",
            "keep: connections, or forwarding: ct-nat, in a VIP",
            "without one nothing is tracked: set it there, or leave tracking out",
        )


def _kernel(scope: Scope) -> Iterator[Finding]:
    """Linux's tracker takes what follows a SYN for invalid while it has not seen the answer to it, and forgets the mark:
    table tcp_conntracks of net/netfilter/nf_conntrack_proto_tcp.c, an ACK in state SYN_SENT.
    """
    if scope.spec.switch.flavor is Flavor.OVS_KERNEL:
        name, vip = next((name, vip) for name, vip in scope.spec.vips.items() if derived.keeps(vip))
        if derived.tracks_answers(vip):
            key, what = "forwarding", "ct-nat"
            advice = "what the tracker does is proven with the userspace tracker, and the kernel's is another: use nat"
        else:
            key, what = "keep", "connections"
            advice = "the kernel's tracker must see both directions of a connection, and sees that of clients alone"
            advice += ": leave it out"
        yield scope.finding(
            ("vips", name, key), f"{what} with flavor ovs-kernel", "ovs-doca, ovs-dpdk or ovs-netdev", advice
        )


def _tracked_nat(scope: Scope, name: str, vip: Vip) -> Iterator[Finding]:
    if vip.keep is not None:
        yield scope.finding(
            ("vips", name, "keep"),
            "connections with forwarding ct-nat",
            "keep with dsr or nat",
            "ct-nat keeps connections in any case: leave keep out",
        )
    if all(e.protocol.value != "tcp" for e in derived.endpoints(vip)):
        yield scope.finding(
            ("vips", name, "forwarding"),
            "ct-nat, and no service is over TCP",
            "a service such as dns, dot or doh",
            "ct-nat is for TCP connections; what it does with UDP is what nat does: use forwarding: nat",
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
