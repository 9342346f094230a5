# SPDX-License-Identifier: Apache-2.0
"""Properties of `apply` over random specs: the tables depend on the spec alone, not on what was applied before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from dnsteer.spec.loaded import Loaded
from tests.packet.apply_spec import apply, differences
from tests.packet.switches import EXAMPLES, LARGE, ROOT, Switch
from tests.strategies import specs

FILES = ("bridge.sh", "groups.txt", "flows.txt", "bundle.txt")
pytestmark = pytest.mark.usefixtures("addresses_of_dummies")
FEW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def state(switch: Switch) -> tuple[object, ...]:
    """All that an apply answers for, without the time of it."""
    columns = "name,datapath_type,fail_mode"
    tables = sorted(switch.vsctl("--columns=name", "--bare", "list", "Flow_Table").split())
    return (*switch.tables(), switch.ports(), switch.vsctl(f"--columns={columns}", "list", "Bridge"), tables)


def fresh(switch: Switch, spec: Loaded) -> tuple[object, ...]:
    """The state after applying to nothing."""
    switch.vsctl("--if-exists", "del-br", "br-dns")
    assert apply(spec, switch.database).changed
    return state(switch)


@FEW
@given(specs(extension=False), specs(extension=False))
def test_incremental_equals_full(shared: Switch, one: Loaded, other: Loaded) -> None:
    """Apply twice is apply once; one, other, one is one; other after one is other from scratch."""
    from_scratch = fresh(shared, other)
    first = fresh(shared, one)
    conf = shared.conf()
    assert not apply(one, shared.database).changed
    assert shared.conf() == conf
    apply(other, shared.database)
    assert state(shared) == from_scratch
    assert differences(other, shared) == []
    apply(one, shared.database)
    assert state(shared) == first
    assert differences(one, shared) == []


def render(spec: Path, folder: Path, seed: str) -> dict[str, bytes]:
    """The files that a process of its own renders, with this seed of Python's hashes."""
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "generator")}
    subprocess.run(
        [sys.executable, "-m", "dnsteer", "render", str(spec), "-o", str(folder)],
        env=env,
        check=True,
        capture_output=True,
    )
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.parametrize("text", [LARGE, (EXAMPLES / "two-uplinks.yaml").read_text()], ids=["large", "two-uplinks"])
def test_rendering_is_the_same_in_every_process(text: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(text)
    one, two = (render(spec, tmp_path / seed, seed) for seed in ("1", "4242"))
    assert one == two
