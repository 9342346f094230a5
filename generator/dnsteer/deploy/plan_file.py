# SPDX-License-Identifier: Apache-2.0
"""Plan files: a change that was reviewed, to be applied exactly as it was, or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dnsteer import __version__
from dnsteer.checks.load import check_document
from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import DeployResult, Options, deploy, preview
from dnsteer.deploy.summary import PlanSummary, hash_of, summary_as_json
from dnsteer.deploy.target_switch import Confirm, Progress, TargetSwitch, silent
from dnsteer.deploy.times import now, stamp
from dnsteer.render.atomic_files import write_file
from dnsteer.spec.read import parse_recorded
from dnsteer.spec.source import UnreadableError, read_whole, shown
from dnsteer.switch.other_versions import program_of
from dnsteer.switch.tools import SwitchError

FORMAT = 1
"""The format of plan files that this version writes and reads."""
_FORMAT = "dnsteer plan {}"
_NAMED_FORMAT = re.compile(r"dnsteer plan ([0-9]{1,9})")
MAX_PLAN_FILE_BYTES = 64 * 1024 * 1024
"""Largest plan file read, in bytes: the spec, and a line for each thing that changes."""
_MAKE = "make one with: dnsteer plan SPEC -o FILE"
_AGAIN = "make a new plan with: dnsteer plan"


@dataclass(frozen=True)
class PlanFile:
    """A plan that was read from *file*: the spec and the options, and what the switch was when it was made."""

    file: Path
    source: FileSource
    options: Options
    basis: Mapping[str, object]


def write(summary: PlanSummary, switch: TargetSwitch, options: Options, file: Path) -> None:
    """Write the plan file, whole or not at all. Raises OSError that names it."""
    content = {
        "format": _FORMAT.format(FORMAT),
        "version": __version__,
        "made": stamp(now()),
        "by": operator_name(),
        "options": asdict(options),
        "bridge": summary.loaded.spec.switch.bridge,
        "summary": summary_as_json(summary, verbose=False),
        "basis": summary.basis(),
        "spec": {"file": summary.loaded.file, "text": summary.loaded.document.text},
    }
    text = json.dumps({**content, "sum": hash_of(content)}, indent=1) + "\n"
    write_file(file, text)


def read(file: Path) -> PlanFile:
    """Read a plan file; `-` is standard input.

    Raises SwitchError when it is none, was edited, or is of another format or version, SpecError for its spec, and OSError
    when it cannot be read.
    """
    name = shown(file)
    try:
        data = read_whole(file, MAX_PLAN_FILE_BYTES)
    except UnreadableError as error:
        raise SwitchError(f"{name}: found {error.found}; expected a plan file: {error.hint}") from None
    if len(data) > MAX_PLAN_FILE_BYTES:
        raise SwitchError(f"{name}: found more than {MAX_PLAN_FILE_BYTES >> 20} MiB; expected a plan file ({_MAKE})")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise SwitchError(f"{name}: not a plan file (not JSON); {_MAKE}") from None
    if not isinstance(value, dict):
        raise SwitchError(f"{name}: found {type(value).__name__}, expected a plan file; {_MAKE}")
    _refuse_other_format(name, value)
    if value.pop("sum", None) != hash_of(value):
        raise SwitchError(f"{name}: was edited after it was made; change the spec instead, and {_AGAIN}")
    if value["version"] != __version__:
        raise SwitchError(f"{name}: was made by dnsteer {value['version']}, and this is {__version__}; {_AGAIN}")
    source = FileSource(check_document(parse_recorded(value["spec"]["file"], value["spec"]["text"])))
    return PlanFile(file, source, Options(**value["options"]), value["basis"])


def _refuse_other_format(name: str, value: Mapping[str, Any]) -> None:
    """Raise SwitchError that says which dnsteer can apply a plan file of another format, and what to do with this one."""
    said = value.get("format")
    found = _NAMED_FORMAT.fullmatch(said) if isinstance(said, str) else None
    if found is None:
        raise SwitchError(f"{name}: found format {said!r}, expected {_FORMAT.format(FORMAT)!r}; {_MAKE}")
    number, made_by = int(found[1]), program_of(value.get("version"))
    if number == FORMAT:
        return
    other = "upgrade dnsteer on this machine, and apply it then" if number > FORMAT else f"apply it with {made_by}"
    raise SwitchError(
        f"{name}: has format {number}, made by {made_by}, and this is dnsteer {__version__}, which knows format {FORMAT}: "
        f"nothing was changed; {other}, or {_AGAIN}"
    )


def apply_plan(
    plan: PlanFile,
    switch: TargetSwitch,
    *,
    confirm: Confirm | None = None,
    progress: Progress = silent,
) -> DeployResult:
    """Apply exactly that plan. Raises SwitchError when the switch has moved on since; nothing is changed then."""
    return deploy(
        plan.source,
        switch,
        plan.options,
        confirm=confirm,
        progress=progress,
        review=lambda summary: _refuse_moved(plan, summary),
    )


def preview_again(plan: PlanFile, switch: TargetSwitch) -> PlanSummary:
    """Return what `apply_plan` would do; raises the same errors. Changes nothing."""
    summary = preview(plan.source, switch, plan.options)
    _refuse_moved(plan, summary)
    return summary


def _refuse_moved(plan: PlanFile, summary: PlanSummary) -> None:
    moved = [what for what, value in summary.basis().items() if plan.basis.get(what) != value]
    file = plan.file
    if "switch" in moved:
        raise SwitchError(
            f"{shown(file)}: is for another switch, since this one's OVSDB has another identity; {_AGAIN}, on this switch"
        )
    if moved:
        what = ", ".join(moved)
        raise SwitchError(
            f"{shown(file)}: the switch has changed since the plan was made (different now: {what}); "
            f"nothing was changed; {_AGAIN}"
        )
