"""Attack the tables in a private switch: create as many masks as hostile frames can."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dnsteer.lint.masks.frames import HostileFrames
from dnsteer.lint.masks.matches import parse_match
from dnsteer.lint.masks.observed import ObservedMasks
from dnsteer.plan.plan import Plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.render.flows import Flow, flows_of
from dnsteer.switch.masks import Mask
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.ingress import PortRow

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
        count = _send(harness, {port: [source.frame().hex() for _ in range(_BATCH)] for port in ports})
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


def _send(harness: Harness, frames: Mapping[str, list[str]]) -> int:
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
