# SPDX-License-Identifier: Apache-2.0
"""Completion of names by a shell: what the record has, read at once, and nothing where there is no switch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.packet.switches import Switch


def completed(switch: str, *words: str, shell: str = "bash") -> list[str]:
    """What a shell offers for the last word."""
    line = " ".join(["dnsteer", *words])
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words))} if shell == "bash" else {"_TYPER_COMPLETE_ARGS": line}
    environ = {**os.environ, "DNSTEER_DB": switch, "_DNSTEER_COMPLETE": f"complete_{shell}", **asked}
    argv = [sys.executable, "-m", "dnsteer"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environ, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("drain", "farm/"), ["farm/ns1", "farm/ns2", "farm/ns3", "farm/ns4"]),
        (("drain", "farm/ns1", "farm/"), ["farm/ns2", "farm/ns3", "farm/ns4"]),
        (("undrain", ""), ["farm/ns1"]),
        (("up", ""), []),
        (("weight", "spare"), ["spare/sp1", "spare/sp2"]),
        (
            ("status", ""),
            [
                "farm",
                "spare",
                "dns",
                "other",
                *(f"farm/ns{n}" for n in (1, 2, 3, 4)),
                "spare/sp1",
                "spare/sp2",
            ],
        ),
        (("status", "spare/"), ["spare/sp1", "spare/sp2"]),
        (("withdraw", "o"), ["other"]),
        (("capture", "d"), ["dns"]),
        (("capture", "spare/"), ["spare/sp1", "spare/sp2"]),
        (("show", ""), ["2", "1"]),
        (("rollback", "1"), ["1"]),
        (("status", "--bridge", ""), ["br-dns"]),
        (("topp",), []),
        (("undr",), ["undrain"]),
    ],
)
def test_names_of_the_switch_are_completed(drained: Switch, words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(drained.database, *words) == offered


def test_zsh_completes_names(drained: Switch) -> None:
    assert "spare" in "".join(completed(drained.database, "status", "sp", shell="zsh"))


@pytest.mark.parametrize("remote", ["unix:/nonexistent/db.sock", "tcp:127.0.0.1:1", "nonsense"])
def test_completion_without_a_switch_is_silent(remote: str) -> None:
    assert completed(remote, "drain", "farm/") == []
    assert completed(remote, "status", "--bridge", "") == []
