"""An attack on the tables in a private switch: as many masks as hostile frames can make of them."""

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

_BATCH = 100  # a dummy device queues 100 packets and drops what comes on top
_PAUSE = 0.0003
_STUCK = 60.0
_ROUND = 200_000
"""Packets after which megaflows are counted and removed, so that there is room for more."""
_TREES = ("nw_dst", "ipv6_dst", "ipv6_src")
"""Releases before 3.5 allow three; the answers' IPv4 source goes without."""
_CREATED = re.compile(r"\|Creating (\d+)\. subtable")


@dataclass(frozen=True)
class Attack:
    """What an attack did: packets sent, megaflows that they made, and for each mask its megaflows and the first of them.

    The first megaflow of a mask shows the packet that made it: all of its fields, the matched ones without a mask behind.
    *subtables* is the most hash tables that the datapath had for one port, by its own log.
    """

    packets: int
    megaflows: int
    masks: Mapping[Mask, int]
    examples: Mapping[Mask, str]
    subtables: int


def attack(
    plan: Plan, seconds: float, seed: int = 0, packets: int | None = None, *, ipv6_prefix_trees: bool = False
) -> Attack:
    """Attack the plan's tables for *seconds*, or until *packets* were sent.

    *ipv6_prefix_trees*: with prefix trees for IPv6 addresses, as releases since 3.5 have. Raises SwitchError.
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
    """The same for tables that are loaded already; *flows* are what to aim at."""
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
    """Give each table prefix trees for addresses of IPv6 too."""
    args: list[str] = []
    for table in tables:
        name = f"@t{table}"
        args += ["--", f"--id={name}", "create", "Flow_Table", f"prefixes={','.join(_TREES)}"]
        args += ["--", "set", "Bridge", harness.plan.bridge, f"flow_tables:{table}={name}"]
    harness.switch.vsctl(*args[1:])


def _send(harness: Harness, frames: Mapping[str, list[str]]) -> int:
    """Put frames in, as many a port as it queues, and wait until the switch has processed them."""
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
    """The most subtables that a port had at once, from the switch's log."""
    return max((int(n) for n in _CREATED.findall((folder / "vswitchd.log").read_text(errors="replace"))), default=0)
