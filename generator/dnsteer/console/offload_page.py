# SPDX-License-Identifier: Apache-2.0
"""The page Offload: datapath flows with their verdicts, masks, and the load against what is predicted.

The flows are read now and then while somebody looks, in a thread of their own.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from dnsteer.console.page_data import PageData
from dnsteer.console.page_reading import Defect, connect_vswitchd, defect_of, next_pause, wait_for_reading
from dnsteer.console.prediction import Predict, Prediction
from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.metrics.datapath import read_figures
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.metrics.tasks import start_task
from dnsteer.offload.capabilities import Profile
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.offload.flow_reading import OffloadReader, OffloadReading
from dnsteer.offload.judge import Reason, without_value
from dnsteer.offload.observe import FlowJudge, ObservedFlow, RunningSwitch, read_running_switch, wrong_settings
from dnsteer.offload.offload_context import CT_IPV6
from dnsteer.offload.owners import owners_in_words
from dnsteer.offload.profile import JUDGED_AS, profile
from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.spec.errors import SpecError
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.datapaths import actual_name
from dnsteer.switch.tools import SwitchError
from dnsteer.view import wording
from dnsteer.view.snapshot import StateSnapshot

MIN_INTERVAL, MAX_INTERVAL = 10.0, 60.0
"""Seconds between two readings, and where there are many flows."""
MANY_FLOWS, MAX_DUMPED_FLOWS = 2_000, 20_000
"""Datapath flows from which they are read rarely, and from which they are not dumped: that holds the switch up."""


@dataclass(frozen=True)
class OffloadSnapshot:
    """A reading at a *time*. *error* is why it could not be made, *defect* an exception that nobody expected.

    *profile* is what the verdicts are of, *judged_as* the flavor that it is of, where the spec's has no hardware. *figures*
    are those of the datapath by the end of their names in the metrics, *settings* what prevents offload. *again* is the time
    until the next reading in seconds. *late*: flows that were missing in hardware in the reading before too.
    """

    time: datetime
    known: AppliedBridge
    profile: Profile | None = None
    judged_as: str = ""
    reading: OffloadReading | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    error: str = ""
    again: float = MIN_INTERVAL
    late: frozenset[tuple[str, str]] = frozenset()
    defect: Defect | None = None


@dataclass(frozen=True)
class OffloadPageData:
    """What the page is made of: the last reading, None for none yet, and the prediction, None while it is computed."""

    view: OffloadSnapshot | None
    prediction: Prediction | None


class OffloadPoller:
    """Reads the datapath flows while `latest` is called. *changed* is called on the event loop when there is a reading."""

    def __init__(
        self,
        switch: TargetSwitch,
        changed: Callable[[], None],
        predict: Predict | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._switch, self._changed, self._predict, self._clock = switch, changed, predict, clock
        self._thread = ThreadPoolExecutor(1, "console-offload")
        self._reader = OffloadReader()
        self._judge: tuple[AppliedBridge, tuple[str, ...], FlowJudge] | None = None
        self._loaded: tuple[AppliedBridge, Loaded, Plan] | None = None
        self._missing: frozenset[tuple[str, str]] = frozenset()
        self._view: OffloadSnapshot | None = None
        self._due = 0.0
        self._reading: asyncio.Future[OffloadSnapshot] | None = None
        self._predicted: tuple[AppliedBridge | None, Prediction | None] = (None, None)
        self._computing: asyncio.Task[None] | None = None

    async def latest(self, applied: StateSnapshot, *, wait: bool, predict: bool = True) -> OffloadPageData:
        """The last reading; a new one begins when it is due. With *wait*, wait a little where there is none yet.

        *predict*: have the capacity predicted too, which takes seconds for each applied state.
        """
        known = applied.known
        stale = self._view is None or self._view.known is not known
        if self._reading is None and (stale or self._clock() >= self._due):
            self._begin(known)
        if wait and stale and self._reading is not None:
            await wait_for_reading(self._reading)
        if predict and self._predicted[0] is not known:
            self._begin_prediction(known)
        return OffloadPageData(self._view, self._predicted[1])

    def _begin(self, known: AppliedBridge) -> None:
        loop = asyncio.get_running_loop()
        self._reading = reading = loop.run_in_executor(self._thread, self._read, known)
        began = self._clock()

        def done(_: object) -> None:
            self._reading = None
            if reading.cancelled():
                return
            self._view = reading.result()
            self._due = began + self._view.again
            self._changed()

        reading.add_done_callback(done)

    def _begin_prediction(self, known: AppliedBridge) -> None:
        self._predicted = known, None
        predict = self._predict
        if predict is None:
            self._predicted = known, Prediction(why_not="this console has no predictions")
            return
        if self._computing is not None:
            self._computing.cancel()
        self._computing = start_task("the prediction", self._compute(predict, known))

    async def _compute(self, predict: Predict, known: AppliedBridge) -> None:
        found = await predict(known.state)
        self._predicted = known, found
        self._changed()

    def _read(self, known: AppliedBridge) -> OffloadSnapshot:
        """Read the datapath flows, in the thread."""
        at, cpu = now(), time.thread_time()
        try:
            view = self._read_datapath(at, known)
        except (SwitchError, SpecError, OSError) as err:
            return OffloadSnapshot(at, known, error=str(err))
        except Exception as err:  # noqa: BLE001 what the switch prints may be what nobody foresaw
            return OffloadSnapshot(at, known, defect=defect_of(err))
        return replace(view, again=next_pause(time.thread_time() - cpu, view.again, MAX_INTERVAL))

    def _read_datapath(self, at: datetime, known: AppliedBridge) -> OffloadSnapshot:
        flavor = known.spec.switch.flavor.value
        judged_as = JUDGED_AS.get(flavor, "")
        found = profile(judged_as or flavor)
        running = read_running_switch(self._switch.remote, known.bridge, self._switch.timeout)
        kind = running.datapath.partition("@")[0]
        loaded, plan = self._load(known)
        settings = () if judged_as else tuple(wrong_settings(loaded, plan, found, running))
        with connect_vswitchd(self._switch) as commands:
            figures = read_figures(commands, kind).gauges
            flows = figures.get("megaflows", 0.0)
            view = OffloadSnapshot(at, known, found, judged_as, None, figures, settings)
            if flows > MAX_DUMPED_FLOWS:
                return replace(view, again=MAX_INTERVAL)
            datapath = actual_name(commands, running.datapath)
            reading = self._reader.read(commands, datapath, self._judge_of(known, found, running))
        missing = frozenset((each.flow.thread, each.flow.ufid) for each in reading.flows if each.missing)
        late, self._missing = missing & self._missing, missing
        again = MAX_INTERVAL if reading.total + reading.elsewhere > MANY_FLOWS else MIN_INTERVAL
        return replace(view, reading=reading, again=again, late=late)

    def _load(self, known: AppliedBridge) -> tuple[Loaded, Plan]:
        if self._loaded is None or self._loaded[0] is not known:
            loaded = load_state(known.state)
            self._loaded = known, loaded, build_plan(loaded)
        return self._loaded[1:]

    def _judge_of(self, known: AppliedBridge, by: Profile, running: RunningSwitch) -> FlowJudge:
        tracking = tuple(running.config.get(key, "") for key in ("hw-offload-ct-size", CT_IPV6))
        if self._judge is None or self._judge[0] is not known or self._judge[1] != tracking:
            self._judge = known, tracking, FlowJudge(*self._load(known), by, running)
        return self._judge[2]

    def close(self) -> None:
        """End the thread, once it is done with what it reads, and what is computed."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._computing is not None:
            self._computing.cancel()


