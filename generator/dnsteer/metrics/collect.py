# SPDX-License-Identifier: Apache-2.0
"""One reading of a switch for /metrics: its counters, and the record as the agent knows it.

The table of slots, by far the largest, is never read: slots are computed from the record. Flows that drop all have one
cookie, by which the switch finds them without a walk through its tables.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime

from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.samples import Sample

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.metrics.agent_metrics import AgentMetrics
from dnsteer.metrics.datapath import Datapath, DatapathReader
from dnsteer.metrics.families import metric_family
from dnsteer.metrics.family import BRIDGE, MAX_REASON, SWITCH
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.metrics.switch_readings import read_ports, read_switch_metrics
from dnsteer.metrics.totals import CounterReading, Totals
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.render.flows import Flow
from dnsteer.slots.denial import Denial
from dnsteer.slots.maintenance import STATE_WORDS, Overlay
from dnsteer.spec import derived
from dnsteer.spec.bonds import uplink_ports
from dnsteer.spec.errors import DefinitionError
from dnsteer.spec.health_checks import service_name
from dnsteer.spec.model.spec import Flavor
from dnsteer.status import counters, extension_view
from dnsteer.status.denying_flows import DENYING_FLOWS, parse_denying_flows
from dnsteer.status.icmp_errors import passes_errors, read_errors
from dnsteer.status.pools import BackendView, PoolView, view_pools
from dnsteer.status.rates import Rates
from dnsteer.switch.meters import read_meter_counts
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.role import is_standby, role_of
from dnsteer.switch.state import BridgeRecord, DamagedError
from dnsteer.switch.thread_counters import UnknownFormatError
from dnsteer.switch.tools import SwitchError
from dnsteer.switch.unixctl import Unixctl, control_socket
from dnsteer.tables.access import denial_numbers, lists_of_spec
from dnsteer.tables.cookies import OBJECT_BITS, Category, cookie
from dnsteer.tables.meter_rows import Limited, limits_by_meter
from dnsteer.tables.order import PIPELINE, TABLES
from dnsteer.tables.table import always
from dnsteer.tables.vip import PROTOCOLS

TIMEOUT = 5.0
"""Seconds that the switch may take to answer: less than Prometheus waits."""
_STATE, _OBJECT = PIPELINE.holding("state").number, (1 << OBJECT_BITS) - 1
_NUMBERS = {table.number: table.name for table in TABLES}
_PIPELINE = f"cookie=0x{cookie(Category.PIPELINE, 0):x}/-1"
_DROP = re.compile(r"duration=([0-9.]+)s, table=(\d+), n_packets=(\d+), n_bytes=(\d+), .*?(priority=\S+) actions=(.*)")
_FORWARDS = re.compile(r"goto_table|output|IN_PORT|group:|ct\(|resubmit|controller", re.I)
_TRAFFIC = {
    "service": ("dnsteer_service_packets_total", "dnsteer_service_bytes_total"),
    "backend": ("dnsteer_backend_packets_total", "dnsteer_backend_bytes_total"),
    "drop": ("dnsteer_dropped_packets_total", "dnsteer_dropped_bytes_total"),
    "denied": ("dnsteer_denied_packets_total", "dnsteer_denied_bytes_total"),
    "error": ("dnsteer_icmp_errors_total",),
}
Common = Mapping[str, str]
"""The labels that all metrics have."""
Label = tuple[str, ...]
"""What a total is of: a word of _TRAFFIC, then the values of the labels."""
Samples = dict[str, dict[Label, Sample]]
"""Series by name, then the values of their labels besides those that all have."""


class Collector:
    """Reads the switch, in whichever thread calls `collect`, one at a time."""

    def __init__(self, switch: TargetSwitch, agent: AgentMetrics) -> None:
        self._switch = TargetSwitch(switch.remote, switch.openflow, min(switch.timeout, TIMEOUT), switch.extension)
        self._agent = agent
        self._datapath = DatapathReader()
        self._flows: Totals[Label] = Totals()
        self._ports: Totals[tuple[str, str]] = Totals()
        self._lookups: Totals[str] = Totals()
        self._workers: Totals[Label] = Totals()
        self._limited: Totals[Limited] = Totals()
        self._meters: tuple[AppliedBridge | None, Mapping[int, Limited]] = (None, {})
        """What each meter limits, as long as the spec is what it is."""
        self._bucket_drops: dict[int, int] = {}
        """What each bucket of clients had dropped when it was read last."""
        self._dropping: dict[str, int] = {}
        """Buckets that have dropped since the reading before, by the first VIP of their limit."""
        self._extension_drops: Totals[tuple[str, str]] = Totals()
        self._extension_up = False
        self._behind: counters.Sample = {}
        """What the extension counted when it was asked last."""
        self._seen = Datapath()
        self.not_understood = ""
        """What the switch told last in a form that is not known, so that its figures are left out."""
        self.certificate_end: Callable[[], datetime | None] = lambda: None
        """When the certificate of the server of /metrics and the console ends; None without TLS."""
        self.console_url = ""
        """Where browsers find the console; empty where none is served."""
        self._of_switch: list[Metric] = []
        """The metrics that OVS-DOCA has of itself."""
        self._labels: tuple[AppliedBridge | None, tuple[Denial, ...], dict[Hashable, Label]] = (None, (), {})
        self._traffic: Mapping[str, Sequence[Label]] = {}
        """The labels of each word of _TRAFFIC."""
        self._pools: tuple[AppliedBridge | None, Overlay | None, Common, Mapping[str, Metric]] = (None, None, {}, {})
        """The metrics of pools and backends, as long as these are what they are: most of the page of a large spec."""
        self._process = ProcessCollector(registry=None)
        self._samples: tuple[Common, Samples] = ({}, {})

    def collect(self) -> list[Metric]:
        """All metrics now. What cannot be read is as it was; `dnsteer_switch_up` says so."""
        began = time.monotonic()
        common, known, record = self._agent.common, self._agent.known, self._agent.record
        made = _Made(common, self._samples[1] if self._samples[0] is common else {})
        up, recorded = False, False
        if bridge := common[BRIDGE]:
            try:
                client = self._switch.client(bridge)
                state = client.state_flow()
                recorded = _as_recorded(state, record)
                if known is not None and record is not None:
                    own_numbers = state is None or state.table == _STATE
                    self._read_flows(client, known, record.extended, _denials_of(record), own_numbers=own_numbers)
                up = True
            except (SwitchError, OSError):
                pass
        if known is not None and record is not None:
            self._read_datapath(known)
            self._add_traffic(made)
            self._add_state(made, known, record)
            if record.extended:
                made.add("dnsteer_extension_up", (), self._extension_up)
            if up:
                made.add("dnsteer_tables_as_recorded", (), recorded)
        if ends := self.certificate_end():
            made.add("dnsteer_certificate_end_timestamp_seconds", (), ends.timestamp())
        if self.console_url:
            made.add("dnsteer_console_info", (self.console_url,), 1)
        made.add("dnsteer_switch_up", (), up)
        made.add("dnsteer_reading_duration_seconds", (), time.monotonic() - began)
        self._samples = common, made.samples
        own = [_with_labels(metric, common) for metric in self._agent.registry.collect()]
        # Neither the agent's process nor the whole of ovs-vswitchd is of one bridge.
        others = [*self._process.collect(), *(self._of_switch if known is not None else [])]
        of_switch = {SWITCH: common[SWITCH]}
        return [*made.metrics.values(), *own, *(_with_labels(metric, of_switch) for metric in others)]

    def _read_flows(
        self,
        client: OpenFlow,
        known: AppliedBridge,
        extended: bool,
        denials: tuple[Denial, ...],
        *,
        own_numbers: bool,
    ) -> None:
        """Read the counters; unless the tables have their *own numbers*, it is not known which table drops what."""
        if self._labels[0] is not known or self._labels[1] != denials:
            self._labels = known, denials, _labels_of(known, denials)
            every = dict.fromkeys(self._labels[2].values())  # several flows count for one
            self._traffic = {word: [label for label in every if label[0] == word] for word in _TRAFFIC}
            self._flows.keep(every)
        places = self._labels[2]
        sample = counters.take_counters(client, idle=False)  # a counter that is not there begins at 0
        if extended:
            self._read_extension(known)
        dropped = client.ofctl("dump-flows", _PIPELINE, "--stats") if own_numbers else ""
        denied = client.ofctl("dump-flows", DENYING_FLOWS, "--stats") if self._traffic["denied"] else ""
        errors = list(read_errors(client)) if self._traffic["error"] else []
        ports = client.ofctl("dump-ports", names=True)
        self._read_meters(client, known)

        def readings() -> Iterator[tuple[Hashable, CounterReading]]:
            for place, count in sample.items():
                yield place, CounterReading((count.packets, count.bytes), count.age)
            for place, count in self._behind.items() if extended else ():
                yield place, CounterReading((count.packets, count.bytes))
            yield from read_drops(dropped)
            yield from read_denials(denied)
            for error in errors:
                yield (("error", error.receivers), error.match), CounterReading((error.packets,), error.age)

        self._flows.add(readings(), lambda place: places.get(place[0] if isinstance(place, tuple) else place))
        own = known.spec.switch
        names = {*uplink_ports(own), *own.ports}
        found = [
            ((name, counter), CounterReading((value,))) for name, counter, value in read_ports(ports) if name in names
        ]
        self._ports.keep([place for place, _ in found])
        self._ports.add(found, lambda place: place)  # type: ignore[arg-type, return-value]

    def _read_meters(self, client: OpenFlow, known: AppliedBridge) -> None:
        if self._meters[0] is not known:
            self._meters, self._bucket_drops = (known, limits_by_meter(known.spec)), {}
            self._limited.keep(dict.fromkeys(self._meters[1].values()))
        limits = self._meters[1]
        found = read_meter_counts(client) if limits else {}
        self._limited.add(
            ((number, CounterReading((count.dropped,))) for number, count in found.items()),
            lambda number: limits.get(number) if isinstance(number, int) else None,
        )
        dropped = {n: found[n].dropped for n, of in limits.items() if of.kind == "clients" and n in found}
        dropping = Counter(limits[n].vip for n, count in dropped.items() if count > self._bucket_drops.get(n, count))
        self._dropping = {of.vip: dropping[of.vip] for of in self._limited.sums if of.kind == "clients"}
        self._bucket_drops = dropped

    def _read_extension(self, known: AppliedBridge) -> None:
        """Read what only the extension counts: its backends and drops. While it is away they stay as they were."""
        behind, drops = extension_view.take_extension_counters(self._switch, known.spec, known.state.members)
        self._extension_up = bool(drops)
        if not drops:
            return
        self._behind = behind
        sides = {side: found for side, found in drops.items() if isinstance(found, dict)}
        self._extension_drops.add(
            (((side, reason), CounterReading((n,))) for side, found in sides.items() for reason, n in found.items()),
            lambda place: place,  # type: ignore[arg-type, return-value]
        )

    def _read_datapath(self, known: AppliedBridge) -> None:
        """Read what there is; without a control socket here, nothing."""
        kind = wanted_bridge(known.spec).datapath_type or "system"
        self._of_switch = []
        not_understood = ""
        try:
            with Unixctl(control_socket(self._switch.remote), self._switch.timeout) as switch:
                self._seen = self._datapath.read(switch, kind)
                if known.spec.switch.flavor is Flavor.OVS_DOCA:
                    try:
                        self._of_switch = read_switch_metrics(switch)
                    except UnknownFormatError as err:
                        not_understood = str(err)
                    except (SwitchError, OSError):  # what was read before it counts all the same
                        pass
        except (SwitchError, OSError):
            self._seen, self.not_understood = Datapath(), ""
            return
        self.not_understood = "; ".join(filter(None, [self._seen.not_understood, not_understood]))
        self._lookups.keep(self._seen.counters)
        self._lookups.add(((name, CounterReading((n,))) for name, n in self._seen.counters.items()), str)
        self._workers.keep(self._seen.workers)
        self._workers.add(
            ((place, CounterReading((n,))) for place, n in self._seen.workers.items()),
            lambda place: place,  # type: ignore[arg-type, return-value]
        )

    def _add_traffic(self, made: _Made) -> None:
        counted = self._flows.sums
        for word, places in self._traffic.items():
            found = [(label[1:], counted[label] or (0, 0)) for label in places]
            for i, name in enumerate(_TRAFFIC[word]):
                made.add_all(name, [(label, values[i]) for label, values in found])
        for (port, counter), sums in self._ports.sums.items():
            made.add(f"dnsteer_port_{counter}_total", (port,), sums[0] if sums else 0)
        for limited, sums in self._limited.sums.items():
            made.add("dnsteer_limited_packets_total", limited, sums[0] if sums else 0)
        for vip, buckets in self._dropping.items():
            made.add("dnsteer_limited_client_buckets", (vip,), buckets)
        for place, (value, *_) in self._extension_drops.sums.items():
            made.add("dnsteer_extension_dropped_packets_total", place, value)
        for name, (value, *_) in self._lookups.sums.items():
            made.add(f"dnsteer_datapath_{name}_total", (), value)
        for (what, *labels), (value, *_) in self._workers.sums.items():
            made.add(f"dnsteer_datapath_worker_{what}_total", tuple(labels), value)
        for name, gauge in self._seen.gauges.items():
            made.add(f"dnsteer_datapath_{name}", (), gauge)
        for mask, packets in self._seen.mask_packets.items():
            made.add("dnsteer_datapath_mask_packets", (mask,), packets)

    def _add_state(self, made: _Made, known: AppliedBridge, record: BridgeRecord) -> None:
        try:
            overlay = record.overlay
        except DamagedError:
            return
        made.metrics.update(self._pool_metrics(known, overlay, made.common))
        used = {entry.pool for entry in overlay if entry.kind == "backup"}
        for name in known.spec.pools:
            made.add("dnsteer_pool_backup_in_use", (name,), name in used)
        for one in lists_of_spec(known.spec, overlay.denials):
            for key in ("deny", "allow"):
                made.add("dnsteer_access_list_entries", (one.title, key), len(getattr(one.access, key) or ()))
        for kind in STATE_WORDS:
            made.add("dnsteer_maintenance_entries", (kind,), sum(entry.kind == kind for entry in overlay))
        applied = _seconds(known.state.time)
        made.add("dnsteer_denials", (), len(overlay.denials))
        began = [_seconds(entry.returns or entry.since) for entry in overlay]
        began += [_seconds(denial.since) for denial in overlay.denials]
        made.add("dnsteer_state_number", (), known.state.number)
        made.add("dnsteer_state_applied_timestamp_seconds", (), applied)
        made.add("dnsteer_last_change_timestamp_seconds", (), max([applied, *began]))
        made.add("dnsteer_change_pending", (), _pending(record))
        made.add("dnsteer_flow_restore_wait", (), record.waits)
        made.add_all(
            "dnsteer_maintenance_end_timestamp_seconds",
            (((a.pool, a.backend, a.kind), _seconds(a.until)) for a in overlay if a.until),
        )
        with suppress(DamagedError):
            pair = derived.pair_name(known.spec)
            if role_of(record) is not None and pair:
                made.add("dnsteer_pair_active", (pair,), not is_standby(record, self._switch.remote))

    def _pool_metrics(self, known: AppliedBridge, overlay: Overlay, common: Common) -> Mapping[str, Metric]:
        if self._pools[0] is not known or self._pools[1] != overlay or self._pools[2] is not common:
            made = _Made(common, {})
            for pool in view_pools(known.state.members, overlay, Rates(), now()):
                _add_pool(made, pool)
            self._pools = known, overlay, common, made.metrics
        return self._pools[3]


class _Made:
    """Metrics as they are made, each with the labels *common*. What was in *last* is used again: samples, or their labels.

    That is how `exposition` knows a series again.
    """

    def __init__(self, common: Common, last: Samples) -> None:
        self.common, self._last = common, last
        self.samples: Samples = {}
        self.metrics: dict[str, Metric] = {}

    def add(self, name: str, labels: Label, value: float) -> None:
        """Add a series of a family."""
        self.add_all(name, ((labels, value),))

    def add_all(self, name: str, found: Iterable[tuple[Label, float]]) -> None:
        """Add series of a family: there are tens of thousands of some."""
        last, samples = self._last.get(name, {}), self.samples.setdefault(name, {})
        metric = self.metrics.get(name)
        if metric is None:
            metric = self.metrics[name] = _metric(name)
        for labels, value in found:
            sample = last.get(labels)
            if sample is None:
                sample = Sample(name, {**self.common, **_named(name, labels)}, float(value))
            elif sample.value != value:
                sample = sample._replace(value=float(value))
            samples[labels] = sample
            metric.samples.append(sample)


def _named(name: str, values: Label) -> dict[str, str]:
    names = metric_family(name).labels
    if len(names) != len(values):
        raise DefinitionError(f"metric {name} has the labels {', '.join(names) or 'none'}; found the values {values!r}")
    return dict(zip(names, values, strict=True))


def _metric(name: str) -> Metric:
    of = metric_family(name)
    return (CounterMetricFamily if of.type == "counter" else GaugeMetricFamily)(of.base, of.help)


def read_drops(text: str) -> Iterator[tuple[Hashable, CounterReading]]:
    """The counters of all flows that drop, in what ovs-ofctl printed of those with the pipeline's cookie."""
    for line in text.splitlines():
        m = _DROP.search(line)
        if m is not None and int(m[2]) in _NUMBERS and not _FORWARDS.search(m[6]):
            place = (_NUMBERS[int(m[2])],)
            yield (*place, m[5]), CounterReading((int(m[3]), int(m[4])), float(m[1]))


