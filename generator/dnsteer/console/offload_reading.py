"""The datapath flows that the page Offload shows: read now and then while somebody looks at it, in a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime

from dnsteer.console.defects import Defect, defect_of
from dnsteer.console.pace import briefly, next_pause
from dnsteer.console.prediction import Predict, Prediction
from dnsteer.console.vswitchd import vswitchd
from dnsteer.deploy.recorded import load_state
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.metrics.datapath import read_figures
from dnsteer.metrics.observer import Known
from dnsteer.metrics.tasks import start_task
from dnsteer.offload.capabilities import Profile
from dnsteer.offload.observe import FlowJudge, wrong_settings
from dnsteer.offload.profile import JUDGED_AS, profile
from dnsteer.offload.reading import OffloadReader, OffloadReading
from dnsteer.offload.running_switch import RunningSwitch, read_running_switch
from dnsteer.plan.build import build_plan
from dnsteer.spec.errors import SpecError
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.datapaths import actual_name
from dnsteer.switch.tools import SwitchError
from dnsteer.view.snapshot import Side

AGAIN, RARELY = 10.0, 60.0
"""Seconds between two readings, and where there are many flows."""
MANY, TOO_MANY = 2_000, 20_000
"""Datapath flows from which they are read rarely, and from which they are not dumped: that holds the switch up."""


@dataclass(frozen=True)
class OffloadView:
    """A reading at a *time*. *error* is why it could not be made, *defect* an exception that nobody expected.

    *profile* is what the verdicts are of, *judged_as* the flavor that it is of, where the spec's has no hardware. *figures*
    are those of the datapath by the end of their names in the metrics, *settings* what prevents offload. *again* is the time
    until the next reading in seconds. *late*: flows that were missing in hardware in the reading before too.
    """

    time: datetime
    known: Known
    profile: Profile | None = None
    judged_as: str = ""
    reading: OffloadReading | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    error: str = ""
    again: float = AGAIN
    late: frozenset[tuple[str, str]] = frozenset()
    defect: Defect | None = None


@dataclass(frozen=True)
class OffloadLook:
    """What the page is made of: the last reading, None for none yet, and the prediction, None while it is computed."""

    view: OffloadView | None
    prediction: Prediction | None


class OffloadWatch:
    """Reads while `look` is called. *changed* is called on the event loop when there is something new."""

    def __init__(
        self, switch: TargetSwitch, changed: Callable[[], None], predict: Predict | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._switch, self._changed, self._predict, self._clock = switch, changed, predict, clock
        self._thread = ThreadPoolExecutor(1, "console-offload")
        self._reader = OffloadReader()
        self._judge: tuple[Known, str, FlowJudge] | None = None
        self._loaded: tuple[Known, Loaded] | None = None
        self._missing: frozenset[tuple[str, str]] = frozenset()
        self._view: OffloadView | None = None
        self._due = 0.0
        self._reading: asyncio.Future[OffloadView] | None = None
        self._predicted: tuple[Known | None, Prediction | None] = (None, None)
        self._computing: asyncio.Task[None] | None = None

    async def look(self, side: Side, *, wait: bool, predict: bool = True) -> OffloadLook:
        """The last reading; a new one begins when it is due. With *wait*, wait a little where there is none yet.

        *predict*: have the capacity predicted too, which takes seconds for each applied state.
        """
        known = side.known
        stale = self._view is None or self._view.known is not known
        if self._reading is None and (stale or self._clock() >= self._due):
            self._begin(known)
        if wait and stale and self._reading is not None:
            await briefly(self._reading)
        if predict and self._predicted[0] is not known:
            self._begin_prediction(known)
        return OffloadLook(self._view, self._predicted[1])

    def _begin(self, known: Known) -> None:
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

    def _begin_prediction(self, known: Known) -> None:
        self._predicted = known, None
        predict = self._predict
        if predict is None:
            self._predicted = known, Prediction(why_not="this console has no predictions")
            return
        if self._computing is not None:
            self._computing.cancel()
        self._computing = start_task("the prediction", self._compute(predict, known))

    async def _compute(self, predict: Predict, known: Known) -> None:
        found = await predict(known.state)
        self._predicted = known, found
        self._changed()

    def _read(self, known: Known) -> OffloadView:
        """Read the datapath flows, in the thread."""
        at, cpu = now(), time.thread_time()
        try:
            view = self._look(at, known)
        except (SwitchError, SpecError, OSError) as err:
            return OffloadView(at, known, error=str(err))
        except Exception as err:  # noqa: BLE001 what the switch prints may be what nobody foresaw
            return OffloadView(at, known, defect=defect_of(err))
        return replace(view, again=next_pause(time.thread_time() - cpu, view.again, RARELY))

    def _look(self, at: datetime, known: Known) -> OffloadView:
        flavor = known.spec.switch.flavor.value
        judged_as = JUDGED_AS.get(flavor, "")
        found = profile(judged_as or flavor)
        running = read_running_switch(self._switch.remote, known.bridge, self._switch.timeout)
        kind = running.datapath.partition("@")[0]
        loaded = self._load(known)
        settings = () if judged_as else tuple(wrong_settings(loaded, found, running))
        with vswitchd(self._switch) as commands:
            figures = read_figures(commands, kind).gauges
            flows = figures.get("megaflows", 0.0)
            view = OffloadView(at, known, found, judged_as, None, figures, settings)
            if flows > TOO_MANY:
                return replace(view, again=RARELY)
            datapath = actual_name(commands, running.datapath)
            reading = self._reader.read(commands, datapath, self._judge_of(known, loaded, found, running))
        missing = frozenset((each.flow.thread, each.flow.ufid) for each in reading.flows if each.missing)
        late, self._missing = missing & self._missing, missing
        again = RARELY if reading.total + reading.elsewhere > MANY else AGAIN
        return replace(view, reading=reading, again=again, late=late)

    def _load(self, known: Known) -> Loaded:
        if self._loaded is None or self._loaded[0] is not known:
            self._loaded = known, load_state(known.state)
        return self._loaded[1]

    def _judge_of(self, known: Known, loaded: Loaded, by: Profile, running: RunningSwitch) -> FlowJudge:
        size = running.config.get("hw-offload-ct-size", "")
        if self._judge is None or self._judge[0] is not known or self._judge[1] != size:
            self._judge = known, size, FlowJudge(loaded, build_plan(loaded), by, running)
        return self._judge[2]

    def close(self) -> None:
        """End the thread, once it is done with what it reads, and what is computed."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._computing is not None:
            self._computing.cancel()
