"""Python programs of the tests, each forked from a process that has loaded what such programs need.

A play of a runbook runs some thirty: ansible-playbook, modules on its hosts, and the command, which tests run by
themselves too. Without this, half of their time is for loading the same Python modules again and again. A program's files,
directory, environment, namespaces and priority are those of the client that asks for it: preloaded_client.c, which can be
put where the program is looked for, or loaded_popen.py. It is killed when its client is gone, which holds a pipe open.
Workers share the loaded processes, which the first one that needs them starts, and which end with the process that gives
out the tests.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import io
import marshal
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[1]
_ENVIRONMENT = {
    "ANSIBLE_CONFIG": str(ROOT / "runbooks" / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8",
}  # fmt: skip
"""What ansible-playbook reads when it is loaded."""
_F_SETSIG = 10  # of fcntl.h
_NEW_MOUNTS, _SLAVES = 0x00020000, 0x00084000  # CLONE_NEWNS of sched.h, MS_REC | MS_SLAVE of mount.h
_FOLDER, _OWNER = "DNSTEER_TESTS_LOADED", "DNSTEER_TESTS_OWNER"
"""Variables with the directory of the loaded processes, and with the process that they end with."""
_servers: list[subprocess.Popen[bytes]] = []
"""Those that this process has started; they outlive it, for other workers."""
LENGTH = 4
"""Bytes of a request's length, of a process id and of an exit status."""
_CLIENT = Path(__file__).with_name("preloaded_client.c")
_NETWORK = "/proc/self/ns/net"
_FOLDERS = (".", _NETWORK, "/proc/self/ns/mnt")
"""A client's directory and namespaces."""


def client(program: str) -> Path:
    """The path of what runs *program*, a name in loadable.PROGRAMS, with its own arguments."""
    return server_of(program).with_suffix(".client")


@dataclass(frozen=True)
class Request:
    """What is asked for: words, environment and priority, and whether the program leads a session or a group of its own.

    *netns* is the network namespace, where it is not the client's, and *folder* the directory.
    """

    argv: Sequence[str]
    environ: Mapping[str, str]
    new_session: bool = False
    process_group: int | None = None
    netns: str | None = None
    folder: str = "."


def ask(program: str, wanted: Request, standard: Sequence[int]) -> tuple[socket.socket, int, int]:
    """Ask for a run of *program*, a name in loadable.PROGRAMS, with three *standard* files.

    Returns the socket that says the exit status in LENGTH bytes, the end of a pipe to be held open, and the process.
    """
    asked = socket.socket(socket.AF_UNIX)
    asked.connect(str(server_of(program)))
    read, alive = os.pipe()
    with ExitStack() as opened:
        opened.callback(os.close, read)
        files = [*standard, read]
        for name in _FOLDERS:
            other = {".": wanted.folder, _NETWORK: wanted.netns and f"/run/netns/{wanted.netns}"}.get(name)
            files.append(os.open(other or name, os.O_RDONLY))
            opened.callback(os.close, files[-1])
        how = os.getpriority(os.PRIO_PROCESS, 0), wanted.new_session, wanted.process_group, wanted.netns is not None
        request = marshal.dumps((list(wanted.argv), dict(wanted.environ), *how))
        socket.send_fds(asked, [len(request).to_bytes(LENGTH, "big")], files)
        asked.sendall(request)
    return asked, alive, int.from_bytes(asked.recv(LENGTH), "big")


def prepare() -> None:
    """Let this process and its workers have loaded programs, until `remove`."""
    os.environ.update({_FOLDER: tempfile.mkdtemp(prefix="dnsteer-tests-"), _OWNER: str(os.getpid())})


def remove() -> None:
    """Remove what `prepare` made; loaded programs end with this process."""
    if os.environ.get(_OWNER) == str(os.getpid()):
        shutil.rmtree(os.environ[_FOLDER], ignore_errors=True)


