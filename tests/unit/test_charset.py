# SPDX-License-Identifier: Apache-2.0
"""Text that a terminal's charset lacks: no traceback, columns that stay aligned, and box drawing in ASCII."""

from __future__ import annotations

import io
import sys

import pytest
from rich.box import ROUNDED
from rich.console import Group
from rich.table import Table
from rich.text import Text

from dnsteer.cli.charset import as_printed, set_up_streams
from dnsteer.cli.charset_console import CharsetConsole
from tests.unit.commands import dnsteer

NOTE = "\N{CYRILLIC SMALL LETTER YA}\N{CYRILLIC SMALL LETTER DE}"


@pytest.mark.parametrize(
    ("encoding", "text", "printed"),
    [
        ("latin-1", f"caf\xe9 {NOTE}\N{HORIZONTAL ELLIPSIS}", "caf\xe9 \\u044f\\u0434~"),
        (
            "ascii",
            "\N{SNOWMAN}\N{BOX DRAWINGS LIGHT HORIZONTAL}\N{FULL BLOCK}\xe9\U0001f600",
            "\\u2603-#\\xe9\\U0001f600",
        ),
        ("utf-8", f"{NOTE}\udcff", f"{NOTE}\\udcff"),  # a file name that is no UTF-8
    ],
)
def test_streams_escape_characters_outside_their_charset(
    encoding: str, text: str, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    set_up_streams()
    stream.write(text)
    assert stream.buffer.getvalue().decode(encoding) == printed == as_printed(text, encoding)  # type: ignore[attr-defined]


def shown(encoding: str) -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    console = CharsetConsole(file=file, width=60)
    table = Table("name", "note", "by", box=ROUNDED)
    table.add_row("ns1", Text.assemble(("kernel ", "red"), (NOTE, "bold")), "root")
    table.add_row("ns2", "none", "root")
    console.print(Group(table, Text(NOTE)))
    return file.buffer.getvalue().decode(encoding).splitlines()  # type: ignore[attr-defined]


def test_tables_stay_aligned() -> None:
    lines = shown("latin-1")
    assert lines[3] == "| ns1  | kernel \\u044f\\u0434 | root |"
    assert lines[4] == "| ns2  | none                | root |"
    assert {len(line) for line in lines[:-1]} == {len(lines[3])}
    assert lines[-1] == "\\u044f\\u0434"
    assert shown("utf-8")[3].count(NOTE) == 1 and "\N{BOX DRAWINGS LIGHT VERTICAL}" in shown("utf-8")[3]


def test_parts_of_a_text_keep_their_style() -> None:
    text = CharsetConsole(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii")).fitted(
        Text.assemble("a", (f"b{NOTE}c", "red"), "d")
    )
    assert isinstance(text, Text) and text.plain == "ab\\u044f\\u0434cd"
    red = {n for span in text.spans if span.style == "red" for n in range(span.start, span.end)}
    assert red == set(range(1, len(text.plain) - 1))


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii:strict"},
        {"LC_ALL": "C"},
        {"LANG": "POSIX"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=str,
)
def test_names_outside_the_charset_are_escaped(environment: dict[str, str]) -> None:
    done = dnsteer("check", f"{NOTE}.yaml", **environment)
    assert done.returncode == 1
    assert ".yaml: found no such file" in done.stderr and "Traceback" not in done.stderr
    done = dnsteer("lint", "--explain", "DNS011", **environment)
    assert (done.returncode, done.stderr) == (0, "")
