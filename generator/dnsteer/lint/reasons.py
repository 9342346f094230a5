"""The reasons for verdicts on flows, as findings show them: each once, without the values of a particular flow."""

from __future__ import annotations

from collections.abc import Iterable

from dnsteer.offload.capabilities import Limit, LimitName
from dnsteer.offload.examine import JudgedFlow
from dnsteer.offload.judge import Reason, without_value


def reasons_of(judged: Iterable[JudgedFlow]) -> tuple[Reason, ...]:
    """Return the reasons of these flows, each once: sorted by their earliest position in any flow, then by name."""
    rank: dict[Reason, int] = {}
    for each in judged:
        for place, reason in enumerate(each.judgement.reasons):
            general = without_value(reason)
            rank[general] = min(place, rank.get(general, place))
    return tuple(sorted(rank, key=lambda reason: (rank[reason], reason.name, reason.text)))


def first_reason(judged: JudgedFlow) -> str:
    """Return the main reason why a flow is not in hardware; flows that differ only in values get the same text."""
    reasons = judged.judgement.reasons
    if not reasons:
        return "no reason known"
    # If one of several reasons is that ovs-vswitchd itself must handle the packet, that is the main one.
    return without_value(next((r for r in reasons if r.name == "userspace"), reasons[0])).text


def limit_reason(name: LimitName, limit: Limit) -> Reason:
    """Return a limit of the profile as a Reason."""
    verdict = "no" if limit.verdict == "split" else limit.verdict
    return Reason(
        "limit", name, verdict, limit.note or f"at most {limit.value} {limit.unit}", limit.source, limit.certainty
    )
