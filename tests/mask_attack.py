# SPDX-License-Identifier: Apache-2.0
"""Attack the tables in a private switch: create as many masks as hostile frames can, and read which there are.

For tests and the benchmark of masks.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ovs.flow.odp import ODPFlow

from dnsteer.lint.masks.flow_syntax import parse_match
from dnsteer.plan.plan import Plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.render.flows import Flow, flows_of
from dnsteer.switch.masks import Mask, mask_of_match
from dnsteer.switch.megaflow_fields import fields_of
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.ingress import PortRow
from tests.hostile_frames import HostileFrames

_OPAQUE = (",mpls(", ",nsh(")
_TRACKED_AS = re.compile(r"ct_tuple6\([^)]*\),?")
_VALUE = re.compile(r"(?:=|(?<=recirc_id\()|(?<=dp_hash\()|(?<=in_port\()|(?<=eth_type\())[^=,()/]+")


@dataclass
class ObservedMasks:
    """The masks seen in dumps of datapath flows: the number of flows of each mask, and its first flow."""

    flows: Counter[Mask] = field(default_factory=Counter)
    examples: dict[Mask, str] = field(default_factory=dict)
    _masks: dict[str, Mask] = field(default_factory=dict)

    def add(self, lines: Iterable[str]) -> int:
        """Count masks in `dpctl/dump-flows -m` lines; return the number of flows. Raises ValueError as read_mask does."""
        count = 0
        for line in lines:
            if "recirc_id(" not in line:
                continue
            count += 1
            match = line.partition(", packets:")[0].partition(", ")[2]
            if any(header in match for header in _OPAQUE):
                match = _without_opaque_headers(match)
            shape = _VALUE.sub("", match)
            mask = self._masks.get(shape)
            if mask is None:
                mask = self._masks[shape] = read_mask(match)
            self.flows[mask] += 1
            self.examples.setdefault(mask, line)
        return count


def _without_opaque_headers(match: str) -> str:
    """Remove MPLS and NSH headers from a match: no table of ours matches them, and malformed ones cannot be parsed."""
    end = min(at for header in _OPAQUE if (at := match.find(header)) >= 0)
    return match[:end] + ")" * (match.count("(", 0, end) - match.count(")", 0, end))


def read_mask(match: str) -> Mask:
    """Return the mask of a datapath flow's match. Raises ValueError if the match cannot be parsed.

    What the tracker knew of a packet is matched by nothing, and Open vSwitch's library cannot read it of ICMPv6."""
    match = _TRACKED_AS.sub("", match)
    return mask_of_match(fields_of(dict(ODPFlow(f"{match}, packets:0, bytes:0, used:never, actions:drop").match)))


_BATCH = 100  # a dummy device queues 100 packets and drops any more
_PAUSE = 0.0003
_STUCK = 60.0
_ROUND = 200_000
"""Packets after which megaflows are counted and removed, to make room for more."""
_TREES = ("nw_dst", "ipv6_dst", "ipv6_src")
"""Prefix fields per table. Releases before 3.5 allow only three, so the answers' IPv4 source has no prefix tree."""
_CREATED = re.compile(r"\|Creating (\d+)\. subtable")


@dataclass(frozen=True)
class Attack:
    """The result of an attack: packets sent, megaflows created, and for each mask its number of megaflows and the first.

    The first megaflow of a mask shows all fields of the packet that created it; exactly matched ones have no mask printed.
    *subtables* is the largest number of subtables (hash tables) that the datapath logged for one port.
    """

    packets: int
    megaflows: int
    masks: Mapping[Mask, int]
    examples: Mapping[Mask, str]
    subtables: int


def attack(
    plan: Plan, seconds: float, seed: int = 0, packets: int | None = None, *, ipv6_prefix_trees: bool = False
) -> Attack:
    """Attack the plan's tables for *seconds*, or until *packets* have been sent.

    *ipv6_prefix_trees*: use prefix trees for IPv6 addresses, as releases since 3.5 do by default. Raises SwitchError if the
    private switch fails.
    """
    with Harness(plan) as harness:
        return attack_tables(harness, flows_of(plan), seconds, seed, packets, ipv6_prefix_trees=ipv6_prefix_trees)


def attack_tables(
    harness: Harness,
    flows: Sequence[Flow],
    seconds: float,
    seed: int = 0,
    packets: int | None = None,
    *,
    ipv6_prefix_trees: bool = False,
) -> Attack:
    """Attack tables that are already loaded, as attack does; frames are built from the matches of *flows*."""
    switch = harness.switch
    switch.appctl("vlog/set", "dpif_netdev:file:dbg")
    if ipv6_prefix_trees:
        _add_prefix_trees(harness, {flow.table for flow in flows})
    part = harness.plan.extension
    extension_ports = [part.ingress.name, part.egress.name] if part is not None else []
    ports = [*(port.name for port in harness.plan.rows.of(PortRow)), *extension_ports, harness.plan.bridge]
    source = HostileFrames((parse_match(flow.match) for flow in flows), seed)
    observed = ObservedMasks()
    sent = counted = since = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and (packets is None or sent < packets):
        count = inject(harness, {port: [source.frame().hex() for _ in range(_BATCH)] for port in ports})
        sent, since = sent + count, since + count
        if since >= _ROUND:
            counted += observed.add(switch.dump("dpctl/dump-flows", "-m").splitlines())
            harness.forget_megaflows()
            since = 0
    counted += observed.add(switch.dump("dpctl/dump-flows", "-m").splitlines())
    return Attack(sent, counted, dict(observed.flows), dict(observed.examples), _subtables(switch.dir))


def _add_prefix_trees(harness: Harness, tables: Iterable[int]) -> None:
    """Configure prefix trees in each table, for IPv6 addresses too."""
    args: list[str] = []
    for table in tables:
        name = f"@t{table}"
        args += ["--", f"--id={name}", "create", "Flow_Table", f"prefixes={','.join(_TREES)}"]
        args += ["--", "set", "Bridge", harness.plan.bridge, f"flow_tables:{table}={name}"]
    harness.switch.vsctl(*args[1:])


def inject(harness: Harness, frames: Mapping[str, list[str]]) -> int:
    """Inject one batch of frames per port and return their number once the switch has processed them.

    Raises SwitchError if that takes longer than _STUCK seconds.
    """
    count = sum(map(len, frames.values()))
    before = harness.counters().received
    for port, data in frames.items():
        harness.switch.appctl("netdev-dummy/receive", port, *data)
    deadline = time.monotonic() + _STUCK
    while harness.counters().received < before + count:
        if time.monotonic() > deadline:
            raise SwitchError(f"the private switch did not process {count} packets within {_STUCK:g} s")
        time.sleep(_PAUSE)
    return count


def _subtables(folder: Path) -> int:
    """Return the largest number of subtables that a port had at once, from the switch's log."""
    return max((int(n) for n in _CREATED.findall((folder / "vswitchd.log").read_text(errors="replace"))), default=0)
