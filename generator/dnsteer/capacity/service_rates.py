# SPDX-License-Identifier: Apache-2.0
"""Queries and new connections per second of VIPs, from what each uses of the shared hardware.

A query uses time of the eSwitch or the Arm cores and bandwidth of the links in and out; so does its answer, if answers pass
the switch. The resource that is exhausted first is the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dnsteer.capacity.bounds import Bound, Figures, figures
from dnsteer.capacity.card_setup import CardSetup
from dnsteer.capacity.estimate import Estimate, worst_kind
from dnsteer.capacity.frame_sizes import empty_segment, mix
from dnsteer.capacity.model import line_rate
from dnsteer.capacity.paths import rules_together
from dnsteer.capacity.uplinks import UplinkUse, uplink_shares
from dnsteer.offload.packet_path import PacketPath
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.families import Family


@dataclass(frozen=True)
class LimitedRate:
    """A rate in millions per second, and what limits it."""

    most: Estimate
    limit: Bound


@dataclass(frozen=True)
class VipRates:
    """The rates of one VIP in one family, as if it had the hardware to itself; `""` and None: several, in equal parts."""

    vip: str
    family: Family | None
    queries: LimitedRate | None
    """Over UDP; None if the VIP has no UDP service."""
    connections: LimitedRate | None
    """Over TCP, with one query in each; None if the VIP has no TCP service."""


@dataclass(frozen=True)
class Total:
    """The VIPs of one pool together, in equal parts, as if they had the hardware to themselves; `""`: of all pools.

    *rules* is the number of hardware rules; for all pools it includes the entries of the extension's pipes.
    """

    pool: str
    vips: int
    rules: int
    rates: VipRates


@dataclass(frozen=True)
class _ResourceUse:
    """The time in us that one query uses of a resource, and the bound it belongs to. *what* is the kind of packets."""

    what: str
    resource: str
    bound: Bound
    time: Estimate


@dataclass(frozen=True, eq=False)
class _SharedUses:
    """What one query uses of the resources; of equal queries one and the same object."""

    uses: Sequence[_ResourceUse]


def without_names(path: PacketPath) -> PacketPath:
    """Return a path without what its figures do not depend on: the VIP and the service's port."""
    return replace(path, vip="", service=_protocol(path))


def _inverse(rate: Estimate, times: float = 1.0) -> Estimate:
    """Return the time in us for *times* packets, from a rate in Mpps."""
    most = times / rate.low if rate.low else float("inf")
    return Estimate(times / rate.value, times / rate.high, most, rate.kind, rate.rests_on, rate.because)


