"""How findings are worded: what they are about, and what of the judgements they show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dnsteer.lint.codes import Code
from dnsteer.lint.findings import Finding
from dnsteer.offload.examine import Examination, Judged
from dnsteer.offload.judge import Reason
from dnsteer.spec.errors import Path

_SHOWN_FLOWS = 3
_TELLING_VALUES = ("ipv4.frag", "ipv6.frag")


def finding(
    seen: Examination, code: Code, path: Path, text: str, advice: str = "",
    judged: Iterable[Judged] = (), reasons: tuple[Reason, ...] = (),
) -> Finding:  # fmt: skip
    """A finding about *path* of the spec, with the reasons of *judged* and the first of their flows."""
    flows = list(judged)
    shown = tuple(j.flow.text for j in flows[:_SHOWN_FLOWS])
    return Finding(code, path, seen.loaded.document.line(path), text, advice, reasons or reasons_of(flows), shown)


def reasons_of(judged: Iterable[Judged]) -> tuple[Reason, ...]:
    """The reasons of all these flows, each once, in the order of the flows' own and then of their names."""
    found: dict[Reason, int] = {}
    for each in judged:
        for place, reason in enumerate(each.judgement.reasons):
            told = plain(reason)
            found[told] = min(place, found.get(told, place))
    return tuple(sorted(found, key=lambda reason: (found[reason], reason.name, reason.text)))


def plain(reason: Reason) -> Reason:
    """A reason without the value that a flow happens to have, unless that is what it is about."""
    name = reason.name.partition("=")[0]
    if name in _TELLING_VALUES or name == reason.name:
        return reason
    return replace(reason, name=name, text=reason.text.replace(reason.name, name, 1))


def why(judged: Judged) -> str:
    """The first reason why hardware does not take a flow, the same for flows that differ in values only."""
    reasons = judged.judgement.reasons
    if not reasons:
        return "no reason known"
    # What the switch's own process does is the reason where there are several.
    return plain(next((r for r in reasons if r.name == "userspace"), reasons[0])).text
