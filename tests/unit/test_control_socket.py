# SPDX-License-Identifier: Apache-2.0
"""The control socket: of the agent that acts alone, and no hindrance to its end."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from dnsteer.agent import control
from dnsteer.agent.control import Channel, Control
from dnsteer.agent.request import Request
from dnsteer.agent.verb_server import VerbServer
from dnsteer.deploy.verb_request import VerbRequest
from dnsteer.switch.tools import SwitchError
from dnsteer.view.snapshot import SnapshotRecorder


class Case:
    """The control socket of an agent which acts or stands by, and what it said."""

    def __init__(self, folder: Path, run: Callable[[Request, Channel], int] = lambda *_: 0, name: str = "") -> None:
        self.acts, self.said = True, list[str]()
        self.control = Control(
            f"unix:{folder}/db.sock",
            "br-dns",
            run,
            lambda text, *_, **__: self.said.append(text),
            lambda _bridge: {"agent": name},
            lambda: self.acts,
        )
        assert self.control.path is not None
        self.path = self.control.path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_LOOK", 0.001)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def answers(path: Path) -> str:
    """Which agent answers at the socket."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b'{"v": 1, "tell": "knowledge"}\n')
    said = (await reader.read()).splitlines()
    writer.close()
    return str(json.loads(said[-1])["knows"]["agent"])


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def test_a_standby_agent_leaves_the_socket_to_the_active_one(tmp_path: Path) -> None:
    async def test() -> None:
        one, other = Case(tmp_path, name="one"), Case(tmp_path, name="other")
        other.acts = False
        tasks = [asyncio.create_task(case.control.listen()) for case in (one, other)]
        await until(one.path.exists)
        assert await answers(one.path) == "one"
        for acting, idle in ((other, one), (one, other)):
            before = [len(case.said) for case in (acting, idle)]
            acting.acts, idle.acts = True, False
            await until(lambda acting=acting, before=before: len(acting.said) > before[0])  # type: ignore[misc]
            made = control._identity(one.path)
            for _ in range(50):
                await asyncio.sleep(0.001)  # several looks of both
            assert control._identity(one.path) == made
            assert await answers(one.path) == ("other" if acting is other else "one")
            assert [len(case.said) for case in (acting, idle)] == [before[0] + 1, before[1]]
        assert not any("made again" in text for text in one.said + other.said)
        await ended(tasks[1])
        await other.control.stop()
        assert await answers(one.path) == "one", "it stays when the other one ends"
        await ended(tasks[0])
        await one.control.stop()
        assert not one.path.exists()

    asyncio.run(asyncio.wait_for(test(), 8))


def test_the_end_leaves_a_socket_that_another_one_has_made_meanwhile(tmp_path: Path) -> None:
    async def test() -> None:
        case = Case(tmp_path)
        task = asyncio.create_task(case.control.listen())
        await until(case.path.exists)
        await ended(task)
        other = tmp_path / "other"
        other.touch()
        other.replace(case.path)
        await case.control.stop()
        assert case.path.exists()

    asyncio.run(asyncio.wait_for(test(), 8))


def test_a_question_that_comes_while_the_agent_ends_is_refused(tmp_path: Path) -> None:
    """A verb reads and computes before it asks; whoever waits for it to end must not wait for a person."""
    computed, refused = threading.Event(), list[str]()

    def run(_request: Request, channel: Channel) -> int:
        assert computed.wait(30)
        try:
            channel.ask(["much moves"], ["drain"])
        except SwitchError as err:
            refused.append(str(err))
            return 1
        return 0

    async def test() -> None:
        case = Case(tmp_path, run)
        task = asyncio.create_task(case.control.listen())
        await until(case.path.exists)
        reader, writer = await asyncio.open_unix_connection(str(case.path))
        writer.write(json.dumps({"v": 1, "argv": ["apply", "x"], "by": "ann"}).encode() + b"\n")
        await until(lambda: any("apply" in text for text in case.said))
        await ended(task)
        stopping = asyncio.create_task(case.control.stop())
        await until(case.control._ending.is_set)
        computed.set()
        done, _ = await asyncio.wait([stopping], timeout=30)
        writer.close()  # which would end it too
        await stopping
        assert done
        assert refused == ["nothing was changed: the agent ends"]
        said = [json.loads(line) for line in (await reader.read()).splitlines()]
        assert not any("ask" in message for message in said)

    asyncio.run(asyncio.wait_for(test(), 12))


def test_the_console_of_an_agent_that_stands_by_changes_nothing() -> None:
    acts = True

    async def test() -> None:
        nonlocal acts
        switch = SimpleNamespace(remote="tcp:192.0.2.1:6640", openflow=None, extension=None)
        report = SimpleNamespace(say=lambda *_, **__: None)
        server = VerbServer(switch, lambda *_: 0, report, SnapshotRecorder(), lambda: None, lambda: acts)  # type: ignore[arg-type]
        server.begin("br-dns", SimpleNamespace())  # type: ignore[arg-type]
        assert (await server.run_verb(VerbRequest(("drain", "farm/ns1"), "ann"))).code == 0
        acts = False
        outcome = await server.run_verb(VerbRequest(("drain", "farm/ns1"), "ann"))
        assert outcome.code == 1 and "this agent does not act on the switch" in outcome.said
        await server.stop()

    asyncio.run(asyncio.wait_for(test(), 8))
