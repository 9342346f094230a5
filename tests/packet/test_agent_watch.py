# SPDX-License-Identifier: Apache-2.0
"""What the agent notices of the flows of a switch: all but what it has changed itself, wherever its monitor runs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dnsteer.agent.health import Result
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.agent.repair import inspect_switch
from dnsteer.agent.watch import watch
from dnsteer.deploy import overlay_change
from dnsteer.deploy.overlay_edits import bring_back, take_out
from dnsteer.switch.tools import SwitchError
from tests.packet.agents import PATIENCE, agent
from tests.packet.announcing import kill_database, start_database
from tests.packet.command import on, spec_file
from tests.packet.switches import BRIDGE, LARGE, SLOT_TABLE, Switch
from tests.packet.test_agent_repair import ENDED

DRAINED = take_out("direct/a", "drain")
REST = 0.3
"""Seconds in which the monitor has told what there was."""


def watched(switch: Switch, during: Callable[[HeldSwitch], Awaitable[None]]) -> None:
    """Run *during* beside a watch of the switch whose first look is done."""
    held = HeldSwitch(switch.database)

    async def run() -> None:
        watching = asyncio.create_task(watch(held, BRIDGE, lambda why: None))
        try:
            deadline = time.monotonic() + PATIENCE
            while not held.memory.events:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            await asyncio.to_thread(inspect_switch, held, BRIDGE, repair=False, progress=print)
            await asyncio.sleep(REST)
            await during(held)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            assert asyncio.all_tasks() == {asyncio.current_task()}, "it ends when its processes have ended"
            await asyncio.sleep(0.1)  # for the pipes of its processes
            held.memory.close()

    asyncio.run(run())


def test_the_agents_own_changes_trigger_no_check(switch: Switch, tmp_path: Path) -> None:
    switch.expected += ENDED
    assert on(switch)("apply", spec_file(tmp_path, LARGE)).code == 0

    async def during(held: HeldSwitch) -> None:
        before = held.memory.events
        for edit in (DRAINED, bring_back("direct/a", "drain"), DRAINED):
            change = await asyncio.to_thread(overlay_change.change_overlay, held, BRIDGE, edit)
            assert change.moves and not change.repaired
            await asyncio.sleep(REST)
            assert held.memory.events == before
        slot = next(flow for flow in switch.flows() if SLOT_TABLE in flow and "reg1=0x2 " in flow)
        switch.ofctl("mod-flows", f"{slot.partition(', ')[2].partition(' actions=')[0]} actions=drop")
        await asyncio.sleep(REST)
        assert held.memory.events > before

    watched(switch, during)


def test_a_failed_change_of_the_agent_triggers_a_check(
    switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch.expected += ENDED
    assert on(switch)("apply", spec_file(tmp_path, LARGE)).code == 0
    send = overlay_change.send_bundle

    def sent_but_lost(*args: object, **options: object) -> None:
        send(*args, **options)  # type: ignore[arg-type]
        raise SwitchError("no answer")

    monkeypatch.setattr(overlay_change, "send_bundle", sent_but_lost)

    async def during(held: HeldSwitch) -> None:
        before = held.memory.events
        with pytest.raises(SwitchError, match="no answer"):
            await asyncio.to_thread(overlay_change.change_overlay, held, BRIDGE, DRAINED)
        assert held.memory.events > before

    watched(switch, during)


def test_failed_probes_do_not_count_at_once_when_the_database_ends(switch: Switch, tmp_path: Path) -> None:
    switch.expected += [*ENDED, "Connection refused"]
    probe = "  probe: {addresses: [10.53.0.9/24, '2001:db8:53::9/64']}\n  uplinks:\n"
    text = LARGE.replace("  uplinks:\n", probe).replace("next_hop:", "type: dummy-pmd, next_hop:")
    assert on(switch)("apply", spec_file(tmp_path, text)).code == 0

    async def during(held: HeldSwitch) -> None:
        def counts() -> bool:
            return held.memory.accept_result(Result(time.monotonic(), "no answer"))

        assert counts()
        kill_database(switch)
        began = time.monotonic()
        while counts():
            await asyncio.sleep(0.01)
            assert time.monotonic() < began + PATIENCE
        assert not held.memory.silence  # it has not been silent for long enough to say so
        start_database(switch)
        while not counts():
            await asyncio.sleep(0.01)
            assert time.monotonic() < began + 2 * PATIENCE

    watched(switch, during)


def monitors(pid: int) -> list[str]:
    """PIDs of the monitors of a process."""
    children = [
        child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [c for c in children if b"\0monitor\0" in Path(f"/proc/{c}/cmdline").read_bytes()]


def test_no_folder_for_control_sockets_is_needed(
    switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as where /run/openvswitch is missing, or belongs to somebody else: the monitor would begin again and again."""
    switch.expected += ENDED
    assert on(switch)("apply", spec_file(tmp_path, LARGE)).code == 0
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path / "none"))
    with agent(switch, tmp_path) as running:
        time.sleep(REST)
        first = monitors(running.process.pid)
        time.sleep(2)
        assert monitors(running.process.pid) == first != []


def test_a_failing_monitor_is_reported(switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch.expected += ENDED
    assert on(switch)("apply", spec_file(tmp_path, LARGE)).code == 0
    program, broken = tmp_path / "ovs-ofctl", tmp_path / "broken"
    program.write_text(
        f'#!/bin/sh\ncase " $* " in *" monitor "*) test ! -e {broken} || {{ echo "ovs-ofctl: no buffer" >&2; exit 1; }};;\n'
        'esac\nPATH=${PATH#*:} exec ovs-ofctl "$@"\n'
    )
    program.chmod(0o755)
    broken.touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with agent(switch, tmp_path) as running:
        running.waits_for("changes of flows are noticed late, since ovs-ofctl monitor fails: ovs-ofctl: no buffer\n")
        broken.unlink()
        running.waits_for("changes of flows are noticed at once again")
