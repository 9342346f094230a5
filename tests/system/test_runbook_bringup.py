# SPDX-License-Identifier: Apache-2.0
"""The runbook for bring-up, on this machine and a private switch: no lab is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packet.test_bringup import NOISE, Running
from tests.system.test_runbooks import Site, controller, pytestmark  # noqa: F401 - a fixture and marks
from tests.unit.bringup_cases import DPDK, NETDEV


@pytest.fixture
def switch() -> Iterator[Running]:
    with Running() as running:
        running.expected = NOISE
        yield running


def variables(switch: Running, folder: Path, spec: Path) -> dict[str, Any]:
    return {
        "dnsteer_targets": "here",
        "dnsteer_spec": spec,
        "dnsteer_db": switch.database,
        "dnsteer_ovs_rundir": switch.dir,
        "dnsteer_bringup_folder": folder / "scripts",
        "dnsteer_folder": folder / "etc",
    }


def test_bringup_is_idempotent_and_names_what_is_missing(controller: Site, switch: Running, tmp_path: Path) -> None:  # noqa: F811
    spec = tmp_path / "spec.yaml"
    spec.write_text(NETDEV)
    given = variables(switch, tmp_path, spec)
    first = controller.play("bringup.yml", **given, dnsteer_bringup_strict=False)
    assert first.code == 0, first.output
    assert first.changed("here") >= 3  # the folder for specs, the scripts, what they did
    assert first.said("missing: interface p0: there is none; its name in the spec must be"), (
        first.output
    )  # it is a dummy
    assert switch.ports() == {"p0"}

    again = controller.play("bringup.yml", **given)
    assert again.code != 0
    assert again.changed("here") == 0
    assert again.said("to go on without it: -e dnsteer_bringup_strict=false"), again.output

    spec.write_text(DPDK)
    before = (tmp_path / "scripts" / "bringup.sh").read_text()
    looked = controller.play("bringup.yml", "--check", **given)
    assert (looked.code, looked.changed("here")) == (0, 0), looked.output
    assert looked.said("missing: other_config:dpdk-init: not set; should be true; run 30-openvswitch.sh"), looked.output
    assert len(re.findall(r"^ +- '?missing: ", looked.output, re.MULTILINE)) > 1, looked.output
    assert (tmp_path / "scripts" / "bringup.sh").read_text() == before
