# SPDX-License-Identifier: Apache-2.0
"""Observes a switch once or repeatedly: its record, whether the tables match it, its counters and what drifted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dnsteer.deploy import movement
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.spec import derived
from dnsteer.status import counters
from dnsteer.status.agent_knowledge import NOTHING_KNOWN, view_agent
from dnsteer.status.bonds import bonds_of, view_bonds
from dnsteer.status.icmp_errors import count_errors, passes_errors
from dnsteer.status.kept_connections import COUNT_INTERVAL, KeptConnections, count_kept
from dnsteer.status.limit_drops import LimitDrops, has_limits, limit_drops
from dnsteer.status.lists import whole_view
from dnsteer.status.pools import backups_in_use, backups_of, overdue, overdue_denials, view_pools, with_vlans
from dnsteer.status.rates import Rates, rates_between
from dnsteer.status.record import RecordReading, read_record
from dnsteer.status.switch_status import Status, TablesMatch
from dnsteer.status.vips import view_vips
from dnsteer.switch.captures import capture_of, capture_warning
from dnsteer.switch.meters import MeterCount, read_meter_counts
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.role import known_role, role_warnings
from dnsteer.switch.settings import WAITS as KIND_WAITS
from dnsteer.switch.state import NOT_FORWARDING, STATE_KEY, DamagedError
from dnsteer.switch.tools import SwitchError, UnavailableError
from dnsteer.switch.withdrawals import withdrawal_warnings, withdrawals_of

if TYPE_CHECKING:
    from datetime import datetime

    from dnsteer.slots.maintenance import Overlay
    from dnsteer.spec.loaded import Loaded
    from dnsteer.spec.model.spec import Spec
    from dnsteer.status.verify import Drift

TABLES_DIFFER = "the tables differ from the record; dnsteer restore loads the recorded tables"
MAX_LISTED_DRIFT = 10
"""Differences that are shown; all are counted."""
_VERIFY_AGAIN = 10.0
_VERIFY_SHARE = 10


class SwitchObserver:
    """Observes a switch once or repeatedly. Rates are since the last observation, or over *interval* seconds.

    *check* is whether to look for drift: each time something was changed, and else now and then, since that takes longer.
    Without *rates* a look takes no time for them, without *lists* none for those. *most_drift* differences are listed.
    """

    def __init__(
        self,
        switch: TargetSwitch,
        bridge: str | None = None,
        *,
        interval: float = 1,
        check: bool = True,
        rates: bool = True,
        lists: bool = True,
        most_drift: int = MAX_LISTED_DRIFT,
    ) -> None:
        self.switch = switch
        self.bridge = bridge
        self.interval = interval
        self.check = check
        self.rates = rates
        self.lists = lists
        self.most_drift = most_drift
        self._sample: tuple[float, counters.Sample] | None = None
        self._loaded: tuple[str, Loaded | str] = ("", "")
        self._drift: tuple[object, float, Sequence[Drift]] | None = None
        self._tables_match: TablesMatch | None = None
        self._dropped: dict[str, Any] = {}
        self._meters: tuple[float, Mapping[int, MeterCount]] | None = None
        self._limited: list[LimitDrops] = []
        self._counted: tuple[float, KeptConnections | None, str] = (-COUNT_INTERVAL, None, "")
        """When connections were counted last, how many there were, and why they could not be counted."""

    def observe(self) -> Status:
        """Return the current status. Raises SwitchError if there is nothing to show, UnavailableError without OVSDB."""
        reading = read_record(self.switch.remote, self.bridge, self.switch.timeout)
        rates, tables_match, unreachable, errors = Rates(), None, "", list[str]()
        try:
            client = self.switch.client(reading.record.bridge)
            self._take_first_sample(client, reading)
            self._load_and_check_drift(reading, errors)  # while the time passes
            rates = self._rates(client, reading)
            later = read_record(self.switch.remote, reading.record.bridge, self.switch.timeout)
            tables_match = _tables_match(client, later)
            if later.revision != reading.revision or tables_match != (self._tables_match or tables_match):
                self._drift = None
                errors.clear()
                self._load_and_check_drift(later, errors)
            reading, self._tables_match = later, tables_match
        except UnavailableError as err:
            unreachable = str(err)
        except PermissionError as err:
            unreachable = f"{err.filename}: {err.strerror}; run as root or as the owner"
        except SwitchError as err:
            errors.append(str(err))
        if unreachable:
            self._sample = self._drift = self._tables_match = self._meters = None
            self._limited = []
            errors.clear()
        return self._status(reading, rates, tables_match, unreachable, errors)

    def observe_again(self) -> Status | str:
        """The next status, or why there is none, after the interval in any case. Raises BrokenPipeError."""
        start = time.monotonic()
        try:
            found: Status | str = self.observe()
        except BrokenPipeError:
            raise
        except (SwitchError, OSError) as err:
            found = str(err)
        if isinstance(found, str) or found.unreachable:
            time.sleep(max(0.0, start + self.interval - time.monotonic()))
        return found

    def _take_first_sample(self, client: OpenFlow, reading: RecordReading) -> None:
        """Take the sample to begin with."""
        if self.rates and self._sample is None:
            counters.wait_for_round(client)
            self._sample = time.monotonic(), self._take(client, reading)
            self._take_meters(client, reading)

    def _take_meters(self, client: OpenFlow, reading: RecordReading) -> None:
        """Read the meters, and note what the limits of VIPs dropped since they were read last."""
        loaded, before = self._load(reading), self._meters
        if loaded is None or not has_limits(loaded.spec):
            self._meters, self._limited = None, []
            return
        time_now, found = time.monotonic(), read_meter_counts(client)
        self._meters = time_now, found
        self._limited = limit_drops(loaded.spec, before[1], found, time_now - before[0]) if before else []

    def _take(self, client: OpenFlow, reading: RecordReading) -> counters.Sample:
        """All counters now, with those of the extension, which Open vSwitch does not have."""
        found = counters.take_round(client)
        spec = self._extended(reading)
        if spec is None or reading.state is None:
            return found
        from dnsteer.status.extension_view import take_extension_counters

        more, self._dropped = take_extension_counters(self.switch, spec, reading.state.members)
        return {**found, **more}

    def _extended(self, reading: RecordReading) -> Spec | None:
        """The spec that is applied, when the extension serves VIPs of it."""
        loaded = self._load(reading) if reading.record.extended else None
        return loaded.spec if loaded else None

    def _rates(self, client: OpenFlow, reading: RecordReading) -> Rates:
        """The rates since the last sample, when the interval has passed."""
        if self._sample is None:
            return Rates()
        since, before = self._sample
        time.sleep(max(0.0, since + self.interval - time.monotonic()))
        counters.wait_for_round(client)
        self._sample = time.monotonic(), self._take(client, reading)
        self._take_meters(client, reading)
        return rates_between(before, self._sample[1])

    def _load_and_check_drift(self, reading: RecordReading, errors: list[str]) -> None:
        """Load the applied spec, and look for drift if it is time to."""
        loaded = self._load(reading)
        if not self.check or loaded is None or reading.overlay is None:
            return
        if self._drift is not None:
            key, again, _ = self._drift
            if key == reading.revision and time.monotonic() < again:
                return
        from dnsteer.status.verify import CAPTURED, find_drift

        start = time.monotonic()
        self._drift = None
        try:
            found = find_drift(
                loaded,
                self.switch.remote,
                openflow=self.switch.openflow,
                timeout=self.switch.timeout,
                extension=self.switch.extension,
            )
        except UnavailableError:
            raise
        except SwitchError as err:
            errors.append(f"not checked for drift: {err}")
            return
        took = time.monotonic() - start
        again = time.monotonic() + max(_VERIFY_AGAIN, took * _VERIFY_SHARE)
        # What was cut off is told of its own.
        told = ("interrupted", "extension away", "extension degraded", CAPTURED, KIND_WAITS)
        self._drift = reading.revision, again, [d for d in found if d.kind not in told]

    def _load(self, reading: RecordReading) -> Loaded | None:
        """Return the applied spec; None if there is none that this version accepts."""
        state = reading.state
        if state is None:
            return None
        if self._loaded[0] != state.text:
            from dnsteer.deploy.recorded_spec import load_state

            try:
                self._loaded = state.text, load_state(state)
            except SwitchError as err:
                self._loaded = state.text, str(err)
        found = self._loaded[1]
        return None if isinstance(found, str) else found

    def _status(
        self,
        reading: RecordReading,
        rates: Rates,
        tables_match: TablesMatch | None,
        unreachable: str,
        errors: list[str],
    ) -> Status:
        time_now = now()
        loaded = self._load(reading)
        said = self._loaded[1]
        unloadable = [said] if reading.state is not None and isinstance(said, str) else []
        members = reading.state.members if reading.state else ()
        status = Status(reading, unreachable, tables_match, rates, errors=[*reading.damage, *unloadable, *errors])
        status.loaded = loaded
        status.agent = view_agent(self.switch, reading.record, loaded.spec if loaded else None)
        known = status.agent.knowledge or NOTHING_KNOWN
        self._add_connections(status)
        status.pools = view_pools(members, reading.overlay, rates, time_now, known, status.connections)
        if loaded:
            status.pools = with_vlans(status.pools, loaded.spec)
        status.vips = view_vips(loaded.spec, rates) if loaded else []
        if loaded and self.lists:
            client = self.switch.client(reading.record.bridge) if not unreachable else None
            denials = reading.overlay.denials if reading.overlay is not None else ()
            looks = self.switch.remote.startswith("unix:")
            status.lists, status.limits = whole_view(client, loaded, denials, looks=looks)
            if client is not None and passes_errors(loaded.spec):
                with suppress(SwitchError):  # that it cannot be asked is said already
                    status.errors_passed = count_errors(client)
        self._add_bonds(status)
        self._add_drift(status)
        if reading.overlay is not None:
            _add_overlay(status, movement.Assignment(members, reading.overlay), reading.overlay, time_now)
        self._add_extension(status)
        status.limited = self._limited
        dropped = [drops.text for drops in self._limited]
        status.warnings += dropped
        status.on_purpose += dropped
        self._add_role_and_withdrawals(status, time_now)
        _add_capture(status)
        if reading.record.waits:
            status.warnings.append(NOT_FORWARDING)
        if not reading.record.ids.get(STATE_KEY) and not reading.cut_off:
            status.errors.append("the record has no state: apply the spec with this version of dnsteer")
        if tables_match == "other" and not reading.cut_off:
            status.warnings.append(TABLES_DIFFER)
        return status

    def _add_connections(self, status: Status) -> None:
        """Add the connections that are kept, as the agent knows them, or else as they are counted here."""
        knowledge, spec = status.agent.knowledge, status.loaded.spec if status.loaded else None
        status.connections = knowledge.connections if knowledge is not None else None
        if spec is None or not derived.keeps_connections(spec) or status.connections is not None or status.unreachable:
            return
        if time.monotonic() >= self._counted[0] + COUNT_INTERVAL:
            began, found, why = time.monotonic(), None, ""
            try:
                found = count_kept(self.switch, spec, status.reading.state.members if status.reading.state else ())
            except SwitchError as err:
                why = str(err)
            self._counted = began, found, why
        _, status.connections, why = self._counted
        if why:
            status.warnings.append(f"the connections that are kept cannot be counted: {why}")
            status.on_purpose.append(status.warnings[-1])

    def _add_bonds(self, status: Status) -> None:
        """Add the bonds as the database has them: nothing where no uplink is one."""
        switch = status.loaded.spec.switch if status.loaded else None
        if switch is None or not bonds_of(switch):
            return
        try:
            with self.switch.database() as database:
                status.bonds = view_bonds(switch, database.bridge(status.reading.record.bridge))
        except (SwitchError, PermissionError) as err:
            status.errors.append(f"the links of bonds cannot be read: {err}")
        status.warnings += [
            f"bond {bond.name}: {bond.idle}: nothing passes by it" for bond in status.bonds if bond.idle
        ]

    def _add_drift(self, status: Status) -> None:
        """Add the differences that were found last: those of others are warnings too."""
        if self._drift is None:
            return
        found = self._drift[2]
        drift = [d for d in found if not d.warns]
        status.drift, status.drift_count = drift[: self.most_drift], len(drift)
        status.drift_of_others = sum(d.of_others for d in drift)
        file = status.reading.state.file if status.reading.state else ""
        status.of_others = [d.text(file) for d in found if d.warns]
        status.warnings += status.of_others

    def _add_role_and_withdrawals(self, status: Status, time_now: datetime) -> None:
        """Add the switch's role and the VIPs that are withdrawn: what people meant is on purpose, and a warning too."""
        record, remote = status.reading.record, self.switch.remote
        with suppress(DamagedError):
            status.role = known_role(record, remote)
            if status.role.get("told") == "standby":
                status.on_purpose += role_warnings(record, remote)
        with suppress(DamagedError):
            vips = {name: one for name, one in withdrawals_of(record).items() if not one.is_over(time_now)}
            status.withdrawn = {name: {**asdict(one), "until": one.until or None} for name, one in vips.items()}
            status.on_purpose += withdrawal_warnings(record, time_now)
        status.warnings += [*role_warnings(record, remote), *withdrawal_warnings(record, time_now)]

    def _add_extension(self, status: Status) -> None:
        spec = self._extended(status.reading)
        if spec is None:
            return
        from dnsteer.status.extension_view import view_extension

        view = status.extension = view_extension(self.switch, spec)
        view.dropped, view.rates = self._dropped, status.rates
        view.served = [key for key in status.rates.by_key if isinstance(key, counters.ExtendedServiceKey)]
        status.warnings += view.warnings


