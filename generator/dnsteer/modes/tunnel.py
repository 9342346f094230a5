# SPDX-License-Identifier: Apache-2.0
"""Tunnels by Open vSwitch: the query goes to the backend as a frame in a tunnel, and the backend owns the VIP.

One mode for each kind of tunnel (RFC 7348, RFC 8926, RFC 1701 with the key of RFC 2890), which differ in their port alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dnsteer.modes.base import BackendEnd, NamedVip, OwnsVip, forward_row
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import ANY, FAMILY_NAMES, Family, Reach
from dnsteer.spec.model.next_hop import RouterAddresses
from dnsteer.spec.model.spec import Backend, Flavor, Forwarding, Pool, Switch, Vip
from dnsteer.spec.model.types import Address
from dnsteer.spec.tunnels import TUNNELS, outer_address, tunnel_bytes, tunnel_uplink
from dnsteer.tables.context import Context, PoolSlots
from dnsteer.tables.forward import ForwardRow


class SwitchTunnel(OwnsVip):
    """A tunnel of either family carries both, so one row serves both."""

    tunnels = True
    changed_by = "a tunnel"
    why_no_errors = "copies of ICMP errors are not put into tunnels"
    why_unsupported = "the tunnel is made by Open vSwitch"

    def reach(self, family: Family) -> Reach:
        """Return ANY: a tunnel of either family carries both."""
        return ANY

    def answers_pass(self, switch: Switch, backend: Backend) -> bool:
        """They do not: the backend is behind routers."""
        return False

    def backend_end(self, backend: Backend, address: Address) -> BackendEnd | None:
        """Return the VIP's address in a tunnel to the backend."""
        end = outer_address(backend)
        return BackendEnd(address, tunnel=end) if end is not None else None

    def mtu_excess(self, vip: Vip, pool: Pool) -> int:
        """What the longest tunnel to a backend adds."""
        kind = TUNNELS[self.word]
        ends = (outer_address(backend) for backend in pool.backends)
        return max(tunnel_bytes(kind, end) for end in ends if end is not None)

    def forward_rows(self, ctx: Context, slots: PoolSlots, index: int, reached: Reach) -> Iterator[ForwardRow]:
        """Yield the row that sets the MAC address inside, and the tunnel's end and key."""
        end, part = outer_address(slots.pool.backends[index]), ctx.spec.switch.tunnel
        if reached == ANY and end is not None and part is not None:
            tunnel = TUNNELS[self.word].port, str(end), part.key
            yield forward_row(ctx, slots, index, self, ANY, tunnel=tunnel)

    def check(self, scope: Scope, vips: Sequence[NamedVip]) -> Iterator[Finding]:
        """Report what the switch lacks for tunnels of this kind, then what backends must not have."""
        for vip in vips[:1]:
            yield from self._switch(scope, vip)
        for name in dict.fromkeys(vip.vip.pool for vip in vips):
            yield from self._backends(scope, name)

    def _switch(self, scope: Scope, first: NamedVip) -> Iterator[Finding]:
        switch, word = scope.spec.switch, self.word.value
        at: Path = ("vips", first.name, "forwarding")
        if switch.flavor is Flavor.OVS_KERNEL:
            yield scope.finding(
                at,
                f"{word} with flavor ovs-kernel",
                "ovs-doca, ovs-dpdk or ovs-netdev",
                "its datapath leaves tunnels to the kernel's devices and routes, which dnsteer does not set up: use dsr, "
                "nat or ipip",
            )
        if switch.tunnel is None:
            yield scope.finding(
                at,
                f"{word} without switch.tunnel",
                "switch.tunnel, since a tunnel has a source address and a key",
                "give switch.tunnel an ipv4 or ipv6 and a key (docs/tunnels.md)",
            )
        if switch.vlans == "any":
            yield scope.finding(
                ("switch", "vlans"),
                f"any, and VIP {first.name} with forwarding {word}",
                "vlans: untagged, or the key vlan of uplinks",
                "a tunnel leaves in one VLAN, that of its uplink",
            )
        if tunnel_uplink(switch) is None:
            yield scope.finding(
                at,
                f"{word}, and no uplink with a next_hop",
                "a next_hop of the uplink by which tunnels leave, the first that has one",
                "tunnels go to a router: give its MAC address or its addresses",
            )

    def _backends(self, scope: Scope, name: str) -> Iterator[Finding]:
        switch, word = scope.spec.switch, self.word.value
        part, uplink = switch.tunnel, tunnel_uplink(switch)
        own = {part.ipv4, part.ipv6} - {None} if part is not None else set()
        told: set[int] = set()
        users = {vip: used for vip, used in scope.spec.vips.items() if used.pool == name}
        for vip, used in users.items():
            if used.forwarding not in TUNNELS:
                first = next(first for first, other in users.items() if other.forwarding is self.word)
                yield scope.finding(
                    ("vips", vip, "forwarding"),
                    f"{used.forwarding.value} with pool {name}, which VIP {first} has with {word}",
                    "a pool whose backends are all at the end of tunnels, or none",
                    "a backend's mac is that of its interface at the end of the tunnel: give this VIP a pool of its own",
                )
        for i, backend in enumerate(scope.spec.pools[name].backends):
            path: Path = ("pools", name, "backends", i)
            for key in ("port", "vlan"):
                if getattr(backend, key) is not None:
                    yield scope.finding(
                        (*path, key),
                        f"{getattr(backend, key)} with forwarding {word}",
                        f"no {key} of a backend at the end of a tunnel",
                        f"tunnels leave by {uplink or 'the first uplink with a next_hop'}, in its VLAN: leave it out",
                    )
            if backend.follows_mac:
                yield scope.finding(
                    (*path, "mac"),
                    f"auto with forwarding {word}",
                    "the MAC address of the interface at the end of the tunnel",
                    "nobody can ask through a tunnel: give the interface a MAC address of your choice, and write it here",
                )
            end = outer_address(backend)
            if end is None or part is None:
                continue
            if end in own:
                yield scope.finding(
                    (*path, derived.family_of(end)),
                    f"{end}, which is the switch's own end of tunnels",
                    "the backend's address",
                    f"a tunnel to itself leads nowhere; see {scope.where(('switch', 'tunnel'))}",
                )
            if end.version in told:
                continue
            told.add(end.version)
            family = derived.family_of(end)
            if (part.ipv4 if end.version == 4 else part.ipv6) is None:
                yield scope.finding(
                    ("switch", "tunnel"),
                    f'no "{family}"',
                    f"a source address for tunnels over {FAMILY_NAMES[family]}",
                    f"backend {backend.name} of pool {name} is reached by {end} ({scope.where(path)})",
                )
            router = switch.uplinks[uplink].next_hop if uplink is not None else None
            if uplink is None:
                continue
            if isinstance(router, RouterAddresses) and not router.mac and router.address(family) is None:
                yield scope.finding(
                    ("switch", "uplinks", uplink, "next_hop"),
                    f"no {family}",
                    f"the router's {FAMILY_NAMES[family]} address too",
                    f"the tunnel to backend {backend.name} of pool {name} is over {FAMILY_NAMES[family]}",
                )


class Vxlan(SwitchTunnel):
    """VXLAN: UDP to port 4789."""

    word = Forwarding.VXLAN
    number = 4


class Geneve(SwitchTunnel):
    """Geneve without options: UDP to port 6081."""

    word = Forwarding.GENEVE
    number = 5


class Gre(SwitchTunnel):
    """GRE of Ethernet frames, with a key and without a checksum."""

    word = Forwarding.GRE
    number = 6
