# SPDX-License-Identifier: Apache-2.0
"""Snippets of specs in docs/ are accepted by dnsteer, and links to headings lead to one."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dnsteer.checks.load import load_spec

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "runbooks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
KEYS = {"switch", "pools", "vips", "lint", "defaults"}
FENCE = re.compile(r"^( *)```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def snippets() -> list[Any]:
    """Those that are a part of a spec from its top on, each with page and line."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            part = yaml.safe_load("\n".join(line[len(match[1]) :] for line in match[2].split("\n")))
            if set(part) <= KEYS:
                where = f"{page.stem}:{text.count(chr(10), 0, match.start()) + 1}"
                found.append(pytest.param(part, id=where))
    return found


def merged(base: Any, part: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(part, dict)):
        return part
    return {**base, **{key: merged(base.get(key), value) for key, value in part.items()}}


@pytest.mark.parametrize("part", snippets())
def test_a_snippet_of_a_spec_is_accepted(part: dict[str, Any], tmp_path: Path) -> None:
    """Within an example, whose backends the pools get that show none."""
    spec = yaml.safe_load((ROOT / "examples" / "one-armed-nat.yaml").read_text(encoding="utf-8"))
    backends = next(iter(spec["pools"].values()))["backends"]
    for name in {*part.get("pools", {}), *(vip["pool"] for vip in part.get("vips", {}).values())}:
        spec["pools"].setdefault(name, {"backends": copy.deepcopy(backends)})
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(merged(spec, part), sort_keys=False), encoding="utf-8")
    load_spec(file)


def files_shown() -> list[Any]:
    """Snippets that begin with the name of a file in a comment, each with that file."""
    texts = [match[2] for page in PAGES for match in FENCE.finditer(page.read_text(encoding="utf-8"))]
    found = [(re.match(r"# (examples/[\w./-]+)[^\n]*\n", text), text) for text in texts]
    return [
        pytest.param(ROOT / match[1], text[match.end() :], id=match[1]) for match, text in found if match is not None
    ]


@pytest.mark.parametrize(("file", "text"), files_shown())
def test_a_file_that_is_shown_is_as_shown(file: Path, text: str) -> None:
    """But for its comments."""
    assert [line for line in file.read_text().splitlines() if not line.startswith("#")] == text.splitlines()


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub makes it."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_to_headings_lead_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    targets = [((page.parent / file).resolve() if file else page, anchor) for file, anchor in links]
    assert [(file.name, anchor) for file, anchor in targets if anchor not in anchors(file)] == []
