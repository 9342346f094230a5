# SPDX-License-Identifier: Apache-2.0
"""The overlay of a switch as tests see and change it, and a terminal of its own for the command."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.packet.command import Ran, on
from tests.packet.switches import BRIDGE, ROOT, SLOT_TABLE, Switch


def overlay(switch: Switch) -> list[dict[str, Any]]:
    """The overlay as OVSDB has it."""
    text = switch.vsctl("--if-exists", "get", "Bridge", BRIDGE, "external_ids:dnsteer-overlay").strip()
    return list(json.loads(json.loads(text))) if text else []


def make_overdue(switch: Switch) -> None:
    """Let the time of all maintenance be over."""
    then = (datetime.now(timezone.utc) - timedelta(seconds=1)).isoformat(timespec="seconds")
    value = [{**a, "until": then} if a.get("until") else a for a in overlay(switch)]
    quoted = json.dumps(json.dumps(value))
    switch.vsctl("set", "Bridge", BRIDGE, f"external_ids:dnsteer-overlay={quoted}")


def slots(switch: Switch) -> set[str]:
    return {f for f in switch.tables()[0] if SLOT_TABLE in f}


def states(switch: Switch, pool: str = "farm") -> dict[str, str]:
    """What `status` calls each backend of a pool."""
    found = on(switch)("status", "--json", "--no-rates").json
    (here,) = [p for p in found["pools"] if p["name"] == pool]
    return {b["name"]: b["state"] for b in here["backends"]}


def in_terminal(switch: Switch, answer: str, *args: object, meanwhile: Callable[[], object] = lambda: None) -> Ran:
    """Run the command in a terminal of its own, and answer what it asks; before the first answer *meanwhile* is run."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "dnsteer", *map(str, args), "--db", switch.database]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "generator"), "TERM": "dumb"}
    child = subprocess.Popen(
        argv,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    said, answered, deadline = "", 0, time.monotonic() + 30
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                data = os.read(ours, 4096)
            except OSError:
                break
            if not data:
                break
            said += data.decode()
            if said.count("Go on?") > answered:
                if not answered:
                    meanwhile()
                answered += 1
                os.write(ours, answer.encode())
        if child.poll() is not None and not select.select([ours], [], [], 0)[0]:
            break
    child.kill()  # it has ended, or never will
    code = child.wait()
    os.close(ours)
    return Ran(code, said if answered else "", said)
