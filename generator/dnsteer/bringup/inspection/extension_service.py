# SPDX-License-Identifier: Apache-2.0
"""The extension: its program is installed, starts with what the spec says, and runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dnsteer.bringup.files import EXTENSION_UNIT, PROGRAM_FOLDER
from dnsteer.bringup.inspection.machine import Item, Machine
from dnsteer.bringup.setup import Setup

_BINARY = "/usr/bin/dnsteer-ext"
_UNITS = ("/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_SCRIPT = "run 50-extension.sh"


def inspect_extension(machine: Machine, setup: Setup) -> Iterator[Item]:
    """The items of the extension; none where nothing of it is set up."""
    if not setup.program:
        return
    if machine.is_executable(_BINARY):
        yield Item("extension", "ok", _BINARY)
    else:
        todo = "build datapath_ext with the DOCA SDK (meson setup --prefix=/usr build datapath_ext) and install it"
        yield Item("extension", "missing", f"no {_BINARY}", todo)
    yield _program(machine, setup)
    if machine.exists("/run/systemd/system"):
        yield _unit(machine)
        yield _running(machine)


def _program(machine: Machine, setup: Setup) -> Item:
    """The program file that it starts with. Its VIPs do not matter: those of the record are loaded."""
    name, file = "extension, program", f"{PROGRAM_FOLDER}/program.json"
    if not machine.exists(file):
        return Item(name, "missing", f"no {file}", _SCRIPT)
    text = machine.text(file)
    if text is None:
        return Item(name, "unknown", f"{file} cannot be read", "run as root")
    have, want = _read(text), _read(setup.program)
    wrong = [key for key in ("ports", "budgets") if have.get(key) != want[key]]
    if wrong:
        return Item(name, "missing", f"{file} has other {' and '.join(wrong)}", f"{_SCRIPT} --restart")
    return Item(name, "ok", file)


def _read(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _unit(machine: Machine) -> Item:
    name = "unit for the extension"
    if not any(machine.exists(f"{folder}/{EXTENSION_UNIT}") for folder in _UNITS):
        return Item(name, "missing", f"no {EXTENSION_UNIT}", _SCRIPT)
    if not machine.has_link(f"{_UNITS[0]}/multi-user.target.wants/{EXTENSION_UNIT}"):
        return Item(name, "missing", f"{EXTENSION_UNIT} is not enabled", f"systemctl enable {EXTENSION_UNIT}")
    return Item(name, "ok", f"{EXTENSION_UNIT}, enabled")


def _running(machine: Machine) -> Item:
    result = machine.run(["systemctl", "is-active", EXTENSION_UNIT])
    message = result.out.strip() or result.err
    if result.ok:
        return Item("extension running", "ok", message)
    if result.code is None:
        return Item("extension running", "unknown", message, f"systemctl status {EXTENSION_UNIT}")
    return Item("extension running", "missing", message or "it does not run", "journalctl -u dnsteer-ext says why")
