"""The runbook for bring-up, on this machine and a private switch: no lab is needed."""

from __future__ import annotations

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
        "dnsteer_targets": "here", "dnsteer_spec": spec, "dnsteer_db": switch.database, "dnsteer_ovs_rundir": switch.dir,
        "dnsteer_bringup_folder": folder / "scripts", "dnsteer_folder": folder / "etc",
    }  # fmt: skip


def test_bringup_once_and_again_and_what_is_missing_is_said(controller: Site, switch: Running, tmp_path: Path) -> None:  # noqa: F811
    spec = tmp_path / "spec.yaml"
    spec.write_text(NETDEV)
    given = variables(switch, tmp_path, spec)
    looked = controller.play("bringup.yml", "--check", **given)
    assert (looked.code, looked.changed("here")) == (0, 1), looked.output  # the folder for specs
    assert looked.said("missing: bridge br-dns: there is none; run 40-bridge.sh"), looked.output
    assert switch.bridges() == []

    first = controller.play("bringup.yml", **given)
    assert first.code != 0
    assert first.said("missing: interface p0: there is none"), first.output  # it is the switch's dummy
    assert first.said("if it is meant to be: -e dnsteer_bringup_strict=false"), first.output
    assert switch.ports() == {"p0"}

    again = controller.play("bringup.yml", **given, dnsteer_bringup_strict=False)
    assert (again.code, again.changed("here")) == (0, 0), again.output

    # A synthetic tree has the huge pages, so that those of this machine stay as they are.
    pages = tmp_path / "root/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    for file, text in (
        (pages, "600"),
        (tmp_path / "root/proc/mounts", "none /dev/huge hugetlbfs rw,pagesize=2M 0 0\n"),
    ):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    spec.write_text(DPDK)
    stopped = controller.play("bringup.yml", **given, dnsteer_environment={"DNSTEER_ROOT": str(tmp_path / "root")})
    assert stopped.code != 0
    assert stopped.said("if that is meant: -e dnsteer_restart=true"), stopped.output
    assert pages.read_text() == "600"
