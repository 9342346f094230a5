"""Run a program, bounded in time, in a namespace or outside; never through a shell."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from dnsteer.lab.errors import LabCommandError, MissingProgramError, NotRootError

PACKAGES: dict[str, str] = {
    "ip": "iproute2",
    "bridge": "iproute2",
    "ethtool": "ethtool",
    "sysctl": "procps",
    "setsid": "util-linux",
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-common",
    "ovs-vswitchd": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-ofctl": "openvswitch-common",
    "ovs-appctl": "openvswitch-common",
    "nsd": "nsd",
    "nsd-control": "nsd",
    "openssl": "openssl",
    "kdig": "knot-dnsutils",
    "dnsperf": "dnsperf",
}
"""Programs that the lab runs, and the Debian package of each."""

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # often not in the PATH of sudo or of a service


def search_path() -> str:
    """PATH of the programs started here: the caller's, and the directories of system programs."""
    known = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*known, *(d for d in _SBIN if d not in known)])


def require_root() -> None:
    """Raise NotRootError unless the effective user is root."""
    if os.geteuid() != 0:
        raise NotRootError


def require_programs(names: Iterable[str]) -> None:
    """Raise MissingProgramError for those of *names* that are not installed."""
    path = search_path()
    missing = {name: PACKAGES[name] for name in names if shutil.which(name, path=path) is None}
    if missing:
        raise MissingProgramError(missing)


def netns_exec(namespace: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs *argv* in *namespace*."""
    return ["ip", "netns", "exec", namespace, *argv]


def program_environment() -> dict[str, str]:
    """Environment of the programs started here: messages in English, and system programs on the PATH."""
    return {**os.environ, "PATH": search_path(), "LC_ALL": "C"}


def run(argv: Sequence[str], *, stdin: str | None = None, timeout: float = 20.0) -> str:
    """Run *argv* and return its standard output.

    Raises LabCommandError when it fails, cannot be started, or takes longer than *timeout* seconds.
    """
    try:
        done = subprocess.run(
            argv,
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout,
            env=program_environment(),
            check=False,
            preexec_fn=_die_with(os.getpid()),
        )
    except subprocess.TimeoutExpired as err:
        raise LabCommandError(argv, f"did not end within {timeout:g} s") from err
    except (OSError, subprocess.SubprocessError) as err:
        raise LabCommandError(argv, f"could not be started: {err}") from err
    if done.returncode != 0:
        message = " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:]) or "no message"
        raise LabCommandError(argv, f"failed with exit code {done.returncode}: {message}")
    return done.stdout


def start_background(namespace: str, argv: Sequence[str], log: Path, more: Mapping[str, str]) -> None:
    """Start a program that does not daemonize itself, with output to *log* and *more* environment variables.

    Raises LabCommandError only if it could not be started; the caller must check that it keeps running.
    """
    command = netns_exec(namespace, ["setsid", "--fork", *argv])
    with log.open("ab") as output:
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**program_environment(), **more},
                timeout=20,
                check=True,
                preexec_fn=_die_with(os.getpid()),
            )
        except (OSError, subprocess.SubprocessError) as err:
            raise LabCommandError(command, f"could not be started: {err}") from err


_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def _die_with(parent: int) -> Callable[[], None]:
    """Return a function that a child runs before exec: it asks the kernel to kill the child when its parent dies.

    So after a kill -9 of `lab up`, no child continues to build while `lab down` runs. The child holds the lab's lock until
    exec, so that it is always covered by the lock or by this signal. Daemons fork, which cancels the signal; by then they
    run in the lab's namespaces and are found there.
    """

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before the request
            os._exit(1)

    return prepare
