"""Estimate the total datapath flows and hardware rules from the flows seen, each of which may represent several."""

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
    """Return the match without the fields that select the slot: equal for all slots of a service at one uplink."""
    return tuple(f for f in flow.match if f.key not in _SLOT)


def flow_weights(flows: Iterable[tuple[DatapathFlow, int]]) -> dict[DatapathFlow, float]:
    """Return how many flows each flow represents, given its service's number of slots, or hash values, per uplink."""
    alike: dict[MatchFields, dict[DatapathFlow, int]] = defaultdict(dict)
    for flow, many in flows:
        alike[match_without_slot(flow)][flow] = many
    return {flow: max(1.0, many / len(group)) for group in alike.values() for flow, many in group.items()}


def rules_of(
    found: Iterable[tuple[DatapathFlow | Unreadable, Judgement]], weights: Mapping[DatapathFlow, float]
) -> int:
    """Return the number of hardware rules of all flows together: identical first rules of split matches count once.

    *weights* is how many flows each flow represents; 1 if it is not listed.
    """
    held = [(flow, j) for flow, j in found if j.verdict in IN_HARDWARE and isinstance(flow, DatapathFlow)]
    more = sum((weights.get(flow, 1.0) - 1) * _own(j) for flow, j in held)
    return sum(j.rules - len(j.parts) for _, j in held) + shared_rules(j.parts for _, j in held) + round(more)


def _own(judgement: Judgement) -> int:
    """Return the rules that one more such flow takes. If the first of several rules matches the hash, none is shared."""
    first = judgement.parts[0].fields if len(judgement.parts) > 1 else ()
    shared = len(judgement.parts) - 1 if all(f.key != "dp_hash" for f in first) else 0
    return judgement.rules - shared
