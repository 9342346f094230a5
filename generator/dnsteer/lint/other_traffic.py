# SPDX-License-Identifier: Apache-2.0
"""Findings about traffic besides queries and answers: fragments, ARP, drops; and flows that cannot be parsed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dnsteer.lint.finder import SWITCH, LintContext, finder, first_reason
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.offload.datapath_flow import Unreadable
from dnsteer.offload.examine import JudgedFlow

SOFTWARE_FLAVOR = Code("DNS005", Severity.NOTE, "This flavor forwards in software")
FRAGMENTS = Code("DNS020", Severity.NOTE, "Fragments run on the CPU")
NEIGHBORS = Code("DNS021", Severity.NOTE, "ARP, neighbour discovery and echo run on the CPU")
REFUSED = Code("DNS022", Severity.NOTE, "Some dropped packets are dropped by the CPU")
UNUSUAL = Code("DNS023", Severity.NOTE, "Some unusual packets of a service run on the CPU")
ERRORS = Code("DNS024", Severity.NOTE, "Copies of ICMP errors run on the CPU")
OWN = Code("DNS027", Severity.NOTE, "Some traffic of backends' own runs on the CPU")
UNREADABLE = Code("DNS040", Severity.WARNING, "A datapath flow that cannot be read")

_TRAFFIC = {
    "fragment": (FRAGMENTS, "fragments"),
    "neighbor": (NEIGHBORS, "ARP and neighbour discovery"),
    "echo": (NEIGHBORS, "echo requests"),
    "error": (ERRORS, "ICMP errors, a copy for each backend"),
    "own": (OWN, "traffic of backends' own"),
    "unusual": (UNUSUAL, "unusual packets"),
    "drop": (REFUSED, "dropped packets"),
}
_SHOWN = 200


@finder(SOFTWARE_FLAVOR)
def software_flavor(context: LintContext) -> Iterator[LintFinding]:
    """Report a profile without hardware: the CPU forwards everything."""
    if not context.profile.hardware:
        model = ", and the extension runs on its software model" if context.examination.extension_parts else ""
        text = f"{context.profile.title}: the CPU forwards everything{model}"
        yield context.finding(SOFTWARE_FLAVOR, SWITCH, text, "omit --flavor to see what hardware would do")


@finder(FRAGMENTS, NEIGHBORS, ERRORS, OWN, REFUSED, UNUSUAL, hardware=True)
def other_traffic(context: LintContext) -> Iterator[LintFinding]:
    """Report fragments, ICMP, ARP, unusual and dropped packets not in hardware, one finding per reason."""
    found: dict[tuple[str, bool, str], list[JudgedFlow]] = defaultdict(list)
    for judged in context.examination.judged:
        if judged.kind in _TRAFFIC and judged.judgement.verdict != "yes":
            found[judged.kind, judged.judgement.verdict == "unknown", first_reason(judged)].append(judged)
    for (kind, unknown, reason), flows in found.items():
        code, what = _TRAFFIC[kind]
        verdict = "may or may not be in hardware (not published)" if unknown else "not in hardware"
        text = f"{what}: {len(flows)} datapath flow{'s' if len(flows) > 1 else ''} {verdict}: {reason}"
        yield context.finding(code, SWITCH, text, "", flows)


@finder(UNREADABLE)
def unreadable_flows(context: LintContext) -> Iterator[LintFinding]:
    """Report datapath flows that the parser cannot read."""
    for judged in context.examination.judged:
        if isinstance(judged.flow, Unreadable):
            text = f"{judged.flow.problem}: {judged.flow.text[:_SHOWN]}"
            yield context.finding(UNREADABLE, SWITCH, text, "please report this line", [judged])
