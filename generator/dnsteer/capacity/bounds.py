# SPDX-License-Identifier: Apache-2.0
"""The limits on one path's packet rate at one frame size: the link, the eSwitch or the Arm cores; and its latency.

Packets that the extension serves pass the eSwitch three times: to the extension, between its two functions, and back; each
pass costs the eSwitch a packet's time again. Published figures exist only for forwarding from wire to wire and for the
latency of a hairpin, which the pass between the functions is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from dnsteer.capacity import estimate
from dnsteer.capacity.card_setup import CardSetup
from dnsteer.capacity.cores import LARGE_FRAME
from dnsteer.capacity.estimate import CAUTION, Estimate, table_error
from dnsteer.capacity.frame_sizes import mean
from dnsteer.capacity.model import Model, line_rate, waiting
from dnsteer.capacity.readings import SwitchState
from dnsteer.offload.packet_path import Hop, PacketPath
from dnsteer.spec.model.spec import Hardware

Bound = Literal["link", "switch", "passes", "depth", "entries", "conntrack", "arm"]
WORDS: Mapping[Bound, str] = {
    "link": "link",
    "switch": "eSwitch packet rate",
    "passes": "eSwitch passes",
    "depth": "pipe depth",
    "entries": "used entries",
    "conntrack": "connection tracking",
    "arm": "Arm cores",
}
LOADED = 0.9
"""The load at which latency is given in addition to low load, as a share of the path's maximum rate."""
_SIGNIFICANT = 0.25
"""A cost that takes at least this share of a packet's time gives the eSwitch's bound its name."""


@dataclass(frozen=True)
class Figures:
    """One path at one frame size. *rate* and *bounds* are in Mpps; *limit* names the bound that applies.

    *size* is the frame size on the clients' side, in bytes; on the backends' side frames are *longer* bytes longer.
    """

    rate: Estimate
    limit: Bound
    bounds: Mapping[Bound, Estimate]
    size: float
    link_share: float
    longer: float = 0.0

    @property
    def gbps(self) -> Estimate:
        """The rate of the frames' bits, in Gb/s."""
        return self.rate.times(self.size * 8 / 1000)


def figures(setup: CardSetup, path: PacketPath, sizes: tuple[tuple[int, int], ...]) -> Figures:
    """Return what a path forwards of a mix of frame sizes, as if it were the only traffic on the card."""
    size, more = mean(sizes), added_bytes(path)
    found: dict[Bound, Estimate] = {"link": _link(setup, sizes, more)}
    if is_in_hardware(path):
        name, switch = _switch(setup, path, size)
        found[name] = switch
        found |= _bandwidth(setup, path, size)
    if path.offloaded != "yes":
        arm = _arm(setup, sizes)
        if len(switch_hops(path)) > 1:
            arm = _twice(arm)
        if path.offloaded == "unknown":  # if hardware takes it after all, the rate may reach the hardware's
            arm = _unknown(arm, min(e.high for e in found.values()))
        found["arm"] = arm
    limit, rate = estimate.least({str(name): e for name, e in found.items()})
    line = line_rate(setup.link_gbps, size + more)
    return Figures(rate, limit, found, size, rate.value / line, more)  # type: ignore[arg-type]


def is_in_hardware(path: PacketPath) -> bool:
    """Whether hardware forwards the path's packets, or may."""
    return path.offloaded in ("yes", "unknown")


def _unknown(arm: Estimate, most: float) -> Estimate:
    because = ("nobody has published whether hardware takes it; if it does, the range's upper end holds", *arm.because)
    return Estimate(arm.value, arm.low, max(arm.high, most), "extrapolation", arm.rests_on, because)


def _twice(arm: Estimate) -> Estimate:
    """Return the cores' rate where packets pass them twice: to the extension and back from it."""
    because = (
        "each packet passes the cores twice, to the extension and back; what the extension itself does is not included",
    )
    return replace(arm.times(0.5), because=(*because, *arm.because))


