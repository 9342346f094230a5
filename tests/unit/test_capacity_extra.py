# SPDX-License-Identifier: Apache-2.0
"""The extra `capacity`: without its packages `capacity` says what to install, and all other verbs work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dnsteer.cli.output import Exit
from tests.unit.commands import ENV, ROOT

SPEC = str(ROOT / "examples" / "quickstart.yaml")
PACKAGES = ("scipy", "numpy", "matplotlib")
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({PACKAGES})); from dnsteer.cli.main import run; run()"


def without_the_extra(*args: str) -> subprocess.CompletedProcess[str]:
    """The command where importing a package of the extra fails."""
    argv = [sys.executable, "-c", BLOCKED, *args]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=ENV, timeout=120)


def test_capacity_says_what_to_install() -> None:
    done = without_the_extra("capacity", SPEC, "--hardware", "bluefield-3")
    assert (done.returncode, done.stdout) == (Exit.UNAVAILABLE, "")
    message = "capacity needs scipy, which is not installed: pip install 'dnsteer[capacity]'"
    assert done.stderr == f"dnsteer: {message}\n"
    done = without_the_extra("capacity", SPEC, "--hardware", "bluefield-3", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]) == (Exit.UNAVAILABLE, message)


@pytest.mark.parametrize(
    "verb", ["lint", "lint of a named card", "check --help", "capacity --help", "render", "bringup"]
)
def test_other_verbs_work_without_the_extra(verb: str, tmp_path: Path) -> None:
    named = tmp_path / "named.yaml"  # its card's published limits are read, too
    named.write_text(Path(SPEC).read_text().replace("switch:\n", "switch:\n  hardware: bluefield-3\n", 1))
    args = {
        "lint": ["lint", SPEC, "--flavor", "ovs-doca"],
        "lint of a named card": ["lint", str(named), "--flavor", "ovs-doca"],
        "render": ["render", SPEC, "-o", str(tmp_path / "out")],
        "bringup": ["bringup", SPEC, "-o", str(tmp_path / "out")],
    }.get(verb, verb.split())
    done = without_the_extra(*args)
    assert (done.returncode, done.stderr) == (0, "")
