# SPDX-License-Identifier: Apache-2.0
"""Small specs of several files, and what reading them says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.spec.errors import SpecError
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.parts.inputs import SPEC_INPUTS, SpecInputs

HEAD = "apiVersion: dnsteer/v1\n"
SWITCH = "switch: {flavor: ovs-netdev, bridge: br-dns, mac: 02:00:00:00:00:53, uplinks: {p0: }}\n"
POOL = "pools:\n  ns:\n    backends:\n      - {name: ns1, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01}\n"
VIP = "vips:\n  dns: {addresses: [192.0.2.53], services: [dns], pool: ns}\n"


def other_pool(name: str, number: int) -> str:
    """A pool with another server than POOL has."""
    return POOL.replace("ns", name).replace("2.11", f"2.1{number}").replace("01:01", f"01:0{number}")


def write(folder: Path, **files: str) -> Path:
    """Write files, whose names end in .yaml; the spec's own is spec."""
    for name, text in files.items():
        file = folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "spec.yaml"


def load_with(file: Path, *vars_files: Path, include_from: tuple[Path, ...] = ()) -> Loaded:
    """Load a spec as with --vars and --include-from."""
    token = SPEC_INPUTS.set(SpecInputs(vars_files, include_from))
    try:
        return load_spec(file)
    finally:
        SPEC_INPUTS.reset(token)


def refusal(file: Path, **inputs: Any) -> str:
    """The error of a spec, with names of its folder left out."""
    with pytest.raises(SpecError) as caught:
        load_with(file, **inputs)
    return caught.value.text().replace(f"{file.parent}/", "")
