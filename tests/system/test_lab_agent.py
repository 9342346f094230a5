# SPDX-License-Identifier: Apache-2.0
"""The lab that `make demo KEEP=1` leaves: an agent that outlives who started it, its console, and how all of it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import agent, names, processes
from dnsteer.lab.command import LabProgram
from tests.packet.agents import wait
from tests.packet.switches import cli
from tests.system.lab_specs import apply_in_lab

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
ROOT = Path(__file__).parents[2]
HEALTH = ROOT / "examples" / "authoritative.yaml"


@pytest.fixture(autouse=True)
def state(no_lab: None) -> Iterator[lab.LabState]:
    """A lab without a bridge."""
    try:
        yield lab.up(load_spec(HEALTH).spec)
    finally:
        lab.down()


def console_of(said: str) -> tuple[int, str]:
    """The agent's process id and its console's address, as the command says them."""
    found = re.search(r"agent: process (\d+),.* console at (http://127\.0\.0\.1:\d+/)\n", said)
    assert found is not None, said
    return int(found[1]), found[2]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()  # type: ignore[no-any-return]


def relays() -> list[int]:
    """Process ids of the relays to consoles."""
    return [p for p in processes.inside_namespaces() if b"dnsteer.lab.relay" in processes._arguments(p)]


def test_the_agent_outlives_the_command_and_ends_with_the_lab(no_lab: None) -> None:
    refused = cli("lab", "agent")
    assert refused.returncode == 1 and "no bridge in the lab yet: run `dnsteer apply SPEC --db" in refused.stderr
    apply_in_lab(load_spec(HEALTH))
    started = cli("lab", "agent")
    assert started.returncode == 0, started.stderr
    pid, url = console_of(started.stdout)
    assert os.getsid(pid) == pid, "a session of its own, which no hangup of a terminal reaches"
    assert url == f"http://127.0.0.1:{agent.PORT}/"
    assert "<title>Overview · br-dns · dnsteer</title>" in get(url)
    with urllib.request.urlopen(f"{url}events?page=overview", timeout=10) as events:
        assert events.readline() == b"retry: 2000\n"
    assert "dnsteer_switch_up" in get(f"{url}metrics")
    assert json.loads(cli("lab", "status", "--json").stdout)["console"] == url
    assert console_of(cli("lab", "status").stdout) == (pid, url)
    again = cli("lab", "agent")
    assert (
        again.returncode == 1
        and f"the lab has an agent already (process {pid}), with its console at {url}" in again.stderr
    )
    demo = subprocess.run(
        ["sh", "scripts/demo.sh", "examples/quickstart.yaml", names.db_target()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "generator")},
        check=False,
        timeout=60,
    )
    assert demo.returncode == 1 and demo.stdout == ""
    assert f"a lab is up, and its console is at {url}" in demo.stderr and "lab down" in demo.stderr
    assert "<title>" in get(url), "somebody's lab is left alone"
    found = relays()
    assert len(found) == 1
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        lab.down()
        assert other.poll() is None, "nobody else's process is ended"
        other.kill()
    wait(lambda: not any(Path(f"/proc/{p}/cmdline").exists() for p in (pid, *found)), lambda: "the agent still runs")
    with pytest.raises(urllib.error.URLError):
        get(url)
    assert agent.running() is None


def test_a_taken_console_port_is_replaced(no_lab: None, monkeypatch: pytest.MonkeyPatch) -> None:
    apply_in_lab(load_spec(HEALTH))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(agent, "PORT", taken.getsockname()[1])
        said: list[str] = []
        found = agent.start(said.append)
        port = int(found.console.rstrip("/").rpartition(":")[2])
        assert said == [f"port {agent.PORT} of this machine is taken, so the console has port {port}"]
        assert port != agent.PORT and "<title>Overview" in get(found.console)


def test_an_agent_that_cannot_start_or_was_killed_does_not_keep_the_next_from_starting(no_lab: None) -> None:
    apply_in_lab(load_spec(HEALTH))
    listens = "import socket, time; s = socket.create_server(('127.0.0.1', 9853)); print('listens'); time.sleep(60)"
    argv = [sys.executable, "-c", listens]
    with LabProgram(names.SWITCH_NAMESPACE, argv, {"PYTHONUNBUFFERED": "1"}) as taken:
        assert taken.wait_for_line(lambda said: said == "listens", 10)
        with pytest.raises(
            lab.LabError, match=r"the agent does not serve its console, but said: .*Address already in use"
        ):
            agent.start(lambda _: None)
    assert not [p for p in processes.inside_namespaces() if b"agent" in processes._arguments(p)]
    assert agent.running() is None
    first = agent.start(lambda _: None)
    assert "<title>Overview" in get(first.console), "what an agent before it said does not count"
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: agent.running() is None, lambda: "the agent still runs")
    assert len(relays()) == 1
    second = agent.start(lambda _: None)
    assert second.pid != first.pid and second.console == first.console, "the port is free again"
    assert "<title>Overview" in get(second.console) and len(relays()) == 1
