# SPDX-License-Identifier: Apache-2.0
"""The files that `init` writes, and what it says of them: a spec in one file, or in parts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from dnsteer.cli.output import Exit, err, fail, out, print_json
from dnsteer.spec.draft import COMMON_FILE, VARIABLES_FOLDER, Site, draft_parts, draft_spec
from dnsteer.spec.errors import SpecError, counted
from dnsteer.spec.model.types import MAX_NAME

STANDARD_OUTPUT = Path("-")
_ONE_FILE = Path("spec.yaml")
_MOST_NAMES = 1000
_LAST_NUMBER = re.compile(r"[0-9]{1,9}\Z")


def files_of_spec(output: Path | None, switch: str, *, parts: bool) -> list[Path]:
    """The files to write, that of *output* first. In *parts*: the switch's own file, what the switches of the site have in
    common, and the switch's variables; those that need its name are left out while that is not known, and *switch* empty.
    """
    if not parts:
        return [output or _ONE_FILE]
    folder = output.parent if output else Path()
    own = [output] if output else [Path(f"{switch}.yaml")] if switch else []
    return [*own, folder / COMMON_FILE, *([folder / VARIABLES_FOLDER / f"{switch}.yaml"] if switch else [])]


def why_unwritable(files: Sequence[Path], *, parts: bool, force: bool) -> str:
    """Why *files* cannot be written, in words; empty if they can. Without *force* none of them may be there."""
    for file in files:
        folder = file.parent
        made = folder == files[0].parent / VARIABLES_FOLDER and not folder.exists()
        if file.is_dir() or not (folder.is_dir() or made):
            found = "a directory" if file.is_dir() else f"no directory {folder}"
            return f"{file}: found {found}; expected a file in one that exists"
        if parts and file.exists() and not file.is_file():
            return f"{file}: found a device or a pipe; expected a file, as all parts are"
    own = files[0]
    if parts and (own in files[1:] or own.name == VARIABLES_FOLDER):
        what = "what the switches of the site have in common" if own in files[1:] else "the switches' variables"
        return f"{own}: is the place of {what}; -o names another file for the switch's own"
    there = [str(file) for file in files if file.exists()]
    if not there or force:
        return ""
    what = "are there already; --force replaces them" if len(there) > 1 else "is there already; --force replaces it"
    advice = "-o names a file of another folder; a second switch has copies of the first one's files (docs/commands.md)"
    return f"{', '.join(there)}: {what}, {advice if parts else '-o names another file'}"


def write_spec(site: Site, files: Sequence[Path]) -> None:
    """Write the spec of *site* into its *files*: all of them or none. Raises OSError that names the file."""
    from dnsteer.render.atomic_files import replace_files, write_file

    if len(files) == 1:
        write_file(files[0], draft_spec(site))
        return
    drafts = draft_parts(site)
    texts = zip(files, (drafts.own, drafts.common, drafts.variables), strict=True)
    with _folders_of(files):
        replace_files({file: text.encode() for file, text in texts})


@contextmanager
def _folders_of(files: Sequence[Path]) -> Iterator[None]:
    """Make the folders of *files*, and remove those that were made if the files are not written."""
    from dnsteer.render.atomic_files import naming

    made: list[Path] = []
    try:
        for folder in dict.fromkeys(file.parent for file in files):
            if not folder.is_dir():
                with naming(folder):
                    folder.mkdir()
                made.append(folder)
        yield
    except BaseException:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def keep_draft(error: SpecError, site: Site, files: Sequence[Path]) -> NoReturn:
    """Keep answers that contradict each other as a draft beside the *files*, and say what is wrong by its lines."""
    own = files[0] if files[0] != STANDARD_OUTPUT else _ONE_FILE
    draft = next(name for n in range(_MOST_NAMES) if not (name := Path(f"{own}.draft{n or ''}")).exists())
    if len(files) == 1:
        write_spec(site, [draft])
        errors, checked = SpecError(str(draft), error.findings, len(error.findings) + error.more), draft
        move = f"mv {_shell(draft)} {_shell(own)}"
    else:
        drafts = [draft / file.relative_to(own.parent) for file in files]
        write_spec(site, drafts)
        errors, checked = _errors_of(drafts[0]) or error, drafts[0]
        move = f"cp -R {_shell(draft)}/. {_shell(own.parent)} && rm -r {_shell(draft)}"
    err.print(errors.text())
    fail(
        f"{draft}: your answers are kept there; correct it, then: dnsteer check {_shell(checked)} && {move}", Exit.ERROR
    )


def _errors_of(file: Path) -> SpecError | None:
    """What is wrong with the spec in *file*, with the files and lines of its parts."""
    from dnsteer.checks.load import load_spec

    try:
        load_spec(file)
    except SpecError as error:
        return error
    return None


def report_written(site: Site, files: Sequence[Path], *, json: bool) -> None:
    """Say which files were written, and what comes next."""
    own = _shell(files[0])
    steps = [
        (f"dnsteer check {own}", "proves it on a private switch; no root, no switch needed"),
        (f"dnsteer lint {own}", "what hardware does with it"),
        (f"dnsteer bringup {own} -o bringup", "scripts that prepare this machine"),
        (f"dnsteer plan {own}", "what would change on the running switch"),
        (f"dnsteer apply {own}", "changes it"),
        *([("dnsteer agent", "checks the servers, and takes those that fail out")] if site.checked else []),
    ]
    shown = [str(file) for file in files]
    if json:
        next_commands = [command for command, _ in steps]
        print_json({"ok": True, "file": shown[0], "files": shown, "site": site.kind, "next": next_commands})
        return
    them = "it" if len(files) == 1 else "them"
    out.print(
        f"{', '.join(shown)}: written: site {site.kind}, {counted(len(site.backends), 'server')}; look {them} over, then"
    )
    out.print(_two_columns(steps))
    if len(files) > 1:
        second, copies = _second_switch(site, files)
        out.print(f"For a second switch, such as {second}, copy two files and edit the copies:")
        out.print(_two_columns(copies))


def _two_columns(steps: Sequence[tuple[str, str]]) -> str:
    width = max(len(command) for command, _ in steps)
    return "\n".join(f"  {command:{width}}  {about}" for command, about in steps)


def _second_switch(site: Site, files: Sequence[Path]) -> tuple[str, list[tuple[str, str]]]:
    """The name of a switch that has no files yet, and the commands that make them, with what to edit in each copy."""
    own, _, variables = files
    made = ((name, own.parent / f"{name}.yaml", variables.parent / f"{name}.yaml") for name in _names_after(site.name))
    name, own_copy, variables_copy = next(each for each in made if not (each[1].exists() or each[2].exists()))
    differing = "its MAC address and the addresses of its probes" if site.probes else "its MAC address"
    return name, [
        (f"cp {_shell(own)} {_shell(own_copy)}", f"then write its name there: {name}"),
        (f"cp {_shell(variables)} {_shell(variables_copy)}", f"then write {differing} there"),
        (f"dnsteer check {_shell(own_copy)}", "and so on, as above"),
    ]


def _names_after(name: str) -> Iterator[str]:
    """Names like that of a switch, with the numbers after its own."""
    found = _LAST_NUMBER.search(name)
    stem, number, digits = (name[: found.start()], int(found[0]), len(found[0])) if found else (f"{name}-", 1, 1)
    for n in range(number + 1, number + _MOST_NAMES):
        counted_name = f"{stem}{n:0{digits}}"
        yield counted_name if len(counted_name) <= MAX_NAME else f"switch-{n}"


def _shell(file: Path) -> str:
    return shlex.quote(str(file))
