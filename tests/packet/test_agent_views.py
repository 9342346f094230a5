# SPDX-License-Identifier: Apache-2.0
"""What `status`, `top` and `report` say of what the agent knows, and of an agent that is gone or hangs."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packet.agents import Agent, agent, wait
from tests.packet.command import FARM, SLOW, fresh, on, run, spec_file
from tests.packet.switches import BRIDGE, Switch

EXPECTED = [*SLOW, "connection dropped", "Broken pipe"]
NAMES = ("ns1", "ns2", "ns3", "ns4")
LOOK, NOT_SERVING = 3, 4


def spec(folder: Path) -> str:
    """FARM with four backends that are up, each healthy while there is a file of its name in *folder*."""
    command = (
        f"{{check: command, command: [test, -e, '{folder}/{{backend}}'], interval: 500ms, timeout: 490ms, fall: 1}}"
    )
    text = FARM.replace("    slots: 32\n", f"    slots: 32\n    hold_max: 0s\n    health: {command}\n")
    return text.replace(", state: down}", "}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("views")


@pytest.fixture
def checked(shared: Switch, folder: Path) -> Switch:
    """The module's switch with the spec applied, and all four backends healthy."""
    fresh(shared)
    for name in NAMES:
        (folder / name).touch()
    assert on(shared)("apply", spec_file(folder, spec(folder)), "--yes").code == 0
    return shared


@pytest.fixture
def watched(checked: Switch, folder: Path) -> Iterator[Agent]:
    """An agent beside it."""
    with agent(checked, folder, "control socket") as running:
        yield running


def status(switch: Switch) -> dict[str, Any]:
    done = on(switch)("status", "--json", "--no-rates")
    return {"exit": done.code, **done.json}


def fails(switch: Switch, folder: Path, *names: str) -> dict[str, Any]:
    """Let these backends fail, and no others; the status once the agent knows and has done what it does."""
    for name in NAMES:
        (folder / name).unlink() if name in names and (folder / name).exists() else None
        if name not in names:
            (folder / name).touch()
    found = [status(switch)]

    def settled() -> bool:
        found[0] = status(switch)
        knows = found[0]["agent"]["knows"] or {"failing": [], "panics": []}
        (pool,) = [p for p in found[0]["pools"] if p["name"] == "farm"]
        out = {b["name"] for b in pool["backends"] if b["state"] == "unhealthy"}
        done = bool(knows["panics"]) or out == set(names)
        return {one["backend"] for one in knows["failing"]} == set(names) and done

    wait(settled, lambda: json.dumps(found[0]["agent"], indent=1))
    return found[0]


def words(text: str) -> str:
    """A text without the ends of its lines."""
    return " ".join(text.split())


def of_level(found: dict[str, Any], level: str) -> list[str]:
    return [item["title"] for item in found["attention"] if item["level"] == level]


def test_a_healthy_switch_is_shown_as_such_everywhere(watched: Agent, shared: Switch) -> None:
    found = status(shared)
    assert (found["exit"], found["ok"], found["attention"]) == (0, True, [])
    agent_is = found["agent"]
    assert (agent_is["presence"], agent_is["needed"], agent_is["reason"]) == ("acts", True, None)
    kinds = ("failing", "panics", "unannounced", "unannounced_prefixes", "troubles", "kept")
    nothing: dict[str, list[object]] = {kind: [] for kind in kinds}
    assert agent_is["knows"] == {"state": 1, "connections": None, **nothing}


def test_three_of_four_that_are_dead_are_named_everywhere(watched: Agent, shared: Switch, folder: Path) -> None:
    found = fails(shared, folder, "ns1", "ns2", "ns3")
    assert (found["exit"], found["ok"]) == (LOOK, False)
    (pool,) = [p for p in found["pools"] if p["name"] == "farm"]
    failing = {b["name"]: b["failing"] for b in pool["backends"] if b["failing"]}
    assert failing.keys() == {"ns1", "ns2", "ns3"}
    assert all("test ended with 1" in one["why"] and one["since"] for (one,) in failing.values())
    said = on(shared)("status", "--no-rates")
    assert said.code == LOOK
    assert "br-dns: as recorded; something needs attention" in said.out
    top = on(shared)("top", "--once", "--interval", "0.5s")
    report = on(shared)("report", "-o", folder / "report.html", "--interval", "0.5s")
    assert (top.code, report.code) == (LOOK, LOOK)
    page = (folder / "report.html").read_text()
    for name in failing:
        for text in (said.out, top.out, page):
            assert "test ended with 1" in text and name in text
    found = on(shared)("top", "--once", "--json", "--interval", "0.5s").json
    assert (found["ok"], found["agent"]["presence"]) == (False, "acts")
    assert len(found["agent"]["knows"]["failing"]) == 3