def read_denials(text: str) -> Iterator[tuple[Hashable, CounterReading]]:
    """The counters of flows of access lists that have denied packets, in what ovs-ofctl printed of those that deny."""
    for one in parse_denying_flows(text):
        place: Hashable = ("list", one.list) if one.list else ("denial", one.entry)
        yield (place, *one.flow), CounterReading((one.packets, one.bytes), one.age)


def _denials_of(record: BridgeRecord) -> tuple[Denial, ...]:
    try:
        return record.overlay.denials
    except DamagedError:
        return ()


def _labels_of(known: AppliedBridge, denials: Sequence[Denial]) -> dict[Hashable, Label]:
    """What each flow counts for, by what it matches; for drops the name of the table."""
    tables = (table for table in TABLES if table.is_wanted is always)  # of the others each flow that drops is of a list
    found: dict[Hashable, Label] = {table.name: ("drop", table.name, table.drops) for table in tables}
    for one in lists_of_spec(known.spec, denials):
        found["list", one.number] = ("denied", one.title, "")
    if passes_errors(known.spec):
        found |= {("error", receivers): ("error", receivers) for receivers in ("one", "each")}
    for name, number in denial_numbers(denials).items():
        found["denial", number] = ("denied", "by hand", name)
    for name, vip in known.spec.vips.items():
        for end in derived.endpoints(vip):
            label = ("service", name, service_name(end.protocol.value, end.port), vip.pool)
            for address in vip.addresses:
                found[counters.CountedService(end.protocol.value, address, end.port)] = label
    for pool in known.state.members:
        for member in pool.members:
            for protocol in PROTOCOLS:
                key = counters.BackendKey(pool.number, member.number, protocol)
                found[key] = ("backend", pool.pool, member.name, protocol)
    return found


