"""A private Open vSwitch: its own OVSDB, sockets and run directory, unprivileged, gone when the work is done."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ovs.unixctl.client import UnixctlClient

from dnsteer.switch.tools import SwitchError, program, run, schema_file

_START_TIMEOUT = 10.0
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """In the child: be ended when the parent is, so that even kill -9 of dnsteer leaves no daemon behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    os.setpgid(0, 0)  # Ctrl-C reaches dnsteer, which ends the daemons in order


def _listens(sock: Path) -> bool:
    """Whether somebody accepts connections there; the file alone appears a moment earlier."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(sock)) == 0


class PrivateSwitch:
    """A dummy-datapath ovs-vswitchd with one bridge, to load a pipeline into and send packets through."""

    def __init__(self) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="dnsteer-"))
        self.env = {f"OVS_{k}": str(self.dir) for k in ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._control: Any = None

    @property
    def database(self) -> str:
        """The OVSDB socket as ovs-vsctl's --db takes it."""
        return f"unix:{self.dir}/db.sock"

    def __enter__(self) -> PrivateSwitch:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        log = ["-vconsole:off", "-vsyslog:off", "-vfile:info"]
        database = str(self.dir / "conf.db")
        run(["ovsdb-tool", "create", database, str(schema_file())], env=self.env)
        sock = self.dir / "db.sock"
        server = self._spawn(
            ["ovsdb-server", database, f"--remote=punix:{sock}", f"--log-file={self.dir}/ovsdb.log", *log]
        )
        self._wait(server, sock)
        run(["ovs-vsctl", f"--db={self.database}", "--no-wait", "init"], env=self.env)
        control = self.dir / "vswitchd.ctl"
        switch = self._spawn(
            [
                "ovs-vswitchd", self.database, "--enable-dummy=override", "--disable-system",
                f"--unixctl={control}", f"--log-file={self.dir}/vswitchd.log", *log,
            ]
        )  # fmt: skip
        self._wait(switch, control)
        err, self._control = UnixctlClient.create(str(control))
        if err:
            raise SwitchError(f"the private ovs-vswitchd's control socket: {os.strerror(err)}")

    def _spawn(self, args: Sequence[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [program(args[0]), *args[1:]],
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - started before any thread of ours
        )
        self._processes.append(process)
        return process

    def _wait(self, process: subprocess.Popen[bytes], sock: Path) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not _listens(sock):
            if process.poll() is not None:
                raise SwitchError(f"{process.args[0]} ended at once: {self.log_tail()}")  # type: ignore[index]
            if time.monotonic() > deadline:
                raise SwitchError(f"{process.args[0]} did not start within {_START_TIMEOUT:g} s")  # type: ignore[index]
            time.sleep(0.005)

    def stop(self) -> None:
        """End the daemons that were started here and remove their files."""
        if self._control is not None:
            self._control.close()
            self._control = None
        for process in reversed(self._processes):
            if process.poll() is None:
                process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if "DNSTEER_KEEP" not in os.environ:  # for looking at logs and captures afterwards
            shutil.rmtree(self.dir, ignore_errors=True)

    def appctl(self, command: str, *args: str) -> str:
        """Run a command in the private ovs-vswitchd. Raises SwitchError with its message when it fails."""
        code, error, result = self._control.transact(command, list(args))
        if code or error:
            raise SwitchError(f"{command}: {error or os.strerror(abs(code))}".strip())
        return str(result or "")

    def dump(self, command: str, *args: str) -> str:
        """Like appctl, for long answers: ovs-appctl reads them a thousand times faster than the ovs library does."""
        return run(["ovs-appctl", "-t", str(self.dir / "vswitchd.ctl"), command, *args], env=self.env)

    def vsctl(self, *args: str) -> str:
        """Run ovs-vsctl on the private OVSDB and wait for the switch to follow."""
        return run(["ovs-vsctl", f"--db={self.database}", "--timeout=20", *args], env=self.env)

    def log_tail(self) -> str:
        """The last lines of the logs, for messages."""
        files = [self.dir / "vswitchd.log", self.dir / "ovsdb.log"]
        return " | ".join(f.read_text(errors="replace").strip().split("\n")[-1] for f in files if f.exists())

    def complaints(self) -> list[str]:
        """Warnings and errors in the switch's logs."""
        found: list[str] = []
        for name in ("vswitchd.log", "ovsdb.log"):
            file = self.dir / name
            text = file.read_text(errors="replace") if file.exists() else ""
            found += [line for line in text.splitlines() if any(w in line for w in ("|WARN|", "|ERR|", "|EMER|"))]
        return found
