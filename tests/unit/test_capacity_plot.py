# SPDX-License-Identifier: Apache-2.0
"""The picture: well-formed, with the words that it needs, and the same bytes each time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dnsteer.capacity.plot import draw
from dnsteer.cli.output import Exit
from dnsteer.spec.model.spec import Hardware
from tests.unit.test_capacity import BASE, TCP, asked

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
ENV = {**os.environ, "PYTHONPATH": f"{ROOT / 'generator'}:{ROOT}"}


def words(picture: bytes) -> str:
    """All text of a picture; raises where it is no XML."""
    root = ElementTree.fromstring(picture)
    assert root.tag == f"{SVG}svg"
    return "\n".join("".join(element.itertext()) for element in root.iter(f"{SVG}text"))


@pytest.mark.parametrize("hardware", list(Hardware))
def test_the_plot_labels_what_it_shows(hardware: Hardware) -> None:
    shown = words(draw(asked([BASE, TCP, replace(BASE, family="ipv6", depth=2)], hardware)))
    for word in (
        "Rate against frame size",
        "Rate and latency against pipe depth",
        "frame, bytes",
        "link, 100 Gb/s",
        "this spec",
        "measured latency",
        "dns queries IPv4 (depth 1)",
        "dns queries IPv6 (depth 2)",
        "spec.yaml",
        hardware.value[-1],
    ):
        assert word in shown, word


def test_the_plot_draws_the_earlier_figures() -> None:
    before, after = asked(), asked([replace(BASE, depth=9)])
    assert "before" in words(draw(after, before))
    assert "before" not in words(draw(after))


@pytest.mark.parametrize("verdict", ["no", "unknown"])
def test_paths_on_the_cores_are_drawn(verdict: str) -> None:
    path = replace(BASE, offloaded=verdict, conntrack=True)  # type: ignore[arg-type]
    assert "dns queries" in words(draw(asked([path])))


def test_the_same_input_gives_the_same_bytes() -> None:
    script = (
        "import hashlib, sys; from tests.unit.test_capacity import asked; "
        "from dnsteer.capacity.plot import draw; print(hashlib.sha256(draw(asked(), asked())).hexdigest())"
    )
    here = hashlib.sha256(draw(asked(), asked())).hexdigest()
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**ENV, "PYTHONHASHSEED": "7"},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == here


def test_without_the_library_the_command_says_what_to_install(tmp_path: Path) -> None:
    script = "import sys; sys.modules['matplotlib'] = None; from dnsteer.cli.main import run; run()"
    argv = [
        "capacity",
        str(ROOT / "examples" / "quickstart.yaml"),
        "--hardware",
        "bluefield-3",
        "--plot",
        str(tmp_path / "a.svg"),
    ]
    done = subprocess.run([sys.executable, "-c", script, *argv], env=ENV, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (Exit.UNAVAILABLE, "")
    assert "--plot needs matplotlib, which is not installed: pip install 'dnsteer[capacity]'" in done.stderr
    assert not (tmp_path / "a.svg").exists()
