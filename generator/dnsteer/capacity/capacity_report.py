# SPDX-License-Identifier: Apache-2.0
"""The capacity report: every kind of path at every frame size, the rates of VIPs, and the measurements behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dnsteer.capacity.bounds import Figures, Latencies, added_bytes, figures, latencies
from dnsteer.capacity.card_setup import CardSetup
from dnsteer.capacity.estimate import Estimate
from dnsteer.capacity.frame_sizes import mix
from dnsteer.capacity.service_rates import LimitedRate, Services, Total, VipRates, without_names
from dnsteer.capacity.uplinks import can_spread_load, entry_of
from dnsteer.offload.capabilities import LimitName, Profile
from dnsteer.offload.packet_path import PacketPath
from dnsteer.plan.sizes import FLOW_LIMIT, flow_limit
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Hardware


@dataclass(frozen=True)
class PathGroup:
    """Paths of a VIP that differ only in their service: one of them, the services, their rules and figures by frame."""

    path: PacketPath
    services: tuple[str, ...]
    rules: int
    frames: dict[str, Figures]
    latencies: Latencies


@dataclass(frozen=True)
class CapacityReport:
    """The capacity of a spec on a hardware setup."""

    loaded: Loaded
    setup: CardSetup
    groups: list[PathGroup]
    vips: list[VipRates]
    pools: list[Total]
    all: VipRates
    notes: tuple[str, ...]
    beyond: tuple[str, ...] = ()
    """Limits that the spec passes, in words: with these the figures cannot be reached."""

    @property
    def total(self) -> Total:
        return Total("", len({vip.vip for vip in self.vips}), self.setup.entries, self.all)

    @cached_property
    def estimates(self) -> list[Estimate]:
        out: list[Estimate] = []
        for group in self.groups:
            out += [f.rate for f in group.frames.values()]
            out += [group.latencies.low, group.latencies.loaded]
        for vip in [*self.vips, *(pool.rates for pool in self.pools), self.all]:
            out += [rate.most for rate in (vip.queries, vip.connections) if rate is not None]
        return out

    @cached_property
    def rests_on(self) -> list[str]:
        """The names of the measurements behind the figures, each once."""
        return list(dict.fromkeys(r for e in self.estimates for r in e.rests_on))

    @cached_property
    def because(self) -> list[str]:
        """The reasons why figures are not direct readings, each once."""
        return list(dict.fromkeys(b for e in self.estimates for b in e.because))

    def cite(self, measurement: str) -> tuple[str, str, str]:
        """Return for a measurement's name what was measured, the place in the source, and the source's title and place."""
        card, _, table = measurement.partition(" ")
        published = self.setup.model.rows.cards[Hardware(card)]
        found = next(t for t in published.measurements if t.id == table)
        source = published.sources[found.source]
        place = f"{found.source}, {found.where}" if found.where else found.source
        return found.about, place, f"{found.source}: {source.title}, {source.place}"

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object, as docs/capacity.md describes it."""
        setup = self.setup
        return {
            "file": self.loaded.file,
            "hardware": setup.hardware.value,
            "flavor": setup.flavor.value,
            "link_gbps": setup.link_gbps,
            "arm_cores": setup.arm_cores,
            "counters": setup.counters,
            "hardware_rules": setup.entries,
            "beyond_limits": list(self.beyond),
            "dns_bytes": {"query": setup.sizes.query, "answer": setup.sizes.answer},
            "paths": [_group(group) for group in self.groups],
            "vips": [_vip(vip) for vip in self.vips],
            "pools": [
                {"pool": p.pool, "vips": p.vips, "hardware_rules": p.rules, **_rates(p.rates)} for p in self.pools
            ],
            "all": _vip(self.all),
            "notes": list(self.notes),
            "measurements": {
                name: dict(zip(("about", "where", "source"), self.cite(name), strict=True)) for name in self.rests_on
            },
        }


def capacity_report(
    loaded: Loaded, setup: CardSetup, paths: Sequence[PacketPath], frames: Iterable[str], beyond: Iterable[str] = ()
) -> CapacityReport:
    """Compute the report for these paths and frames; *beyond* are the limits that the spec passes, in words."""
    services = Services(loaded, setup, paths)
    figures_of = _GroupFigures(setup, list(frames))
    groups, notes = [figures_of.group(alike) for alike in _alike(paths)], _notes(loaded, setup, paths)
    return CapacityReport(
        loaded, setup, groups, services.vips(), services.pools(), services.all(), tuple(notes), tuple(beyond)
    )


def _alike(paths: Sequence[PacketPath]) -> list[list[PacketPath]]:
    """Group paths that differ only in their service, queries first."""
    groups: dict[tuple[object, ...], list[PacketPath]] = {}
    for path in sorted(paths, key=lambda p: (p.vip, p.direction != "query", p.family)):
        key = (
            path.vip,
            path.direction,
            path.family,
            path.rules,
            path.passes,
            path.depth,
            path.rewrites,
            path.conntrack,
            tuple((hop.tables, hop.rewrites, hop.grows) for hop in path.hops),
        )
        groups.setdefault((*key, path.offloaded), []).append(path)
    return [sorted(group, key=lambda p: (p.service.startswith("tcp"), p.service)) for group in groups.values()]


class _GroupFigures:
    """The figures of path groups, computed once for all paths that differ only in their VIP and port."""

    def __init__(self, setup: CardSetup, frames: Sequence[str]) -> None:
        self._setup, self._frames = setup, frames
        self._known: dict[PacketPath, tuple[dict[str, Figures], Latencies]] = {}

    def group(self, alike: list[PacketPath]) -> PathGroup:
        """The group of these paths."""
        key = without_names(alike[0])
        if key not in self._known:
            self._known[key] = self._compute(key)
        frames, latency = self._known[key]
        return PathGroup(alike[0], tuple(p.service for p in alike), sum(p.rules for p in alike), dict(frames), latency)

    def _compute(self, path: PacketPath) -> tuple[dict[str, Figures], Latencies]:
        setup = self._setup
        found = {f: figures(setup, path, mix(f, path.family, path.service, setup.sizes)) for f in self._frames}
        return found, latencies(setup, path, figures(setup, path, ((64, 1),)).rate)


def _notes(loaded: Loaded, setup: CardSetup, paths: Sequence[PacketPath]) -> Iterable[str]:
    facts = setup.model.published.facts
    if any(path.hops for path in paths):
        yield (
            "nothing of the extension has run on a BlueField; its pipes are counted as tables, which were measured in other "
            "programs"
        )
    if setup.flavor.value == "ovs-netdev":
        yield ("ovs-netdev forwards in software, so on the card's Arm cores; what hardware would do: --flavor ovs-doca")
    elif any(path.offloaded in ("no", "partial") for path in paths):
        yield "paths that are not offloaded are forwarded by the Arm cores; dnsteer lint says why"
    if facts is not None and setup.arm_cores > facts.arm_cores.value:
        yield f"{setup.arm_cores} Arm cores are more than the card's {facts.arm_cores.value:.0f}"
    if facts is not None and setup.link_gbps > facts.most_gbps.value:
        yield (
            f"a link of {setup.link_gbps:g} Gb/s is faster than the card's fastest, {facts.most_gbps.value:g} Gb/s: figures "
            "that the link limits cannot be reached"
        )
    uplinks = len(loaded.spec.switch.uplinks)
    if uplinks > 1:
        if can_spread_load(loaded.spec):
            yield f"the link is one uplink; traffic spread evenly over the {uplinks} of them has {uplinks} times the link"
        else:
            entries = dict.fromkeys(entry_of(loaded.spec, path.vip, path.family) for path in paths)
            yield (
                f"clients are assumed to come in by {' or '.join(entries)}; each uplink is a link of its own in each "
                "direction, and the fullest is the limit"
            )
    yield "the tables that Open vSwitch puts around a spec's flows in hardware (root, after a hash) are not counted in depth"
    if setup.hardware is Hardware.BLUEFIELD_3:
        yield "packet rates near 120 Mpps may be the traffic generator's: the card's own limit without rewrite may be higher"


def _group(group: PathGroup) -> dict[str, Any]:
    path = group.path
    return {
        "vip": path.vip,
        "services": list(group.services),
        "family": path.family,
        "direction": path.direction,
        "mode": path.mode,
        "selection": path.selection,
        "slots": path.slots,
        "rules": group.rules,
        "passes": path.passes,
        "depth": path.depth,
        "rewrites": path.rewrites,
        "conntrack": path.conntrack,
        "offloaded": path.offloaded,
        "hops": [asdict(hop) for hop in path.hops],
        "bytes_longer": round(added_bytes(path), 1),
        "latency_us": {"low_load": group.latencies.low.as_json(), "loaded": group.latencies.loaded.as_json()},
        "frames": [
            {
                "frame": name,
                "bytes": round(found.size, 1),
                "mpps": found.rate.as_json(),
                "gbps": found.gbps.as_json(),
                "link_share": round(found.link_share, 4),
                "limit": found.limit,
                "bounds_mpps": {bound: round(e.value, 3) for bound, e in found.bounds.items()},
            }
            for name, found in group.frames.items()
        ],
    }


def _vip(vip: VipRates) -> dict[str, Any]:
    return {"vip": vip.vip, "family": vip.family, **_rates(vip)}


def _rates(of: VipRates) -> dict[str, Any]:
    return {"queries_per_s": _rate(of.queries), "new_connections_per_s": _rate(of.connections)}


def _rate(rate: LimitedRate | None) -> dict[str, Any] | None:
    return None if rate is None else {**rate.most.times(1e6).as_json(0), "limit": rate.limit}


_WORDS: tuple[tuple[LimitName, str, str], ...] = (
    ("counters", "datapath flows", "counters, of which each offloaded flow takes one"),
    ("rules", "hardware rules", "hardware rules that there may be"),
)


def beyond_limits(setup: CardSetup, profile: Profile, flows: int) -> Iterator[str]:
    """Yield a sentence for each limit that the spec's datapath *flows* or hardware rules pass; lint finds the same ones."""
    if flows > FLOW_LIMIT:
        yield (
            f"about {flows:,} datapath flows exceed the default flow-limit of {FLOW_LIMIT:,}: set "
            f"other_config:flow-limit to {flow_limit(flows):,} (dnsteer bringup does)"
        )
    counts = {"counters": flows, "rules": setup.entries}
    for name, what, whose in _WORDS:
        limit = profile.limits.get(name)
        if limit is not None and limit.value is not None and counts[name] > limit.value:
            note = f" ({limit.note})" if limit.note else ""
            yield f"about {counts[name]:,} {what} exceed the {limit.value:,} {whose}{note}"
    facts = setup.model.published.facts
    if facts is not None and setup.entries > facts.max_entries.value:
        yield (
            f"{setup.entries:,} hardware rules are more than {facts.max_entries.value:,.0f}: {facts.max_entries.about}"
        )
