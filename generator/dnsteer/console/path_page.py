# SPDX-License-Identifier: Apache-2.0
"""The page Path: the path of one query through the tables, with the counters of its flows.

Its form is checked against the applied spec. Each path that is looked at is traced at most every few seconds, in a thread of
its own, so that a switch that answers late holds up no page but that path's.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, urlencode

from dnsteer.console.page_data import PageData
from dnsteer.console.page_reading import Defect, connect_vswitchd, defect_of, next_pause, wait_for_reading
from dnsteer.console.rates import Series
from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.spec.derived import endpoints
from dnsteer.spec.model.spec import Protocol, Spec
from dnsteer.spec.model.types import Address
from dnsteer.status.flow_counts import Bucket, FlowKey, flow_packets, read_buckets
from dnsteer.status.path import PathQuery, PathTracer, PathView, TracedPath
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.cookies import GROUP_BASE
from dnsteer.view import wording
from dnsteer.view.snapshot import StateSnapshot

KEY = "path"
FIELDS = ("client", "port", "vip", "service", "uplink")
MAX_LISTED = 500
"""VIP addresses that are listed to choose from; where there are more, one is typed."""
_LONGEST = 100
"""Characters of a value; no address or name that the form asks for has as many."""


class BadQueryError(Exception):
    """A form that cannot be followed: *field* is the one to change, the message says what was found and what is expected."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True)
class PathForm:
    """The form with what was entered. *vips* are addresses with the names of their VIPs."""

    values: Mapping[str, str]
    vips: tuple[tuple[str, str], ...]
    services: tuple[str, ...]
    uplinks: tuple[str, ...]
    error: BadQueryError | None = None


def key_of(given: Mapping[str, str]) -> str:
    """The page's key: the fields that were entered, in one order, so that equal questions are one page."""
    found = {name: given[name].strip()[: _LONGEST + 1] for name in FIELDS if given.get(name, "").strip()}
    return f"{KEY}?{urlencode(found)}" if found else KEY


def is_key(key: str) -> bool:
    """Whether it is a key that `key_of` gives."""
    return key == KEY or (key.startswith(f"{KEY}?") and key == key_of(values_of(key)))


def values_of(key: str) -> dict[str, str]:
    """The fields of a key."""
    try:
        found = dict(parse_qsl(key.partition("?")[2], max_num_fields=len(FIELDS)))
    except ValueError:  # so many that it is none of ours
        found = {}
    return {name: found[name] for name in FIELDS if name in found}


def form_of(key: str, spec: Spec | None, error: BadQueryError | None = None) -> PathForm:
    """The form for a key; its lists are empty without a spec."""
    if spec is None:
        return PathForm(values_of(key), (), (), ())
    vips: dict[str, list[str]] = {}  # several may share an address
    for name, vip in spec.vips.items():
        for address in vip.addresses:
            vips.setdefault(str(address), []).append(name)
    services = dict.fromkeys(f"{e.port}/{e.protocol.value}" for vip in spec.vips.values() for e in endpoints(vip))
    values = values_of(key)
    named = spec.vips.get(values.get("vip", ""))
    if named is not None:  # of which one address is chosen in the list
        version = 6 if ":" in values.get("client", "") else 4
        same = [address for address in named.addresses if address.version == version]
        values["vip"] = str((same or named.addresses)[0])
    listed = tuple((address, ", ".join(names)) for address, names in vips.items())
    return PathForm(values, listed, tuple(services), tuple(spec.switch.uplinks), error)


