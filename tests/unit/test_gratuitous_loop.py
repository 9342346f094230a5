# SPDX-License-Identifier: Apache-2.0
"""Neighbours at each port are told as often as the spec says, also at one that is missing at first; no trouble is left."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from dnsteer.agent import gratuitous, supervise
from dnsteer.agent.event_reporter import EventReporter
from dnsteer.agent.gratuitous import NeighborNotices, notify_neighbors
from dnsteer.checks.load import check_document
from dnsteer.metrics.observer import Observers
from dnsteer.spec.read import parse_document
from dnsteer.switch.tools import SwitchError
from dnsteer.view.snapshot import SnapshotRecorder
from tests.packet.command import FARM
from tests.unit.test_control_socket import until
from tests.unit.test_gratuitous import SPEC as EXAMPLE

SPEC = EXAMPLE.replace(", '2001:db8::53'", "")
MISSING = "neighbours are not told of VIPs and gateways: the switch has no port p1; those at its other ports are told"


def followed(text: str = SPEC) -> Any:
    return SimpleNamespace(bridge="br-dns", spec=check_document(parse_document("spec.yaml", text)).spec)


class Case:
    """Notices on a switch with some ports."""

    def __init__(self) -> None:
        self.there, self.fails, self.acts = {"p0", "p1", "vf0"}, False, True
        self.sent = Counter[str]()
        """How often the gateway's address was sent by each port."""
        self.tries = 0
        self.said: list[str] = []
        self.recorder = SnapshotRecorder()
        self.recorder.claim_changed("br-dns", held=True)
        self.notices = NeighborNotices(SimpleNamespace(client=lambda _: self))  # type: ignore[arg-type]

    def ports(self) -> set[str]:
        self.tries += 1
        if self.fails:
            raise SwitchError("no OpenFlow")
        return {*self.there}

    def bundle(self, lines: list[str]) -> None:
        self.sent.update(re.findall(r"output:(\w+)", lines[0]))

    def troubles(self) -> list[str]:
        return [one["text"] for one in self.recorder.knowledge_of("br-dns")["troubles"]]

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        async def work(do: Callable[[], set[str]]) -> set[str]:
            return do()

        observer = Observers(self.recorder, EventReporter(lambda text, *_, **__: self.said.append(text)))
        task = asyncio.ensure_future(self.notices.run(work, lambda: self.acts, observer))
        yield
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(gratuitous, "APART", 0.001)
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(supervise, "LONGEST_PAUSE", 0.002)
    return Case()


def play(test: Awaitable[None]) -> None:
    asyncio.run(asyncio.wait_for(test, 10))  # type: ignore[arg-type]


async def rest() -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)


def test_a_late_port_gets_announcements_when_it_appears(case: Case) -> None:
    async def test() -> None:
        case.there -= {"p1"}
        case.notices.begin(followed())
        async with case.at_work():
            await until(lambda: case.tries > 10)
            assert case.sent == {"p0": 3, "vf0": 3}, "others are told as often as the spec says"
            assert case.troubles() == [MISSING] == case.said
            case.there.add("p1")
            await until(lambda: case.sent["p1"] == 3)
            await rest()
            assert case.sent == {"p0": 3, "p1": 3, "vf0": 3}
            assert case.troubles() == []
            assert case.said[1:] == ["neighbours are told again", "told neighbours of 1 VIP addresses and 1 gateways"]

    play(test())


def test_failed_announcements_are_sent_later(case: Case) -> None:
    async def test() -> None:
        case.fails = True
        case.notices.begin(followed())
        async with case.at_work():
            await until(lambda: case.tries > 10)
            assert case.troubles() == ["neighbours are not told of VIPs and gateways: no OpenFlow"]
            case.fails = False
            await until(lambda: set(case.sent.values()) == {3})
            assert case.troubles() == []

    play(test())


@pytest.mark.parametrize("end", ["spec", "standby", "claim"])
def test_the_trouble_ends_where_nothing_is_to_be_sent(end: str, case: Case) -> None:
    async def test() -> None:
        case.there -= {"p1"}
        case.notices.begin(followed())
        async with case.at_work():
            await until(lambda: case.troubles() == [MISSING])
            if end == "spec":
                case.notices.begin(followed(SPEC.replace("  gratuitous:\n", "")))
            elif end == "standby":
                case.notices.standby = True
            else:
                case.acts = False
            await until(lambda: not case.troubles())
            case.there.add("p1")
            await rest()
            assert case.sent["p1"] == 0

    play(test())


def test_refreshes_do_not_wait_for_a_port_that_is_missing(case: Case) -> None:
    async def test() -> None:
        case.there -= {"p1"}
        again = followed(SPEC.replace("  gratuitous:\n", "  gratuitous: {repeat: 1, refresh: 1s}\n"))
        rules = again.spec.switch.gratuitous.model_copy(update={"refresh": 0.005})
        again.spec = again.spec.model_copy(
            update={"switch": again.spec.switch.model_copy(update={"gratuitous": rules})}
        )
        case.notices.begin(again)
        async with case.at_work():
            await until(lambda: case.sent["p0"] > 3)
            case.there.add("p1")
            await until(lambda: case.sent["p1"] > 3)
            assert case.said.count("told neighbours of 1 VIP addresses and 1 gateways") == 1
            case.there.clear()
            await until(lambda: len(case.troubles()) == 1)
            tries = case.tries
            await until(lambda: case.tries > tries + 3)

    play(test())


def test_a_port_by_which_nothing_is_sent_is_not_missed(case: Case) -> None:
    case.there -= {"vf0"}
    spec = followed(FARM.replace("pools:\n", "  ports: {vf0: }\npools:\n")).spec
    notify_neighbors(case, spec)  # type: ignore[arg-type]
    assert case.sent == {"p0": 1, "p1": 1}
    case.there -= {"p1"}
    with pytest.raises(SwitchError, match="the switch has no port p1; those at its other ports are told"):
        notify_neighbors(case, spec)  # type: ignore[arg-type]
