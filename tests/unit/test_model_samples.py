# SPDX-License-Identifier: Apache-2.0
"""The harness for published samples on the software model: what it makes of a description, and of what came out."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "datapath_ext/model/samples/run_samples.py"
PACKET = (
    "Ether(src='02:00:00:00:00:01', dst='02:00:00:00:00:02')/IP(src='192.0.2.1', dst='192.0.2.2')/UDP(sport=1, dport=2)"
)


@pytest.fixture(scope="module")
def harness() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_samples", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_samples"] = module
    spec.loader.exec_module(module)
    return module


def case(*texts: str) -> dict[str, Any]:
    """One packet to port 0 that leaves by port 1, and texts."""
    sent = {"receiving_port": 0, "packets": [PACKET]}
    left = {"type": "packet", "expected_packets": [{"forwarding_port": 1, "packets": [PACKET]}]}
    dump = {"type": "dump", "expected_text": list(texts)}
    return {"args": "", "stages": [{"packets_to_send": [sent], "validation": [left, dump]}]}


def test_devices_are_those_of_the_ports(harness: ModuleType) -> None:
    ports = {"port_0": "doca_dev", "port_1": "doca_rep_dev", "port_2": "doca_rep_dev", "port_3": "doca_dev"}
    names, options = harness.devices_of({"number_of_ports": 4, "ports_description": ports})
    assert names == "d0 d0,r1 d0,r2 d3"
    assert options == ["-r", "d0,r1", "-r", "d0,r2", "-a", "d3,dv_flow_en=2", "-l", "60"]
    assert harness.devices_of({"number_of_ports": 2})[0] == "d0 d1"


def test_frames_and_texts_are_compared(harness: ModuleType) -> None:
    frame = harness.packet(PACKET).hex()
    assert harness.frames_of(case()) == f"0 {frame}\nstage\n"
    assert harness.differences(case(), f"sent 1 {frame} PIPE: forward to port 1\ndropped 0 {frame} PIPE: drop\n") == []
    assert harness.differences(case(), f"sent 0 {frame} PIPE: forward to port 0\n") == [
        "1 of 1 frames are missing",
        "1 frames beyond those expected",
    ]
    assert harness.missing_texts(case("total: 1", "total: 1"), "total: 1\n") == ["text missing: 'total: 1'"]
    assert harness.missing_texts(case("total: 1"), "total: 1\n") == []


def test_a_packet_is_nothing_but_scapys(harness: ModuleType) -> None:
    with pytest.raises(NameError):
        harness.packet("__import__('os').getcwd()")


def test_a_folder_without_samples_is_refused(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "found no samples, expected flow_*/flow_*_main.c; is it a checkout of doca-samples?" in done.stderr
