# SPDX-License-Identifier: Apache-2.0
"""Which files the runbooks send for a spec, and how they write them on a host."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dnsteer.spec.parts.inputs import SPEC_INPUTS, SpecInputs
from dnsteer.spec.read import read_effective

pytest.importorskip("ansible")
PLUGINS = Path(__file__).resolve().parents[2] / "runbooks" / "plugins"


def load(kind: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{kind}_spec_files", PLUGINS / kind / "dnsteer_spec_files.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


action, module = load("action"), load("modules")


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def sent(found: Any) -> set[str]:
    """The names of the files on the host."""
    return {str(file.relative_to(found.root)) for file in found.files}


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("pools: {}\n", True),
        ("switch: {announce: {include: /run/bird/x.conf}}  # ${no}\n", True),
        ("requires: '>=0.1'\nlint: {accept: []}\n", True),
        ("- include\n", True),
        ("switch: [\n", True),
        ("", True),
        ("include: a.yaml\n", False),
        ("vars: {a: 1}\n", False),
        ("defaults: {}\n", False),
        ("switch: {mac: '${mac}'}\n", False),
    ],
)
def test_what_a_plain_spec_is(tmp_path: Path, text: str, plain: bool) -> None:
    write(tmp_path, {"dpu-1.yaml": text, "vars/dpu-1.yaml": "a: 1\n"})
    found = action.find_files(tmp_path / "dpu-1.yaml")
    assert (found.is_plain, found.problems) == (plain, [])
    assert "dpu-1.yaml" in sent(found)


SITE = {
    "ams/dpu-1.yaml": "include: [../shared/*.yaml, pools/own.yaml]\nswitch: {name: dpu-1}\n",
    "ams/pools/own.yaml": "include: more.yaml\npools: {own: {slots: '${slots}'}}\n",
    "ams/pools/more.yaml": "pools: {more: {}}\n",
    "ams/pools/other.yaml": "pools: {other: {}}\n",
    "ams/vars/dpu-1.yaml": "slots: 16\n",
    "ams/vars/dpu-2.yaml": "slots: 32\n",
    "shared/vips.yaml": "vips: {dns: {pool: '${pool}'}}\n",
    "shared/notes.txt": "none of them\n",
    "given/dpu-1.yaml": "pool: own\n",
    "given/dpu-2.yaml": "pool: other\n",
}


def test_the_files_are_those_that_dnsteer_reads(tmp_path: Path) -> None:
    """Also under the same names on the host, so that what it says there names them."""
    write(tmp_path, SITE)
    given = [tmp_path / "given" / "dpu-1.yaml"], [tmp_path / "shared"]
    found = action.find_files(tmp_path / "ams" / "dpu-1.yaml", *given)
    assert (found.is_plain, found.problems, found.root) == (False, [], tmp_path)
    assert found.arguments(found.root) == [
        *("ams/dpu-1.yaml", "--vars", "given/dpu-1.yaml", "--include-from", "shared")
    ]
    token = SPEC_INPUTS.set(SpecInputs(*map(tuple, given)))
    try:
        text = read_effective(tmp_path / "ams" / "dpu-1.yaml").text
    finally:
        SPEC_INPUTS.reset(token)
    read = {
        os.path.relpath(tmp_path / "ams" / name, tmp_path) for name in re.findall(r"^#   (\S+) .*sha256", text, re.M)
    }
    assert sent(found) == read


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            "../secret.yaml",
            ":1: include: {}/secret.yaml is outside the folder of the spec, {}/specs: move it there, or",
        ),
        ("link.yaml", ":1: include: {}/specs/link.yaml is outside the folder of the spec"),
        ("pipe.yaml", ":1: include: {}/specs/pipe.yaml is a named pipe; expected a file"),
        ("folder", ":1: include: {}/specs/folder is a directory; expected a file"),
        ("huge.yaml", ":1: include: {}/specs/huge.yaml: with it the spec has more than 8 MiB; split it by switch"),
    ],
)
def test_files_that_cannot_be_sent(tmp_path: Path, entry: str, said: str) -> None:
    write(tmp_path, {"specs/dpu-1.yaml": f"include: [{entry}]\n", "secret.yaml": "a: 1\n", "specs/folder/a.yaml": ""})
    (tmp_path / "specs" / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    os.mkfifo(tmp_path / "specs" / "pipe.yaml")
    with (tmp_path / "specs" / "huge.yaml").open("wb") as file:
        file.truncate(1 << 40)
    found = action.find_files(tmp_path / "specs" / "dpu-1.yaml")
    assert sent(found) == {"dpu-1.yaml"}
    (problem,) = found.problems
    assert problem.startswith(f"{tmp_path}/specs/dpu-1.yaml{said.replace('{}', str(tmp_path))}")


@pytest.mark.parametrize(
    "text",
    [
        "include: [dpu-1.yaml, none.yaml, none/*.yaml]\n",
        "include: {a: b}\n",
        "include: [[a], '', ~]\n",
        "include: [.]\nswitch: {name: ../../x}\n",
        "include: &a [*a]\nx: [*a, *a]\n",
    ],
)
def test_what_dnsteer_says_is_left_to_it(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"specs/dpu-1.yaml": text, "x.yaml": "a: 1\n"})
    found = action.find_files(tmp_path / "specs" / "dpu-1.yaml")
    assert sent(found) == {"dpu-1.yaml"}


def test_a_linked_spec_includes_from_where_the_link_is(tmp_path: Path) -> None:
    write(tmp_path, {"a/main.yaml": "include: [part.yaml]\n", "b/part.yaml": "vips: {}\n"})
    (tmp_path / "b" / "dpu-1.yaml").symlink_to(tmp_path / "a" / "main.yaml")
    assert sent(action.find_files(tmp_path / "b" / "dpu-1.yaml")) == {"dpu-1.yaml", "part.yaml"}


def names(folder: Path) -> Sequence[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    to = tmp_path / "next-parts"
    module.write_folder(to, {"dpu-1.yaml": b"a", "shared/old.yaml": b"b"})
    (tmp_path / ".next-parts.cut-off").mkdir()
    module.write_folder(to, {"dpu-1.yaml": b"c", "vars/dpu-1.yaml": b"d"})
    assert names(tmp_path) == [
        *("next-parts", "next-parts/dpu-1.yaml", "next-parts/vars", "next-parts/vars/dpu-1.yaml")
    ]
    assert module.read_folder(to) == {"dpu-1.yaml": b"c", "vars/dpu-1.yaml": b"d"}
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in (to, *to.rglob("*"))}
    assert modes == {True: 0o755, False: 0o644}
    module.write_folder(to, {})
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_written_stays(tmp_path: Path) -> None:
    to = tmp_path / "next-parts"
    module.write_folder(to, {"dpu-1.yaml": b"a"})
    with pytest.raises(OSError, match="too long"):
        module.write_folder(to, {"dpu-1.yaml": b"b", "x" * 300: b"c"})
    assert module.read_folder(to) == {"dpu-1.yaml": b"a"}


def test_what_is_no_folder_gives_way(tmp_path: Path) -> None:
    to, elsewhere = tmp_path / "next-parts", tmp_path / "elsewhere"
    write(elsewhere, {"a": "kept"})
    to.symlink_to(elsewhere)
    assert module.read_folder(to) is None
    module.write_folder(to, {"dpu-1.yaml": b"a"})
    assert (names(to), names(elsewhere)) == (["dpu-1.yaml"], ["a"])