def _add_overlay(status: Status, assignment: movement.Assignment, overlay: Overlay, time_now: datetime) -> None:
    """Add what the overlay leaves: pools without backends or with one, backups that serve, and what is overdue."""
    status.warnings += movement.pools_without_backends(assignment)
    spec = status.loaded.spec if status.loaded else None
    last = assignment.with_one_backend(backups_of(spec) if spec else {})
    status.warnings += [backend.text for backend in last]
    status.on_purpose += [backend.text for backend in last if backend.planned]
    status.warnings += backups_in_use(overlay)
    status.warnings += overdue(overlay, time_now)
    status.warnings += overdue_denials(overlay, time_now)


def _add_capture(status: Status) -> None:
    """Add the capture that runs: it is on purpose until it should have ended."""
    record = status.reading.record
    capture = capture_of(record)
    if capture is None:
        return
    status.warnings.append(f"bridge {record.bridge}: {capture_warning(record)}")
    if not capture.overdue:
        status.on_purpose.append(status.warnings[-1])


def _tables_match(client: OpenFlow, reading: RecordReading) -> TablesMatch | None:
    if reading.overlay is None:
        return None
    found = client.marker()
    if found == reading.marker or (found is None and not reading.record.digest):
        return "recorded"
    return "pending" if reading.pending is not None and found == reading.pending.marker else "other"
