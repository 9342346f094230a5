"""Reasons of judged flows as findings show them: each once, and without the values that a flow happens to have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dnsteer.offload.capabilities import Limit, LimitName
from dnsteer.offload.examine import JudgedFlow
from dnsteer.offload.judge import Reason

_TELLING_VALUES = ("ipv4.frag", "ipv6.frag")


def reasons_of(judged: Iterable[JudgedFlow]) -> tuple[Reason, ...]:
    """The reasons of all these flows, each once, in the order of the flows' own and then of their names."""
    rank: dict[Reason, int] = {}
    for each in judged:
        for place, reason in enumerate(each.judgement.reasons):
            general = without_value(reason)
            rank[general] = min(place, rank.get(general, place))
    return tuple(sorted(rank, key=lambda reason: (rank[reason], reason.name, reason.text)))


def without_value(reason: Reason) -> Reason:
    """A reason without the value that a flow happens to have, unless that is what it is about."""
    name = reason.name.partition("=")[0]
    if name in _TELLING_VALUES or name == reason.name:
        return reason
    return replace(reason, name=name, text=reason.text.replace(reason.name, name, 1))


def first_reason(judged: JudgedFlow) -> str:
    """The first reason why hardware does not take a flow, the same for flows that differ in values only."""
    reasons = judged.judgement.reasons
    if not reasons:
        return "no reason known"
    # What the switch's own process does is the reason where there are several.
    return without_value(next((r for r in reasons if r.name == "userspace"), reasons[0])).text


def limit_reason(name: LimitName, limit: Limit) -> Reason:
    """What a limit of the profile says, as a reason."""
    verdict = "no" if limit.verdict == "split" else limit.verdict
    return Reason(
        "limit", name, verdict, limit.note or f"at most {limit.value} {limit.unit}", limit.source, limit.certainty
    )
