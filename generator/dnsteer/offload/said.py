"""How findings are worded: what they are about, and what of the judgements they show."""

from __future__ import annotations

from collections.abc import Iterable

from dnsteer.offload.codes import Code
from dnsteer.offload.examine import Examination, Judged
from dnsteer.offload.findings import Finding
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
    reasons = reasons or tuple(dict.fromkeys(r for j in flows for r in j.judgement.reasons))
    shown = tuple(j.flow.text for j in flows[:_SHOWN_FLOWS])
    return Finding(code, path, seen.loaded.document.line(path), text, advice, reasons, shown)


def why(judged: Judged) -> str:
    """The first reason why hardware does not take a flow, the same for flows that differ in values only."""
    reasons = judged.judgement.reasons
    if not reasons:
        return "no reason known"
    # What the switch's own process does is the reason where there are several.
    first = next((r for r in reasons if r.name == "userspace"), reasons[0])
    name = first.name.partition("=")[0]
    return first.text if name in _TELLING_VALUES else first.text.replace(first.name, name, 1)
