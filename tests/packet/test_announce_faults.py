# SPDX-License-Identifier: Apache-2.0
"""What is announced while something else fails too: the switch's tables, another agent; on a real switch and BIRD."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

from dnsteer.agent.announce.bird import Bird as Client
from tests.packet.agents import Agent, agent, wait
from tests.packet.announcing import (
    DNS,
    OTHER,
    READY,
    announced,
    announces,
    applied,
    folder,
    healthy,
    hung,
    kill_database,
    spec,
    start_database,
)
from tests.packet.announcing import EXPECTED as ALWAYS
from tests.packet.birds import Bird, bird, needs_bird
from tests.packet.command import on, spec_file
from tests.packet.scraping import METRICS, address, get
from tests.packet.switches import BRIDGE, SLOT_TABLE, Switch

__all__ = ["folder"]  # for pytest
EXPECTED = [*ALWAYS, "Connection refused"]
pytestmark = needs_bird


def stays(own: Bird, running: Agent, seconds: float) -> None:
    """BIRD has the routes of the VIP without checks all the time: what has checks may fail on a machine that is too busy."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert own.routes() >= OTHER, running.said()
        time.sleep(0.05)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_another_one_has_relieved_withdraws_nothing(
    by: signal.Signals, switch: Switch, folder: Path
) -> None:
    switch.expected += EXPECTED
    applied(switch, folder, spec(folder, ", on_stop: withdraw"))
    with bird(folder) as own:
        first = Agent(switch, folder / "first.log")
        try:
            first.waits_for(READY)
            announces(own, DNS | OTHER)
            with agent(switch, folder, "standing by", "second") as second:
                first.process.send_signal(signal.SIGSTOP)
                kill_database(switch)
                start_database(switch)
                second.waits_for("this agent now works on bridge")
                second.waits_for("VIP other is announced")
                first.process.send_signal(signal.SIGCONT)
                first.waits_for("standing by")
                time.sleep(0.5)  # its guard ends
                first.end(by)
                assert "all VIPs are withdrawn" not in first.said()
                stays(own, second, 2)
            announces(own, set())  # the second one has a guard, and withdraws
        finally:
            first.end(signal.SIGKILL)


def test_tables_that_cannot_be_repaired_are_not_announced(switch: Switch, folder: Path) -> None:
    switch.expected += EXPECTED
    with announced(switch, folder, spec(folder)) as (own, running):
        limit = ["--id=@limit", "create", "Flow_Table", "flow_limit=1", "overflow_policy=refuse"]
        switch.vsctl("--", *limit, "--", "set", "Bridge", BRIDGE, "flow_tables:30=@limit")
        switch.ofctl("del-flows", SLOT_TABLE)
        announces(own, set())
        running.waits_for("VIP dns is withdrawn: its tables cannot be made as they were applied: the switch refused")
        time.sleep(1)  # it is tried again, and said once
        assert running.said().count("the switch stays as it is: ") == 1, running.said()
        switch.vsctl("remove", "Bridge", BRIDGE, "flow_tables", "30")
        announces(own, DNS | OTHER)


def test_an_upgrade_withdraws_nothing_and_names_vips_still_withdrawn(
    switch: Switch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch.expected += EXPECTED
    applied(switch, folder, spec(folder))
    heavier = spec(folder).replace("weight: 2", "weight: 3")
    with bird(folder) as own:
        with agent(switch, folder, READY):
            announces(own, DNS | OTHER)
        with monkeypatch.context() as patch:
            patch.setattr("dnsteer.deploy.goal.__version__", "99.0")
            assert on(switch)("apply", spec_file(folder, heavier), "--yes").code == 0
        with agent(switch, folder, "state 2", "later") as running:
            running.waits_for("dnsteer 99.0 made the tables; apply the spec to have them watched")
            stays(own, running, 1)
            healthy(folder)
            announces(own, OTHER)
            healthy(folder, "ns1")
            running.waits_for(
                "VIPs that are withdrawn stay so (dns): dnsteer 99.0 made the tables, which are not compared"
            )
            assert on(switch)("apply", spec_file(folder, spec(folder)), "--yes").code == 0
            announces(own, DNS | OTHER)
            running.waits_for("withdrawn VIPs come back as soon as they work")


def in_metrics(running: Agent) -> dict[str, float]:
    """dnsteer_vip_announced, by VIP."""
    lines = get(f"{address(running)}/metrics")[0].splitlines()
    return {
        line.partition('vip="')[2].partition('"')[0]: float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("dnsteer_vip_announced{")
    }


def says(running: Agent, vips: dict[str, float]) -> None:
    wait(lambda: in_metrics(running) == vips, lambda: f"{in_metrics(running)}, not {vips}; {running.said()}")


def test_a_vip_is_announced_only_when_bird_has_its_route(shared: Switch, folder: Path) -> None:
    third = "vips:\n  third: {addresses: [192.0.2.54], services: [dot], pool: farm}\n"
    text = (
        spec(folder)
        .replace("vips:\n", third)
        .replace("services: [dns, dot], pool: spare", "services: [dns], pool: spare")
    )
    applied(shared, folder, text)
    with bird(folder) as own, agent(shared, folder, READY, "agent", *METRICS) as running:
        says(running, {"dns": 1, "other": 1, "third": 1})
        healthy(folder)
        announces(own, set())
        says(running, {"dns": 0, "other": 0, "third": 0})
        running.waits_for("VIP other is withdrawn: VIP third, which does not work, has addresses of it too")
        healthy(folder, "ns1")
        says(running, {"dns": 1, "other": 1, "third": 1})
        own.ask("disable", "dnsteer4")
        says(running, {"dns": 0, "other": 0, "third": 0})
        running.waits_for("VIP dns is withdrawn: BIRD has no route to 192.0.2.53/32")
        running.waits_for("protocol dnsteer4 of BIRD is down: birdc enable dnsteer4")
        own.ask("enable", "dnsteer4")
        says(running, {"dns": 1, "other": 1, "third": 1})
        own.stop()
        says(running, {"dns": 0, "other": 0, "third": 0})
        own.start()
        says(running, {"dns": 1, "other": 1, "third": 1})


def test_a_later_agent_enables_protocols_that_an_earlier_one_disabled(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    with bird(folder) as own:
        with agent(shared, folder, READY, "agent", *METRICS) as running:
            announces(own, DNS | OTHER)
            own.write(own.including + "protocol nonsense;\n")
            with hung(shared):
                running.waits_for("all routes are withdrawn by disabling dnsteer4, dnsteer6")
                says(running, {"dns": 0, "other": 0})
                running.end(signal.SIGKILL)
                running.end = lambda *_: 0  # type: ignore[method-assign]
        own.write(own.including)
        with agent(shared, folder, READY, "later"):
            announces(own, DNS | OTHER)


def test_routes_are_read_while_others_configure_bird(tmp_path: Path) -> None:
    over, times = threading.Event(), 0

    def configure() -> None:
        nonlocal times
        with Client(str(own.control)) as other:
            while not over.is_set():
                other.configure()
                times += 1

    with bird(tmp_path, "protocol static dnsteer4 { ipv4; route 192.0.2.53/32 blackhole; }\n") as own:
        thread = threading.Thread(target=configure)
        thread.start()
        try:
            with Client(str(own.control)) as client:
                found = [client.routes(["dnsteer4"]) for _ in range(100)]
        finally:
            over.set()
            thread.join(10)
    assert found == 100 * [{"192.0.2.53/32"}]
    assert times > 10
