# SPDX-License-Identifier: Apache-2.0
"""Compare the datapath flows that a running switch has in hardware with its profile's prediction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from dnsteer.offload.capabilities import Profile
from dnsteer.offload.datapath_flow import DatapathFlow, Unreadable, read_flows
from dnsteer.offload.judge import Judgement, judge
from dnsteer.offload.offload_context import CT_IPV6, dp_hash_pools, needs_ct_ipv6, offload_context_of
from dnsteer.offload.owners import Owner, Owners
from dnsteer.offload.packet_path import Verdict
from dnsteer.plan.bridge import ports_of
from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.control_socket import database_name
from dnsteer.switch.datapaths import actual_name
from dnsteer.switch.rpc import Rpc, parse_remote
from dnsteer.switch.tools import SwitchError, UnavailableError
from dnsteer.switch.unixctl import Appctl

LIBRARIES = ("dpdk", "doca")


@dataclass(frozen=True)
class RunningSwitch:
    """The bridge's datapath, other_config, and which libraries ovs-vswitchd has started.

    *datapath* is the name in dpctl that follows from the bridge's type; `switch/datapaths.py` has the one that is there.
    *started* has only the libraries for which the database has a column: the one for DOCA exists only in NVIDIA's.
    """

    datapath: str
    config: Mapping[str, str]
    started: Mapping[str, bool]


def read_running_switch(remote: str, bridge: str, timeout: float) -> RunningSwitch:
    """Read the OVSDB at *remote*. Raises SwitchError if the bridge is missing, UnavailableError if OVSDB is unreachable."""
    rpc = Rpc(parse_remote(remote), database_name(remote), timeout)
    try:
        # Select all columns, since naming a column that the database does not have is an error.
        of_bridge = {"op": "select", "table": "Bridge", "where": [["name", "==", bridge]]}
        of_switch = {"op": "select", "table": "Open_vSwitch", "where": []}
        bridges, switches = rpc.call("transact", ["Open_vSwitch", of_bridge, of_switch], timeout)
    finally:
        rpc.close()
    if not bridges["rows"]:
        raise SwitchError(f"there is no bridge {bridge}; apply the spec first")
    return _of_rows(bridges["rows"][0], switches["rows"][0])


def _of_rows(bridge: Mapping[str, Any], switch: Mapping[str, Any]) -> RunningSwitch:
    kind = bridge["datapath_type"] or "system"
    found = {library: switch.get(f"{library}_initialized") for library in LIBRARIES}
    started = {library: value for library, value in found.items() if isinstance(value, bool)}
    return RunningSwitch(f"{kind}@ovs-{kind}", dict(switch["other_config"][1]), started)


TYPES: Mapping[str, Verdict] = {"offloaded": "yes", "partially-offloaded": "partial", "non-offloaded": "no"}
"""The flow types of `dpctl/dump-flows`, and the verdict that each corresponds to."""
STATISTICS = "dpctl/offload-stats-show"
EXTRAS = (STATISTICS, "doca-pipe-group/dump", "metrics/show", "dpif/offload/show")
"""Commands with more detail on offload, run if the switch has them; the last three are not upstream or are new."""
_WANTED = {"dpdk": ("true", "try"), "doca": ("true",)}
"""Values of dpdk-init and doca-init that start the library."""
_SETTLE = 2.0
"""Seconds before flows missing in hardware are checked again: a thread offloads flows after their first packets."""


class SwitchCommands(Appctl, Protocol):
    """As Appctl, and knows what commands there are."""

    def commands(self) -> frozenset[str]:
        """Return the names of the commands that it has."""


@dataclass(frozen=True)
class ObservedFlow:
    """A datapath flow of the switch: whether it is in hardware, the predicted verdict, and its owners."""

    flow: DatapathFlow
    actual: Verdict
    predicted: Judgement
    owners: tuple[Owner, ...]

    @property
    def missing(self) -> bool:
        """Whether the flow should be in hardware but is not."""
        return self.predicted.verdict == "yes" and self.actual != "yes"

    @property
    def surprising(self) -> bool:
        """Whether the flow is in hardware although the profile says that it cannot be."""
        return self.predicted.verdict in ("no", "partial") and self.actual == "yes"

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "flow": self.flow.text,
            "actual": self.actual,
            "predicted": self.predicted.as_json(),
            "owners": [asdict(owner) for owner in self.owners],
        }


@dataclass
class Observation:
    """All datapath flows of the spec's ports. *extras* is the output of the EXTRAS commands, *settings* the wrong settings.

    *extension_ports* are the extension's ports; what happens between them is not a datapath flow.
    """

    profile: Profile
    flows: list[ObservedFlow]
    unreadable: list[Unreadable] = field(default_factory=list)
    extras: dict[str, str] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    extension_ports: tuple[str, ...] = ()

    @property
    def missing(self) -> list[ObservedFlow]:
        """The flows that should be in hardware but are not."""
        return [o for o in self.flows if o.missing]

    @property
    def surprising(self) -> list[ObservedFlow]:
        """The flows that are in hardware although the profile says that they cannot be."""
        return [o for o in self.flows if o.surprising]

    @property
    def unpublished_cases(self) -> list[tuple[str, int, int]]:
        """What this switch shows about unpublished cases: the case, and how many flows are in hardware and how many not."""
        found: dict[str, list[int]] = {}
        for o in self.flows:
            if o.predicted.verdict == "unknown":
                found.setdefault(o.predicted.why_software, [0, 0])[o.actual != "yes"] += 1
        return [(why, here, not_here) for why, (here, not_here) in found.items()]

    @property
    def ok(self) -> bool:
        """Whether all flows could be parsed, none is missing in hardware, and the settings for offload are right."""
        return not (self.missing or self.settings or self.unreadable)

    def count(self, actual: Verdict) -> int:
        """Return how many flows are in hardware (yes), partly in hardware (partial), or not (no)."""
        return sum(o.actual == actual for o in self.flows)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "ok": self.ok,
            "profile": self.profile.name,
            "flows": {verdict: self.count(verdict) for verdict in TYPES.values()},
            "settings": self.settings,
            "missing": [o.as_json() for o in self.missing],
            "learnt": [{"about": why, "in_hardware": a, "not": b} for why, a, b in self.unpublished_cases],
            "surprising": [o.as_json() for o in self.surprising],
            "unreadable": [asdict(u) for u in self.unreadable],
            "extension_ports": list(self.extension_ports),
            "extras": self.extras,
        }


class FlowJudge:
    """Judges the datapath flows of the spec's ports by a profile."""

    def __init__(self, loaded: Loaded, plan: Plan, profile: Profile, running: RunningSwitch) -> None:
        self.profile = profile
        self.ports = frozenset({*ports_of(loaded.spec.switch), *uplink_devices(loaded.spec.switch)})
        self._owners = Owners(plan)
        conntrack = running.config.get("hw-offload-ct-size") != "0"
        enabled = [key for key, value in running.config.items() if value == "true"]
        self._context = offload_context_of(loaded, plan, conntrack=conntrack, enabled=enabled)

    def judged(self, found: Iterable[tuple[DatapathFlow, Verdict]]) -> list[ObservedFlow]:
        """Return flows with whether they are in hardware, judged; those of other ports are left out."""
        ours = [(flow, actual) for flow, actual in found if _port(flow) in self.ports]
        whose = self._owners.of(flow for flow, _ in ours)
        return [ObservedFlow(f, v, judge(f, self.profile, self._context), whose[f]) for f, v in ours]