def test_a_pool_of_which_all_are_dead_does_not_serve_its_vips(watched: Agent, shared: Switch, folder: Path) -> None:
    found = fails(shared, folder, *NAMES)
    assert (found["exit"], found["ok"]) == (NOT_SERVING, False)
    (item,) = [item for item in found["attention"] if item["vips_that_do_not_serve"]]
    assert (item["title"], item["level"], item["vips_that_do_not_serve"]) == ("Pool farm: PANIC", "critical", ["dns"])
    (panic,) = found["agent"]["knows"]["panics"]
    assert panic["pool"] == "farm" and panic["decision"] == item["decision"]
    said = on(shared)("status", "--no-rates")
    assert said.code == NOT_SERVING
    assert "critical: Pool farm: PANIC: no backend in service passes its checks since" in words(said.out)
    assert "br-dns: as recorded; a VIP does not serve: dns" in said.out
    assert said.out.count("up, fails") == 4
    for verb in (["top", "--once"], ["report", "-o", "-"]):
        done = on(shared)(*verb, "--interval", "0.5s")
        assert (done.code, "Pool farm: PANIC" in done.out) == (NOT_SERVING, True)
    assert fails(shared, folder)["exit"] == 0


def test_an_agent_that_was_killed_is_missed(checked: Switch, shared: Switch, folder: Path, tmp_path: Path) -> None:
    killed = Agent(shared, tmp_path / "killed.log")
    killed.waits_for("control socket")
    killed.end(signal.SIGKILL)
    (folder / "ns1").unlink()
    found = status(shared)
    assert (found["exit"], found["agent"]["presence"], found["agent"]["knows"]) == (LOOK, "absent", None)
    assert of_level(found, "critical") == ["No agent acts on the bridge"]
    said = on(shared)("status", "--no-rates")
    assert "critical: No agent acts on the bridge: the spec has health checks" in words(said.out)
    for verb in (["top", "--once"], ["report", "-o", "-"]):
        done = on(shared)(*verb, "--interval", "0.5s")
        assert (done.code, "No agent acts on the bridge" in done.out) == (LOOK, True)
    with agent(shared, tmp_path, "control socket"):
        assert fails(shared, folder)["exit"] == 0
    assert on(shared)("status", "--no-rates").code == LOOK  # and one that was stopped


def test_a_hanging_agent_is_told_from_a_missing_one(watched: Agent, shared: Switch, folder: Path) -> None:
    watched.process.send_signal(signal.SIGSTOP)
    try:
        found = status(shared)
        assert (found["exit"], found["agent"]["presence"]) == (LOOK, "silent")
        assert of_level(found, "critical") == ["The agent does not answer"]
        said = on(shared)("top", "--once", "--interval", "0.5s")
        assert (said.code, "The agent does not answer: no answer within 2 s" in words(said.out)) == (LOOK, True)
    finally:
        watched.process.send_signal(signal.SIGCONT)
    wait(lambda: status(shared)["exit"] == 0, lambda: json.dumps(status(shared)["agent"]))


def test_the_agent_answers_while_its_thread_is_busy(watched: Agent, shared: Switch, folder: Path) -> None:
    """Another dnsteer holds the bridge's lock, for which the thread that changes the switch waits."""
    from dnsteer.switch.session import Session

    with Session(shared.database) as session:
        session.lock(BRIDGE)
        for name in NAMES:
            (folder / name).unlink()
        wait(lambda: len(status(shared)["agent"]["knows"]["failing"]) == 4, watched.said)
        found = status(shared)
        assert found["exit"] == NOT_SERVING
        assert "Pool farm: all backends in service fail" in of_level(found, "critical")


def test_on_another_machine_status_reads_the_record(watched: Agent, checked: Switch, folder: Path) -> None:
    remote = checked.listen_on_tcp()
    openflow = f"unix:{checked.dir}/{BRIDGE}.mgmt"

    def seen() -> dict[str, Any]:
        done = run("status", "--json", "--no-rates", "--no-verify", "--db", remote, "--openflow", openflow)
        return {"exit": done.code, **done.json}

    found = seen()
    assert (found["exit"], found["agent"]["presence"]) == (0, "remote")
    assert [(item["level"], item["title"]) for item in found["attention"]] == [
        ("note", "The agent is on another machine")
    ]
    for name in NAMES:
        (folder / name).unlink()
    wait(lambda: len((seen()["agent"]["knows"] or {"failing": ()})["failing"]) == 4, watched.said)
    wait(lambda: seen()["exit"] == NOT_SERVING, watched.said)
    assert "Pool farm: PANIC" in of_level(seen(), "critical")
    for name in NAMES:
        (folder / name).touch()
    wait(lambda: seen()["exit"] == 0, watched.said)
    assert checked.vsctl("--if-exists", "get", "Bridge", BRIDGE, "external_ids:dnsteer-agent").strip() in ("", "[]")
