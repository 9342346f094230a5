"""A name leads to one place: no two public classes of the tree are called alike."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import dnsteer

PACKAGE = Path(dnsteer.__file__).parent


def test_no_two_public_classes_have_one_name() -> None:
    found = defaultdict[str, list[str]](list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(PACKAGE)))
    assert len(found) > 500
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
