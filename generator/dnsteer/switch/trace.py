"""`ofproto/trace`: the flows that a packet matches in a switch's tables, and what leaves. It changes nothing there."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FLOW = re.compile(r"^\s*(\d+)\. (.*)$")
_PRIORITY = re.compile(r"(?:, )?priority (\d+)")
_COOKIE = re.compile(r", cookie (0x[0-9a-f]+)")
_END = ("Final flow: ", "Megaflow: ", "Datapath actions: ")
ANY = "(any)"
"""The match of a flow that matches every packet."""
NO_FLOW = "(no flow)"
"""The match where a table has no flow for the packet."""


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
    """A packet's path; the first pass of one that recirculates. *final* are its fields, *datapath* its actions."""

    flows: tuple[TracedFlow, ...]
    final: str
    datapath: str

    @property
    def recirculates(self) -> bool:
        """Whether the datapath sends the packet through the tables once more, which is traced no further."""
        return "recirc(" in self.datapath

    @property
    def drops(self) -> bool:
        """Whether nothing leaves."""
        return self.datapath == "drop"


def read_trace(text: str) -> Trace:
    """Read what `ofproto/trace` printed."""
    flows: list[tuple[re.Match[str], list[str]]] = []
    ends: dict[str, str] = {}
    for line in text.splitlines():
        end = next((word for word in _END if line.startswith(word)), None)
        if end is not None:
            ends.setdefault(end, line.removeprefix(end).strip())
        elif ends:
            continue  # of a further pass
        elif m := _FLOW.match(line):
            flows.append((m, []))
        elif flows and line.strip():
            flows[-1][1].append(line.strip())
    final = ends.get("Final flow: ", "")
    return Trace(tuple(_flow(*found) for found in flows), final, ends.get("Datapath actions: ", ""))


def _flow(found: re.Match[str], actions: list[str]) -> TracedFlow:
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
