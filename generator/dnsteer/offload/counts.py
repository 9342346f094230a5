"""How many datapath flows and hardware rules there are in all, from those that were seen: each may stand for several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from dnsteer.offload.datapath_flow import DatapathFlow, Unreadable
from dnsteer.offload.judge import Judgement
from dnsteer.offload.split import shared_rules
from dnsteer.switch.megaflow_fields import Field

IN_HARDWARE = ("yes", "unknown")
MatchFields = tuple[Field, ...]
_SLOT = ("dp_hash", "udp.src", "tcp.src")


def match_without_slot(flow: DatapathFlow) -> MatchFields:
    """The match but for what chooses the slot: the same for all slots of a service at one uplink."""
    return tuple(f for f in flow.match if f.key not in _SLOT)


def flow_weights(flows: Iterable[tuple[DatapathFlow, int]]) -> dict[DatapathFlow, float]:
    """For how many flows each of a service stands, given how many slots, or values of a hash, there are at each uplink."""
    alike: dict[MatchFields, dict[DatapathFlow, int]] = defaultdict(dict)
    for flow, many in flows:
        alike[match_without_slot(flow)][flow] = many
    return {flow: max(1.0, many / len(group)) for group in alike.values() for flow, many in group.items()}


def rules_of(
    found: Iterable[tuple[DatapathFlow | Unreadable, Judgement]], weights: Mapping[DatapathFlow, float]
) -> int:
    """Hardware rules that flows take together: first rules of split ones that are the same are there once.

    *weights* is for how many flows each stands.
    """
    held = [(flow, j) for flow, j in found if j.verdict in IN_HARDWARE and isinstance(flow, DatapathFlow)]
    more = sum((weights.get(flow, 1.0) - 1) * _own(j) for flow, j in held)
    return sum(j.rules - len(j.parts) for _, j in held) + shared_rules(j.parts for _, j in held) + round(more)


def _own(judgement: Judgement) -> int:
    """Rules that a further flow of the sort takes. Where the first of several rules has the hash, none is shared."""
    first = judgement.parts[0].fields if len(judgement.parts) > 1 else ()
    shared = len(judgement.parts) - 1 if all(f.key != "dp_hash" for f in first) else 0
    return judgement.rules - shared