def observe(
    loaded: Loaded,
    profile: Profile,
    switch: SwitchCommands,
    running: RunningSwitch,
    overlay: Overlay = NO_OVERLAY,
    *,
    wait: Callable[[float], None] = time.sleep,
) -> Observation:
    """Compare a running switch, which has an *overlay*, with *profile*.

    Missing flows are checked twice, since offload follows the first packets.

    Raises SwitchError or UnavailableError if the switch cannot be queried.
    """
    plan = build_plan(loaded, overlay)
    judge_flows = FlowJudge(loaded, plan, profile, running)
    datapath = actual_name(switch, running.datapath)

    def read() -> tuple[list[ObservedFlow], list[Unreadable]]:
        found = dump(switch, datapath)
        bad = [flow for flow, _ in found if isinstance(flow, Unreadable)]
        return judge_flows.judged((f, v) for f, v in found if isinstance(f, DatapathFlow)), bad

    flows, unreadable = read()
    if any(o.missing for o in flows):
        before = {(o.flow.thread, o.flow.ufid) for o in flows if o.missing}
        wait(_SETTLE)
        again, unreadable = read()
        flows = [o for o in again if not o.missing or (o.flow.thread, o.flow.ufid) in before]
    known = switch.commands()
    # Upstream's command needs the datapath's name if there are several; NVIDIA's commands take no such argument.
    args = {STATISTICS: (datapath,)}
    extras = {command: _output(switch, command, *args.get(command, ())) for command in EXTRAS if command in known}
    part = plan.extension
    extension_ports = (part.ingress.name, part.egress.name) if part is not None and part.services else ()
    return Observation(
        profile, flows, unreadable, extras, list(wrong_settings(loaded, plan, profile, running)), extension_ports
    )


