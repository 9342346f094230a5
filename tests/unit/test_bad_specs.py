# SPDX-License-Identifier: Apache-2.0
"""Every bad spec beside the exact text of its error. `pytest --regenerate` writes the texts: read the diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.spec.errors import SpecError

FOLDER = Path(__file__).resolve().parents[1] / "bad_specs"
NAMES = sorted({p.stem for p in FOLDER.iterdir()})


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_spec_has_its_expected_error(name: str, pytestconfig: pytest.Config) -> None:
    """One of several files has a folder, in which its own file is spec.yaml."""
    spec, expected = FOLDER / f"{name}.yaml", FOLDER / f"{name}.err"
    spec = spec if spec.exists() else FOLDER / name / "spec.yaml"
    assert spec.exists(), f"{expected.name} has no {spec.name}"
    with pytest.raises(SpecError) as caught:
        load_spec(spec)
    text = caught.value.text().replace(f"{spec.parent}/", "") + "\n"
    if pytestconfig.getoption("--regenerate"):
        expected.write_text(text)
    assert expected.exists(), f"{spec.name} has no {expected.name}; pytest --regenerate writes it"
    assert text == expected.read_text()


def test_every_bad_spec_has_an_expected_error() -> None:
    assert {p.suffix for p in FOLDER.iterdir() if p.is_file()} == {".yaml", ".err"}
    assert len(NAMES) >= 55


@pytest.mark.parametrize("name", NAMES)
def test_text_is_for_the_terminal(name: str) -> None:
    lines = (FOLDER / f"{name}.err").read_text().splitlines()
    assert all(line.isprintable() for line in lines)
    files = [str(file.relative_to(FOLDER / name)) for file in (FOLDER / name).rglob("*.yaml")] or [f"{name}.yaml"]
    assert all(line.startswith((*files, "    hint: ")) or line.endswith("; nothing was changed") for line in lines)
    assert max(map(len, lines)) < 450
