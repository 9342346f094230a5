# SPDX-License-Identifier: Apache-2.0
"""An agent beside the lab's switch that goes on after the command, with its console on a port of the machine."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dnsteer.lab import lifecycle, names, processes, state
from dnsteer.lab.command import netns_exec, python_environment, require_root
from dnsteer.lab.errors import LabError, NoLabError
from dnsteer.render.atomic_files import write_file

PORT = 9853
"""The console's port, unless another process has it; in the namespace always."""
LOG = names.RUN_DIR / "agent.log"
_PIDFILE = names.RUN_DIR / "agent.pid"
_FACTS = names.RUN_DIR / "agent.json"
_RELAY = "dnsteer.lab.relay"
_START, _STOP = 20.0, 10.0
"""Seconds that the agent may take to start, and to end where something else could not be started."""
_LOOK = 0.05


@dataclass(frozen=True)
class RunningAgent:
    """The agent of the lab: its process id, and the address of its console on this machine."""

    pid: int
    console: str


def running() -> RunningAgent | None:
    """The agent that `start` started; None if it does not run."""
    pid = next((pid for pid, path in processes.by_pidfile().items() if path == _PIDFILE), None)
    if pid is not None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return RunningAgent(pid, str(json.loads(_FACTS.read_text(encoding="utf-8"))["console"]))
    return None


def start(progress: Callable[[str], None]) -> RunningAgent:
    """Start an agent that goes on until `lab down`, and wait until it serves its console. Raises LabError.

    The spec must be applied. Where another process of the machine has PORT, the console gets a free one.
    """
    require_root()
    lab = lifecycle.status()
    if lab is None:
        raise NoLabError
    if lab.phase != "up":
        raise LabError(f"the lab is {lab.phase} ({lab.problem or 'wait for it'})")
    if not lab.applied:
        raise LabError(f"no bridge in the lab yet: run `dnsteer apply SPEC --db {lab.db}` first")
    with state.locked():  # `lab down` waits, and then finds what was started
        known = running()
        if known is not None:
            raise LabError(f"the lab has an agent already (process {known.pid}), with its console at {known.console}")
        # The relay of an agent that was killed still has the port.
        processes.kill_module(names.SWITCH_NAMESPACE, _RELAY)
        return _start(lab, progress)


def _start(lab: state.LabState, progress: Callable[[str], None]) -> RunningAgent:
    argv = [sys.executable, "-m", "dnsteer", "agent", "--db", lab.db, "--console", f"127.0.0.1:{PORT}"]
    argv += ["--extension", lab.extension] if lab.extension else []
    started: list[subprocess.Popen[bytes]] = []
    with _listen() as listening:
        port = listening.getsockname()[1]
        found = RunningAgent(0, f"http://127.0.0.1:{port}/")
        relay = [sys.executable, "-m", _RELAY, str(listening.fileno()), str(PORT)]
        said_before = LOG.stat().st_size if LOG.exists() else 0
        try:
            agent = _spawn(argv, started)
            _wait(agent, said_before)
            _spawn(relay, started, listening)
            _PIDFILE.write_text(f"{agent.pid}\n", encoding="ascii")
            write_file(_FACTS, json.dumps({"console": found.console}) + "\n")
        except BaseException:
            for process in started:
                _end(process)
            raise
    if port != PORT:
        progress(f"port {PORT} of this machine is taken, so the console has port {port}")
    return RunningAgent(agent.pid, found.console)


def _listen() -> socket.socket:
    """A socket of this machine that listens on PORT, or else on any free port."""
    for port in (PORT, 0):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", port))
            made.listen(64)
            return made
        except OSError as err:
            made.close()
            why = err.strerror
    raise LabError(f"no port for the console: {why}")


def _spawn(
    argv: Sequence[str], started: list[subprocess.Popen[bytes]], passed: socket.socket | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in the switch's namespace, in a session of its own, so that it outlives whoever started it."""
    # Options of the user's other switches are not for this one.
    environment = {name: value for name, value in python_environment().items() if not name.startswith("DNSTEER_")}
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            netns_exec(names.SWITCH_NAMESPACE, argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=environment,
            start_new_session=True,
            pass_fds=[passed.fileno()] if passed is not None else (),
        )
    started.append(process)
    return process


def _wait(agent: subprocess.Popen[bytes], said_before: int) -> None:
    """Wait until it watches the switch and serves the console. Raises LabError with its last log lines.

    The first *said_before* bytes of the log are of agents before it.
    """
    deadline = time.monotonic() + _START
    while True:
        said = LOG.read_bytes()[said_before:].decode("utf-8", "replace")
        if "console at http://" in said and "pools with health checks" in said:
            return
        last = " / ".join(said.splitlines()[-3:]) or "nothing"
        if "no console" in said or agent.poll() is not None or time.monotonic() > deadline:
            raise LabError(f"the agent does not serve its console, but said: {last}")
        time.sleep(_LOOK)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
