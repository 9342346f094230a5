# SPDX-License-Identifier: Apache-2.0
"""Read the facts of a report from a switch. What cannot be read is named, and the rest is read all the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.metrics.datapath import MAX_DUMPED, Datapath, DatapathReader
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.report.ovsdb_facts import SwitchFacts, read_facts
from dnsteer.status.switch_observer import SwitchObserver
from dnsteer.status.switch_status import Status
from dnsteer.switch.state import AppliedState, DamagedError
from dnsteer.switch.tools import SwitchError, UnavailableError
from dnsteer.switch.unixctl import Unixctl, control_socket

if TYPE_CHECKING:
    from dnsteer.offload.observe import Observation
    from dnsteer.spec.loaded import Loaded

_VERSION = re.compile(r"\d+\.\d+\.\S+")
MAX_DRIFT = 200
"""Differences that are listed; all are counted."""
_T = TypeVar("_T")


@dataclass
class ReportFacts:
    """A switch at a *time*, as read *by* somebody.

    *status* is None where the database cannot be reached. *unread* has what could not be read, and why.
    """

    time: datetime
    by: str
    remote: str
    status: Status | None = None
    states: list[AppliedState | DamagedError] = field(default_factory=list)
    ovsdb: SwitchFacts | None = None
    version: str = ""
    """Open vSwitch's, as the database or ovs-vswitchd says it."""
    datapath: Datapath | None = None
    offload: Observation | None = None
    unread: list[tuple[str, str]] = field(default_factory=list)


def gather(switch: TargetSwitch, bridge: str | None, interval: float) -> ReportFacts:
    """Read the switch; rates are over *interval* seconds. Changes nothing.

    Raises SwitchError when there is no such bridge, or none that is dnsteer's.
    """
    facts = ReportFacts(now(), operator_name(), switch.remote)

    def readable(what: str, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except PermissionError as err:
            facts.unread.append((what, f"{err.filename}: {err.strerror}; run as root or as the owner"))
        except SwitchError as err:
            facts.unread.append((what, str(err)))
        return None

    try:
        status = facts.status = SwitchObserver(switch, bridge, interval=interval, most_drift=MAX_DRIFT).observe()
    except UnavailableError as err:
        facts.unread.append(("the database", str(err)))
        return facts
    record = status.reading.record

    def states() -> list[AppliedState | DamagedError]:
        with switch.session() as session:
            return session.states(record)

    facts.states = readable("the history", states) or []
    facts.ovsdb = readable(
        "what the database says of the bridge", lambda: read_facts(switch.remote, record.bridge, switch.timeout)
    )
    facts.version = facts.ovsdb.version if facts.ovsdb is not None else ""
    loaded = status.loaded
    if loaded is None or status.unreachable:
        return facts
    facts.datapath = readable("the datapath", lambda: _datapath(switch, loaded, facts))
    if facts.datapath is not None and facts.datapath.gauges.get("megaflows", 0) <= MAX_DUMPED:
        facts.offload = readable("the offload", lambda: _offload(switch, status, loaded))
    return facts


def _datapath(switch: TargetSwitch, loaded: Loaded, facts: ReportFacts) -> Datapath:
    with Unixctl(control_socket(switch.remote), switch.timeout) as vswitchd:
        found = _VERSION.search(vswitchd.run("version"))
        facts.version = facts.version or (found[0] if found else "")
        return DatapathReader().read(vswitchd, wanted_bridge(loaded.spec).datapath_type or "system")


def _offload(switch: TargetSwitch, status: Status, loaded: Loaded) -> Observation | None:
    """As `verify --offload` has it; None where the tables are not those of the record, so that nothing can be said."""
    from dnsteer.offload.observe import observe, read_running_switch
    from dnsteer.offload.profile import profile
    from dnsteer.plan.pool_slots import keep_slots

    state = status.reading.state
    if status.tables_match != "recorded" or state is None:
        return None
    running = read_running_switch(switch.remote, status.reading.record.bridge, switch.timeout)
    with Unixctl(control_socket(switch.remote), switch.timeout) as vswitchd:
        return observe(keep_slots(loaded, state.members), profile(loaded.spec.switch.flavor.value), vswitchd, running)
