"""Rules that a well-formed spec must keep so that it can work: references, limits, what flavors lack."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec import meaning
from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.model import Backend, Forwarding, Pool, Selection, Spec, State, Vip
from dnsteer.spec.structure import near


class Rules:
    """The rules over one spec. Each check yields findings; *doc* gives the lines."""

    def __init__(self, spec: Spec, doc: Document) -> None:
        self.spec = spec
        self.doc = doc

    def finding(self, path: Path, found: str, expected: str, hint: str = "") -> Finding:
        """A finding at *path*, with its line."""
        return Finding(self.doc.line(path), path, found, expected, hint)

    def check(self) -> Iterator[Finding]:
        """All findings of references and limits."""
        yield from self._ports()
        yield from self._macs()
        for name, pool in self.spec.pools.items():
            yield from self._pool(name, pool)
        for name, vip in self.spec.vips.items():
            yield from self._vip(name, vip)

    def _ports(self) -> Iterator[Finding]:
        switch = self.spec.switch
        for name in switch.ports:
            if name in switch.uplinks:
                yield self.finding(
                    ("switch", "ports", name), f"the name of an uplink, {name!r}", "each port once",
                    "backends may sit behind an uplink: give them its name as their port",
                )  # fmt: skip
        for part, ports in (("uplinks", switch.uplinks), ("ports", switch.ports)):
            for name, port in ports.items():
                path: Path = ("switch", part, name)
                if name == switch.bridge:
                    yield self.finding(path, "the bridge's own name", "a name that differs from the bridge's")
                if port.answers is not None:
                    yield from self._answers((*path, "answers"), port.answers)

    def _answers(self, path: Path, uplink: str) -> Iterator[Finding]:
        uplinks = self.spec.switch.uplinks
        if uplink not in uplinks:
            yield self.finding(path, f"{uplink!r}", "the name of an uplink", near(uplink, list(uplinks)))
        elif uplinks[uplink].next_hop is None:
            yield self.finding(
                path, f"{uplink!r}, which has no next hop", "an uplink with next_hop", f"give {uplink} a next_hop"
            )

    def _macs(self) -> Iterator[Finding]:
        switch = self.spec.switch
        own = {switch.mac: "the balancer's (switch.mac)", meaning.gateway_mac(switch): "the virtual gateways'"}
        if switch.gateway_mac == switch.mac:
            yield self.finding(
                ("switch", "gateway_mac"), f'"{switch.mac}", the same as switch.mac', "a MAC address of its own",
                "the destination MAC tells answers from queries",
            )  # fmt: skip
        others: list[tuple[Path, str]] = [
            (("switch", "uplinks", name, "next_hop"), up.next_hop) for name, up in switch.uplinks.items() if up.next_hop
        ]
        for pool_name, pool in self.spec.pools.items():
            others += [(("pools", pool_name, "backends", i, "mac"), b.mac) for i, b in enumerate(pool.backends)]
        for path, mac in others:
            if mac in own:
                yield self.finding(path, f'"{mac}", {own[mac]} MAC', "the MAC address of another station")

    def _pool(self, name: str, pool: Pool) -> Iterator[Finding]:
        base: Path = ("pools", name)
        names: dict[str, int] = {}
        for i, backend in enumerate(pool.backends):
            path: Path = (*base, "backends", i)
            if backend.name in names:
                yield self.finding(
                    (*path, "name"), f'"{backend.name}" a second time (first is backends[{names[backend.name]}])',
                    "each backend name once in a pool",
                )  # fmt: skip
            names.setdefault(backend.name, i)
            yield from self._backend(path, backend)
        if not any(b.weight for b in pool.backends):
            yield self.finding((*base, "backends"), "no weight above 0", "at least one backend that takes queries")
        yield from self._selection(base, pool)

    def _backend(self, path: Path, backend: Backend) -> Iterator[Finding]:
        switch = self.spec.switch
        if backend.ipv4 is None and backend.ipv6 is None:
            yield self.finding(path, "neither 'ipv4' nor 'ipv6'", "an address of at least one family")
        if backend.port is not None and backend.port not in switch.uplinks and backend.port not in switch.ports:
            known = [*switch.uplinks, *switch.ports]
            yield self.finding(
                (*path, "port"), f'"{backend.port}"', "the name of an uplink or port of the switch",
                near(backend.port, known),
            )  # fmt: skip

    def _selection(self, base: Path, pool: Pool) -> Iterator[Finding]:
        flavor = self.spec.switch.flavor
        limits = meaning.FLAVOR_LIMITS[flavor]
        takers = sum(1 for b in pool.backends if b.weight)
        if pool.selection is Selection.DP_HASH:
            if limits.why_no_dp_hash:
                yield self.finding(
                    (*base, "selection"), f'"dp-hash" with flavor {flavor.value}', "a selection that the flavor offloads",
                    f"{limits.why_no_dp_hash}; use source-port, or flavor ovs-netdev where software forwarding is meant",
                )  # fmt: skip
                return
            most = limits.max_dp_hash_slots
            if pool.slots is not None and pool.slots > most:
                yield self.finding(
                    (*base, "slots"), str(pool.slots), f"at most {most} slots for dp-hash with flavor {flavor.value}",
                    "source-port has no such limit",
                )  # fmt: skip
                return
        most = pool.slots or meaning.slot_limit(self.spec, pool)
        if takers > most:
            path = (*base, "slots") if pool.slots else (*base, "backends")
            yield self.finding(
                path, f"{takers} backends for {most} slots", "at least as many slots as backends with a weight"
            )

    def _vip(self, name: str, vip: Vip) -> Iterator[Finding]:
        base: Path = ("vips", name)
        pool = self.spec.pools.get(vip.pool)
        if pool is None:
            yield self.finding(
                (*base, "pool"), f'"{vip.pool}"', "the name of a pool", near(vip.pool, list(self.spec.pools))
            )
            return
        for i, address in enumerate(vip.addresses):
            family = meaning.family_of(address)
            takers = [b for b in meaning.members(pool, family) if b.weight]
            word = "IPv4" if family == "ipv4" else "IPv6"
            if not takers:
                yield self.finding(
                    (*base, "addresses", i), f"the {word} address {address}",
                    f"a pool with a backend that has an {word} address and a weight",
                    f"give a backend of pool {vip.pool} an {family} address, or leave this address out",
                )  # fmt: skip
            elif any(meaning.answers_pass(self.spec.switch, vip, b) for b in takers):
                yield from self._return_path((*base, "addresses", i), vip, family, takers)
        for i, entry in enumerate(vip.services):
            if vip.forwarding is Forwarding.DSR and not isinstance(entry, str) and entry.target_port is not None:
                yield self.finding(
                    (*base, "services", i, "target_port"), str(entry.target_port), "no target_port with dsr",
                    "direct server return changes no port; use forwarding: nat",
                )  # fmt: skip

    def _return_path(
        self, path: Path, vip: Vip, family: meaning.Family, takers: list[Backend]
    ) -> Iterator[Finding]:
        switch = self.spec.switch
        why = "NAT" if vip.forwarding is Forwarding.NAT else "backends on ports of their own"
        if not any(meaning.family_of(g) == family for g in switch.gateways):
            yield self.finding(
                path, f"{why} and no {family} gateway", f"an {family} address in switch.gateways",
                "the answers pass the switch: it needs a gateway address that the backends route them to",
            )  # fmt: skip
        sits = {p for b in takers for p in ([b.port] if b.port else switch.uplinks)}
        for port in sorted(sits):
            if meaning.answers_leave_by(switch, port) is None:
                yield self.finding(
                    ("switch", "uplinks"), f"no next_hop, while {why} of VIP address {path[-1]} needs one",
                    "an uplink with next_hop", "answers leave to the MAC address of the uplink's router",
                )  # fmt: skip
                break


def warnings(spec: Spec, doc: Document) -> Iterator[Finding]:
    """What is allowed but probably not meant."""
    rules = Rules(spec, doc)
    used = {vip.pool for vip in spec.vips.values()}
    for name, pool in spec.pools.items():
        if name not in used:
            yield rules.finding(("pools", name), "a pool that no VIP uses", "a VIP with this pool")
        up = [b for b in pool.backends if b.state is State.UP and b.weight]
        if not up:
            yield rules.finding(
                ("pools", name, "backends"), "every backend down", "a backend that is up",
                "the base assignment is kept: queries still go to backends that are down",
            )  # fmt: skip
