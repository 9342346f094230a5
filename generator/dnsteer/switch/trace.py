# SPDX-License-Identifier: Apache-2.0
"""`ofproto/trace`: the flows that a packet matches in a switch's tables, and what leaves. It changes nothing there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dnsteer.tables.cookies import COOKIE_TAG
from dnsteer.tables.order import TABLES

_PASSING = frozenset(table.number for table in TABLES if table.miss == "next")
_FLOW = re.compile(r"^\s*(\d+)\. (.*)$")
_PRIORITY = re.compile(r"(?:, )?priority (\d+)")
_COOKIE = re.compile(r", cookie (0x[0-9a-f]+)")
_BRIDGE = re.compile(r'bridge\("(.*)"\)\Z')
_FURTHER_PASS = "recirc("
_BEHIND_TRACKER = " - resume conntrack "
"""How the heads of further passes begin, and what those have that the trace goes on with: not those behind a hash."""
_END = ("Final flow: ", "Megaflow: ", "Datapath actions: ")
ANY = "(any)"
"""The match of a flow that matches every packet."""
NO_FLOW = "(no flow)"
"""The match where a table has no flow for the packet."""
UNCHANGED = "unchanged"
"""The fields in the end of a packet that no flow changed."""


@dataclass(frozen=True)
class TracedFlow:
    """A flow that the packet matched, by the number of its table. *actions* are the trace's lines about what it did."""

    table: int
    match: str
    priority: int
    cookie: int
    actions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trace:
    """A packet's path in one bridge, also behind the connection tracker; of one that is hashed the first pass.

    *final* are its fields, UNCHANGED where no flow changed it; *datapath* its actions. *onward* are the bridges that
    it goes on to by patch ports; *datapath* has their actions too.
    """

    flows: tuple[TracedFlow, ...]
    final: str
    datapath: str
    onward: tuple[str, ...] = ()

    @property
    def recirculates(self) -> bool:
        """Whether the datapath sends the packet through the tables once more, which is traced no further."""
        return "recirc(" in self.datapath

    @property
    def drops(self) -> bool:
        """Whether nothing leaves."""
        return self.datapath == "drop"


def read_trace(text: str) -> Trace:
    """Read what `ofproto/trace` printed of the bridge that it was asked about.

    Tables that only pass the packet on, since they have no window of its family's addresses, are left out.
    """
    flows: list[TracedFlow] = []
    onward: list[str] = []
    final = datapath = ""
    for lines in _traced_passes(text):
        found, ends = _read_pass(lines, onward)
        flows += found
        changed = ends.get("Final flow: ", "")
        final = final if final and changed == UNCHANGED else changed
        datapath = ends.get("Datapath actions: ", "")
    return Trace(tuple(flows), final, datapath, tuple(dict.fromkeys(onward)))


def _traced_passes(text: str) -> list[list[str]]:
    """The lines of the first pass, and of each that the trace goes on with."""
    passes: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.startswith(_FURTHER_PASS):
            passes[-1].append(line)
        elif _BEHIND_TRACKER in line:
            passes.append([])
        else:
            break
    return passes


def _read_pass(lines: Iterable[str], onward: list[str]) -> tuple[list[TracedFlow], dict[str, str]]:
    """Read the flows of a pass, and what it says at its end by the words before it."""
    flows: list[tuple[re.Match[str], list[str]]] = []
    ends: dict[str, str] = {}
    for line in _of_first_bridge(lines, onward):
        end = next((word for word in _END if line.startswith(word)), None)
        if end is not None:
            ends.setdefault(end, line.removeprefix(end).strip())
        elif ends:
            continue
        elif m := _FLOW.match(line):
            flows.append((m, []))
        elif flows and line.strip():
            flows[-1][1].append(line.strip())
    return [flow for flow in map(_flow, flows) if not _passes(flow)], ends


def _of_first_bridge(lines: Iterable[str], onward: list[str]) -> Iterator[str]:
    """The lines but for those of further bridges, whose names are added to *onward*.

    The flows of a bridge that a patch port leads to are indented below its name, or level with it where nothing follows.
    """
    started, other = False, None  # type: bool, int | None
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if other is not None and not line.startswith(_END):
            level = not text or _FLOW.match(line) or _BRIDGE.match(text) or not text.strip("-")
            if indent > other or (level and (indent == other or not text)):
                continue
        other = None
        if (m := _BRIDGE.match(text)) is None:
            yield line
        elif started:
            onward.append(m[1])
            other = indent
        else:
            started = True


def _passes(flow: TracedFlow) -> bool:
    """Whether a flow is a table's own for all that it does not look at."""
    own = flow.table in _PASSING and (flow.match, flow.priority) == (ANY, 0) and flow.cookie >> 48 == COOKIE_TAG
    return own and len(flow.actions) == 1 and flow.actions[0].startswith("goto_table:")


def _flow(traced: tuple[re.Match[str], list[str]]) -> TracedFlow:
    found, actions = traced
    text = found[2]
    priority, cookie = _PRIORITY.search(text), _COOKIE.search(text)
    match = text[: priority.start()] if priority else NO_FLOW
    return TracedFlow(
        int(found[1]),
        match or ANY,
        int(priority[1]) if priority else 0,
        int(cookie[1], 16) if cookie else 0,
        tuple(actions),
    )
