# SPDX-License-Identifier: Apache-2.0
"""A real BIRD for tests, with its own configuration and control socket."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PROGRAM = shutil.which("bird", path="/usr/sbin:/usr/local/sbin") or ""
needs_bird = pytest.mark.skipif(not PROGRAM, reason="needs BIRD 2 (Debian: apt-get install bird2)")
_PATIENCE = 15.0


class Bird:
    """BIRD in *folder*, which includes `dnsteer.conf` there unless *text* is given."""

    def __init__(self, folder: Path, text: str | None = None) -> None:
        self.folder = folder
        self.include, self.control = folder / "dnsteer.conf", folder / "bird.ctl"
        self.write(self.including if text is None else text)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def including(self) -> str:
        """A line that includes the file, where there is one."""
        return f'include "{self.include}*";\n'

    def write(self, text: str) -> None:
        """Write bird.conf."""
        (self.folder / "bird.conf").write_text(f"router id 192.0.2.1;\nprotocol device {{ disabled; }}\n{text}")

    def start(self) -> None:
        """Start it."""
        argv = [
            PROGRAM,
            "-f",
            "-c",
            str(self.folder / "bird.conf"),
            "-s",
            str(self.control),
            "-P",
            str(self.folder / "pid"),
        ]
        with (self.folder / "bird.log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log)
        deadline = time.monotonic() + _PATIENCE
        while not self.control.exists() or "ready" not in self.ask("show status").lower():
            assert time.monotonic() < deadline, (self.folder / "bird.log").read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """End it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None
        self.control.unlink(missing_ok=True)

    def ask(self, *command: str) -> str:
        """What birdc would say; nothing where BIRD does not run."""
        said: list[str] = []
        for _ in range(100):
            said.clear()
            with suppress(OSError), socket.socket(socket.AF_UNIX) as own:
                own.settimeout(20)
                own.connect(str(self.control))
                own.sendall(" ".join(command).encode() + b"\n")
                # A line begins with a code of four digits and "-", or a space in the last one; further ones with a space.
                for line in own.makefile():
                    said.append(line[5:] if line[:4].isdigit() else line[1:])
                    if len(said) > 1 and line[:4].isdigit() and line[4] == " ":  # the first says that BIRD is ready
                        break
            if said[-1:] != ["Stopped due to reconfiguration\n"]:  # by somebody else; it is not all
                break
        return "".join(said)

    def routes(self) -> set[str]:
        """The addresses that dnsteer's protocols have routes to, and the prefixes of several."""
        lines = [
            line for p in ("dnsteer4", "dnsteer6") for line in self.ask("show", "route", "protocol", p).splitlines()
        ]
        found = {line.partition(" ")[0] for line in lines if "/" in line.partition(" ")[0]}
        return {prefix.removesuffix("/32").removesuffix("/128") for prefix in found}


@contextmanager
def bird(folder: Path, text: str | None = None) -> Iterator[Bird]:
    """A BIRD that runs for the time of the context."""
    own = Bird(folder, text)
    own.start()
    try:
        yield own
    finally:
        own.stop()