def _link(setup: CardSetup, sizes: tuple[tuple[int, int], ...], more: float) -> Estimate:
    """Return the rate that fills the link, in Mpps.

    Tests filled it with large frames, and with frames of one size down to some smallest size. *more*: bytes by which frames
    are longer on the backends' side.
    """
    size, tested, card = mean(sizes), setup.model.link, setup.hardware.value
    rate = line_rate(setup.link_gbps, size + more)
    rests = (f"{card} depth-bandwidth",)
    if more:
        because = (f"frames are {more:g} bytes longer on the backends' side, the mean of the slots; that is computed",)
        low = min(rate, line_rate(tested, size + more))
        return Estimate(rate, low, rate, "extrapolation", rests, because)
    if setup.link_gbps != tested:
        because = (f"the link was tested at {tested:g} Gb/s",)
        return Estimate(rate, min(rate, line_rate(tested, size)), rate, "extrapolation", rests, because)
    if size == LARGE_FRAME:
        return Estimate(rate, rate, rate, "reading", rests)
    full = setup.model.rows.values(setup.hardware, "full-rate-frame")
    if len(sizes) == 1 and full and min(row.value for row in full) <= size < LARGE_FRAME:
        return Estimate(rate, rate, rate, "interpolation", (*rests, f"{card} rewrite-full-rate"))
    because = (
        "the link was full with large frames; what fills it with other sizes is computed (20 bytes besides each)",
    )
    return Estimate(rate, rate, rate, "extrapolation", rests, because)


def _switch(setup: CardSetup, path: PacketPath, size: float) -> tuple[Bound, Estimate]:
    state, found = setup.state(path, size), path_rate(setup, path, size)
    if path.hops:
        return "passes", found
    parts = setup.model.time.parts(state.depth, state.entries, state.counters, state.rewrites)
    costs: dict[Bound, float] = {"depth": parts["table"], "entries": parts["entry"] + parts["counter"]}
    most = max(costs, key=lambda name: costs[name])
    return (most if costs[most] >= _SIGNIFICANT * sum(parts.values()) else "switch"), found


def _bandwidth(setup: CardSetup, path: PacketPath, size: float) -> dict[Bound, Estimate]:
    """Return the bound by bandwidth, in Mpps, where large frames do not fill the link; empty where they do."""
    model, state = setup.model, setup.state(path, size)
    held = model.bandwidth(state)
    if held.value >= 0.99 * model.link:
        return {}
    name: Bound = "conntrack" if state.tracking and held.value >= 0.9 * model.link else "depth"
    tables = ("tracking-bandwidth", "balancer-bandwidth") if name == "conntrack" else ("depth-bandwidth",)
    rests = tuple(f"{Hardware.BLUEFIELD_2.value} {table}" for table in tables)
    scale = setup.link_gbps / model.link if name == "conntrack" else 1.0
    low, value, high = (scale * line_rate(gbps, size) for gbps in (held.low, held.value, held.high))
    if held.kind == "reading" and scale == 1:
        return {name: Estimate(value, low, high, "reading", rests)}
    spread = 1 + max(estimate.table_error(Hardware.BLUEFIELD_2, table) for table in tables)
    because = ("between or beyond the few bandwidths that were measured",)
    kind = "extrapolation" if scale != 1 else held.kind
    return {name: Estimate(value, value / spread, value * spread, kind, rests, because)}


def _arm(setup: CardSetup, sizes: tuple[tuple[int, int], ...]) -> Estimate:
    """Return the cores' rate in Mpps: an upper limit, since the measured program did less per packet than Open vSwitch."""
    because = ["a program that only forwards was measured; Open vSwitch does more for each packet, so this is the most"]
    rests = [f"{Hardware.BLUEFIELD_3.value} core-rate", f"{Hardware.BLUEFIELD_3.value} core-bandwidth"]
    model, scale = setup.model, 1.0
    if not model.cores:
        known = Model(model.other, model.rows)
        scale = model.connections("ovs-dpdk-sw").value / known.connections("ovs-dpdk-sw").value
        because.append(
            f"no rate of these cores is published: {known.card.value}'s, in proportion to new connections in software"
        )
        rests += [f"{card.value} connections" for card in Hardware]
        model = known
    arm = model.cores["arm"]
    time = sum(arm.packet_time(size) * share for size, share in sizes) / sum(share for _, share in sizes)
    value = scale * min(setup.arm_cores * 1000 / time, arm.ceiling)
    return Estimate(value, 0.0, value, "extrapolation", tuple(rests), tuple(because))


@dataclass(frozen=True)
class Latencies:
    """Latency of a path in us, including the hosts: at low load, and at LOADED times the path's maximum rate."""

    low: Estimate
    loaded: Estimate


def latencies(setup: CardSetup, path: PacketPath, rate: Estimate) -> Latencies:
    """Return the latencies of a path whose maximum is *rate* (Mpps)."""
    if path.offloaded == "unknown":
        cores, hard = _core_latencies(setup, rate), _switch_latencies(setup, path, rate)
        return Latencies(_either(cores.low, hard.low), _either(cores.loaded, hard.loaded))
    return _switch_latencies(setup, path, rate) if is_in_hardware(path) else _core_latencies(setup, rate)


