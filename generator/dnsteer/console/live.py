# SPDX-License-Identifier: Apache-2.0
"""What browsers see, kept up to date: pages are made once for all of them, and only what changed is sent.

Nearly all work is done when somebody looks: without browsers there is a reading now and then, for the lines of the last
minutes, and the parts of the overview are kept up to date, for which the first browser would wait with a thousand VIPs.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar

from prometheus_client import Metric

from dnsteer.console.change_log import ConsoleRecorder
from dnsteer.console.page_content import (
    DEFECT,
    ConsolePages,
    Content,
    NoPageError,
    PageReader,
    RecordedStates,
    defect_content,
)
from dnsteer.console.page_data import PageData, PageHistory
from dnsteer.console.page_reading import Defects, next_pause
from dnsteer.console.path_page import REFUSED
from dnsteer.console.prediction import Predict
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.metrics.tasks import run_together
from dnsteer.status.flow_counts import read_slots
from dnsteer.switch.tools import SwitchError
from dnsteer.view.attention_item import AttentionItem
from dnsteer.view.snapshot import SwitchSnapshot


@dataclass(frozen=True)
class Page:
    """A page as HTML; *status* is that of HTTP."""

    status: int
    text: str


@dataclass
class Topic:
    """One page: its parts and numbers, made of *data*, each with the version at which it changed last."""

    key: str
    shape: str = ""
    shaped: int = 0
    version: int = 0
    parts: dict[str, tuple[int, str]] = field(default_factory=dict)
    numbers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    watchers: int = 0
    used: float = 0.0
    page: tuple[int, Page] = (-1, Page(500, ""))
    message: tuple[int, int, bytes] = (-1, -1, b"")
    data: PageData | None = None

    def update(self, content: Content, version: int) -> None:
        """Take over what differs, with its version."""
        changed = content.shape != self.shape
        if changed:
            self.shape, self.shaped, self.parts, self.numbers = content.shape, version, {}, {}
        for mine, theirs in ((self.parts, content.parts), (self.numbers, content.numbers)):
            for name, value in theirs.items():
                known = mine.get(name)
                if known is None or known[1] != value:
                    mine[name] = version, value
                    changed = True
            for name in mine.keys() - theirs.keys():
                del mine[name]
        if changed:
            self.version = version

    def since(self, version: int, epoch: int) -> bytes:
        """A message with what is newer than a *version*."""
        if self.message[:2] != (version, self.version):
            if version < self.shaped:
                kind, data = "reload", {}
            else:
                kind = "update"
                data = {
                    "parts": {name: value for name, (at, value) in self.parts.items() if at > version},
                    "numbers": {name: value for name, (at, value) in self.numbers.items() if at > version},
                }
            text = json.dumps(data, separators=(",", ":"))
            made = f"id: {epoch}.{self.version}\nevent: {kind}\ndata: {text}\n\n".encode()
            self.message = version, self.version, made
        return self.message[2]


INTERVAL, IDLE = 2.0, 15.0
"""Seconds between readings while somebody looks, where they cost little; and while nobody does, or they cost much."""
HEARTBEAT = 5.0
"""Seconds without a message after which one is sent all the same, so that the browser knows that the agent is there."""
MAX_STREAMS = 64
"""Browsers that are served at once."""
MAX_POOLS = 4
"""Pools of which the slots are counted at once."""
FIRST = "overview"
"""The page that is kept up to date though nobody looks, as browsers come to it first."""
_MAX_TOPICS = 64
_TOGETHER = 0.1
"""Seconds within which changes are sent together."""
_TIMEOUT = 5.0
SLOW_READING = 8.0
"""Seconds that a reading may wait for the switch until pages say that it does not answer."""
T = TypeVar("T")
Other = TypeVar("Other")


class SharedReadings(Protocol):
    """The readings of metrics, shared with /metrics."""

    async def reading(self) -> tuple[list[Metric], float]:
        """All metrics, and when they were read, in seconds."""


class TooManyStreamsError(Exception):
    """So many browsers look already that another one is not served."""


@dataclass
class LiveState:
    """What is kept of the pages between two refreshes."""

    topics: dict[str, Topic] = field(default_factory=dict)
    """The pages that somebody has looked at, by their key."""
    versions: Iterator[int] = field(default_factory=lambda: count(1))
    states: RecordedStates = field(default_factory=RecordedStates)
    """The recorded states, as they were read last."""
    data: PageData | None = None
    changes: int = 0
    """How often the data of pages has changed."""
    data_changes: int = 0
    """The value of *changes* when *data* was made."""
    not_read: tuple[AttentionItem, ...] = ()
    """That counters are not read, where a defect prevents it."""
    made: float = field(default_factory=time.monotonic)
    """When pages that are looked at were made last."""
    ended: bool = False
    """Whether streams are to end."""

    @property
    def watchers(self) -> int:
        """Browsers that are connected."""
        return sum(topic.watchers for topic in self.topics.values())

    @property
    def watched(self) -> list[str]:
        """The keys of the pages that somebody looks at."""
        return [topic.key for topic in self.topics.values() if topic.watchers]

    def forget_idle(self) -> None:
        """Forget pages that nobody has looked at for longest, where there are many."""
        idle = sorted((t for t in self.topics.values() if not t.watchers and t.key != FIRST), key=lambda t: t.used)
        for topic in idle[: max(0, len(self.topics) - _MAX_TOPICS)]:
            del self.topics[topic.key]


class _Threads:
    """A thread for each kind of work, so that none waits for a switch that another one asks."""

    def __init__(self) -> None:
        self.pages = ThreadPoolExecutor(1, "console")
        self.slots = ThreadPoolExecutor(1, "console-slots")
        self.states = ThreadPoolExecutor(1, "console-states")

    def close(self) -> None:
        """End them, once they are done with what they do."""
        for thread in (self.pages, self.slots, self.states):
            thread.shutdown(wait=False, cancel_futures=True)


class LivePages:
    """The pages of the console. `run` must run while they are served."""

    def __init__(
        self,
        recorder: ConsoleRecorder,
        readings: SharedReadings,
        switch: TargetSwitch,
        pages: ConsolePages,
        options: str = "",
        predict: Predict | None = None,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.recorder, self._readings, self._defects = recorder, readings, Defects(log)
        self._switch = TargetSwitch(switch.remote, switch.openflow, min(switch.timeout, _TIMEOUT), switch.extension)
        self.pages = pages
        self._history = PageHistory(options)
        self._threads, self._state = _Threads(), LiveState()
        self._changed = asyncio.Event()
        self._on_demand = PageReader(self._switch, self.changed, predict)
        self._looked = asyncio.Event()
        self._sent = asyncio.Condition()
        self._making = asyncio.Lock()
        self.epoch = int(recorder.started.timestamp() * 1000)

    @property
    def watchers(self) -> int:
        """Browsers that are connected."""
        return self._state.watchers

    async def run(self) -> None:
        """Work until cancelled. Raises what ends one of its tasks."""
        self.recorder.changed = self.changed
        try:
            await run_together(
                {"the readings of counters": self._read(), "the making of pages": self._make()}, self.end
            )
        finally:
            self.recorder.changed = lambda: None
            self._threads.close()
            self._on_demand.close()

    async def _make(self) -> None:
        """Refresh pages whenever their data has changed."""
        await self._attempt(self.page(FIRST), lambda _: None)  # a defect was said, and is shown to whoever asks
        while True:
            await self._changed.wait()
            await asyncio.sleep(_TOGETHER)
            self._changed.clear()
            await self._refresh()

    @staticmethod
    async def _attempt(work: Awaitable[T], instead: Callable[[Exception], Other]) -> T | Other:
        """What the work gives, or what is made *instead* of a defect that ends it.

        Here alone any exception is taken: pages are made of whatever a record, a switch and its traffic hold, and what
        nobody foresaw in one must stop neither the others nor /metrics. Whoever looks is told, and it is tried again.
        """
        try:
            return await work
        except Exception as err:  # noqa: BLE001  see above
            return instead(err)

    def changed(self) -> None:
        """Mark the data of pages as changed, so that they are made anew."""
        self._state.changes += 1
        self._changed.set()

    async def end(self) -> None:
        """End all streams: the server would cut them off."""
        self._state.ended = True
        async with self._sent:
            self._sent.notify_all()

    async def _read(self) -> None:
        """Read counters, at a pace that keeps the cost low."""
        while True:
            began = _cpu()
            failed = await self._attempt(
                self._read_counters(), lambda err: self._defect_item("counters are not read", err)
            )
            self._state.not_read = (failed,) if failed is not None else ()
            self.changed()
            cost = _cpu() - began
            self._looked.clear()
            if self.watchers:
                await asyncio.sleep(next_pause(cost, INTERVAL, IDLE))
            else:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._looked.wait(), IDLE)

    async def _read_counters(self) -> None:
        began = time.monotonic()
        metrics, at = await self._reading()
        watched = [key.removeprefix("pool/") for key in self._state.watched if key.startswith("pool/")]
        count_slots = partial(self._read_slots, self.recorder.snapshot(), watched)
        slots = await asyncio.get_running_loop().run_in_executor(self._threads.slots, count_slots)
        await self._work(self._history.read, metrics, at)
        await self._work(self._history.read_slots, slots, began)

    async def _reading(self) -> tuple[list[Metric], float]:
        """A reading of counters. Where it waits for long, pages say so meanwhile."""
        reading = asyncio.ensure_future(self._readings.reading())
        try:
            done, _ = await asyncio.wait([reading], timeout=SLOW_READING)
            if not done:
                self._history.not_answered()
                self.changed()
            return await reading
        finally:
            reading.cancel()

    def _defect_item(self, what: str, err: Exception) -> AttentionItem:
        """Log a defect because of which all pages lack something, and return its item."""
        text = f"{self._defects.record(what, err)}."
        return AttentionItem("critical", f"A defect of dnsteer: {what}", text, stale=True)

    def _read_slots(self, snapshot: SwitchSnapshot, pools: list[str]) -> dict[str, dict[int, int]]:
        """Packets by slot of the pools that are looked at."""
        if snapshot.applied is None:
            return {}
        wanted = [m for m in snapshot.applied.known.state.members if m.pool in pools[:MAX_POOLS]]
        elsewhere = set(snapshot.applied.known.state.elsewhere)
        found: dict[str, dict[int, int]] = {}
        for members in wanted:
            with suppress(SwitchError, OSError):
                if members.number not in elsewhere:
                    found[members.title] = read_slots(self._switch.client(snapshot.bridge), members)
        return found

    async def _work(self, do: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads.pages, do, *args)

    async def _page_data(self) -> PageData:
        """The data of now, made anew if something has changed; callers meanwhile wait for it."""
        state = self._state
        async with self._making:
            if state.data is None or state.data_changes != state.changes:
                at, snapshot, time_now = state.changes, self.recorder.snapshot(), now()
                data = await self._attempt(
                    self._work(self._history.page_data, snapshot, self.recorder.take_changes(), time_now),
                    lambda err: PageData(
                        time_now, snapshot, items=(self._defect_item("the present state cannot be shown", err),)
                    ),
                )
                state.data = replace(data, items=(*state.not_read, *data.items))
                state.data_changes = at
            return state.data

    async def _refresh(self) -> None:
        """Refresh the pages that browsers have open."""
        await self._page_data()
        for topic in [t for t in self._state.topics.values() if t.watchers or t.key == FIRST]:
            await self._update(topic)
        self._state.made = time.monotonic()
        async with self._sent:
            self._sent.notify_all()

    async def _update(self, topic: Topic, *, wait: bool = False) -> None:
        """Make a page's parts anew. *wait*: for a reading of its own too, which other pages must not wait for."""
        data = self._state.data
        if data is None or (topic.data is data and not self._on_demand.needs_reading(topic.key)):
            return
        content = await self._attempt(
            self._content(topic.key, data, wait=wait), lambda err: defect_content(self._defects.page(topic.key, err))
        )
        topic.update(content, next(self._state.versions))
        topic.data = None if content.shape == DEFECT else data

    async def _content(self, key: str, data: PageData, *, wait: bool) -> Content:
        """The content of a page; its shape is `gone` where there is no such page any more."""
        try:
            if key == "changes":
                await self._read_states(data.snapshot)
            read = await self._on_demand.read(key, data, self._state.watched, wait=wait)
            return await self._work(self.pages.content, key, data, self._history, self._state.states, read)
        except NoPageError:
            return Content("gone")

    async def _read_states(self, snapshot: SwitchSnapshot) -> None:
        """Read the recorded states where they have changed."""
        record = snapshot.record
        key = (
            (record.bridge, tuple(sorted(record.flow_tables.items())), record.ids.get("dnsteer-state"))
            if record
            else None
        )
        if key == self._state.states.key or record is None:
            return
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._threads.states, partial(_states, self._switch, snapshot))
            self._state.states = RecordedStates(key, tuple(found))
        except (SwitchError, OSError) as err:
            self._state.states = RecordedStates(None, self._state.states.states, str(err))

    async def states(self) -> tuple[SwitchSnapshot, RecordedStates]:
        """What is known now, and the recorded states."""
        data = await self._page_data()
        await self._read_states(data.snapshot)
        return data.snapshot, self._state.states

    async def page(self, key: str) -> Page:
        """The page as it is now; its status is 400 for a wrong question, 500 for a defect. Raises NoPageError."""
        topic = await self._topic(key)
        return topic.page[1] if topic.page[0] == topic.version else await self._begin(topic)

    async def _topic(self, key: str) -> Topic:
        """What a page has, up to date. Raises NoPageError."""
        data = await self._page_data()
        topic = self._state.topics.get(key)
        if topic is None:
            await self._work(self.pages.check, key, data)
            topic = self._state.topics.setdefault(key, Topic(key))
        topic.used = time.monotonic()
        self._state.forget_idle()
        await self._update(topic, wait=True)
        if topic.shape == "gone":
            raise NoPageError(key)
        return topic

    async def _begin(self, topic: Topic) -> Page:
        """Make a page, which is kept."""
        data = topic.data or self._state.data
        assert data is not None
        version, shape, since = topic.version, topic.shape, f"{self.epoch}.{topic.version}"
        parts = {name: value for name, (_, value) in topic.parts.items()}
        numbers = {name: value for name, (_, value) in topic.numbers.items()}
        make = partial(self._work, self.pages.page, topic.key, data)
        status = 400 if shape.startswith(REFUSED) else 500 if shape == DEFECT else 200
        made = await self._attempt(
            make(shape, parts, numbers, since, self._history),
            lambda err: defect_content(self._defects.page(topic.key, err)),
        )
        if isinstance(made, Content):  # not kept, so that it is made again for whoever asks again
            return Page(500, await make(made.shape, made.parts, made.numbers, since, self._history))
        topic.page = version, Page(status, made)
        return topic.page[1]

    async def stream(self, key: str, since: str) -> AsyncIterator[bytes]:
        """The changes of a page since a version, as server-sent events. Raises NoPageError or TooManyStreamsError."""
        if self.watchers >= MAX_STREAMS:
            raise TooManyStreamsError
        return self._follow(await self._topic(key), _version(since, self.epoch))

    async def _follow(self, topic: Topic, version: int) -> AsyncIterator[bytes]:
        if self.watchers >= MAX_STREAMS:
            return
        topic.watchers += 1
        self._state.topics[topic.key] = topic
        self._looked.set()
        try:
            yield b"retry: 2000\n" + self._heartbeat()  # it is connected
            while not self._state.ended:
                if topic.version > version:
                    message = topic.since(version, self.epoch)
                    version = topic.version
                    yield message
                elif not await self._wait_for_update(topic, version):
                    yield self._heartbeat()
        finally:
            topic.watchers -= 1

    def _heartbeat(self) -> bytes:
        """A heartbeat event, with the age of what browsers see in seconds: a part of the agent may hang."""
        age = int(time.monotonic() - self._state.made)
        return f'event: beat\ndata: {{"age":{age}}}\n\n'.encode()

    async def _wait_for_update(self, topic: Topic, version: int) -> bool:
        """Wait until there is something newer; False if there is none for a while."""

        async def newer() -> None:
            async with self._sent:
                await self._sent.wait_for(lambda: self._state.ended or topic.version > version)

        try:
            await asyncio.wait_for(newer(), HEARTBEAT)
        except asyncio.TimeoutError:
            return False
        return True


def _cpu() -> float:
    """CPU time of the process and of the programs that it ran, in seconds; what else it does meanwhile counts too."""
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + programs.ru_utime + programs.ru_stime


def _states(switch: TargetSwitch, snapshot: SwitchSnapshot) -> list[Any]:
    with switch.session() as session:
        return list(session.states(session.record_of(snapshot.bridge)))


def _version(text: str, epoch: int) -> int:
    """The version that a browser has; 0 for one of another agent's, so that it reads the page again."""
    made, _, number = text.partition(".")
    return int(number) if made == str(epoch) and number.isascii() and number.isdigit() and len(number) < 16 else 0