KEY = "offload"
MAX_ROWS = 500
"""Datapath flows that are shown, the busiest."""
MAX_MASKS = 100
_USUAL = ("recirc_id=0", "packet_type=(0,0x0)")
"""What nearly every flow matches, and says nothing."""


@dataclass(frozen=True)
class FlowRow:
    """A datapath flow in the table. *place* is the number of its counter on the page."""

    place: int
    observed: ObservedFlow
    owner: str
    match: str
    actions: str
    reasons: tuple[tuple[str, str], ...]
    """Why it is not in hardware, each with its source."""
    missing: bool
    vips: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The profile's verdict."""
        return self.observed.predicted.verdict


@dataclass(frozen=True)
class Statement:
    """A statement of the profile that verdicts rest on: its text, source and certainty, and the number of flows."""

    text: str
    verdict: str
    source: str
    certainty: str
    flows: int


class OffloadParts:
    """Makes the parts of the page, once for each reading: hundreds of rows, while rates change more often."""

    def __init__(self, macros: Any) -> None:
        self._macros = macros
        self._made: tuple[object, dict[str, str], dict[str, Any]] = (None, {}, {})

    def content(self, data: PageData, read: object) -> tuple[str, dict[str, str], dict[str, Any]]:
        """The shape, parts and numbers of the page."""
        applied = data.applied
        if applied is None or not isinstance(read, OffloadPageData):
            return "nothing", {"totals": str(self._macros.nothing(data.snapshot))}, {}
        flavor = applied.known.spec.switch.flavor.value
        if self._made[0] != (flavor, read):
            self._made = (flavor, read), *_parts(self._macros, flavor, read)
        _, parts, values = self._made
        shape = f"{data.snapshot.bridge} {applied.known.state.number}{'' if 'flows' in parts else ' unread'}"
        return shape, dict(parts), {**values, **_load(data)}


