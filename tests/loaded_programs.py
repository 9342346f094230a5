"""Programs of Open vSwitch that stay loaded (loaded_program.c), found before those of the machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from dnsteer.switch.tools import find_program
from tests.loaded_popen import ends_with_this

SOURCE = Path(__file__).with_name("loaded_program.c")
PROGRAMS = ("ovs-ofctl", "ovs-vsctl", "ovsdb-tool")
_REQUEST = struct.Struct("=4I")
"""A request of loaded_program.c: the bytes of its words, how many are arguments and variables, and for which user."""


class Run:
    """A run of a loaded program that this process asks for itself; with what `Running` uses of a Popen.

    It saves the client, which takes as long as the program.
    """

    stderr = None

    def __init__(self, argv: Sequence[str], stdin: IO[str], stdout: IO[str], env: Mapping[str, str]) -> None:
        self.returncode: int | None = None
        self._argv = argv
        self._said = os.fdopen(os.memfd_create("stderr"), "w+", encoding="utf-8", errors="replace")
        self._socket = socket.socket(socket.AF_UNIX)
        read, alive = os.pipe()
        self._alive = os.fdopen(alive, "wb", 0)
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            words = b"".join(os.fsencode(word) + b"\0" for word in [*argv, *map("=".join, env.items())])
            request = _REQUEST.pack(len(words), len(argv), len(env), os.geteuid())
            self._socket.connect(f"{argv[0]}.socket")
            files = [stdin.fileno(), stdout.fileno(), self._said.fileno(), folder, read]
            socket.send_fds(self._socket, [request], files)
            self._socket.sendall(words)
            assert self._socket.recv(1) == b"\0", "not for this user"
        finally:
            os.close(folder)
            os.close(read)

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """Wait for the end; return nothing, as a file has standard output, and standard error."""
        if self.returncode is None:
            self._socket.settimeout(timeout)
            try:
                code = self._socket.recv(1)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self._argv, timeout or 0) from None
            self.returncode = code[0] if code else -signal.SIGKILL
            self._socket.close()
            self._alive.close()
        self._said.seek(0)
        return None, self._said.read()

    def kill(self) -> None:
        """The kernel does it when this end of the pipe is closed."""
        self._alive.close()

    def wait(self) -> None:
        """Wait for the end."""
        self.communicate()
        self._said.close()


def _start(argv: Sequence[str], *, stdin: IO[str], stdout: IO[str], env: Mapping[str, str], **more: Any) -> Any:
    loaded = os.path.exists(f"{argv[0]}.socket") and "LD_PRELOAD" not in env  # noqa: PTH110 - this is about speed
    if loaded and ends_with_this(more["preexec_fn"]):
        return Run(argv, stdin, stdout, env)
    return subprocess.Popen(argv, stdin=stdin, stdout=stdout, env=env, **more)


loaded_subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": _start})
"""The module subprocess for `Running`, which starts a loaded program without its client."""


@contextmanager
def loaded_programs() -> Iterator[str]:
    """Load them, and yield a PATH that begins with them."""
    folder = Path(tempfile.mkdtemp(prefix="dnsteer-tests-"))  # a short name: a socket's has at most 107 bytes
    try:
        library = folder / "loaded_program.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
        with ExitStack() as running:
            for name in PROGRAMS:
                real, asked = find_program(name), folder / f"{name}.socket"
                defines = [f'-DSOCKET="{asked}"', f'-DPROGRAM="{real}"']
                subprocess.run(["cc", "-static", "-O1", "-DCLIENT", *defines, "-o", folder / name, SOURCE], check=True)
                env = {**os.environ, "LD_PRELOAD": str(library), "LOADED_PROGRAM": str(asked), "LD_BIND_NOW": "1"}
                loaded = subprocess.Popen([real], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
                running.enter_context(loaded)
                running.callback(loaded.kill)
                assert loaded.stdout is not None
                assert loaded.stdout.readline() == b"ready\n"
            yield os.pathsep.join([str(folder), os.environ["PATH"]])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