def dump(switch: SwitchCommands, datapath: str) -> list[tuple[DatapathFlow | Unreadable, Verdict]]:
    """Return all flows of a datapath with their actual verdict: the line's own `offloaded:`, else the type dumped.

    Each forwarding thread has its own flows, and flows of two threads may have the same ufid.
    """
    out: dict[str, tuple[DatapathFlow | Unreadable, Verdict]] = {}
    for kind, verdict in TYPES.items():
        for flow in read_flows(switch.run("dpctl/dump-flows", "-m", datapath, f"type={kind}")):
            actual: Verdict = (flow.offloaded or verdict) if isinstance(flow, DatapathFlow) else "unknown"
            key = f"{flow.thread} {flow.ufid or flow.text}" if isinstance(flow, DatapathFlow) else flow.text
            out.setdefault(key, (flow, actual))
    return list(out.values())


def _output(switch: SwitchCommands, command: str, *args: str) -> str:
    """Return a command's output, or its error in brackets: without offload, upstream's statistics command fails.

    Raises UnavailableError if the switch does not respond.
    """
    try:
        return switch.run(command, *args).strip()
    except UnavailableError:
        raise
    except SwitchError as err:
        return f"({err})"


def _port(flow: DatapathFlow) -> str:
    found = flow.get("in_port")
    return str(found.value) if found is not None else ""


def wrong_settings(loaded: Loaded, plan: Plan, profile: Profile, running: RunningSwitch) -> Iterable[str]:
    """Yield a message for each setting that prevents offload of some or all flows."""
    if not profile.hardware:
        return
    config, doca = running.config, profile.flavor == "ovs-doca"
    if config.get("hw-offload") != "true":
        yield "other_config:hw-offload is not true: nothing is offloaded (set it and restart ovs-vswitchd)"
    if doca:
        yield from _library("DOCA", running)
    # NVIDIA's OVS-DOCA starts DPDK by itself, the version going upstream does not: so check whether DPDK is running.
    if profile.flavor == "ovs-dpdk" or (doca and running.started.get("dpdk") is False):
        yield from _library("DPDK", running)
    if doca and dp_hash_pools(loaded) and config.get("hw-offload-ct-size") != "0":
        yield "other_config:hw-offload-ct-size is not 0: flows of dp-hash pools are not offloaded (DNS015)"
    if doca and config.get(CT_IPV6) != "true" and needs_ct_ipv6(loaded, plan):
        yield f"other_config:{CT_IPV6} is not true: tracked connections of IPv6 are not offloaded (DNS025)"


def _library(name: str, running: RunningSwitch) -> Iterable[str]:
    """Yield a message if a library is not configured to start, or did not start."""
    key = name.lower()
    if running.config.get(f"{key}-init") not in _WANTED[key]:
        yield f"other_config:{key}-init is not true: nothing is offloaded without {name} (set it and restart ovs-vswitchd)"
    elif running.started.get(key) is False:
        why = f"if that was done, its log says why {name} did not start"
        yield f"{key}_initialized is false though other_config:{key}-init is set: restart ovs-vswitchd; {why}"
