# SPDX-License-Identifier: Apache-2.0
"""The program itself, spoken to through its control socket: python3 socket_test.py PROGRAM PROGRAMS."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BINARY, PROGRAMS = sys.argv[1], Path(sys.argv[2])
ENVIRONMENT = {**os.environ, "DOCA_FLOW_MODEL_DEVICES": "ext-in ext-out"}


class Running:
    """A process of the program, with its socket and its log."""

    def __init__(self, directory, program, *options, **environment):
        self.path = str(directory / "control.sock")
        self.log = directory / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [BINARY, "--program", str(program), "--socket", self.path, *options],
                stderr=log,
                env={**ENVIRONMENT, **environment},
            )

    def connect(self):
        deadline = time.monotonic() + 20
        while True:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(20)
            try:
                connection.connect(self.path)
                return connection
            except OSError:
                connection.close()
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise AssertionError(self.log.read_text()) from None
                time.sleep(0.02)

    def ask(self, **request):
        with self.connect() as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(connection.makefile().readline())

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(20)

    def events(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


@contextlib.contextmanager
def running(directory, program, *options, **environment):
    it = Running(directory, program, *options, **environment)
    try:
        yield it
    finally:
        if it.process.poll() is None:
            it.process.kill()
            it.process.wait()


def start(path):
    """A start that is expected to be refused."""
    return subprocess.run(
        [BINARY, "--program", str(PROGRAMS / "l2-slots.json"), "--socket", path],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def read(name):
    return json.loads((PROGRAMS / name).read_text())


def test_life(directory):
    with running(directory, PROGRAMS / "ipip.json") as it:
        status = it.ask(command="status")
        assert status["state"] == "running" and status["vips"] == 2, status
        assert stat.S_IMODE(Path(it.path).stat().st_mode) == 0o600
        assert Path(it.path).is_socket()
        assert it.end() == 0
        assert not Path(it.path).exists()
        events = [event["event"] for event in it.events()]
        assert events == ["started", "signal", "stopped"], it.events()


def test_load_and_stop(directory):
    with running(directory, PROGRAMS / "l2-slots.json") as it:
        program = read("l2-slots.json")
        program["vips"][0]["slots"][0] = "b2"
        answer = it.ask(command="load", program=program)
        assert answer["ok"] and answer["slots_updated"] == 1 and answer["replaced"] == 0, answer
        program["vips"][0]["slots"].pop()
        answer = it.ask(command="load", program=program)
        assert not answer["ok"] and answer["error"].startswith("vip dns4: $.vips[0].slots: found 7 slots"), answer
        dump = it.ask(command="dump")
        assert [slot["backend"] for slot in dump["services"][0]["slots"]] == ["b2", "b2", "b1", "b2"] + ["b1", "b2"] * 2
        assert it.ask(command="counters")["dropped"]["missed"] == 0
        slots = it.ask(command="slots")["vips"]
        assert [vip["slots"] for vip in slots] == [[0] * len(s["slots"]) for s in dump["services"]], slots
        status = it.ask(command="status")
        assert (status["loads"], status["refused"]) == (2, 1), status
        assert it.ask(command="stop") == {"ok": True}
        assert it.process.wait(20) == 0
        assert {"loaded", "refused", "stopped"} <= {event["event"] for event in it.events()}


def test_what_hardware_refuses_to_remove(directory):
    """It is counted, takes its room, and is tried again without another load."""
    with running(directory, PROGRAMS / "l2-slots.json", DOCA_FLOW_MODEL_REMOVE_ONE_IN="2") as it:
        slots = it.ask(command="status")["used_of_budget"]["slots"][0]
        program = read("l2-slots.json")
        program["vips"][0]["select"] = "spray"
        answer = it.ask(command="load", program=program)
        assert answer["ok"] and answer["replaced"] == 1, answer
        status = it.ask(command="status")
        while status["awaiting_removal"] > 0:
            assert slots < status["used_of_budget"]["slots"][0] <= slots + status["awaiting_removal"], status
            status = it.ask(command="status")
        assert status["used_of_budget"]["slots"][0] == slots, status
        told = [(event["event"], event["entries"]) for event in it.events() if "entries" in event]
        assert [event for event, _ in told] == ["not_removed", "removed_late"], told
        assert told[0][1] > 0, told


def test_kill_and_restart(directory):
    with running(directory, PROGRAMS / "l2-slots.json") as it:
        assert it.ask(command="status")["ok"]
        assert it.end(signal.SIGKILL) == -signal.SIGKILL
        assert Path(it.path).exists()
    with running(directory, PROGRAMS / "l2-slots.json") as it:
        assert it.ask(command="status")["vips"] == 3
        with running(directory / "second", PROGRAMS / "l2-slots.json") as other:
            assert other.ask(command="status")["ok"]
        second = start(it.path)
        assert second.returncode == 1 and "another process serves it" in second.stderr, second
        assert it.ask(command="status")["ok"]


def test_starts_at_once(directory):
    """Of several that start at once where one was killed, one serves, and each other one says why it does not."""
    with running(directory, PROGRAMS / "l2-slots.json") as killed:
        assert killed.ask(command="status")["ok"]
        killed.end(signal.SIGKILL)
    with contextlib.ExitStack() as stack:
        for name in "abcd":
            (directory / name).mkdir()
        several = [
            stack.enter_context(running(directory / name, PROGRAMS / "l2-slots.json", "--socket", killed.path))
            for name in "abcd"
        ]
        refused = []
        while len(refused) < len(several) - 1:
            time.sleep(0.02)
            refused = [it for it in several if it.process.poll() is not None]
        serving = next(it for it in several if it not in refused)
        serving.path = killed.path
        assert serving.ask(command="status")["ok"]
        for it in refused:
            assert it.process.returncode == 1, it.log.read_text()
            assert "another process serves it" in it.events()[-1]["error"], it.events()
        assert serving.end() == 0
    assert not Path(killed.path).exists() and not Path(f"{killed.path}.lock").exists()


def test_lines(directory):
    """Several requests in one packet, one in many, one that is none, and clients that leave."""
    with running(directory, PROGRAMS / "l2-slots.json") as it:
        with it.connect() as connection:
            connection.sendall(b'{"command":"status"}\nnonsense\n{"command":"counters"}\n')
            lines = connection.makefile()
            answers = [json.loads(lines.readline()) for _ in range(3)]
            assert [answer["ok"] for answer in answers] == [True, False, True], answers
            for byte in b'{"command":"status"}\n':
                connection.sendall(bytes([byte]))
            assert json.loads(lines.readline())["ok"]
        with it.connect() as connection:
            connection.sendall(b'{"command":"dump"}\n' * 200)  # and never reads
        crowd = [it.connect() for _ in range(20)]
        for connection in crowd:
            connection.close()
        time.sleep(0.1)
        program = read("l2-slots.json")
        program["vips"][0]["slots"] = ["b1"] * 64
        assert it.ask(command="load", program=program)["replaced"] == 1
        assert it.end(signal.SIGINT) == 0


def test_many_clients(directory):
    """Whoever has been silent longest makes room, also in the middle of a request or an answer."""
    with running(directory, PROGRAMS / "l2-slots.json") as it:
        silent = [it.connect() for _ in range(8)]
        assert it.ask(command="status")["ok"]
        for connection in silent:
            connection.close()
        busy = [it.connect() for _ in range(8)]
        for connection in busy:
            connection.sendall(b'{"command":')
            time.sleep(0.05)  # so that they are served in this order
        busy[0].sendall(b'"stat')  # not silent any more
        time.sleep(0.2)
        for _ in range(10):
            assert it.ask(command="status")["ok"]
        lost = json.loads(busy[1].makefile().readline())
        assert not lost["ok"] and "silent longest" in lost["error"], lost
        for connection, rest in ((busy[0], b'us"}\n'), *((connection, b'"status"}\n') for connection in busy[2:])):
            connection.sendall(rest)
            assert json.loads(connection.makefile().readline())["ok"]
            connection.close()
        assert it.ask(command="status")["ok"]
        deaf = [it.connect() for _ in range(8)]
        for connection in deaf:
            connection.sendall(b'{"command":"dump"}\n' * 1000)  # and never reads
        time.sleep(0.2)
        assert it.ask(command="status")["ok"]
        for connection in deaf:
            connection.close()
        assert "too_many_clients" in {event["event"] for event in it.events()}


def test_slow_client(directory):
    """One that reads late gets every answer whole, and nobody waits for it."""
    with running(directory, PROGRAMS / "ipip.json") as it, it.connect() as slow:
        slow.sendall(b'{"command":"dump"}\n' * 300)
        assert it.ask(command="status")["ok"]
        lines = slow.makefile()
        assert all(json.loads(lines.readline())["ok"] for _ in range(300))


def test_huge_line(directory):
    """A line without end is refused, with an answer, and the others are served meanwhile and after."""
    with running(directory, PROGRAMS / "l2-slots.json") as it, it.connect() as greedy:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for number in range(130):
                greedy.sendall(b"x" * (1 << 20))
                if number == 60:
                    assert it.ask(command="status")["ok"]
        answer = json.loads(greedy.makefile().readline())
        assert not answer["ok"] and answer["error"].startswith("request: found no end of the line"), answer
        assert it.ask(command="status")["ok"]
        program = read("l2-slots.json")
        program["about"] = "x" * (20 << 20)  # long, but a program
        assert it.ask(command="load", program=program)["ok"]


def test_nobody_reads_the_log(directory):
    reader, writer = os.pipe()
    path = str(directory / "control.sock")
    arguments = [BINARY, "--program", str(PROGRAMS / "l2-slots.json"), "--socket", path]
    with subprocess.Popen(arguments, stderr=writer, env=ENVIRONMENT) as process:
        try:
            os.close(writer)
            line = os.read(reader, 1000)  # whole, as it was written in one piece
            assert json.loads(line)["event"] == "started" and line.endswith(b"\n"), line
            os.close(reader)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(20)
                connection.connect(path)
                for line in (b"nonsense", b'{"command":"drain","backend":"b1"}', b'{"command":"load","program":1}'):
                    connection.sendall(line + b"\n")
                    assert connection.recv(1000).startswith(b'{"ok":')
                assert process.poll() is None
                connection.sendall(b'{"command":"stop"}\n')
                assert connection.recv(1000) == b'{"ok":true}\n'
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_other_sockets(directory):
    """A socket of somebody else is neither taken nor removed, even if that somebody does not answer."""
    with running(directory, PROGRAMS / "l2-slots.json") as old:
        assert old.ask(command="status")["ok"]
        Path(old.path).unlink()
        second = start(old.path)
        assert second.returncode == 1 and f"holds {old.path}.lock" in second.stderr, second  # it has the ports still
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(old.path)
            assert old.end() == 0
            assert Path(old.path).is_socket()
    path = str(directory / "busy.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = []
        with contextlib.suppress(BlockingIOError):  # until no more may wait
            while True:
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                waiting[-1].connect(path)
        result = start(path)
        assert result.returncode == 1 and "another process serves it" in result.stderr, result
        for connection in waiting:
            connection.close()


def test_tells_when_it_is_ready(directory):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "notify"))
        manager.settimeout(20)
        ENVIRONMENT["NOTIFY_SOCKET"] = str(directory / "notify")
        try:
            with running(directory, PROGRAMS / "l2-slots.json") as it:
                assert manager.recv(100) == b"READY=1"
                assert it.ask(command="status")["ok"]
                assert it.end() == 0
        finally:
            del ENVIRONMENT["NOTIFY_SOCKET"]


def test_core(directory):
    allowed = os.sched_getaffinity(0)
    with running(directory, PROGRAMS / "l2-slots.json") as it:
        assert it.ask(command="status")["ok"]
        assert os.sched_getaffinity(it.process.pid) == allowed
    with running(directory, PROGRAMS / "l2-slots.json", "--core", str(max(allowed))) as it:
        assert it.ask(command="status")["ok"]
        assert os.sched_getaffinity(it.process.pid) == {max(allowed)}


def test_bad_starts(directory):
    def start(*arguments, **environment):
        return subprocess.run(
            [BINARY, *arguments], env={**ENVIRONMENT, **environment}, capture_output=True, text=True, check=False
        )

    program = str(PROGRAMS / "l2-slots.json")
    path = str(directory / "control.sock")
    assert start("--help").stdout.startswith("usage")
    for arguments in (
        [],
        ["--program"],
        ["--program", program],
        ["--program", program, "--socket", path, "more"],
        ["--nonsense"],
        ["--program", program, "--socket", path, "--log-level", "loud"],
        *(
            ["--program", program, "--socket", path, "--core", core]
            for core in ("one", "", "-1", "1x", "100000", "1023")
        ),
    ):
        result = start(*arguments)
        assert result.returncode == 2 and json.loads(result.stderr)["event"] == "options", result
    result = start("--program", program, "--socket", path, "--core", "1023")
    assert "--core: found 1023, expected the number of a core that this process may run on" in result.stderr, result
    assert start("--program", program, "--check", "--core", "1023").returncode == 0  # for another machine
    missing = start("--program", "/nonexistent", "--socket", path)
    assert missing.returncode == 1 and "/nonexistent" in missing.stderr, missing
    long = start("--program", program, "--socket", "/" + "x" * 200)
    assert long.returncode == 1 and "expected 107 at most" in long.stderr, long
    gone = start("--program", program, "--socket", path, DOCA_FLOW_MODEL_DEVICES="other")
    assert gone.returncode == 1 and "port ext-in: there is no device of this name" in gone.stderr, gone
    assert not Path(path).exists()
    (directory / "control.sock").write_text("a file, not a socket")
    file = start("--program", program, "--socket", path)
    assert file.returncode == 1 and (directory / "control.sock").read_text().startswith("a file"), file


def main():
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    for test in tests:
        print(test.__name__, file=sys.stderr)
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "second").mkdir()
            test(Path(directory))
    print(f"{len(tests)} tests")


main()
