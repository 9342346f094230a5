# SPDX-License-Identifier: Apache-2.0
"""A record holds the effective spec as text: whatever is in the files, it is read back as it was, with its places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dnsteer.spec.document import Document
from dnsteer.spec.errors import SpecError
from dnsteer.spec.parts.compose import compose
from dnsteer.spec.parts.effective_text import without_places
from dnsteer.spec.parts.inputs import NO_INPUTS
from dnsteer.spec.read import parse_recorded, read_document, read_effective
from dnsteer.spec.yaml_reader import parse_yaml

CHARACTERS = st.characters(exclude_categories=("Cs",))
NASTY = st.sampled_from(
    [
        *(
            "  # ",
            " # line 5",
            ": ",
            "- ",
            "\t",
            "\n",
            "\\",
            '"',
            "'",
            "{",
            "]",
            ",",
            "&",
            "*",
            "!",
            "%",
            "@",
            "`",
            "?",
            "~",
        ),
        *(
            "null",
            "true",
            "Yes",
            "0x1F",
            "1_0",
            "1:30",
            "...",
            "---",
            "<<",
            "\x85",
            "\u2028",
            "\u202e",
            "\ufeff",
            "\x7f",
        ),
        *("# dnsteer effective spec 1", "by $.defaults.vips.pool", "a.yaml:3", "$", "$${", "😀"),
    ]
)
TEXTS = st.lists(NASTY | st.text(CHARACTERS, max_size=4), max_size=5).map("".join)
SCALARS = TEXTS | st.none() | st.booleans() | st.integers(-(10**18), 10**18)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=25
)


def yaml_of(value: Any) -> str:
    """A value as YAML that says each character by an escape that is not of ASCII, an entry of a mapping a line."""
    if isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"? {escaped(key)}\n: {yaml_of(each)}" for key, each in value.items()) + "\n}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(map(yaml_of, value)) + "\n]"
    return json.dumps(value) if not isinstance(value, str) else escaped(value)


def escaped(text: str) -> str:
    """A text in quotes; YAML has no pairs of surrogates."""
    return '"' + "".join(f"\\U{ord(c):08x}" if ord(c) > 126 or c in '"\\' or c < " " else c for c in text) + '"'


@settings(max_examples=300, suppress_health_check=list(HealthCheck), deadline=None)
@given(value=st.dictionaries(TEXTS.filter(lambda key: key not in ("include", "vars", "defaults")), VALUES, max_size=4))
def test_any_value_is_read_back_as_it_was(value: dict[str, Any]) -> None:
    source = "".join(f"? {escaped(key)}\n: {yaml_of(each)}\n" for key, each in value.items()) or "{}"
    main = parse_yaml("spec.yaml", source)
    assert main.value == value
    try:
        document = compose(main, None, NO_INPUTS, always=True)
    except SpecError as error:  # a variable or a key with one, by chance
        assert "${" in source, error
        return
    again = parse_recorded("spec.yaml", document.text)
    assert again.value == document.value
    assert places(again, document) == places(document, document)
    bare = parse_yaml("x", without_places(document.text))
    assert compose(bare, None, NO_INPUTS).value == document.value, "it is a spec like any other"


def places(document: Document, of: Document) -> dict[object, object]:
    """The file, the line and the path of all that a document has; paths without entries of lists, which begin no line."""
    keys = [path for path in of.lines if path and path[0] != "vars" and isinstance(path[-1], str)]
    return {path: (place.part, place.line, place.path) for path in keys for place in [document.place(path)]}


NAMES = ["a  # b", "x:1, y", "q\"'", "ü é", "line 5", "a:7", "back\\x3a", "x, ${m} of b:3", "-"]


@pytest.mark.parametrize("name", NAMES)
def test_places_are_kept_whatever_a_file_is_called(tmp_path: Path, name: str) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / f"{name}.yaml").write_text("vars: {n: 2}\npools:\n  a: {x: 1, y: '${n}'}\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text("include: ['parts/*.yaml']\npools: {b: {z: '1${n}'}}\n")
    document = read_effective(spec)
    again = parse_recorded(str(spec), document.text)
    assert again.value == document.value == {"pools": {"a": {"x": 1, "y": 2}, "b": {"z": "12"}}}
    place, origin = again.place(("pools", "a", "x")), again.place(("pools", "b", "z")).origins[0]
    assert (place.part, place.line) == (f"parts/{name}.yaml", 3)
    assert (origin.part, origin.line) == (f"parts/{name}.yaml", 1)
    assert places(again, document) == places(document, document)
    assert parse_yaml("x", without_places(document.text)).value == document.value


def test_a_dollar_sign_is_kept_by_records_and_by_copies_of_them(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("vars: {n: 1}\npools: {a: {x: 'echo $${HOME}/${n}', y: $$}}\n")
    document = read_document(spec)
    for _ in range(3):
        assert document.value == {"pools": {"a": {"x": "echo ${HOME}/1", "y": "$$"}}}
        assert parse_recorded("spec.yaml", document.text).value == document.value
        spec.write_text(document.text)  # as `dnsteer show` prints it
        document = read_document(spec)


def test_lists_of_several_files_are_no_defaults(tmp_path: Path) -> None:
    """Their entries have other indices in their files."""
    for name in "ab":
        (tmp_path / f"{name}.yaml").write_text(f"lint:\n  accept:\n    - {{code: DNS01{name}, reason: x}}\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text("include: [a.yaml, b.yaml]\n")
    document = read_document(spec)
    finding = document.finding(("lint", "accept", 1, "code"), "x", "y")
    assert finding.text(str(spec)) == f"{tmp_path}/b.yaml:3: $.lint.accept[0].code: found x; expected y"
    assert "    - {code: DNS01b, reason: x}  # b.yaml:3 by $.lint.accept[0]\n" in document.text
