# SPDX-License-Identifier: Apache-2.0
"""The verbs in terminals whose charset lacks what the spec and its notes are written in, with and without an agent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packet.agents import agent
from tests.packet.command import FARM, fresh, on, spec_file
from tests.packet.switches import Switch

NOTE = "\N{CYRILLIC SMALL LETTER YA}\N{CYRILLIC SMALL LETTER DE}"
PRINTED = r"\u044f\u0434"
EXPECTED = ["connection dropped", "Broken pipe"]


def dnsteer(switch: Switch, *args: object, **environment: str) -> tuple[int, str]:
    """The exit code, and what is printed, to both streams."""
    environ = {
        **os.environ,
        "COLUMNS": "100",
        "PYTHONIOENCODING": "latin-1",
        "DNSTEER_DB": switch.database,
        **environment,
    }
    argv = [sys.executable, "-m", "dnsteer", *map(str, args)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ, timeout=60, check=False)
    return done.returncode, done.stdout.decode("latin-1")


@pytest.fixture
def noted(shared: Switch, tmp_path: Path) -> tuple[Switch, Path]:
    """A switch with a drain, its spec of a name, and notes, that no terminal of western Europe can show."""
    fresh(shared)
    spec = spec_file(tmp_path, f"# {NOTE}\n{FARM}").rename(tmp_path / f"{NOTE}.yaml")
    assert on(shared)("apply", spec, "--yes", "--note", NOTE).code == 0
    assert on(shared)("drain", "farm/ns1", "--note", NOTE).code == 0
    return shared, spec


def test_notes_print_in_every_charset(noted: tuple[Switch, Path]) -> None:
    switch, spec = noted
    client = ("--client", "198.51.100.7:40001", "--vip", "192.0.2.53:53/udp")
    for argv in (
        ["history"],
        ["status", "--no-rates"],
        ["top", "--once", "--interval", "0.5s"],
        ["check", spec, "--sample", 1],
        ["lint", spec],
        ["explain", spec, *client],
        ["explain", "--live", *client],
        ["plan", spec],
        ["verify", spec],
        ["drain", "farm/ns1", "--note", NOTE * 2],
        ["rollback", "1", "--dry-run"],
    ):
        code, said = dnsteer(switch, *argv)
        assert code in (0, 2) and "Traceback" not in said, (argv, said)
        if argv[0] not in ("drain", "plan", "explain", "verify"):
            assert PRINTED in said, (argv, said)
    code, said = dnsteer(switch, "history", "--json")
    assert code == 0 and PRINTED in said  # JSON in ASCII is what it was


def test_a_spec_is_printed_as_it_was_written(noted: tuple[Switch, Path]) -> None:
    switch, spec = noted
    _, said = dnsteer(switch, "show")
    assert said.encode("latin-1") == spec.read_bytes()


def test_the_agent_lays_tables_out_for_the_terminal_of_its_client(noted: tuple[Switch, Path], tmp_path: Path) -> None:
    switch, _ = noted
    alone = dnsteer(switch, "status", "--no-rates")[1]
    with agent(switch, tmp_path, "control socket"):
        asked = dnsteer(switch, "status", "--no-rates")[1]
    rows = [[line for line in said.splitlines() if line.startswith("farm/ns1")] for said in (alone, asked)]
    assert PRINTED in rows[0][0] and rows[0] == rows[1]