def _either(cores: Estimate, hard: Estimate) -> Estimate:
    """Return the cores' latency, with a range extended to include the eSwitch's."""
    because = (
        "nobody has published whether hardware takes it; if it does, the range's lower end holds",
        *cores.because,
    )
    low, high = min(cores.low, hard.low), max(cores.high, hard.high)
    rests = tuple(dict.fromkeys((*cores.rests_on, *hard.rests_on)))
    return Estimate(cores.value, low, high, "extrapolation", rests, tuple(dict.fromkeys((*because, *hard.because))))


def _switch_latencies(setup: CardSetup, path: PacketPath, rate: Estimate) -> Latencies:
    low = path_latency(setup, path)
    more = waiting(1 / rate.value, LOADED)
    rests = (*low.rests_on, f"{Hardware.BLUEFIELD_3.value} rewrite-low-latency")
    because = (*low.because, "waiting by queueing theory (M/D/1)")
    loaded = Estimate(low.value + more, low.low + more, low.high + more, "extrapolation", rests, because)
    return Latencies(low, loaded)


def _core_latencies(setup: CardSetup, rate: Estimate) -> Latencies:
    """Return the latencies through the Arm cores: the eSwitch's, plus what the cores add when idle, plus what load adds.

    The three were measured in different setups, so only differences are used of the last two.
    """
    model = setup.model
    switch = estimate.latency_estimate(model, SwitchState())
    added = Model(Hardware.BLUEFIELD_2, model.rows).engine_added("arm-scheduler", "udp")
    cores = model.core_latency("arm")
    load = min(LOADED * rate.value, cores.loads[1])
    rests = (*switch.rests_on, f"{Hardware.BLUEFIELD_2.value} engines", f"{setup.hardware.value} core-latency")
    because = (
        "what the Arm cores add is that of a program that only forwards; Open vSwitch does more for each packet",
    )
    figures = [switch.value + added + cores.at(at) - cores.at(0) for at in (0.0, load)]
    spread = 1 + estimate.table_error(setup.hardware, "core-latency")
    low, loaded = (Estimate(v, v / spread, v * spread, "extrapolation", rests, because) for v in figures)
    return Latencies(low, loaded)


_ENGINES = f"{Hardware.BLUEFIELD_2.value} engines"
_ADDED_UP = (
    "each packet passes the eSwitch {} times (to the extension, through it, and back): the times are added up, as if the "
    "way from function to function took no more than one from wire to wire; nobody has published how fast it is, so this "
    "is the most"
)
_HAIRPIN = (
    "the way from function to function adds what a hairpin was measured to add on bluefield-2, without Open vSwitch around "
    "it; tables of all passes are counted"
)


def path_rate(setup: CardSetup, path: PacketPath, size: float) -> Estimate:
    """Return the path's packet rate through the eSwitch, in Mpps."""
    found = [estimate.rate_estimate(setup.model, state) for state in setup.states(path, size)]
    if len(found) == 1:
        return found[0]
    value = 1 / sum(1 / each.value for each in found)
    rests = tuple(dict.fromkeys(r for each in found for r in each.rests_on))
    because = dict.fromkeys((_ADDED_UP.format(len(found)), *(b for each in found for b in each.because)))
    return Estimate(value, 0.0, value, "extrapolation", rests, tuple(because))


def path_latency(setup: CardSetup, path: PacketPath) -> Estimate:
    """Return the path's latency at low load, in us, including the hosts."""
    states = setup.states(path, 64)
    together = replace(states[0], depth=sum(state.depth for state in states), rewrites=max(s.rewrites for s in states))
    found = estimate.latency_estimate(setup.model, together)
    if len(states) == 1:
        return found
    added = Model(Hardware.BLUEFIELD_2, setup.model.rows).engine_added("hairpin", "udp")
    spread = 1 + CAUTION * table_error(Hardware.BLUEFIELD_2, "engines")
    low, high = found.low + added / spread, found.high + added * spread
    rests, because = (*found.rests_on, _ENGINES), (_HAIRPIN, *found.because)
    return Estimate(found.value + added, low, high, "extrapolation", rests, because)


def added_bytes(path: PacketPath) -> float:
    """Return the mean number of bytes by which packets are longer on the backends' side than on the clients'."""
    grown = sum(hop.grows for hop in path.hops)
    return path.pushed + max(0.0, grown if path.direction == "query" else -grown)


def switch_hops(path: PacketPath) -> list[Hop]:
    """Return the hops that Open vSwitch forwards; none for a path that does not go through the extension."""
    return [hop for hop in path.hops if hop.by == "switch"]
