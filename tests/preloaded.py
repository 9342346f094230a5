"""Python programs of the tests, each forked from a process that has loaded what such programs need.

A play of a runbook runs some thirty: ansible-playbook, modules on its hosts, and the command, which tests run by
themselves too. Without this, half of their time is for loading the same Python modules again and again. A program's files,
directory, environment, namespaces and priority are those of the client that asks for it: a script that can be put where the
program is looked for, or a `Process`. It is killed when its client is gone, which holds a pipe open. Workers share the
loaded processes, which the first one that needs them starts, and which end with the process that gives out the tests.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import io
import marshal
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
_ENVIRONMENT = {
    "ANSIBLE_CONFIG": str(ROOT / "runbooks" / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8",
}  # fmt: skip
"""What ansible-playbook reads when it is loaded."""
_F_SETSIG = 10  # of fcntl.h
_FOLDER, _OWNER = "DNSTEER_TESTS_LOADED", "DNSTEER_TESTS_OWNER"
"""Variables with the directory of the loaded processes, and with the process that they end with."""
_servers: list[subprocess.Popen[bytes]] = []
"""Those that this process has started; they outlive it, for other workers."""
_LENGTH = 4
"""Bytes of a request's length, and of a process id."""
_FOLDERS = (".", "/proc/self/ns/net", "/proc/self/ns/mnt")
"""A client's directory and namespaces."""
_END = 0.02
"""Seconds from a program's last output to its client's end, as the interpreter takes. Ansible waits for output a second at
a time, and takes none of a program that writes and ends between such a wait and the look whether it has ended."""
_CLIENT = """\
#!{python} -IS
import _socket, array, marshal, os, sys, time  # not socket, which takes longer to load than all of this
to = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
to.connect({path!r})
read, alive = os.pipe()
files = [0, 1, 2, read, *(os.open(name, os.O_RDONLY) for name in {folders!r})]
request = marshal.dumps((sys.argv, dict(os.environ), os.getpriority(os.PRIO_PROCESS, 0)))
to.sendmsg([len(request).to_bytes({length}, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", files))])
to.sendall(request)
to.recv({length})
code = (to.recv(1) or b"\\xff")[0]
time.sleep({end})
sys.exit(code)
"""


def script(program: str) -> str:
    """A script that runs *program*, a name in PROGRAMS, with its own arguments."""
    return client(program).read_text(encoding="utf-8")


def client(program: str) -> Path:
    """The path of such a script."""
    return server_of(program).with_suffix(".client")


class Process:
    """A running *program*, with standard output and error in a file, and in the network namespace *netns* where that is
    given. It can be signalled, and waited for."""

    def __init__(
        self, program: str, args: Sequence[str], output: IO[str], environ: Mapping[str, str], netns: str | None = None
    ) -> None:
        self.returncode: int | None = None
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(server_of(program)))
        with open(os.devnull) as nothing, ExitStack() as opened:  # noqa: PTH123
            read, alive = os.pipe()
            self._alive = os.fdopen(alive, "wb", 0)
            opened.callback(os.close, read)
            files = [nothing.fileno(), output.fileno(), output.fileno(), read]
            for name in _FOLDERS:
                other = netns is not None and name.endswith("/net")
                files.append(os.open(f"/run/netns/{netns}" if other else name, os.O_RDONLY))
                opened.callback(os.close, files[-1])
            request = marshal.dumps(([program, *args], dict(environ), os.getpriority(os.PRIO_PROCESS, 0)))
            socket.send_fds(self._socket, [len(request).to_bytes(_LENGTH, "big")], files)
            self._socket.sendall(request)
        self.pid = int.from_bytes(self._socket.recv(_LENGTH), "big")

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """The exit code, -9 where something ended it by force; None while it runs."""
        with suppress(TimeoutError, BlockingIOError):
            return self.wait(0)
        return None

    def wait(self, timeout: float) -> int:
        """Wait for the end; return the exit code as `poll`. Raises TimeoutError."""
        if self.returncode is None:
            self._socket.settimeout(timeout)
            code = self._socket.recv(1)
            self.returncode = code[0] if code else -signal.SIGKILL
            self._socket.close()
            self._alive.close()
        return self.returncode


def prepare() -> None:
    """Let this process and its workers have loaded programs, until `remove`."""
    os.environ.update({_FOLDER: tempfile.mkdtemp(prefix="dnsteer-tests-"), _OWNER: str(os.getpid())})


def remove() -> None:
    """Remove what `prepare` made; loaded programs end with this process."""
    if os.environ.get(_OWNER) == str(os.getpid()):
        shutil.rmtree(os.environ[_FOLDER], ignore_errors=True)


