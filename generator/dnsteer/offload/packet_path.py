# SPDX-License-Identifier: Apache-2.0
"""One path of packets through the switch: the judged datapath flows summed up in the numbers that capacity needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dnsteer.spec.model.families import Family

Verdict = Literal["yes", "partial", "no", "unknown"]
"""Whether hardware forwards the packets (yes), only classifies them for the CPU (partial), does not (no), or unpublished."""
Certainty = Literal["documented", "source-code", "test-suite", "inferred", "unknown"]
"""What a statement is based on, surest first."""


@dataclass(frozen=True)
class Hop:
    """A part of a path: packets come in by one of the ports *enters* and leave by one of *leaves*.

    A hop by the switch has the numbers of its datapath flows, as PacketPath does. The extension has no datapath flows: for
    it *rules* are the entries of the program's pipes, *tables* the pipes that a packet passes, *grows* the bytes by which
    packets become longer (the mean over the slots; *most* is the maximum), and the verdict is unknown.
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

    *rules* is the number of hardware rules, *shared* of those that other services of the pool have too, in the second of two
    passes, *masks* of distinct masks, *match_bytes* the bytes of the widest match, *depth*
    the number of hardware tables that a packet passes (each part of a split rule counts), *passes* the number of datapath
    passes, *rewrites* the most header fields that a flow rewrites. *certainty* is the weakest of the flows with this
    verdict. *pushed* are the bytes that tunnels put before a packet, on average. *hops* are the path's parts if it goes
    through the extension; all other numbers, and the verdict, are for the switch's parts together.
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
    shared: int = 0
    pushed: float = 0.0
