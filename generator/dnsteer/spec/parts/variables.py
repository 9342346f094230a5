# SPDX-License-Identifier: Apache-2.0
"""Variables of a spec: `${NAME}` as a value or within one, set by `vars`, by vars/NAME.yaml of the switch, or by --vars.

They stand for scalars. There are no expressions, conditions or defaults, and nothing of the structure is a variable's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from dnsteer.spec.document import Document, Origin
from dnsteer.spec.errors import MAX_FINDINGS, Finding, Path, SpecError, file_of_part, near, shorten, show_value
from dnsteer.spec.model.file import VARIABLE_NAME
from dnsteer.spec.parts.part_files import PartFile
from dnsteer.spec.yaml_reader import MAX_SPEC_BYTES, plain_scalar

_NAME = re.compile(rf"{VARIABLE_NAME}\Z")
_USE = re.compile(rf"\$\$\{{|\$\{{({VARIABLE_NAME})\}}|\$\{{")
_WHOLE = re.compile(rf"\$\{{({VARIABLE_NAME})\}}\Z")
_FIXED = ("apiVersion", "vars")
"""Keys below which there are no variables."""
_MAX_COMPARED = 100
"""Most unused variables for which a similar name is looked for."""
_ESCAPE = 'for the text "${" itself write "$${"; there are no expressions'


@dataclass(frozen=True)
class _Variable:
    value: Any
    part: PartFile
    path: Path

    def origin(self, name: str) -> Origin:
        return Origin(name, self.part.name, self.part.document.line(self.path))

    def place(self, file: str) -> str:
        return f"{file_of_part(file, self.part.name)}:{self.part.document.line(self.path)}"


def substitute(
    doc: Document, parts: Sequence[PartFile], of_switch: PartFile | None, given: Sequence[PartFile], why_none: str = ""
) -> None:
    """Put the values of variables where *doc* names them, and take its `vars` out; unused ones become warnings.

    *parts* are the files of *doc*. A variable of the files *given* goes before one of the same name of the switch's own
    file, and that before one of `vars`. *why_none* says why the switch has no file, where it has none.

    Raises SpecError with all that is wrong with variables.
    """
    values = doc.value.pop("vars", {}) if isinstance(doc.value, dict) else {}
    findings: list[Finding] = []
    levels = [_of_parts(doc, values, parts, findings)]
    levels += [_of_files(doc, files, findings) for files in ([of_switch] if of_switch else [], given)]
    known: dict[str, _Variable] = {}
    for level in levels:
        known |= level
    substitution = _Substitution(doc, known, why_none)
    found = chain(findings, _keys_with_variables(doc), _put_all(doc, substitution))
    findings = list(islice(found, MAX_FINDINGS + 1))
    if findings:
        raise SpecError(doc.file, findings)
    doc.warnings += tuple(_unused(levels, substitution.used))


def _put_all(doc: Document, substitution: _Substitution) -> Iterator[Finding]:
    for path, plain in list(doc.variables.items()):
        if path[0] not in _FIXED:
            yield from substitution.put(path, plain=plain)
        elif path[0] != "vars":
            yield doc.finding(path, _shown(doc, path), "a value without variables", "write it out")


def _of_parts(doc: Document, values: Any, parts: Sequence[PartFile], findings: list[Finding]) -> dict[str, _Variable]:
    if not isinstance(values, dict):
        findings.append(
            doc.finding(("vars",), show_value(values), "a mapping of names to values", "for example {site: ams}")
        )
        return {}
    files = {part.name: part for part in parts}
    found = {}
    for name, value in values.items():
        part = files[doc.parts[("vars", name)]]
        if _is_variable(part, ("vars", name), name, value, findings):
            found[name] = _Variable(value, part, ("vars", name))
    return found


def _of_files(doc: Document, files: Sequence[PartFile], findings: list[Finding]) -> dict[str, _Variable]:
    """The variables of files that hold nothing else, each once."""
    found: dict[str, _Variable] = {}
    for part in files:
        values = part.document.value
        if not isinstance(values, dict):
            findings.append(part.finding((), show_value(values), "a mapping of names to values", "NAME: VALUE a line"))
            continue
        for name, value in values.items():
            first = found.get(name)
            if first is not None:
                hint = f"the first is at {first.place(doc.file)}: remove one of the two"
                findings.append(
                    part.finding((name,), f'the variable "{shorten(name)}" a second time', "each of them once", hint)
                )
            elif _is_variable(part, (name,), name, value, findings):
                found[name] = _Variable(value, part, (name,))
    return found


def _is_variable(part: PartFile, path: Path, name: str, value: Any, findings: list[Finding]) -> bool:
    """Whether a variable is well-formed; else why not is added to *findings*."""
    if not _NAME.match(name):
        hint = "begin with a letter" if name[:1].isdigit() else "use _ between words"
        found = f'the variable "{shorten(name)}"'
        findings.append(part.finding(path, found, "a name of letters, digits and _", hint))
    elif isinstance(value, dict | list) or value is None:
        hint = (
            "variables stand for single values: write a variable for each" if value is not None else "give it a value"
        )
        findings.append(part.finding(path, show_value(value), "text, a number, true or false", hint))
    elif isinstance(value, str) and "${" in value:
        hint = "write the value out: variables are not set by other variables"
        findings.append(part.finding(path, show_value(value), "a value without variables", hint))
    else:
        return True
    return False


def _keys_with_variables(doc: Document) -> Iterator[Finding]:
    for path in doc.lines:
        if path and isinstance(path[-1], str) and "${" in path[-1] and path[0] != "vars":
            hint = "names and keys are written out, since variables stand for values only"
            yield doc.finding(path[:-1], f'the key "{shorten(path[-1])}"', "a key without variables", hint)


def _shown(doc: Document, path: Path) -> str:
    return show_value(_at(doc.value, path))


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _names_a_backend(path: Path) -> bool:
    return len(path) == 5 and path[0] == "pools" and path[2] == "backends" and path[4] == "name"


class _Substitution:
    def __init__(self, doc: Document, known: Mapping[str, _Variable], why_none: str) -> None:
        self.used: set[str] = set()
        self._doc, self._known, self._why_none = doc, known, why_none
        self._size = 0

    def put(self, path: Path, *, plain: bool) -> Iterator[Finding]:
        """Put values into the scalar at *path*, which is *plain* without quotes; yield what is wrong with it."""
        text = str(_at(self._doc.value, path))
        uses = list(_USE.finditer(text))
        findings = list(self._wrong(path, text, uses))
        self.used |= {use[1] for use in uses if use[1]}
        if findings:
            yield from findings
            return
        whole = _WHOLE.match(text)
        value = self._known[whole[1]].value if whole else self._within(text, plain=plain)
        self._size += len(value) if isinstance(value, str) else 0
        if self._size > MAX_SPEC_BYTES:
            yield self._doc.finding(
                path, "more text by variables than a spec may have", f"at most {MAX_SPEC_BYTES // 2**20} MiB"
            )
            return
        _at(self._doc.value, path[:-1])[path[-1]] = value
        names = dict.fromkeys(use[1] for use in uses if use[1])
        if names:
            self._doc.origins[path] = tuple(self._known[name].origin(name) for name in names)

    def _within(self, text: str, *, plain: bool) -> Any:
        """The text with its variables' values; where it is *plain*, what that stands for."""

        def spelled(use: re.Match[str]) -> str:
            if not use[1]:
                return "${"
            value = self._known[use[1]].value
            return str(value).lower() if isinstance(value, bool) else str(value)

        result = _USE.sub(spelled, text)
        return plain_scalar(result) if plain else result

    def _wrong(self, path: Path, text: str, uses: Sequence[re.Match[str]]) -> Iterator[Finding]:
        if _names_a_backend(path) and any(use[1] for use in uses):
            hint = "a backend's name is in cookies, maintenance and metrics: it must not change with a variable"
            yield self._doc.finding(path, show_value(text), "a name that is written out", hint)
            return
        for use in uses:
            if use[0] == "${":
                rest = text[use.start() :]
                found = f'"{shorten(rest.partition("}")[0] + "}" * ("}" in rest))}"'
                yield self._doc.finding(path, found, "${NAME}, with letters, digits and _", _ESCAPE)
            elif use[1] and use[1] not in self._known:
                expected = "a variable that vars, the file vars/NAME.yaml of the switch, or --vars sets"
                found = f'the variable "{shorten(use[1])}", which is not set'
                hint = near(use[1], self._known)
                if self._why_none and not hint.startswith("did you mean"):
                    hint = self._why_none
                yield self._doc.finding(path, found, expected, hint)


def _unused(levels: Sequence[Mapping[str, _Variable]], used: set[str]) -> Iterator[Finding]:
    unused = [(name, each) for level in levels for name, each in level.items() if name not in used]
    for index, (name, variable) in enumerate(unused):
        hint = near(name, used) if index < _MAX_COMPARED else ""
        yield variable.part.finding(
            variable.path,
            f'the variable "{shorten(name)}", which nothing uses',
            f"${{{shorten(name)}}} in a value of the spec",
            hint if hint.startswith("did you mean") else "use it, or remove it",
            kind="variables that nothing uses",
        )
