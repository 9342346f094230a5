"""Plan files: a change that was looked at, to be applied exactly as it was, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dnsteer import __version__
from dnsteer.control.deploy import Deployed, Options, Outlook, deployment
from dnsteer.control.outlook import as_json
from dnsteer.control.where import Progress, Switch, now, silent, stamp, who
from dnsteer.spec.document import parse_document
from dnsteer.spec.load import Loaded, check_document
from dnsteer.switch.tools import SwitchError

FORMAT = "dnsteer plan 1"
_AGAIN = "look again with: dnsteer plan"


def write(outlook: Outlook, switch: Switch, options: Options, file: Path) -> None:
    """Write the plan file, whole or not at all. Raises OSError."""
    content = {
        "format": FORMAT,
        "version": __version__,
        "made": stamp(now()),
        "by": who(),
        "options": asdict(options),
        "bridge": outlook.loaded.spec.switch.bridge,
        "summary": as_json(outlook, verbose=False),
        "basis": _basis(outlook),
        "bundle": _digest(outlook.prepared.todo.bundle()),
        "spec": {"file": outlook.loaded.file, "text": outlook.loaded.document.text},
    }
    text = json.dumps({**content, "sum": _digest(content)}, indent=1) + "\n"
    if file.exists() and not file.is_file():  # a device or a pipe
        file.write_text(text)
        return
    target = file.resolve()  # of a link, what it leads to
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_text(text)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(file: Path) -> dict[str, Any]:
    """Read a plan file. Raises SwitchError when it is none, was edited, or is of another version; OSError."""
    try:
        value = json.loads(file.read_text())
    except (ValueError, RecursionError):
        raise SwitchError(f"{file}: not a plan file (not JSON); make one with: dnsteer plan SPEC -o FILE") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else type(value).__name__
        raise SwitchError(
            f"{file}: found format {found!r}, expected {FORMAT!r}; make one with: dnsteer plan SPEC -o FILE"
        )
    if value.pop("sum", None) != _digest(value):
        raise SwitchError(f"{file}: was edited after it was made; change the spec instead, and {_AGAIN}")
    if value["version"] != __version__:
        raise SwitchError(f"{file}: was made by dnsteer {value['version']}, and this is {__version__}; {_AGAIN}")
    return value


def spec_of(plan: dict[str, Any]) -> Loaded:
    """The spec in a plan. Raises SpecError."""
    return check_document(parse_document(plan["spec"]["file"], plan["spec"]["text"]))


def carry_out(plan: dict[str, Any], file: Path, switch: Switch, progress: Progress = silent) -> Deployed:
    """Apply exactly that plan. Raises SwitchError when the switch has moved on since; nothing is changed then."""
    loaded = spec_of(plan)
    with deployment(loaded, switch, Options(**plan["options"]), change=True, progress=progress) as work:
        moved = [what for what, value in _basis(work.outlook).items() if plan["basis"].get(what) != value]
        if "switch" in moved:
            raise SwitchError(f"{file}: is for another switch; this one's OVSDB has another identity. {_AGAIN} on it")
        if moved or plan["bundle"] != _digest(work.outlook.prepared.todo.bundle()):
            what = ", ".join(moved) or "its flows or groups"
            raise SwitchError(
                f"{file}: the switch has moved on since (other now: {what}); nothing was changed; {_AGAIN}"
            )
        return work.carry_out()


def _basis(outlook: Outlook) -> dict[str, Any]:
    """What a plan rests on: the switch, and how it stands."""
    standing, bridge = outlook.standing, outlook.prepared.before
    return {
        "switch": outlook.system,
        "state": standing.number if standing else 0,
        "applied spec": standing.digest if standing else "",
        "overlay": standing.overlay.to_json() if standing else "[]",
        "bridge and ports": _digest(
            None
            if bridge is None
            else [bridge.datapath_type, bridge.fail_mode, list(bridge.protocols), sorted(bridge.ports)]
        ),
        "settings": outlook.prepared.settings,
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
