# SPDX-License-Identifier: Apache-2.0
"""The control socket of a running ovs-vswitchd, which `ovs-appctl` uses: datapath flows and statistics come from there."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Protocol

from dnsteer.switch.rpc import Rpc
from dnsteer.switch.tools import SwitchError, UnavailableError


def control_socket(remote: str, override: str | None = None, *, option: str = "") -> Path:
    """Return the control socket of the ovs-vswitchd that uses the OVSDB at *remote*, or the given one.

    *option* is that of the command by which it can be given; empty where there is none.
    Raises SwitchError where the database is on another machine, UnavailableError when no such socket is found.
    """
    if override:
        return Path(override).absolute()
    kind, _, where = remote.partition(":")
    if kind != "unix":
        raise SwitchError(
            f"datapath flows are read through ovs-vswitchd's control socket, and {remote} may be on another machine: "
            f"run this on the switch itself{f', or name the socket: {option}' if option else ''}"
        )
    folder = Path(where).absolute().parent
    try:
        pid = (folder / "ovs-vswitchd.pid").read_text().strip()
    except OSError:
        pid = ""
    found = [folder / f"ovs-vswitchd.{pid}.ctl"] if pid else sorted(folder.glob("*vswitchd*.ctl"))
    if len(found) != 1 or not found[0].exists():
        raise UnavailableError(
            f"{folder}: no control socket of an ovs-vswitchd there; is it running?"
            f"{f' If its socket is elsewhere: {option}' if option else ''}"
        )
    return found[0]


class Appctl(Protocol):
    """Runs commands of `ovs-appctl` in an ovs-vswitchd."""

    def run(self, command: str, *args: str) -> str:
        """Run a command and return its output. Raises SwitchError with the switch's message."""


class Unixctl:
    """A context manager: a connection to the control socket at *path*. An answer may take *timeout* seconds."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.timeout = timeout
        self._rpc = Rpc(f"unix:{path}", f"ovs-vswitchd at {path}", timeout)

    def __enter__(self) -> Unixctl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rpc.close()

    def run(self, command: str, *args: str) -> str:
        """Run a command and return its output. Raises SwitchError with the switch's message."""
        try:
            return str(self._rpc.call(command, list(args), self.timeout) or "")
        except UnavailableError:
            raise
        except SwitchError as err:
            raise SwitchError(f"{command}: {err}") from None

    def commands(self) -> frozenset[str]:
        """The names of the commands that this ovs-vswitchd has."""
        lines = self.run("list-commands").splitlines()
        return frozenset(line.split()[0] for line in lines if line.startswith(" ") and line.split())
