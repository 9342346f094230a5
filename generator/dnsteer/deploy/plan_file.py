"""Plan files: a change that was looked at, to be applied exactly as it was, or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dnsteer import __version__
from dnsteer.checks.load import check_document
from dnsteer.deploy.run import Deployed, Options, deploy, look
from dnsteer.deploy.summary import Outlook, as_json, hash_of
from dnsteer.deploy.target_switch import Confirm, Progress, Switch, now, silent, stamp, who
from dnsteer.render.atomic_files import write_file
from dnsteer.spec.document import parse_document
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.source import UnreadableError, read_whole, shown
from dnsteer.switch.tools import SwitchError

FORMAT = "dnsteer plan 1"
MAX_BYTES = 64 * 1024 * 1024
"""Largest plan file read, in bytes: the spec, and a line for each thing that changes."""
_MAKE = "make one with: dnsteer plan SPEC -o FILE"
_AGAIN = "look again with: dnsteer plan"


def write(outlook: Outlook, switch: Switch, options: Options, file: Path) -> None:
    """Write the plan file, whole or not at all. Raises OSError that names it."""
    content = {
        "format": FORMAT,
        "version": __version__,
        "made": stamp(now()),
        "by": who(),
        "options": asdict(options),
        "bridge": outlook.loaded.spec.switch.bridge,
        "summary": as_json(outlook, verbose=False),
        "basis": outlook.basis(),
        "spec": {"file": outlook.loaded.file, "text": outlook.loaded.document.text},
    }
    text = json.dumps({**content, "sum": hash_of(content)}, indent=1) + "\n"
    write_file(file, text)


def read(file: Path) -> dict[str, Any]:
    """Read a plan file, standard input where it is `-`.

    Raises SwitchError when it is none, was edited, or is of another version; OSError when it cannot be read.
    """
    name = shown(file)
    try:
        data = read_whole(file, MAX_BYTES)
    except UnreadableError as error:
        raise SwitchError(f"{name}: found {error.found}; expected a plan file: {error.hint}") from None
    if len(data) > MAX_BYTES:
        raise SwitchError(f"{name}: found more than {MAX_BYTES >> 20} MiB; expected a plan file ({_MAKE})")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise SwitchError(f"{name}: not a plan file (not JSON); {_MAKE}") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else type(value).__name__
        raise SwitchError(f"{name}: found format {found!r}, expected {FORMAT!r}; {_MAKE}")
    if value.pop("sum", None) != hash_of(value):
        raise SwitchError(f"{name}: was edited after it was made; change the spec instead, and {_AGAIN}")
    if value["version"] != __version__:
        raise SwitchError(f"{name}: was made by dnsteer {value['version']}, and this is {__version__}; {_AGAIN}")
    return value


def spec_of(plan: dict[str, Any]) -> Loaded:
    """The spec in a plan. Raises SpecError."""
    return check_document(parse_document(plan["spec"]["file"], plan["spec"]["text"]))


def carry_out(
    plan: dict[str, Any], file: Path, switch: Switch, *, confirm: Confirm | None = None, progress: Progress = silent
) -> Deployed:
    """Apply exactly that plan. Raises SwitchError when the switch has moved on since; nothing is changed then."""
    return deploy(
        spec_of(plan), switch, Options(**plan["options"]), confirm=confirm, progress=progress,
        check=lambda outlook: _check(plan, file, outlook),
    )  # fmt: skip


def look_again(plan: dict[str, Any], file: Path, switch: Switch) -> Outlook:
    """What `carry_out` would do; raises what it would. Changes nothing."""
    outlook = look(spec_of(plan), switch, Options(**plan["options"]))
    _check(plan, file, outlook)
    return outlook


def _check(plan: dict[str, Any], file: Path, outlook: Outlook) -> None:
    moved = [what for what, value in outlook.basis().items() if plan["basis"].get(what) != value]
    if "switch" in moved:
        raise SwitchError(
            f"{shown(file)}: is for another switch; this one's OVSDB has another identity. {_AGAIN} on it"
        )
    if moved:
        what = ", ".join(moved)
        raise SwitchError(
            f"{shown(file)}: the switch has moved on since (other now: {what}); nothing was changed; {_AGAIN}"
        )