def _add_pool(made: _Made, pool: PoolView) -> None:
    serving = 0
    for backend in pool.backends:
        labels = (pool.name, pool.title, backend.name)
        serves = backend.state == "up" and bool(backend.slots)
        serving += serves and backend.weight > 0
        made.add("dnsteer_backend_in_service", labels, serves)
        made.add("dnsteer_backend_slots", labels, backend.slots or 0)
        made.add("dnsteer_backend_own_slots", labels, backend.own)
        made.add("dnsteer_backend_weight", labels, backend.weight)
        out = _out(backend)
        if out is not None:
            made.add("dnsteer_backend_out_info", (*labels, *out), 1)
    weighted = sum(backend.weight > 0 for backend in pool.backends)
    made.add("dnsteer_pool_slots", (pool.name, pool.title), pool.slots)
    made.add("dnsteer_pool_backends", (pool.name, pool.title), weighted)
    made.add("dnsteer_pool_backends_in_service", (pool.name, pool.title), serving)


def _out(backend: BackendView) -> tuple[str, str] | None:
    """State and reason of a backend that is not as the spec has it."""
    if backend.state != "up":
        note = backend.entry.note if backend.entry else "down in the spec" if backend.in_spec else ""
        return backend.state, note[:MAX_REASON]
    if backend.given is not None:
        note = f"weight {backend.given.weight}" + (f": {backend.given.note}" if backend.given.note else "")
        return backend.given.kind, note[:MAX_REASON]
    return None


def _as_recorded(state: Flow | None, record: BridgeRecord | None) -> bool:
    """Whether the tables carry the record's number, or that of the change that is under way."""
    if record is None or state is None:
        return False
    found = state.cookie & _OBJECT
    with suppress(DamagedError):
        return found == record.marker or (record.pending is not None and found == record.pending.marker)
    return False


def _pending(record: BridgeRecord) -> bool:
    try:
        return record.pending is not None
    except DamagedError:
        return True


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _with_labels(metric: Metric, common: Common) -> Metric:
    """The metric with these labels, without the times at which its series began.

    What has such a label of its own keeps it as `exported_NAME`, as Prometheus does it.
    """
    labelled = copy(metric)
    labelled.samples = [
        sample._replace(labels={**common, **{_exported(name, common): value for name, value in sample.labels.items()}})
        for sample in metric.samples
        if not sample.name.endswith("_created")
    ]
    return labelled


def _exported(name: str, common: Common) -> str:
    return f"exported_{name}" if name in common else name
