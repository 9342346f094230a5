"""Open vSwitch's programs: where they are, and running them so that a failure says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not in the PATH of ordinary users on Debian


class SwitchError(Exception):
    """Something about a switch that stops the work; the message says what, and what to do."""


class Unavailable(SwitchError):
    """Open vSwitch is not installed, not running or cannot be reached."""


def program(name: str) -> str:
    """Full path of an Open vSwitch program. Raises Unavailable when it is not installed."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *_SBIN]))
    if found is None:
        raise Unavailable(f"{name} is not installed; install Open vSwitch (Debian: apt-get install openvswitch-switch)")
    return found


def schema_file() -> Path:
    """The OVSDB schema that belongs to the installed Open vSwitch. Raises Unavailable when it is missing."""
    prefix = Path(program("ovs-vswitchd")).resolve().parents[1]
    folders = [os.environ.get("OVS_PKGDATADIR", ""), str(prefix / "share/openvswitch"), "/usr/share/openvswitch"]
    for folder in folders:
        file = Path(folder) / "vswitch.ovsschema"
        if folder and file.is_file():
            return file
    raise Unavailable("vswitch.ovsschema is not installed; install Open vSwitch's common files")


def run(
    args: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str | None = None, timeout: float = 60
) -> str:
    """Run a program and return what it printed. Raises SwitchError with its message when it fails or takes too long."""
    argv = [program(args[0]), *args[1:]]
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})},
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as err:
        raise SwitchError(f"{args[0]} did not finish within {timeout:g} s") from err
    if done.returncode != 0:
        raise SwitchError(f"{' '.join(args[:4])}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def ovs_version() -> str:
    """Version of the installed ovs-vswitchd, such as 3.1.0."""
    return run(["ovs-vswitchd", "--version"]).splitlines()[0].split()[-1]
