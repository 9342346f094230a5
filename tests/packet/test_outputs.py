# SPDX-License-Identifier: Apache-2.0
"""Outputs of commands in the pages: made by running the commands, and what is stale, unmarked or fails is named."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.packet.switches import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import generate
import outputs

STATUS = "dnsteer status --no-rates --no-verify"
PAGE = f"""\
# A page

<!-- run: dnsteer apply examples/quickstart.yaml -->
<!-- run: dnsteer drain authoritative/ns1 --for 3h -->
<!-- output -->

    $ dnsteer explain examples/quickstart.yaml --cookie 0xd453010000000000   # a comment
    old
    $ {STATUS}
    1
    2
    3
    ...
    last

<!-- output: {STATUS} | grep "ns1 +drain" -->

    x

<!-- output 1: dnsteer check bad.yaml | grep "weight" -->

    x

And:

    vip: what is no output stays

<!-- kept: it cannot be made -->

    br-dns: this stays
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with examples/ and what generated files are in."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "docs").mkdir()
    (tmp_path / "ovs" / "monitoring").mkdir(parents=True)
    for name in ("agent.md", "architecture.md", "comparison.md", "servers.md"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    return tmp_path


def made(root: Path, text: str) -> str:
    (root / "page.md").write_text(text)
    return outputs.page(root, "page.md")


def test_outputs_are_those_of_the_commands_and_the_rest_stays(root: Path) -> None:
    text = made(root, PAGE)
    assert made(root, text) == text  # the same again, at another time and on another switch
    lines = text.split("\n")
    assert lines[:7] == PAGE.split("\n")[:7]
    assert lines[7] == "    0xd453010000000000: pipeline, examples/quickstart.yaml:5 $.switch"
    status = lines[9:14]
    assert status[0] == "    bridge   br-dns of switch dpu-1"
    assert re.fullmatch(r"    state    1, examples/quickstart.yaml, digest [0-9a-f]{12}", status[1])
    assert status[2].startswith("    applied  2026-11-21 15:07 UTC (7 s ago) by root@vm with dnsteer ")
    assert status[3:] == ["    ...", "    br-dns: not checked for drift"]
    drain = "    authoritative/ns1  drain       2026-11-21 15:07  2026-11-21 18:07  root@vm"
    assert [line for line in lines if line.startswith(drain) and re.fullmatch(r" +d21gepscb\d{3}", line[len(drain) :])]
    assert sum("$.pools.resolvers.backends[0].weight: found" in line for line in lines) == 1
    assert text.endswith(PAGE[PAGE.index("And:") :])


def test_long_lines_are_cut(root: Path) -> None:
    text = made(root, "<!-- output: dnsteer lint examples/quickstart.yaml | grep DNS011 -->\n\n    x\n")
    (line,) = text.split("\n")[2:3]
    assert line.startswith("    examples/quickstart.yaml:") and line.endswith(" ...")
    assert 140 < len(line) - 4 <= outputs.WIDTH


WRONG = {
    "    $ dnsteer version\n": "page.md:1: found '$ dnsteer version' in a block without a comment that says which",
    "text\n\n    br-dns: changed: 6 of 64\n": "page.md:3: found 'br-dns: changed: 6 of 64' in a block without a comment",
    "<!-- output: dnsteer check bad.yaml -->\n\n    x\n": "page.md:2: dnsteer check bad.yaml: found exit code 1; expected 0",
    "<!-- output 1: dnsteer version -->\n\n    x\n": "page.md:2: dnsteer version: found exit code 0; expected 1",
    "<!-- output: dnsteer version -->\n\ntext\n": "page.md:1: found no indented block after this comment",
    "<!-- output -->\n\n    x\n": "page.md:3: found no command",
    "<!-- output -->\n\n    $ dnsteer version\n    ...\n    a\n    ...\n": "page.md:3: found several lines `...`",
    "<!-- output -->\n\n    $ dnsteer version\n    a\n    b\n    c\n    d\n    e\n    ...\n": "nothing is left out",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_output_block_is_named(text: str, root: Path) -> None:
    with pytest.raises(outputs.OutputError, match=re.escape(WRONG[text])):
        made(root, text)


def test_a_stale_output_is_named_with_the_command_that_mends_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "DOCS", root / "docs")

    def run(*args: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["generate.py", *args])
        return generate.main(), capsys.readouterr().err

    page = root / "README.md"
    page.write_text("<!-- output -->\n\n    $ dnsteer check examples/quickstart.yaml\n    x\n")
    assert run() == (0, "")
    right = page.read_text()
    assert run("--check") == (0, "")
    page.write_text(re.sub(r"\d+ flows", "124 flows", right))
    code, said = run("--check")
    assert code == 1
    assert said.startswith("stale: README.md:4\n  is        examples/quickstart.yaml: 124 flows, ")
    assert said.endswith("; run: make docs\n")
    assert run() == (0, "") and page.read_text() == right