@cache
def server_of(program: str) -> Path:
    """The socket of the process that has loaded *program*, a name in loadable.PROGRAMS."""
    folder = Path(os.environ[_FOLDER])
    path = folder / program
    with (folder / f"{program}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _start(program, path)
    return path


def _start(program: str, path: Path) -> None:
    argv = [sys.executable, "-m", "tests.loadable", program, str(path)]
    paths = {"ANSIBLE_HOME": str(path.parent), "PYTHONPATH": f"{ROOT / 'generator'}{os.pathsep}{ROOT}"}
    env = {**os.environ, **_ENVIRONMENT, **paths}
    server = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    _servers.append(server)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    argv = ["cc", "-static", "-O1", f'-DSOCKET="{path}"', "-o", str(path.with_suffix(".client")), str(_CLIENT)]
    subprocess.run(argv, check=True)


def serve(run: Callable[[], None], path: str) -> None:
    """Fork this process, which has loaded what *run* needs, for each client at the socket *path*."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(100)
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):  # whatever who started this ignored
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.freeze()
        gc.set_threshold(100_000, 20, 20)
        print("ready", flush=True)
        owner = os.pidfd_open(int(os.environ[_OWNER]))
        running: dict[int, tuple[int, socket.socket]] = {}
        """Processes and who asked for them, by the file that can be read at the end of the one, then of the other."""
        poll = select.poll()
        for file in (server.fileno(), owner):
            poll.register(file, select.POLLIN)
        while True:
            for file, _event in poll.poll():
                if file == owner:
                    return
                if file == server.fileno():
                    asked = server.accept()[0]
                    process = os.fork()
                    if not process:
                        for other in {server.fileno(), owner, *running, *(of.fileno() for _, of in running.values())}:
                            os.close(other)
                        _answer(asked, run)
                    file = os.pidfd_open(process)
                else:
                    process, asked = running.pop(file)
                    poll.unregister(file)
                    if file == asked.fileno():
                        asked.close()
                        os.waitpid(process, 0)  # who asked could signal it until now
                        continue
                    os.close(file)
                    _tell_end(process, asked)
                    file = asked.fileno()
                running[file] = process, asked
                poll.register(file, select.POLLIN)


def _tell_end(process: int, asked: socket.socket) -> None:
    """Say the status of a process that has ended, as `os.wait` returns it."""
    ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    status = ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status
    with suppress(BrokenPipeError):
        asked.send(status.to_bytes(LENGTH, "big"))


def _answer(asked: socket.socket, run: Callable[[], None]) -> NoReturn:
    code = 1
    try:
        client = _become(asked)
        asked.send(os.getpid().to_bytes(LENGTH, "big"))
        asked.close()
        _end_with(client)
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException as err:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        if isinstance(err, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code & 0xFF)


def _end_with(client: int) -> None:
    """Have the kernel kill this process when its client is gone: *client* is a pipe that it holds open.

    Not the socket: where the client is stopped while it sends, all may be read here before the kernel says that it is there,
    which is a signal too.
    """
    fcntl.fcntl(client, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(client, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(client, fcntl.F_SETFL, os.O_ASYNC)
    if select.select([client], [], [], 0)[0]:
        os._exit(255)  # gone before the line above


def _become(asked: socket.socket) -> int:
    """Take over what the client has; returns the pipe that it holds open."""
    length, files, _flags, _address = socket.recv_fds(asked, LENGTH, 4 + len(_FOLDERS))
    *standard, client, folder, net, mnt = files
    for number, file in enumerate(standard):
        os.dup2(file, number)
    libc = ctypes.CDLL(None, use_errno=True)
    done = 0
    for namespace, name in zip((net, mnt), _FOLDERS[1:], strict=True):
        if os.stat(name).st_ino != os.stat(namespace).st_ino:  # noqa: PTH116
            done = done or libc.setns(namespace, 0)
    os.fchdir(folder)
    for file in (*standard, folder, net, mnt):
        os.close(file)
    os.set_inheritable(client, False)
    request = asked.makefile("rb").read(int.from_bytes(length, "big"))
    argv, environ, priority, new_session, process_group, own_devices = marshal.loads(request)
    if own_devices:  # as `ip netns exec` does: /sys shows the devices of who mounts it
        done = done or libc.unshare(_NEW_MOUNTS) or libc.mount(b"", b"/", None, _SLAVES, None)
        done = done or libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None)
    if done:
        raise OSError(ctypes.get_errno(), "namespaces")
    if new_session:
        os.setsid()
    if process_group is not None:
        os.setpgid(0, process_group)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, priority)
    sys.argv[:] = argv
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = None
    buffering = 0 if environ.get("PYTHONUNBUFFERED") else -1
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            open(number, mode, -1 if number == 0 else buffering),  # noqa: SIM115, PTH123
            line_buffering=number == 2, write_through=not buffering,
        )
        for number, mode in enumerate(("rb", "wb", "wb"))
    )  # fmt: skip
    return client
