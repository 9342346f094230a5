"""`status` for tests: switches with something out, and what it says of them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

from dnsteer.control.absent import change_overlay
from dnsteer.control.deploy import Options, deploy
from dnsteer.control.edits import take_out
from dnsteer.control.where import Switch as Where
from tests.packet.switches import LARGE, Switch, cli, spec_of

NOW = datetime.now(timezone.utc)


def deployed(switch: Switch, text: str = LARGE) -> Where:
    """A switch with a spec applied."""
    where = Where(switch.database)
    deploy(spec_of(text), where, Options(note="change 4711"))
    return where


def out(where: Where, name: str, kind: Any = "drain", *, ago: float = 0, **more: Any) -> None:
    """Take a backend out, so many seconds ago."""
    change_overlay(where, None, take_out(name, kind, **more), time=NOW - timedelta(seconds=ago))


def status(switch: Switch, *args: str, code: int = 0) -> dict[str, Any]:
    """What `dnsteer status --json` says."""
    done = cli("status", "--json", "--interval", "0.5s", "--db", switch.database, *args)
    assert (done.returncode, done.stderr) == (code, ""), done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["ok"] is (code == 0)
    return found


def backends(found: dict[str, Any], pool: str) -> dict[str, dict[str, Any]]:
    """A pool's backends by name."""
    (one,) = [p for p in found["pools"] if p["name"] == pool]
    return {b["name"]: b for b in one["backends"]}
