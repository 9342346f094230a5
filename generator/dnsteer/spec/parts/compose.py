# SPDX-License-Identifier: Apache-2.0
"""From the files of a spec to the one effective document: merged, with variables and defaults in their places."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path as FilePath

from dnsteer import __version__
from dnsteer.spec.document import Document, folder_of
from dnsteer.spec.errors import Finding, SpecError, file_of_part
from dnsteer.spec.parts.defaults import apply_defaults
from dnsteer.spec.parts.effective_text import effective_text
from dnsteer.spec.parts.inputs import SpecInputs
from dnsteer.spec.parts.list_files import add_list_files, follow_lists, names_list_files
from dnsteer.spec.parts.merge import merge
from dnsteer.spec.parts.part_files import PartFile, is_inside, read_parts
from dnsteer.spec.parts.variables import substitute
from dnsteer.spec.requirement import check_requirement
from dnsteer.spec.yaml_reader import MAX_VALUES, read_yaml

_KEYS = ("include", "vars", "defaults")
_SIGNS = re.compile(r"include|vars|defaults|requires|(deny|allow)_file|\$\{")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


def may_have_parts(text: str) -> bool:
    """Whether a spec may need other files, by a quick look at its text, which finds too many rather than too few."""
    return _SIGNS.search(text) is not None


def compose(main: Document, folder: FilePath | None, inputs: SpecInputs, *, always: bool = False) -> Document:
    """The effective document of the spec whose own file is *main*, in *folder*; *main* itself where it is all there is.

    Its text is the effective spec; with *always* that of a single file too. Raises SpecError with all that is wrong with the
    first step that fails: includes, names that are written twice, variables, files of access lists, defaults.
    """
    if not isinstance(main.value, dict):
        return main
    _refuse_unmet([PartFile("", main)])  # before all else, which a newer version may know better
    many = any(key in main.value for key in _KEYS) or names_list_files(main.value)
    if not (always or main.variables or inputs.vars_files or many):
        return without_requirement(main)
    parts = read_parts(main, folder, inputs.include_from)
    _refuse_unmet(parts)
    doc = merge(parts)
    if len(doc.lines) > MAX_VALUES:
        found = Finding(0, (), f"more than {MAX_VALUES} values in all files", "at most that many", "split it by switch")
        raise SpecError(doc.file, [found])
    of_switch = _vars_of_switch(doc, folder, inputs)
    given = [_vars_file(doc, file) for file in inputs.vars_files]
    substitute(doc, parts, of_switch, given, "" if of_switch or folder is None else _why_no_vars_file(doc))
    lists = add_list_files(doc, folder, inputs.include_from)
    apply_defaults(doc)
    followed = follow_lists(doc, lists, folder, inputs.include_from) if folder is not None else ()
    variables = [*([of_switch] if of_switch else []), *given]
    doc.text = effective_text(doc, [*parts, *(one.part for one in lists)], variables, followed)
    return doc


def without_requirement(doc: Document) -> Document:
    """The document without `requires`, which is no key of a spec that is read."""
    if isinstance(doc.value, dict):
        doc.value.pop("requires", None)
    return doc


def _refuse_unmet(parts: Sequence[PartFile]) -> None:
    """Refuse files that require another version of dnsteer. Raises SpecError."""
    findings = []
    for part in parts:
        if "requires" in part.document.value:
            unmet = check_requirement(part.document.value["requires"], __version__)
            findings += [part.finding(("requires",), *unmet)] if unmet is not None else []
    if findings:
        raise SpecError(parts[0].document.file, findings)


def _name_of_switch(doc: Document) -> str:
    """The name of the switch, as far as an unchecked document says one; else empty."""
    switch = doc.value.get("switch")
    name = switch.get("name") if isinstance(switch, dict) else None
    return str(name) if isinstance(name, str | int) and not isinstance(name, bool) else ""


def _why_no_vars_file(doc: Document) -> str:
    """Why no file of variables has the name of the switch; empty for one without name whose spec sets variables itself."""
    name = _name_of_switch(doc)
    if not name and doc.value.get("vars"):
        return ""
    if "${" in name:
        return (
            "no vars/NAME.yaml is read, since switch.name is a variable itself: write the name out, or give --vars FILE"
        )
    if not _FILE_NAME.match(name):
        return (
            "no vars/NAME.yaml is read, since the switch has no name: give it one as switch.name, or give --vars FILE"
        )
    return f"there is no {file_of_part(doc.file, f'vars/{name}.yaml')}"


def _vars_of_switch(doc: Document, folder: FilePath | None, inputs: SpecInputs) -> PartFile | None:
    """The file of variables beside the spec that has the name of its switch, if there is one. Raises SpecError."""
    name = _name_of_switch(doc)
    if folder is None or not _FILE_NAME.match(name):
        return None
    file = f"vars/{name}.yaml"
    if not os.path.lexists(folder / file):
        return None
    if not is_inside(folder / file, folder, inputs.include_from):
        hint = "give it by --vars, or allow its folder: --include-from DIR"
        found = Finding(0, (), "a link out of the folder of the spec", "a file in that folder", hint, part=file)
        raise SpecError(doc.file, [found])
    return _vars_part(file, folder / file)


def _vars_file(doc: Document, file: FilePath) -> PartFile:
    name = os.path.relpath(file, folder_of(doc.file) or ".")
    return _vars_part(os.fspath(file) if file.is_absolute() and name.startswith("..") else name, file)


def _vars_part(name: str, file: FilePath) -> PartFile:
    return PartFile(name, read_yaml(file, ("variables, as NAME: VALUE", "write some, or remove the file")))
