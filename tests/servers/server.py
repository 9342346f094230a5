# SPDX-License-Identifier: Apache-2.0
"""A name server as Debian ships it: its configuration, in a copy that only it sees, and the lines that a class adds."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import dns.exception
import dns.message
import dns.query

from dnsteer.lab.command import netns_exec, program_environment, run
from tests.servers.network import ADDRESS, SERVER, inside
from tests.servers.zones import Root, write_root_data, zone_text

START_SECONDS = 20.0
"""Seconds that a server may take until it answers."""


@dataclass(frozen=True)
class Setting:
    """What a server is told beyond Debian's configuration."""

    zone: str = zone_text()
    """Of an authoritative server: the text of its zone; empty to leave the file out."""
    serves_zone: bool = True
    """Of an authoritative server: whether its configuration names the zone."""
    primary: str = ""
    """Of an authoritative server: the address of the primary that it transfers the zone from."""
    allows: str = ""
    """Of an authoritative server: the network whose queries it answers; empty for all."""
    more: tuple[str, str] = ("", "")
    """A file of the configuration, and further lines for it."""


class NameServer(ABC):
    """One server in a namespace. Its folders under /etc and /var are copies that only its processes see."""

    name: ClassVar[str]
    """As tables call it."""
    packages: ClassVar[tuple[str, ...]]
    """Of Debian."""
    program: ClassVar[str]
    options: ClassVar[str] = ""
    """Options, as Debian's unit has them."""
    user: ClassVar[tuple[str, str]] = ("", "")
    """The user that the unit runs it as, and the capabilities that it gives; none for programs that change by themselves."""
    before: ClassVar[tuple[str, ...]] = ()
    """Commands that are run before, as in the unit."""
    copies: ClassVar[tuple[str, ...]]
    """Folders that it reads and writes."""
    run_folder: ClassVar[tuple[str, str]] = ("", "")
    """A folder in /run, and its owner, that Debian's unit or package makes."""

    def __init__(self, folder: Path, root: Root, setting: Setting | None = None, space: str = SERVER) -> None:
        self.folder, self.root, self.setting, self.space = folder, root, setting or Setting(), space
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def added(self) -> tuple[str, str]:
        """A file of its configuration, and the lines that are added to it."""

    def prepare(self) -> None:  # noqa: B027  # most need nothing
        """Make what is no configuration: zones and keys, in the copies."""

    def copy(self, path: str) -> Path:
        """The copy of a file or folder of the machine that the server sees in its place."""
        return self.folder / path.lstrip("/")

    def add(self, path: str, text: str, owner: str = "") -> None:
        """Add lines to a file, which is made if there is none."""
        file = self.copy(path)
        with file.open("a", encoding="utf-8") as out:
            out.write(text)
        if owner:
            shutil.chown(file, owner)

    def start(self) -> None:
        """Start it, and wait until it answers. Raises AssertionError with its log."""
        if not self.folder.exists():
            self._make_copies()
        shared = "usr/share/dns"
        mounts = [
            f"mount --bind {self.folder / path} /{path}" for path in (*(c.lstrip("/") for c in self.copies), shared)
        ]
        made, owner = self.run_folder
        lines = ["set -e", "mount -t tmpfs -o mode=0755 tmpfs /run", *mounts]
        lines += [f"install -d -o {owner} /run/{made}"] if made else []
        lines += [*self.before, f"exec {self._as_user()}{self.program} {self.options}"]
        # A process namespace ends with the first process in it, and that with us: nothing is left of a killed test.
        guard = ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child=KILL"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*guard, *netns_exec(self.space, ["sh", "-c", "\n".join(lines)])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=program_environment(),
                start_new_session=True,
            )
        self._wait_until_it_answers()

    def _make_copies(self) -> None:
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        for path in (*self.copies, "/usr/share/dns"):
            self.copy(path).parent.mkdir(parents=True, exist_ok=True)
            run(["cp", "-a", path, str(self.copy(path))])
        write_root_data(self.root, self.copy("/usr/share/dns"))
        self.prepare()
        self.add(*self.added())
        path, lines = self.setting.more
        if path:
            self.add(path, lines)

    def _as_user(self) -> str:
        name, capabilities = self.user
        given = ",".join(f"+{c}" for c in capabilities.split())
        words = f"setpriv --reuid={name} --regid={name} --init-groups --inh-caps={given} --ambient-caps={given} "
        return words if name else ""

    def _wait_until_it_answers(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        query = dns.message.make_query("id.server", "TXT", "CH", flags=0)  # which has nobody ask others
        while True:
            try:
                inside(self.space, lambda: dns.query.udp(query, self._own_address(), timeout=0.1))
                return
            except (OSError, dns.exception.DNSException):
                assert self.process.poll() is None, f"{self.name} has ended:\n{self.log()}"
                assert time.monotonic() < deadline, f"{self.name} does not answer:\n{self.log()}"
                time.sleep(0.02)

    def _own_address(self) -> str:
        return ADDRESS

    def log(self) -> str:
        """What it said."""
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def hang(self) -> None:
        """Stop its processes, as a server that hangs."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """Kill it as a crash would."""
        if self.process is None or self.process.poll() is not None:
            return
        # The first process of its namespace alone, with which all others end; `unshare` waits for that.
        for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        self.process.send_signal(signal.SIGCONT)
        self.process.wait(20)


@contextmanager
def running(server: NameServer) -> Iterator[NameServer]:
    """A server that is killed at the end."""
    try:
        server.start()
        yield server
    finally:
        server.kill()
