# SPDX-License-Identifier: Apache-2.0
"""Verbs through the agent's control socket: the same as without an agent, and clients that send something else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pytest

from dnsteer import __version__
from dnsteer.cli.output import Exit
from dnsteer.switch.session import Session
from tests.packet.agents import Agent, agent, checked_by_files, wait
from tests.packet.command import FARM, OTHER, fresh, on, spec_file
from tests.packet.maintenance_specs import in_terminal, overlay
from tests.packet.switches import BRIDGE, Switch, cli

EXPECTED = ["connection dropped", "Broken pipe"]


@pytest.fixture
def running(applied: Switch, tmp_path: Path) -> Iterator[Agent]:
    """An agent beside the module's switch with FARM applied."""
    with agent(applied, tmp_path, "control socket") as it:
        yield it


def path_of(switch: Switch) -> Path:
    return switch.dir / "dnsteer" / f"{BRIDGE}.sock"


def talk(switch: Switch, data: bytes, *, more: bool = False) -> list[dict[str, Any]]:
    """Send bytes, and return all that the agent says. With *more* our side stays open."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(path_of(switch)))
        try:
            client.sendall(data)
            if not more:
                client.shutdown(socket.SHUT_WR)
        except BrokenPipeError:
            pass  # it has seen enough
        said = b""
        try:
            while chunk := client.recv(1 << 16):
                said += chunk
        except ConnectionResetError:
            pass
    return [json.loads(line) for line in said.splitlines()]


def request(*argv: str, **more: Any) -> bytes:
    return json.dumps({"v": 1, "argv": argv, **more}).encode() + b"\n"


def test_verbs_say_and_do_the_same(shared: Switch, applied: Switch, tmp_path: Path) -> None:
    spec, other = spec_file(tmp_path), tmp_path / "other.yaml"
    other.write_text(OTHER)
    script: list[list[object]] = [
        ["drain", "farm/ns1", "--note", "a disk"],
        ["drain", "farm/ns1"],
        ["down", "farm/ns2", "--json", "--yes"],
        ["undrain", "farm/ns1"],
        ["up", "farm/ns2"],
        ["up", "farm/ns2"],
        ["drain", "farm/ns1", "--dry-run"],
        ["drain", "farm/nsx"],
        ["drain"],
        ["weight", "farm/ns1", "4"],
        ["weight", "farm/ns1", "--undo"],
        ["down", "spare/sp1"],
        ["plan", other],
        ["apply", other],
        ["apply", other, "--json"],
        ["rollback"],
        ["restore"],
        ["reconcile"],
        ["plan", spec],
        ["apply", tmp_path / "missing.yaml"],
    ]

    def play() -> list[tuple[int, str, str]]:
        fresh(shared)
        assert on(shared)("apply", spec).code == 0
        done = []
        for words in script:
            ran = on(shared)(*words)
            done.append((ran.code, ran.out, ran.err))
        return done

    alone = play()
    tables = shared.tables()
    fresh(shared)
    assert on(shared)("apply", spec).code == 0
    with agent(shared, tmp_path, "control socket") as it:
        before = it.said().count("\nfor ")
        done = []
        for words in script:
            ran = on(shared)(*words)
            done.append((ran.code, ran.out, ran.err))
        assert it.said().count("\nfor ") - before == len(script) - 1, it.said()  # but for the spec that is not there
    assert done == alone
    assert shared.tables() == tables


def test_the_agent_runs_status(running: Agent, shared: Switch) -> None:
    value = on(shared)("status", "--no-rates", "--json").json
    assert value["bridge"] == BRIDGE
    running.waits_for("status --no-rates --json")


def test_the_calling_user_is_recorded(running: Agent, shared: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ann")
    assert on(shared)("drain", "farm/ns1").code == 0
    assert [entry["by"] for entry in overlay(shared)] == [f"ann@{socket.gethostname()}"]


def test_the_command_itself_asks_for_confirmation(running: Agent, shared: Switch) -> None:
    done = on(shared)("down", "farm/ns2")
    assert done.code == 0
    assert on(shared)("down", "farm/ns1").code == 0
    done = on(shared)("down", "farm/ns3")
    assert done.code == Exit.ERROR
    assert "nothing was changed; to do it anyway: --yes" in done.err
    assert [entry["backend"] for entry in overlay(shared)] == ["ns2", "ns1"]
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(path_of(shared)))
        client.sendall(request("down", "farm/ns3", "--db", shared.database))
        with client.makefile("rw") as lines:
            asked = next(json.loads(line)["ask"] for line in lines if "ask" in json.loads(line))
            assert any("farm" in reason for reason in asked["reasons"])
            lines.write('{"answer": true}\n')
            lines.flush()
            assert json.loads(list(lines)[-1]) == {"exit": 0}
    assert [entry["backend"] for entry in overlay(shared)] == ["ns2", "ns1", "ns3"]


def test_a_gradual_drain_is_followed(running: Agent, shared: Switch) -> None:
    done = on(shared)("drain", "farm/ns1", "--over", "1s")
    assert done.code == 0
    assert "100 % drained" in done.err
    assert overlay(shared)[0]["backend"] == "ns1"


def test_the_socket_is_for_its_owner_alone(running: Agent, shared: Switch) -> None:
    assert stat.S_IMODE(path_of(shared).stat().st_mode) == 0o600
    assert stat.S_IMODE(path_of(shared).parent.stat().st_mode) == 0o700


def test_verbs_work_without_an_agent_that_hangs(running: Agent, shared: Switch) -> None:
    running.hang(shared)
    try:
        done = on(shared)("drain", "farm/ns1")
        assert done.code == 0
        assert "does not answer; this is done without it" in done.err
    finally:
        os.kill(running.process.pid, signal.SIGCONT)
    assert overlay(shared)[0]["backend"] == "ns1"


def test_verbs_work_without_an_agent_that_was_killed(shared: Switch, applied: Switch, tmp_path: Path) -> None:
    it = Agent(shared, tmp_path / "agent.log")
    it.waits_for("control socket")
    it.end(signal.SIGKILL)
    assert path_of(shared).exists()
    done = on(shared)("drain", "farm/ns1")
    assert (done.code, done.err) == (0, "")
    with agent(shared, tmp_path, "control socket", "next"):
        assert on(shared)("undrain", "farm/ns1").code == 0
    assert not path_of(shared).exists()


def test_a_gradual_drain_continues_after_the_agent_is_killed(shared: Switch, applied: Switch, tmp_path: Path) -> None:
    """The client says what it does not know, and the next agent goes on."""
    it = Agent(shared, tmp_path / "agent.log")
    it.waits_for("control socket")

    def kill_under_way() -> None:
        wait(lambda: overlay(shared) and overlay(shared)[0].get("gone", 0) > 0, lambda: str(overlay(shared)))
        it.end(signal.SIGKILL)

    killer = threading.Thread(target=kill_under_way)
    killer.start()
    done = on(shared)("drain", "farm/ns1", "--over", "6s")
    killer.join()
    assert done.code == Exit.UNAVAILABLE
    assert "the agent stopped answering: whether it made the change, dnsteer status says" in done.err
    assert 0 < overlay(shared)[0].get("gone", 1000) < 1000
    with agent(shared, tmp_path, "control socket", "next"):
        wait(lambda: "gone" not in overlay(shared)[0], lambda: str(overlay(shared)))


@pytest.mark.parametrize(
    ("spoken", "version", "said"),
    [
        (1, "99.0", f"the agent is dnsteer 99.0, and this is {__version__}: use dnsteer 99.0 here, or upgrade to it"),
        (1, "0.0.9", f"the agent is dnsteer 0.0.9, and this is {__version__}: restart the agent"),
        (1, "?", f"the agent is another dnsteer, and this is {__version__}: restart the agent"),
        (2, "99.0", "and speaks version 1: use dnsteer 99.0 here, or upgrade to it"),
        (0, "0.0.9", "and speaks version 1: restart the agent, so that it is the version that is installed: systemctl"),
    ],
)
def test_verbs_work_without_an_agent_of_another_version(
    shared: Switch, applied: Switch, spoken: int, version: str, said: str
) -> None:
    path_of(shared).parent.mkdir(exist_ok=True)
    path_of(shared).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path_of(shared)))
        server.listen()
        threading.Thread(target=_greet, args=(server, spoken, version), daemon=True).start()
        done = on(shared)("drain", "farm/ns1")
    path_of(shared).unlink()
    assert done.code == 0
    assert done.err.startswith("note: the agent is ")
    assert said in done.err
    assert done.err.rstrip().endswith("; this is done without it")


def _greet(server: socket.socket, spoken: int, version: str) -> None:
    client, _ = server.accept()
    with client:
        client.sendall(json.dumps({"v": spoken, "version": version}).encode() + b"\n")
        client.recv(1)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x00\xff garbage\n", "found a line that is not JSON"),
        (b"[" * 100_000 + b"\n", "found a line that is not JSON"),
        (b'{"v": 1, "argv": ["drain"', "found half a line"),
        (b'{"v": 2, "argv": ["drain"]}\n', "and the client is another dnsteer and speaks version 2: restart the agent"),
        (b'{"v": 0, "tell": "knowledge"}\n', f"speaks version 0: use dnsteer {__version__} here, or upgrade to it"),
        (b"7\n", "found version '7'; expected 1"),
        (b'{"v": 1}\n', "expected argv: a list of words"),
        (b'{"v": 1, "argv": "drain"}\n', "expected argv: a list of words"),
        (b'{"v": 1, "argv": ["drain", 7]}\n', "expected argv: a list of words"),
        (b'{"v": 1, "argv": ["apply", "x"], "files": {"x": "!"}}\n', "not in base64"),
        (b'{"v": 1, "argv": ["apply", "x"], "files": []}\n', "expected argv: a list of words"),
    ],
)
def test_malformed_requests_are_answered_with_an_error(running: Agent, shared: Switch, data: bytes, said: str) -> None:
    assert said in talk(shared, data)[-1]["error"]


def test_an_endless_request_is_cut_off(running: Agent, shared: Switch) -> None:
    """A gigabyte without a newline: it is not read."""
    block = b"x" * (1 << 20)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(path_of(shared)))
        sent = 0
        with pytest.raises(OSError):
            while sent < 1 << 30:
                sent += client.send(block)
    assert sent < 200 << 20
    resident = Path(f"/proc/{running.process.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
    assert int(resident) < 400_000
    assert on(shared)("drain", "farm/ns1").code == 0


def test_unsupported_verbs_are_refused(running: Agent, shared: Switch) -> None:
    for verb in ("agent", "lab", "nonsense", "--help"):
        *rest, last = talk(shared, request(verb), more=True)
        assert last == {"exit": Exit.USAGE}
        assert any("the agent does not do" in message.get("err", "") for message in rest)


def test_silent_clients_are_closed_and_do_not_block_others(running: Agent, shared: Switch) -> None:
    """They keep nobody from working, and are not served for ever."""
    idle = []
    for _ in range(6):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(path_of(shared)))
        idle.append(client)
    assert on(shared)("drain", "farm/ns1").code == 0
    running.waits_for("drain farm/ns1")
    start = time.monotonic()
    idle[0].settimeout(20)
    said = b""
    while chunk := idle[0].recv(4096):
        said += chunk
    assert b"no whole request came within 10 s" in said
    assert time.monotonic() - start < 15
    for client in idle:
        client.close()


def test_idle_clients_do_not_block_requests(running: Agent, shared: Switch) -> None:
    """As many as it waits for, and some more, for which those that came first are sent away."""
    idle = [socket.socket(socket.AF_UNIX) for _ in range(40)]
    for client in idle:
        client.settimeout(20)
        client.connect(str(path_of(shared)))
    done = on(shared)("drain", "farm/ns1")
    assert (done.code, done.err) == (0, "")
    running.waits_for("for ")
    with idle[0].makefile() as lines:
        assert "no request came, and 32 other clients wait to send theirs" in lines.read()
    for client in idle:
        client.close()


@contextmanager
def stopped_at_a_question(switch: Switch, number: int) -> Iterator[list[TextIO]]:
    """Clients that do not answer what the agent asks: what each of them reads."""
    for name in ("farm/ns1", "farm/ns2"):
        assert on(switch)("down", name, "--yes").code == 0
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(number)]
        lines = [stack.enter_context(client.makefile()) for client in clients]
        for client, said in zip(clients, lines, strict=True):
            client.settimeout(20)
            client.connect(str(path_of(switch)))
            client.sendall(request("down", "farm/ns3", "--db", switch.database))
            assert any('"ask"' in line for line in said)
        yield lines


def test_verbs_above_the_concurrency_limit_are_refused(running: Agent, shared: Switch) -> None:
    """A further client is greeted with that, and gets what the agent knows all the same."""
    busy = "8 verbs are under way; try again"
    with stopped_at_a_question(shared, 8):
        done = on(shared)("undrain", "farm/ns1")
        assert done.code == 0
        assert f"{busy}; this is done without it" in done.err
        greeting, last = talk(shared, b'{"v": 1, "tell": "knowledge"}\n')
        assert greeting == {"v": 1, "version": __version__, "bridge": BRIDGE, "busy": busy}
        assert last["knows"]["state"] == 1
        refused = talk(shared, request("drain", "farm/ns1"), more=True)
        assert refused[1:] == [{"error": busy}]
        agent_is = on(shared)("status", "--no-rates", "--json").json["agent"]
        assert (agent_is["presence"], agent_is["knows"]["state"]) == ("acts", 1)


class ImpatientAgent(Agent):
    """An agent that gives a question up after a second."""

    program = (
        "-c",
        "from dnsteer.agent import control; from dnsteer.cli.main import run; control._ANSWER_PATIENCE = 1.0; run()",
    )


def test_an_unanswered_confirmation_times_out(shared: Switch, applied: Switch, tmp_path: Path) -> None:
    """So clients that are stopped at one are in nobody's way for ever; and a late answer changes nothing."""
    given_up, why = {"exit": Exit.ERROR}, "nothing was changed: no answer came within 1 s"
    impatient = ImpatientAgent(shared, tmp_path / "agent.log")
    try:
        impatient.waits_for("control socket")
        with stopped_at_a_question(shared, 8) as clients:
            for lines in clients:
                said = [json.loads(line) for line in islice(lines, 9)]  # with signs of life each 2 s, if it is not
                assert said[-1] == given_up
                assert any(why in message.get("err", "") for message in said)
            assert on(shared)("undrain", "farm/ns1").err == ""
        ended = "down has ended with 1"
        before = impatient.said().count(ended)
        done = in_terminal(
            shared,
            "y\n",
            "down",
            "farm/ns3",
            meanwhile=lambda: wait(lambda: impatient.said().count(ended) > before, impatient.said),
        )
        assert (done.code, why in done.err) == (Exit.ERROR, True), done.err
        assert [entry["backend"] for entry in overlay(shared)] == ["ns1", "ns2"]
        assert impatient.end() == 0
    finally:
        impatient.end(signal.SIGKILL)


