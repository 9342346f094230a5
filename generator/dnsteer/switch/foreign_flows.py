# SPDX-License-Identifier: Apache-2.0
"""Flows of others in dnsteer's tables, and what they do to the packets of the spec.

A flow of others that comes before dnsteer's takes their packets, whatever dnsteer's tables hold: nothing is missing there
and nothing is changed, and no query may be answered. dnsteer never removes such a flow, so all that it can do is say so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow, parse_flow
from dnsteer.switch.flow_matches import Match, covers, overlap, parse_match
from dnsteer.switch.openflow import PROTOCOL, OpenFlow, Tables
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.order import PIPELINE

_TABLES = {t.number: t.name for t in PIPELINE.tables.values()}
_SENDS_ON = re.compile(r"\b(?:goto_table|output|IN_PORT|group|ct)\b")
"""Actions after which a packet goes on; without one of them dnsteer's flow drops it."""
_NAMED = 2
"""Objects of the spec that are named for one flow."""
_SHOWN = 3
"""Flows that `plan`, `apply` and `restore` name one by one."""


@dataclass(frozen=True)
class ForeignFlow:
    """A flow of others in one of dnsteer's tables, as ovs-ofctl reads it (*line*).

    *packets* is how many have met it, None where unknown. *effect* is what it does to other packets than it would be without
    it, in words, empty for nothing; *takes* is whether these are of the spec's traffic. *remedy* removes it.
    """

    line: str
    table: str
    packets: int | None
    effect: str
    takes: bool
    remedy: str

    @property
    def detail(self) -> str:
        """The flow, what it does, and what to do about it."""
        if not self.effect:
            return f"not dnsteer's: {self.line}"
        return f"not dnsteer's: {self.line}: {self.effect}{self._counted}; to remove it: {self.remedy}"

    @property
    def _counted(self) -> str:
        if self.packets is None:
            return ""
        return f" ({self.packets:,} packet{'' if self.packets == 1 else 's'} so far)"


def find_foreign_flows(tables: Tables, lines: Collection[str], plan: Plan, client: OpenFlow) -> list[ForeignFlow]:
    """Return the flows of others in dnsteer's tables, those that take packets of the spec first.

    *lines* are the flows of *plan*.
    """
    others = [flow for flow in tables.other.values() if flow.table in _TABLES]
    if not others:
        return []
    own = _own_flows({flow.table for flow in others}, lines)
    try:
        counts = client.packets(others)
    except SwitchError:  # the flows themselves are known, and matter more
        counts = {}
    bridge = plan.bridge
    found = []
    for flow in others:
        packets = counts.get(flow.key)
        takes, effect = _effect(flow, packets, own[flow.table], plan)
        remedy = f"ovs-ofctl -O {PROTOCOL} --strict del-flows {bridge} {shlex.quote(flow.spec())}"
        found.append(ForeignFlow(tables.line(flow), _TABLES[flow.table], packets, effect, takes, remedy))
    return sorted(found, key=lambda each: (not each.takes, not each.effect, -(each.packets or 0)))


def foreign_flow_warnings(found: Sequence[ForeignFlow]) -> list[str]:
    """Return warnings about those that change what becomes of packets; of many the first, and how many more there are."""
    telling = [each for each in found if each.effect]
    out = [f"foreign flow in table {each.table}: {each.detail}" for each in telling[:_SHOWN]]
    more = len(telling) - _SHOWN
    return [*out, f"{more} more foreign flows take packets; see all: dnsteer verify SPEC"] if more > 0 else out


def _own_flows(numbers: Collection[int], lines: Iterable[str]) -> dict[int, list[tuple[Flow, Match]]]:
    """Return dnsteer's flows of some tables by table, with their matches."""
    own: dict[int, list[tuple[Flow, Match]]] = {number: [] for number in numbers}
    marks = {f"table={number}" for number in numbers}
    for line in lines:
        if line.split(", ", 2)[1] in marks:
            flow = parse_flow(line)
            own[flow.table].append((flow, parse_match(flow.match)))
    return own


def _effect(flow: Flow, packets: int | None, own: Sequence[tuple[Flow, Match]], plan: Plan) -> tuple[bool, str]:
    """Return whether *flow* takes packets of the spec's traffic, and what it does to packets, in words."""
    match = parse_match(flow.match)
    met = [(mine, its) for mine, its in own if mine.priority <= flow.priority and overlap(match, its)]
    serving = [(mine, its) for mine, its in met if _SENDS_ON.search(mine.actions)]
    drops = flow.actions == "drop"
    before = [(mine, its) for mine, its in serving if mine.priority < flow.priority]
    if before:
        whose = _titles(plan, [mine for mine, _ in before])
        theirs = {mine.cookie for mine, _ in before}
        whole = all(covers(match, its) for mine, its in own if mine.cookie in theirs and _SENDS_ON.search(mine.actions))
        which = "all of their packets" if whole else "the packets that it matches"
        verb = "drops" if drops else "does something else with"
        return True, f"it comes before the flows of {whose} and {verb} {which}"
    if serving:
        whose = _titles(plan, [mine for mine, _ in serving])
        return True, f"it has the priority of the flows of {whose}: of packets that match both either flow may get them"
    if packets and not drops:
        return False, "it takes packets that dnsteer's flows drop"
    return False, ""


def _titles(plan: Plan, flows: Iterable[Flow]) -> str:
    """Return the objects of the spec that flows are of, in words."""
    subjects = (plan.subject(flow.cookie) for flow in flows)
    found = dict.fromkeys(subject.title for subject in subjects if subject is not None)
    titles = ["the pipeline" if title == plan.pipeline.title else title for title in found]
    named = titles[:_NAMED]
    if len(titles) > _NAMED:
        return f"{', '.join(named)} and {len(titles) - _NAMED} more"
    return " and ".join(named) or "the pipeline"