def _parts(macros: Any, flavor: str, read: OffloadPageData) -> tuple[dict[str, str], dict[str, Any]]:
    view = read.view
    parts = {
        "read": str(macros.read(view, MANY_FLOWS)),
        "basis": str(macros.basis(flavor, view)),
        "load": str(macros.load(view, read.prediction)),
        "prediction": str(macros.prediction(read.prediction)),
    }
    reading = view.reading if view is not None else None
    if view is None or view.profile is None or reading is None:
        parts["totals"] = str(macros.unread(view, MAX_DUMPED_FLOWS))
        return parts, {}  # and no tables, which would be empty
    rows = list(_rows(view, view.profile, reading.flows[:MAX_ROWS]))
    masks = reading.masks[:MAX_MASKS]
    verdicts = Counter(each.predicted.verdict for each in reading.flows)
    parts["totals"] = str(macros.totals(view, reading, verdicts))
    parts["flows"] = str(macros.flows(view, reading, rows))
    parts["mask-total"] = str(macros.mask_total(len(reading.masks), read.prediction))
    parts["masks"] = str(macros.masks(masks, len(reading.masks)))
    parts["why"] = str(macros.statements(list(_statements(view.profile, reading.flows))))
    values = {f"f-{row.place}": f"{row.observed.flow.packets:,}" for row in rows}
    values.update({f"m-{n}": f"{mask.packets:,}" for n, mask in enumerate(masks)})
    return parts, values


def _load(data: PageData) -> dict[str, Any]:
    """Queries and packets a second of all VIPs."""
    values: dict[str, Any] = {}
    for letter, unit in (("q", "queries"), ("p", "packets")):
        found = [
            rate
            for key, rate in data.rates.items()
            if isinstance(key, tuple) and key[0] == "vip" and key[-1] == unit and rate is not None
        ]
        values[letter] = wording.rounded(sum(found)) if found else None
    return values


def _rows(view: OffloadSnapshot, profile: Profile, flows: Iterable[ObservedFlow]) -> Iterable[FlowRow]:
    for n, each in enumerate(flows):
        flow, judgement = each.flow, each.predicted
        reasons = tuple(dict.fromkeys((r.text or r.name, _cited(profile, r)) for r in judgement.reasons))
        yield FlowRow(
            n,
            each,
            owners_in_words(each.owners),
            ", ".join(_match(flow)),
            flow.text.partition("actions:")[2].partition(", dp-extra-info")[0],
            reasons,
            each.missing and (flow.thread, flow.ufid) in view.late,
            tuple(owner.vip for owner in each.owners),
        )


def _match(flow: DatapathFlow) -> Iterable[str]:
    for each in flow.match:
        text = f"eth_type=0x{each.value:04x}" if each.key == "eth_type" and isinstance(each.value, int) else str(each)
        if text not in _USUAL:
            yield text


def _cited(profile: Profile, reason: Reason) -> str:
    return f"{profile.cite(reason.source)}, {reason.certainty}" if reason.source else reason.certainty


def _statements(profile: Profile, flows: Sequence[ObservedFlow]) -> Iterable[Statement]:
    """The statements that the verdicts rest on, each once: what prevents offload first, then the most common."""
    found: Counter[Reason] = Counter()
    for each in flows:
        said = (*each.predicted.reasons, *each.predicted.remarks)
        found.update({without_value(reason) for reason in said})
    order = ("no", "partial", "unknown", "yes")
    ranked = sorted(found.items(), key=lambda item: (order.index(item[0].verdict), -item[1], item[0].name))
    for reason, count in ranked:
        source = profile.cite(reason.source)
        yield Statement(reason.text or reason.name, reason.verdict, source, reason.certainty, count)