class Services:
    """The services of a spec on a hardware setup."""

    def __init__(self, loaded: Loaded, setup: CardSetup, paths: Sequence[PacketPath]) -> None:
        self._loaded = loaded
        self._setup = setup
        self._uplink_shares: dict[Hashable, Mapping[UplinkUse, float]] = {}
        self._paths = {(p.vip, p.service, p.family, p.direction): p for p in paths}
        self._queries: dict[tuple[str, Family], list[PacketPath]] = {}
        for path in self._paths.values():
            queries = self._queries.setdefault((path.vip, path.family), [])
            if path.direction == "query":
                queries.append(path)
        self._uses: dict[Hashable, _SharedUses] = {}
        """What queries use, by what that depends on."""
        self._uses_of: dict[tuple[str, str, Family], _SharedUses] = {}
        """The same by VIP, service and family."""
        self._rates: dict[tuple[_SharedUses, ...], LimitedRate | None] = {}

    def vips(self) -> list[VipRates]:
        """Return the rates of each VIP and family separately."""
        return [self._of(vip, family, found) for (vip, family), found in self._queries.items()]

    def all(self) -> VipRates:
        """Return the rates of all VIPs and families in equal parts."""
        return self._of("", None, self._paths.values())

    def pools(self) -> list[Total]:
        """Return the totals of each pool, its VIPs and families in equal parts; pools without VIPs are left out."""
        of: dict[str, list[PacketPath]] = {}
        for path in self._paths.values():
            of.setdefault(self._loaded.spec.vips[path.vip].pool, []).append(path)
        return [
            Total(
                pool,
                len({p.vip for p in paths}),
                rules_together(self._loaded.spec, (p for p in paths if p.offloaded != "no")),
                self._of("", None, paths),
            )
            for pool, paths in ((name, of[name]) for name in self._loaded.spec.pools if name in of)
        ]

    def _of(self, vip: str, family: Family | None, paths: Iterable[PacketPath]) -> VipRates:
        found = [p for p in paths if p.direction == "query"]
        connections = self._rate([p for p in found if _protocol(p) == "tcp"])
        trackers = {self._setup.tracker(p) for p in found if _protocol(p) == "tcp"} - {"none"}
        if connections is not None:
            for tracker in sorted(trackers):
                connections = self._tracked(connections, tracker)
        return VipRates(vip, family, self._rate([p for p in found if _protocol(p) == "udp"]), connections)

    def _rate(self, queries: Sequence[PacketPath]) -> LimitedRate | None:
        """Return the rate of queries of one protocol; computed once where several VIPs' queries use the same."""
        uses = tuple(self._uses_by(path) for path in queries)
        if uses not in self._rates:
            self._rates[uses] = _rate([each.uses for each in uses])
        return self._rates[uses]

    def _uses_by(self, path: PacketPath) -> _SharedUses:
        key = path.vip, path.service, path.family
        if key not in self._uses_of:
            self._uses_of[key] = self._shared(path)
        return self._uses_of[key]

    def _shared(self, path: PacketPath) -> _SharedUses:
        """Return what a query over UDP, or a connection over TCP, uses."""
        answer = self._answer(path)
        key = tuple((without_names(way), tuple(self._shares(way).items())) for way in (path, answer) if way is not None)
        if key not in self._uses:
            self._uses[key] = _SharedUses(self._query(path) if _protocol(path) == "udp" else self._connection(path))
        return self._uses[key]

    def _shares(self, path: PacketPath) -> Mapping[UplinkUse, float]:
        """Return the share of a path's packets by uplink and direction, computed once for each pool."""
        vip = self._loaded.spec.vips[path.vip]
        key = vip.pool, vip.forwarding, path.family, path.direction, bool(path.hops)
        if key not in self._uplink_shares:
            self._uplink_shares[key] = uplink_shares(self._loaded.spec, path)
        return self._uplink_shares[key]

    def _query(self, path: PacketPath) -> list[_ResourceUse]:
        """Return what a UDP query and its answer use."""
        uses = self._packets(path, "query")
        answer = self._answer(path)
        return uses + (self._packets(answer, "answer") if answer else [])

    def _connection(self, path: PacketPath) -> list[_ResourceUse]:
        """Return what a TCP connection with one query uses: as many packets as in the published test, half each direction.

        If answers do not pass the switch, all packets are counted as queries: fewer really pass, so this is conservative.
        """
        packets = self._setup.model.packets_of_a_connection
        answer = self._answer(path)
        directions = [(path, "query"), (answer, "answer")] if answer else [(path, "query")]
        uses = []
        for way, frame in directions:
            empty = str(empty_segment(path.family, self._setup.sizes.tag))
            uses += self._packets(way, empty, packets / len(directions) - 1) + self._packets(way, frame)
        return [_conservative(use) for use in uses]

    def _answer(self, path: PacketPath) -> PacketPath | None:
        return self._paths.get((path.vip, path.service, path.family, "answer"))

    def _packets(self, path: PacketPath, frame: str, count: float = 1.0) -> list[_ResourceUse]:
        setup = self._setup
        found = figures(setup, path, mix(frame, path.family, _protocol(path), setup.sizes))
        engines: dict[Bound, str] = {b: "arm" if b == "arm" else "switch" for b in found.bounds if b != "link"}
        what = f"{path.direction} {path.family} {frame}"
        uses = [
            _ResourceUse(what, _resource(bound, kind, found), bound, _inverse(found.bounds[bound], count))
            for bound, kind in engines.items()
        ]
        longest = _inverse(found.bounds["link"], count)
        clients = "in" if path.direction == "query" else "out"  # frames are shorter on the clients' side
        less = line_rate(1, found.size + found.longer) / line_rate(1, found.size)
        return uses + [
            _ResourceUse(what, " ".join(hop), "link", longest.times(share * (less if hop[1] == clients else 1.0)))
            for hop, share in self._shares(path).items()
        ]

    def _tracked(self, rate: LimitedRate, tracker: str) -> LimitedRate:
        setup = self._setup
        held = setup.model.connections(tracker)  # type: ignore[arg-type]
        limit = held.value / 1000
        because = (f"{tracker} was measured with plain connection tracking, not with this spec's flows",)
        rests = (f"{setup.hardware.value} connections",)
        most = Estimate(limit, min(limit, rate.most.low), limit, "extrapolation", rests, because)
        return LimitedRate(most, "conntrack") if limit < rate.most.value else rate


def _resource(bound: Bound, kind: str, found: Figures) -> str:
    """Return the shared resource of a bound: the eSwitch's time, the Arm cores' time, or bandwidth below the link's."""
    several = [b for b in found.bounds if b not in ("link", "arm")]
    return "bandwidth" if kind == "switch" and len(several) > 1 and bound == several[-1] else kind


def _conservative(use: _ResourceUse) -> _ResourceUse:
    time = use.time
    because = ("packets of a connection are those of the published test, both directions", *time.because)
    return replace(use, time=replace(time, kind="extrapolation", because=because))


def _protocol(path: PacketPath) -> str:
    return path.service.partition("/")[0]


def _rate(queries: Sequence[Sequence[_ResourceUse]]) -> LimitedRate | None:
    """Return the rate, in millions per second, at which these queries in equal parts fit; None if there are none."""
    if not queries:
        return None
    by_resource: dict[str, list[_ResourceUse]] = {}
    for uses in queries:
        for use in uses:
            by_resource.setdefault(use.resource, []).append(use)

    def most(pick: Callable[[Estimate], float]) -> tuple[float, str]:
        return max((sum(pick(u.time) for u in uses), name) for name, uses in by_resource.items())

    time, name = most(lambda e: e.value)
    binding = by_resource[name]
    kind, because = worst_kind(u.time.kind for u in binding), [b for u in binding for b in u.time.because]
    # Even if one kind of packets alone exhausts the limiting resource, the others pass at the same time.
    if len({u.what for uses in queries for u in uses}) > 1 or len({u.time for u in binding}) > 1:
        kind = "extrapolation"
        because.append("several kinds of packets pass together; each was measured only by itself")
    found = Estimate(
        len(queries) / time,
        len(queries) / most(lambda e: e.high)[0],
        len(queries) / most(lambda e: e.low)[0],
        kind,
        tuple(dict.fromkeys(r for u in binding for r in u.time.rests_on)),
        tuple(dict.fromkeys(because)),
    )
    times: Mapping[Bound, float] = {
        b: sum(u.time.value for u in binding if u.bound == b) for b in {u.bound for u in binding}
    }
    return LimitedRate(found, max(sorted(times), key=lambda b: times[b]))
