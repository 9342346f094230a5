# SPDX-License-Identifier: Apache-2.0
"""Rules for all of the tree: a name leads to one place, a file has at most 600 lines, and pages name modules that exist."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import defaultdict
from pathlib import Path

import pytest

import dnsteer

ROOT = Path(dnsteer.__file__).parents[2]
PACKAGE = ROOT / "generator" / "dnsteer"
FOLDERS = ("generator", "templates", "datapath_ext", "bench", "docs", "runbooks", "tests")
SUFFIXES = {".py", ".c", ".h", ".j2"}
LINES = 600


def test_no_two_public_classes_have_one_name() -> None:
    found = defaultdict[str, list[str]](list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(PACKAGE)))
    assert len(found) > 500
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_no_file_is_long() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in SUFFIXES]
    lines = {str(file.relative_to(ROOT)): file.read_text(errors="replace").count("\n") for file in files}
    assert len(lines) > 1000
    assert {name: count for name, count in lines.items() if count > LINES} == {}


def test_imports_of_benchmarks_and_docs_exist() -> None:
    """Nothing else looks at those that no test runs."""
    files = [file for folder in ("bench", "docs", "datapath_ext") for file in sorted((ROOT / folder).rglob("*.py"))]
    names = [
        (file.name, node.module, name.name)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dnsteer"
        for name in node.names
    ]
    assert len(names) > 100
    assert [each for each in names if not _exists(each[1], each[2])] == []


def _exists(module: str, name: str) -> bool:
    found = importlib.import_module(module)
    return hasattr(found, name) or (
        hasattr(found, "__path__") and importlib.util.find_spec(f"{module}.{name}") is not None
    )


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.stem)
def test_modules_that_the_docs_name_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text()))
    places = (ROOT, ROOT / "generator" / "dnsteer", ROOT / "generator")
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []
