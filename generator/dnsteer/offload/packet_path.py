"""One way of packets through the switch: what the judged datapath flows say of it, in the numbers that capacity needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dnsteer.spec.model.families import Family

Verdict = Literal["yes", "partial", "no", "unknown"]
"""Whether hardware forwards: wholly, only classifies for the CPU, not at all, or nobody has published it."""
Certainty = Literal["documented", "source-code", "test-suite", "inferred", "unknown"]
"""What a statement rests on, surest first."""


@dataclass(frozen=True)
class Hop:
    """A part of a path: packets come in by a port of *enters* and go out by one of *leaves*.

    Of the switch it has the datapath flows' numbers, as PacketPath does. Of the extension, which has none: *rules* are the
    entries of the program's pipes, *tables* the pipes that a packet passes, *grows* the bytes by which packets become
    longer (the mean over the slots, *most* the greatest); its verdict is unknown.
    """

    by: Literal["switch", "extension"]
    enters: tuple[str, ...]
    leaves: tuple[str, ...]
    rules: int
    tables: int
    rewrites: int
    offloaded: Verdict
    certainty: Certainty
    match_bytes: int = 0
    grows: float = 0.0
    most: int = 0
    pipes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PacketPath:
    """The queries of one service of a VIP, or their answers, in one address family.

    *rules* is the number of hardware rules, *masks* of distinct masks, *match_bytes* what the widest rule matches, *depth*
    the number of hardware tables that a packet passes (a split rule counts each part), *passes* of datapath passes,
    *rewrites* of rewritten header fields. *certainty* is what the verdict rests on, of its flows the weakest. *hops* are its
    parts where the extension is one of them; all other numbers, and the verdict, are of the switch's parts together.
    """

    vip: str
    service: str
    family: Family
    direction: Literal["query", "answer"]
    mode: str
    selection: str
    slots: int
    rules: int
    passes: int
    masks: int
    match_bytes: int
    depth: int
    rewrites: int
    conntrack: bool
    offloaded: Verdict
    certainty: Certainty = "unknown"
    hops: tuple[Hop, ...] = ()