def query_of(key: str, spec: Spec) -> PathQuery:
    """The query that a key asks for. Raises BadQueryError."""
    values = values_of(key)
    for name, value in values.items():
        if len(value) > _LONGEST:
            raise BadQueryError(name, f"{name}: found more than {_LONGEST} characters")
    client = _address(values.get("client", ""))
    sport = _port("port", "Source port", values.get("port", ""), "40000")
    vip = _vip(values.get("vip", ""), client, spec)
    port, protocol = _service(values.get("service", ""), spec, vip)
    uplinks = list(spec.switch.uplinks)
    uplink = values.get("uplink", uplinks[0])
    if uplink not in uplinks:
        raise BadQueryError("uplink", f"Uplink: found {uplink!r}; expected one of {', '.join(uplinks)}")
    return PathQuery(client, sport, vip, port, protocol, uplink)


def _address(text: str) -> Address:
    try:
        found = ip_address(text)
    except ValueError:
        found = None
    if found is None or getattr(found, "scope_id", None):
        expected = "an IPv4 or IPv6 address such as 198.51.100.7 or 2001:db8::7"
        raise BadQueryError("client", f"Client address: found {_shown(text)}; expected {expected}")
    return found


def _port(field: str, title: str, text: str, example: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise BadQueryError(
            field, f"{title}: found {_shown(text)}; expected a number from 1 to 65535, such as {example}"
        )
    return int(text)


def _vip(text: str, client: Address, spec: Spec) -> Address:
    """The VIP's address, or the first one of the client's family of a VIP that is named."""
    named = spec.vips.get(text)
    found = list(named.addresses) if named is not None else _listed(text, spec)
    if not found:
        raise BadQueryError(
            "vip", f"VIP: found {_shown(text)}; expected a VIP of the applied spec, by its address or name"
        )
    same = [address for address in found if address.version == client.version]
    if not same:
        is_, has = (f"IPv{version}" for version in (client.version, found[0].version))
        of = f"VIP {text} has no {is_} address" if named is not None else f"{text} is an {has} address"
        raise BadQueryError("client", f"The client has an {is_} address, and {of}; both must be of one family")
    return same[0]


def _listed(text: str, spec: Spec) -> list[Address]:
    """The VIP address of a text; none if it is not one."""
    try:
        wanted = ip_address(text)
    except ValueError:
        return []
    return [address for vip in spec.vips.values() for address in vip.addresses if address == wanted][:1]


def _service(text: str, spec: Spec, vip: Address) -> tuple[int, Protocol]:
    """Port and protocol: `53/udp`; without any the first service of the VIP."""
    if not text:
        first = next(e for each in spec.vips.values() if vip in each.addresses for e in endpoints(each))
        return first.port, first.protocol
    port, _, protocol = text.partition("/")
    if protocol not in [each.value for each in Protocol]:
        raise BadQueryError("service", f"Service: found {_shown(text)}; expected a port and protocol such as 53/udp")
    return _port("service", "Service", port, "53"), Protocol(protocol)


def _shown(text: str) -> str:
    return repr(text) if text else "nothing"


MIN_INTERVAL, MAX_INTERVAL = 2.0, 10.0
"""Seconds between two traces of one path, at least, and where one takes long."""
MAX_FOLLOWED = 4
"""Paths that are traced again while somebody looks; further ones are traced once."""
_KEPT = 64
"""Paths that are kept, those that were asked for last."""


@dataclass(frozen=True)
class BucketShare:
    """A backend's part of a group: its buckets, and the packets that these had."""

    backend: str
    buckets: int
    packets: int


@dataclass
class PathReading:
    """A path as it was traced at a *time*; *error* is why it could not be, *bad* what is wrong with what was asked for.

    *defect* is an exception that nobody expected.
    *packets* are those of the flows so far, *rates* packets a second; both by the flow. *followed*: it is traced again.
    """

    time: datetime
    view: PathView | None = None
    error: str = ""
    bad: BadQueryError | None = None
    defect: Defect | None = None
    packets: Mapping[FlowKey, int] = field(default_factory=dict)
    rates: Mapping[object, float | None] = field(default_factory=dict)
    shares: Sequence[BucketShare] = ()
    followed: bool = True


@dataclass
class _Path:
    reading: PathReading | None = None
    known: AppliedBridge | None = None
    due: float = 0.0
    series: Series = field(default_factory=lambda: Series(60))


class PathReader:
    """Traces paths in a switch. Used by one thread at a time. *clock* counts seconds."""

    def __init__(self, switch: TargetSwitch, clock: Callable[[], float] = time.monotonic) -> None:
        self._switch, self._clock = switch, clock
        self._paths: OrderedDict[str, _Path] = OrderedDict()
        self._tracer: tuple[StateSnapshot, PathTracer, Plan] | None = None

    def read(self, key: str, applied: StateSnapshot, followed: Collection[str]) -> PathReading:
        """The path of a page; *followed* are the pages of this kind that somebody looks at, oldest first."""
        path = self._paths.setdefault(key, _Path())
        self._paths.move_to_end(key)
        while len(self._paths) > _KEPT:
            self._paths.popitem(last=False)
        again = key not in followed or key in list(followed)[:MAX_FOLLOWED]
        due = again and self._clock() >= path.due
        if path.reading is None or due or path.known is not applied.known:
            path.known, began = applied.known, self._clock()
            path.reading = self._read(key, applied, path.series)
            cost = (self._clock() - began) * min(MAX_FOLLOWED, max(1, len(followed)))
            path.due = began + next_pause(cost, MIN_INTERVAL, MAX_INTERVAL)
        path.reading.followed = again
        return path.reading

    def _read(self, key: str, applied: StateSnapshot, series: Series) -> PathReading:
        reading = PathReading(now())
        try:
            query = query_of(key, applied.known.spec)
        except BadQueryError as err:
            reading.bad = err
            return reading
        try:
            tracer, plan = self._tracer_of(applied)
            with connect_vswitchd(self._switch) as commands:
                view = reading.view = tracer.trace(commands, query)
            client = self._switch.client(applied.known.bridge)
            steps = [*view.way.steps, *(view.answer.steps if view.answer is not None else ())]
            found = flow_packets(client, ((step.cookie, step.key.table) for step in steps))
            reading.packets = {step.key: found[step.key] for step in steps if step.key in found}
            series.add(self._clock(), {key: float(n) for key, n in reading.packets.items()})
            reading.rates = series.rates()
            if view.group:
                reading.shares = _shares(read_buckets(client, view.group), plan, view.group)
        except (SwitchError, OSError) as err:
            reading.error = str(err)
        except Exception as err:  # noqa: BLE001 what the switch prints may be what nobody foresaw
            reading.defect = defect_of(err)
        return reading

    def _tracer_of(self, applied: StateSnapshot) -> tuple[PathTracer, Plan]:
        """The tracer of what is applied now; remembered, since the plan of a large spec takes a second."""
        if self._tracer is None or self._tracer[0] is not applied:
            loaded = load_state(applied.known.state)
            plan = build_plan(loaded, applied.overlay)
            self._tracer = applied, PathTracer(loaded, plan, applied.overlay), plan
        return self._tracer[1], self._tracer[2]


def _shares(buckets: Sequence[Bucket], plan: Plan, group: int) -> list[BucketShare]:
    """The buckets by backend, in the order of the pool."""
    members = next((m.members for m in plan.members if m.number == group - GROUP_BASE), ())
    names = {member.number: member.name for member in members}
    held: dict[int, list[Bucket]] = {member.number: [] for member in members}
    for bucket in buckets:
        held.setdefault(bucket.backend, []).append(bucket)
    return [
        BucketShare(names.get(n, f"number {n}"), len(found), sum(b.packets for b in found)) for n, found in held.items()
    ]


_MAX_UNDER_WAY = 64


class PathPoller:
    """Traces paths while `latest` is called. *changed* is called on the event loop when there is a new reading."""

    def __init__(self, reader: PathReader, changed: Callable[[], None]) -> None:
        self._reader, self._changed = reader, changed
        self._thread = ThreadPoolExecutor(1, "console-path")
        self._last: OrderedDict[str, PathReading] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[PathReading]] = {}

    async def latest(
        self, key: str, applied: StateSnapshot, followed: Collection[str], *, wait: bool
    ) -> PathReading | None:
        """The last reading of a path, None for none yet; a newer one begins when it is due.

        *wait*: somebody asks for this page, so wait a little for what is under way.
        """
        try:
            query_of(key, applied.known.spec)
        except BadQueryError as err:
            return PathReading(now(), bad=err)  # without the switch
        if key not in self._under_way and len(self._under_way) < _MAX_UNDER_WAY:
            self._begin(key, applied, followed)
        if wait and key in self._under_way:
            await wait_for_reading(self._under_way[key])
        return self._last.get(key)

    def _begin(self, key: str, applied: StateSnapshot, followed: Collection[str]) -> None:
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._thread, self._reader.read, key, applied, list(followed))
        self._under_way[key] = reading

        def done(_: object) -> None:
            del self._under_way[key]
            if reading.cancelled():
                return
            found = reading.result()
            if self._last.get(key) is not found:  # it was due
                self._last[key] = found
                self._changed()
            self._last.move_to_end(key)
            while len(self._last) > _KEPT:
                self._last.popitem(last=False)

        reading.add_done_callback(done)

    def close(self) -> None:
        """End the thread, once it is done with what it reads."""
        self._thread.shutdown(wait=False, cancel_futures=True)


