# SPDX-License-Identifier: Apache-2.0
"""What the pages for operators tell people to type exists: verbs, options, units, and the pages that they lead to."""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from dnsteer.cli.main import application
from dnsteer.spec.derived import SOURCE_PORT_SLOTS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "operations.md",
    ROOT / "ovs" / "README.md",
    *(
        ROOT / "docs" / f"{n}.md"
        for n in ("alerts", "announce", "architecture", "capacity", "capture", "commands", "offload", "standby")
    ),
]
GLOBAL = {"--help", "--install-completion", "--show-completion"}


@functools.cache
def options() -> dict[str, set[str]]:
    """The options of every verb that `--help` shows; those of a verb in a group under both words."""
    found: dict[str, set[str]] = {}

    def walk(command: Any, name: str) -> None:
        found[name] = {o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("-")}
        for child, value in getattr(command, "commands", {}).items():
            if not value.hidden:
                walk(value, f"{name} {child}".strip())

    walk(typer.main.get_command(application()), "")
    return found


def shell_lines(text: str) -> list[str]:
    """Indented commands and those in backticks."""
    blocks = [m[1] for m in re.finditer(r"^ {4}(?:\$ )?(\S.*)$", text, re.M)]
    inline = [m[1] for m in re.finditer(r"`([^`\n]+)`", text)]
    return [re.split(r"\s#\s", line)[0].rstrip(";,") for line in (*blocks, *inline)]


def dnsteer_lines(text: str) -> list[list[str]]:
    """Words of every command line of dnsteer in a page."""
    found = [shlex.split(line) for line in shell_lines(text) if re.match(r"dnsteer\s+[-a-z]", line)]
    return [words[1:] for words in found]


def wrong(words: list[str]) -> list[str]:
    """What of a command line does not exist."""
    known = options()
    verb = next((v for v in (" ".join(words[:2]), words[0]) if v in known), "")
    if not verb and not words[0].startswith("-"):
        return [f"dnsteer {words[0]}"]
    said = [w.split("=")[0] for w in words if re.match(r"--?[a-z]", w)]
    return [f"dnsteer {verb} {w}" for w in said if w not in known[verb] | GLOBAL]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_line_names_verbs_and_options_that_exist(page: Path) -> None:
    lines = dnsteer_lines(page.read_text())
    assert lines, "the page shows no command: is the pattern of this test still right?"
    assert [w for line in lines for w in wrong(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_option_that_is_named_alone_belongs_to_some_verb(page: Path) -> None:
    known = set().union(*options().values()) | GLOBAL
    alone = {m[1] for m in re.finditer(r"`(--[a-z-]+)[^`\n]*`", page.read_text())}
    assert alone - known - {"--monitor", "--no-monitor"} == set()


def test_unknown_verbs_and_options_in_docs_are_found() -> None:
    text = "    dnsteer drian a/b\n\nTry `dnsteer drain a/b --ovr 60s` and `dnsteer drain a/b --over 60s`.\n"
    assert [wrong(line) for line in dnsteer_lines(text)] == [["dnsteer drian"], ["dnsteer drain --ovr"], []]


def test_every_verb_is_in_the_list_of_commands() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    assert [v for v in options() if v and not re.search(rf"`{v}[` ]", text)] == []


def test_every_verb_is_in_the_runbook_or_the_readme() -> None:
    text = "".join(page.read_text() for page in PAGES)
    missing = [v for v in options() if v and not re.search(rf"\b{v}\b", text)]
    assert missing == []


@pytest.mark.parametrize("page", sorted({*PAGES, *ROOT.glob("docs/*.md")}), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_docs_have_targets(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_the_units_and_playbooks_that_are_named_exist() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    units = set(re.findall(r"dnsteer-[a-z]+\.(?:service|timer)", text))
    assert units and [u for u in units if not (ROOT / "ovs" / "systemd" / u).exists()] == []
    named = {"drain-backend", "rolling-upgrade", "rotate-vip"}
    assert [n for n in named if f"`{n}`" not in text] == []
    assert [n for n in named if not (ROOT / "runbooks" / "playbooks" / f"{n}.yml").exists()] == []


def test_the_table_of_the_record_has_the_keys_that_are_written() -> None:
    from dnsteer.switch import session, state

    text = (ROOT / "docs" / "operations.md").read_text()
    keys = {getattr(state, k) for k in dir(state) if k.endswith("_KEY")} - {"dnsteer"}
    assert [k for k in sorted(keys) if f"`{k}`" not in text and f":{k}`" not in text] == []
    assert f"`flow_tables` {session._FIRST} to {session._FIRST + session._RING - 1}" in text


def test_the_runbook_begins_with_status() -> None:
    head = (ROOT / "docs" / "operations.md").read_text().split("\n\n")[:4]
    assert "    dnsteer status" in head


def test_the_first_example_tells_the_number_of_slots_that_is_taken() -> None:
    said = re.search(r"slots: .*left out: (\d+)", (ROOT / "examples" / "quickstart.yaml").read_text())
    assert said and int(said[1]) == SOURCE_PORT_SLOTS