@pytest.mark.parametrize("fault", ["removed", "replaced", "folder"])
def test_a_socket_whose_file_is_gone_is_made_again(fault: str, running: Agent, shared: Switch) -> None:
    path = path_of(shared)
    if fault == "folder":
        shutil.rmtree(path.parent)
    else:
        path.unlink()
    if fault == "replaced":
        path.write_text("")
    running.waits_for("made again")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = running.said().count("for ")
    assert on(shared)("drain", "farm/ns1").code == 0
    assert running.said().count("for ") > before


def test_apply_and_verify_send_the_spec_to_the_agent(running: Agent, shared: Switch, tmp_path: Path) -> None:
    """Standard input too."""
    spec = spec_file(tmp_path, FARM, old="weight: 2", new="weight: 4")
    assert on(shared)("apply", spec, "--yes").code == 0
    running.waits_for("apply")
    assert on(shared)("verify", spec).code == 0


def test_the_agent_ends_while_clients_and_confirmations_are_open(
    shared: Switch, applied: Switch, tmp_path: Path
) -> None:
    with agent(shared, tmp_path, "control socket") as it, socket.socket(socket.AF_UNIX) as idle:
        idle.connect(str(path_of(shared)))
        assert on(shared)("down", "farm/ns1", "--yes").code == 0
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(path_of(shared)))
            client.sendall(request("down", "farm/ns2", "--db", shared.database))
            with client.makefile("r") as lines:
                assert any('"ask"' in line for line in lines)
                start = time.monotonic()
                assert it.end() == 0
                assert time.monotonic() - start < 15
                assert "nothing was changed: the agent ends" in lines.read()
    assert [entry["backend"] for entry in overlay(shared)] == ["ns1"]


def test_a_backend_that_fails_while_another_spec_is_applied(switch: Switch, tmp_path: Path) -> None:
    switch.expected += [*EXPECTED, "could not open network device"]
    text = checked_by_files(tmp_path, "300ms", "290ms")
    assert on(switch)("apply", spec_file(tmp_path, text), "--yes").code == 0
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("name: dpu-1", "name: dpu-2"))
    with agent(switch, tmp_path, "state 1") as running:
        with ThreadPoolExecutor(1) as beside:
            with Session(switch.database) as holder:
                holder.lock(BRIDGE)
                applied = beside.submit(cli, "apply", other, "--yes", "--rename", "--db", switch.database)
                time.sleep(1)  # it waits for the lock, and the agent behind it
                (tmp_path / "a").unlink()
                time.sleep(1.5)
            done = applied.result()
            assert done.returncode == 0, done.stderr
        running.waits_for("direct/a is unhealthy")
        wait(lambda: [e["kind"] for e in overlay(switch)] == ["health"], running.said)
        assert running.process.poll() is None