REFUSED = "refused"
"""How the shape of a page begins that could not be made of what was asked for."""


def path_parts(macros: Any, key: str, data: PageData, read: object) -> tuple[str, dict[str, str], dict[str, Any]]:
    """The shape, parts and numbers of a path's page."""
    applied = data.applied
    if applied is None:
        return "nothing", {"way": str(macros.nothing(data.snapshot))}, {}
    shape = f"{data.snapshot.bridge} {applied.known.state.number}"
    if key == KEY:
        return shape, {"way": str(macros.hint())}, {}
    if not isinstance(read, PathReading):
        return shape, {"read": "", "summary": str(macros.awaited()), "way": "", "answer": ""}, {}
    if read.bad is not None:
        return f"{REFUSED} {shape}", {"way": ""}, {}
    values: dict[str, Any] = {}
    parts = {"read": str(macros.read(read, MAX_FOLLOWED)), "summary": str(macros.summary(read, applied.known.state))}
    if read.view is None:
        return shape, {**parts, "way": "", "answer": ""}, values
    parts["way"] = str(macros.way(read.view.way, "q", read, applied.known.state))
    parts["answer"] = str(macros.answer(read.view, read, applied.known.state))
    whole = sum(share.packets for share in read.shares)
    for n, share in enumerate(read.shares):
        values[f"b-{n}"] = f"{share.packets:,}"
        values[f"s-{n}"] = wording.percent(share.packets, whole)
    _count(values, "q", read.view.way, read)
    if read.view.answer is not None:
        _count(values, "a", read.view.answer, read)
    return shape, parts, values


def _count(values: dict[str, Any], letter: str, way: TracedPath, read: PathReading) -> None:
    for n, step in enumerate(way.steps):
        packets = read.packets.get(step.key)
        values[f"n-{letter}-{n}"] = f"{packets:,}" if packets is not None else None
        values[f"r-{letter}-{n}"] = wording.rounded(read.rates.get(step.key))


def path_values(data: PageData, key: str) -> dict[str, Any]:
    """What the page has beside its parts: the form."""
    spec = data.applied.known.spec if data.applied is not None else None
    return {"form": _form(key, spec), "asked": key != KEY}


def _form(key: str, spec: Any) -> PathForm:
    if spec is not None and key != KEY:
        try:
            query_of(key, spec)
        except BadQueryError as err:
            return form_of(key, spec, err)
    return form_of(key, spec)