@cache
def server_of(program: str) -> Path:
    """The socket of the process that has loaded *program*, a name in PROGRAMS."""
    folder = Path(os.environ[_FOLDER])
    path = folder / program
    with (folder / f"{program}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _start(program, path)
    return path


def _start(program: str, path: Path) -> None:
    argv = [sys.executable, "-m", __name__, program, str(path)]
    paths = {"ANSIBLE_HOME": str(path.parent), "PYTHONPATH": f"{ROOT / 'generator'}{os.pathsep}{ROOT}"}
    env = {**os.environ, **_ENVIRONMENT, **paths}
    server = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    _servers.append(server)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    script = path.with_suffix(".client")
    text = _CLIENT.format(python=sys.executable, path=str(path), length=_LENGTH, folders=_FOLDERS, end=_END)
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)


def _command() -> None:
    from dnsteer.cli.main import run

    run()


def _load_command() -> Callable[[], None]:
    import dnsteer
    from dnsteer.checks.load import check_document
    from dnsteer.console import content
    from dnsteer.plan.build import build_plan
    from dnsteer.render.flows import groups_of, lines_of
    from dnsteer.spec.document import parse_document

    for module in pkgutil.walk_packages(dnsteer.__path__, "dnsteer."):
        if not module.name.startswith(("dnsteer.capacity", "dnsteer.cli.capacity", "dnsteer.__main__")):
            importlib.import_module(module.name)
    for spec in (ROOT / "examples" / "health.yaml", ROOT / "examples" / "quickstart.yaml"):
        plan = build_plan(check_document(parse_document(str(spec), spec.read_text())))
        lines_of(plan)  # which compiles the templates, as the check above has built the models
        groups_of(plan)
    pages = content._templates()
    for page in pages.list_templates():
        pages.get_template(page)
    return _command


def _load_ansible() -> Callable[[], None]:
    from ansible.cli.playbook import main
    from ansible.executor import playbook_executor  # noqa: F401

    modules = str(client("module"))

    def run() -> None:
        sys.executable = modules  # what modules for the controller itself are run by
        sys.exit(main(sys.argv))

    return run


def _load_modules() -> Callable[[], None]:
    import ansible.module_utils.basic  # noqa: F401

    # Packages are forgotten, so that they are found in a module's archive, which has more in them.
    for name in [n for n, m in sys.modules.items() if n.partition(".")[0] == "ansible" and hasattr(m, "__path__")]:
        del sys.modules[name]
    return _module


def _module() -> None:
    """Run the module that is given as standard input."""
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(sys.stdin.buffer.read(), "<stdin>", "exec"), main.__dict__)


PROGRAMS: Mapping[str, Callable[[], Callable[[], None]]] = {
    "ansible-playbook": _load_ansible, "dnsteer": _load_command, "module": _load_modules,
}  # fmt: skip
"""What loads a program, and returns what runs it."""


def _serve(run: Callable[[], None], path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(100)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        gc.freeze()
        gc.set_threshold(100_000, 20, 20)
        print("ready", flush=True)
        owner = os.pidfd_open(int(os.environ[_OWNER]))
        while owner not in select.select([server, owner], [], [])[0]:
            with server.accept()[0] as asked:
                if not os.fork():
                    server.close()
                    _answer(asked, run)


def _answer(asked: socket.socket, run: Callable[[], None]) -> None:
    code = 255
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        client = _become(asked)
        asked.send(os.getpid().to_bytes(_LENGTH, "big"))
        _end_with(client)
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        with suppress(BrokenPipeError):
            asked.send(bytes([code & 0xFF]))
        os._exit(code)


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
    length, files, _flags, _address = socket.recv_fds(asked, _LENGTH, 4 + len(_FOLDERS))
    *standard, client, folder, net, mnt = files
    for number, file in enumerate(standard):
        os.dup2(file, number)
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace, name in zip((net, mnt), _FOLDERS[1:], strict=True):
        if os.stat(name).st_ino != os.stat(namespace).st_ino and libc.setns(namespace, 0):  # noqa: PTH116
            raise OSError(ctypes.get_errno(), "setns")
    os.fchdir(folder)
    for file in (*standard, folder, net, mnt):
        os.close(file)
    os.set_inheritable(client, False)
    request = asked.makefile("rb").read(int.from_bytes(length, "big"))
    argv, environ, priority = marshal.loads(request)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, priority)
    sys.argv[:] = argv
    os.environ.clear()
    os.environ.update(environ)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(open(number, mode), line_buffering=number == 2)  # noqa: SIM115, PTH123
        for number, mode in enumerate(("rb", "wb", "wb"))
    )
    return client


if __name__ == "__main__":
    _serve(PROGRAMS[sys.argv[1]](), sys.argv[2])
