# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's programs: where they are, and running them so that a failure says what to do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from dnsteer.switch.signals import ends_with_parent, signals_deferred

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Looked in after PATH: on Debian these are not in the PATH of ordinary users."""


class SwitchError(Exception):
    """Something about a switch that stops the work; the message says what, and what to do."""


class NotPermittedError(SwitchError):
    """The user may not do this; the message says who may."""


class UnavailableError(SwitchError):
    """Open vSwitch is not installed, not running or cannot be reached."""


class UnwrittenError(SwitchError):
    """OVSDB refused to write: its disk is full, it takes no writes, or the lock is no longer ours."""


def reworded(err: SwitchError, text: str) -> SwitchError:
    """Return the error with another text; an UnavailableError or UnwrittenError stays one, others become a SwitchError."""
    for kind in (UnavailableError, UnwrittenError):
        if isinstance(err, kind):
            return kind(text)
    return SwitchError(text)


def merged_error(failed: Sequence[SwitchError], more: Iterable[str] = ()) -> SwitchError:
    """Merge several errors and further sentences into one error, of the type of the first."""
    kind = UnavailableError if isinstance(failed[0], UnavailableError) else SwitchError
    return kind("; ".join([*map(str, failed), *more]))


class TimedOutError(UnavailableError):
    """Open vSwitch took too long: a program that was killed, or a daemon that hangs or gets no CPU time."""


class CommandError(SwitchError):
    """A program of Open vSwitch failed. *said* is what it printed on standard error."""

    def __init__(self, args: Sequence[str], said: str) -> None:
        self.said = said
        super().__init__(f"{' '.join(args[:4])}: {said}")


def find_program(name: str) -> str:
    """Full path of an Open vSwitch program. Raises UnavailableError when it is not installed."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *SBIN]))
    if found is None:
        raise UnavailableError(
            f"{name} is not installed; install Open vSwitch (Debian: apt-get install openvswitch-switch)"
        )
    return found


def schema_file() -> Path:
    """The OVSDB schema that belongs to the installed Open vSwitch. Raises UnavailableError when it is missing."""
    prefix = Path(find_program("ovs-vswitchd")).resolve().parents[1]
    folders = [os.environ.get("OVS_PKGDATADIR", ""), str(prefix / "share/openvswitch"), "/usr/share/openvswitch"]
    for folder in folders:
        file = Path(folder) / "vswitch.ovsschema"
        if folder and file.is_file():
            return file
    raise UnavailableError("vswitch.ovsschema is not installed; install Open vSwitch's common files")


class Running:
    """A running program, which gets all of *stdin* or nothing. It ends with its context and with this process.

    *timeout* is how long it may take, in seconds from its start. A program that *ends_by_itself* may go on for a while when
    this process is killed. It starts by vfork, in 1 ms: a fork copies the page tables of an agent, which takes several.
    """

    def __init__(
        self,
        args: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout: float = 60,
        ends_by_itself: bool = False,
    ) -> None:
        self.args = args
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        argv = [find_program(args[0]), *args[1:]]
        # Files in memory, not pipes: a pipe for the input would end early when we are killed, and half of the changes
        # would look like all; one for the output needs us for every 32 KiB, which takes long while we are busy.
        self._printed = _in_memory()
        with _in_memory() as text:
            text.write(stdin or "")
            text.seek(0)
            self._process = subprocess.Popen(
                argv,
                stdin=text,
                stdout=self._printed,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**os.environ, **(env or {})},
                preexec_fn=None
                if ends_by_itself and not signals_deferred()
                else ends_with_parent(signal.SIGKILL, ignore_signals=signals_deferred()),
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._printed.close()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def result(self) -> str:
        """Wait for the end and return what it printed. Raises CommandError with its message, or TimedOutError."""
        try:
            _, said = self._process.communicate(timeout=max(0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired as err:
            raise TimedOutError(
                f"{self.args[0]} did not finish within {self._timeout:g} s; is Open vSwitch stuck?"
            ) from err
        if self._process.returncode != 0:
            raise CommandError(self.args, said.strip() or _how_it_ended(self._process.returncode))
        self._printed.seek(0)
        return self._printed.read()


def run(
    args: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str | None = None, timeout: float = 60
) -> str:
    """Run a program and return what it printed. It gets all of *stdin* or nothing, and ends with this process.

    Raises CommandError with its message when it fails, and TimedOutError when it takes too long.
    """
    with Running(args, env=env, stdin=stdin, timeout=timeout) as running:
        return running.result()


def _in_memory() -> IO[str]:
    return open(os.memfd_create("dnsteer"), "w+", encoding="utf-8", errors="replace")  # noqa: PTH123 - it has no path


def ovs_version() -> str:
    """Version of the installed ovs-vswitchd, such as 3.1.0."""
    return run(["ovs-vswitchd", "--version"]).splitlines()[0].split()[-1]


def openflow_target(remote: str, bridge: str, override: str | None = None) -> str:
    """Return the bridge's OpenFlow management socket: next to the OVSDB socket, or as given."""
    if override:
        return override
    kind, _, where = remote.partition(":")
    if kind != "unix":
        raise SwitchError(f"for a database at {remote}, say where the bridge's OpenFlow is: --openflow tcp:HOST:PORT")
    return f"unix:{Path(where).absolute().parent / f'{bridge}.mgmt'}"


def _how_it_ended(code: int) -> str:
    """Of a program that said nothing itself."""
    return f"exit status {code}" if code >= 0 else f"terminating with signal {-code} ({signal.strsignal(-code)})"
