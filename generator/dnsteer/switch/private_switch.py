# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch: its own OVSDB, sockets and run directory, unprivileged, removed after use.

Where the process was killed, the next start of one removes it.

With DNSTEER_KEEP in the environment its directory (logs, database, captures) stays, for looking at it afterwards.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from dnsteer.switch.rpc import Rpc
from dnsteer.switch.signals import defer_signals, ends_with_parent
from dnsteer.switch.tools import SwitchError, TimedOutError, find_program, run, schema_file

_START_TIMEOUT = 10.0
_END_TIMEOUT = 5.0
_ANSWER_TIMEOUT = 60.0
_MAX_PATH = 80  # a socket's path may have 107 bytes, and a bridge's is "/", 15 characters and ".mgmt" longer
_LOG = ("-vconsole:off", "-vsyslog:off", "-vfile:info")


def _listens(sock: Path) -> bool:
    """Whether a daemon accepts connections there; the file appears a moment earlier."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(sock)) == 0


class PrivateSwitch:
    """A context manager: a dummy-datapath ovs-vswitchd without a bridge, to load pipelines into and send packets through.

    Its daemons end with the thread that started it, even when that is killed. With *real_tunnels*
    ports of tunnels make them; else ports of any type are dummy devices.
    """

    def __init__(self, *, real_tunnels: bool = False) -> None:
        self._dummy = "--enable-dummy" if real_tunnels else "--enable-dummy=override"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._control: Rpc | None = None
        with defer_signals():
            self.dir, held = new_directory()
            # Runs at the latest when the interpreter ends, should an interrupt keep stop() from being called.
            self._clean_up = weakref.finalize(self, _clean_up, self._processes, self.dir, held)
        self.env = {f"OVS_{k}": str(self.dir) for k in ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")}

    @property
    def database(self) -> str:
        """The OVSDB socket as ovs-vsctl's --db takes it."""
        return f"unix:{self.dir}/db.sock"

    def __enter__(self) -> PrivateSwitch:
        try:
            remove_leftovers()
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
        if len(os.fsencode(self.dir)) > _MAX_PATH:
            raise SwitchError(
                f"{self.dir.parent} is too long a name for a directory of sockets; set TMPDIR to a shorter one"
            )
        database = str(self.dir / "conf.db")
        run(["ovsdb-tool", "create", database, str(schema_file())], env=self.env)
        sock = self.dir / "db.sock"
        self._spawn(
            ["ovsdb-server", database, f"--remote=punix:{sock}", f"--log-file={self.dir}/ovsdb.log", *_LOG], sock
        )
        run(["ovs-vsctl", f"--db={self.database}", "--no-wait", "init"], env=self.env)
        self.start_switch()

    def start_switch(self) -> None:
        """Start ovs-vswitchd: at the beginning, and again once it was killed."""
        control = self.dir / "vswitchd.ctl"
        self._spawn(
            [
                "ovs-vswitchd",
                self.database,
                self._dummy,
                "--disable-system",
                f"--unixctl={control}",
                f"--log-file={self.dir}/vswitchd.log",
                *_LOG,
            ],
            control,
        )
        self._control = Rpc(f"unix:{control}", "the private ovs-vswitchd", _START_TIMEOUT)

    def _spawn(self, args: Sequence[str], sock: Path) -> None:
        """Start a daemon and wait until it listens on *sock*."""
        sock.unlink(missing_ok=True)
        with defer_signals():
            process = self._processes[args[0]] = subprocess.Popen(
                [find_program(args[0]), *args[1:]],
                env={**os.environ, **self.env},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches dnsteer alone, which ends the daemons in order
                preexec_fn=ends_with_parent(signal.SIGTERM),
            )
        deadline = time.monotonic() + _START_TIMEOUT
        while not _listens(sock):
            if process.poll() is not None:
                raise SwitchError(f"{args[0]} ended at once: {self.log_tail()}")
            if time.monotonic() > deadline:
                raise TimedOutError(f"{args[0]} did not start within {_START_TIMEOUT:g} s: {self.log_tail()}")
            time.sleep(0.005)

    def stop(self) -> None:
        """End the daemons that were started here and remove their files."""
        with defer_signals():
            if self._control is not None:
                self._control.close()
                self._control = None
            self._clean_up()

    def version(self) -> str:
        """Version of the running ovs-vswitchd, such as 3.1.0. Raises SwitchError."""
        return self.appctl("version").splitlines()[0].split()[-1]

    def appctl(self, command: str, *args: str) -> str:
        """Run a command in the private ovs-vswitchd. Raises SwitchError with its message when it fails."""
        if self._control is None:
            raise SwitchError("the private ovs-vswitchd does not run")
        try:
            return str(self._control.call(command, list(args), _ANSWER_TIMEOUT) or "")
        except SwitchError as err:
            raise type(err)(f"{command}: {err}") from None

    def dump(self, command: str, *args: str) -> str:
        """The same as appctl."""
        return self.appctl(command, *args)

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


def _clean_up(processes: dict[str, subprocess.Popen[bytes]], folder: Path, held: int | None) -> None:
    for process in reversed(processes.values()):
        if process.poll() is None:
            process.terminate()
    for process in reversed(processes.values()):
        try:
            process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    processes.clear()
    if held is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


PREFIX = "dnsteer-"
"""What the names of the directories begin with."""

_LOCK = "lock"


def new_directory() -> tuple[Path, int | None]:
    """Make a directory, and the descriptor that locks it until it is closed. Raises OSError.

    One that nobody locks any more is removed at the next start: a process that is killed cannot remove its own.

    With DNSTEER_KEEP in the environment there is none: the directory is to stay.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX)).absolute()
        if "DNSTEER_KEEP" in os.environ:
            return folder, None
        lock = folder / _LOCK
        held = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        if lock.exists():
            return folder, held
        os.close(held)  # removed by another process, which took the lock in between


def remove_leftovers() -> None:
    """Remove this user's directories whose process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or somebody else removes it now
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


_SPEED = re.compile(
    r"\|timeval(\([^|]*\))?\|WARN\|"  # a round of a thread's main loop that took too long, and what it used meanwhile
    r"|\|ovs_rcu(\([^|]*\))?\|WARN\|blocked \d+ ms waiting for "
    r"|\|WARN\|Spent an unreasonably long \d+ms dumping flows"
    r"|no response to inactivity probe after "
)
_DROPPED = re.compile(r"\|([a-z_]+)(\([^|]*\))?\|WARN\|Dropped \d+ log messages in last ")
_SPEED_MODULES = ("timeval", "ovs_rcu")


def is_about_slow_machine(line: str) -> bool:
    """Whether a log line only says that a daemon had to wait: for the CPU, a disk, or while it was stopped."""
    dropped = _DROPPED.search(line)
    if dropped:
        return dropped[1] in _SPEED_MODULES
    return bool(_SPEED.search(line))


def split_log_warnings(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the warnings about real problems, and those about a slow machine."""
    wrong: list[str] = []
    slow: list[str] = []
    for line in lines:
        (slow if is_about_slow_machine(line) else wrong).append(line)
    return wrong, slow
