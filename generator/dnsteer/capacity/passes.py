"""Rates and latencies of packets that pass the eSwitch: once, or three times if the extension serves them.

The three passes are to the extension, between its two functions, and back; each costs the eSwitch a packet's time again.
Published figures exist only for forwarding from wire to wire and for the latency of a hairpin, which the pass between the
functions is.
"""

from __future__ import annotations

from dataclasses import replace

from dnsteer.capacity import estimate
from dnsteer.capacity.card_setup import CardSetup
from dnsteer.capacity.estimate import CAUTION, Estimate, table_error
from dnsteer.capacity.model import Model
from dnsteer.offload.packet_path import Hop, PacketPath
from dnsteer.spec.model.spec import Hardware

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


def rate(setup: CardSetup, path: PacketPath, size: float) -> Estimate:
    """Return the path's packet rate through the eSwitch, in Mpps."""
    found = [estimate.rate_estimate(setup.model, state) for state in setup.states(path, size)]
    if len(found) == 1:
        return found[0]
    value = 1 / sum(1 / each.value for each in found)
    rests = tuple(dict.fromkeys(r for each in found for r in each.rests_on))
    because = dict.fromkeys((_ADDED_UP.format(len(found)), *(b for each in found for b in each.because)))
    return Estimate(value, 0.0, value, "extrapolation", rests, tuple(because))


def latency(setup: CardSetup, path: PacketPath) -> Estimate:
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
    return max(0.0, grown if path.direction == "query" else -grown)


def switch_hops(path: PacketPath) -> list[Hop]:
    """Return the hops that Open vSwitch forwards; none for a path that does not go through the extension."""
    return [hop for hop in path.hops if hop.by == "switch"]
