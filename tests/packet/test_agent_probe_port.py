# SPDX-License-Identifier: Apache-2.0
"""The agent on a real switch whose port of probes is gone: what else is gone is put back, and failover works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packet.agents import agent, wait
from tests.packet.command import SLOW, fresh, on, spec_file
from tests.packet.switches import BRIDGE, Switch
from tests.packet.test_agent_defects import checked, fails_over

EXPECTED = [*SLOW, "connection dropped", "Broken pipe"]
IP = '#!/bin/sh\n[ -e "{0}" ] || {{ echo "Cannot find device \\"probe0\\"" >&2; exit 1; }}\n'
"""In place of the program ip: the device of the port is there while a file is."""
TROUBLE = 'the port of probes cannot be set up: ip link set dev probe0 up: Cannot find device "probe0"'


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that stands for the device."""
    program, there = tmp_path / "bin" / "ip", tmp_path / "device"
    program.parent.mkdir()
    program.write_text(IP.format(there))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return there


def ports(switch: Switch) -> list[str]:
    return switch.vsctl("list-ports", BRIDGE).split()


@pytest.mark.parametrize("at", ["before it begins", "while it runs"])
def test_a_lost_probe_port_is_restored_with_its_addresses(
    at: str, shared: Switch, device: Path, tmp_path: Path
) -> None:
    fresh(shared)
    text = checked(tmp_path).replace("  uplinks:\n", "  probe: {addresses: [192.0.2.9/24]}\n  uplinks:\n", 1)
    done = on(shared)("apply", spec_file(tmp_path, text), "--yes")
    assert done.code == 0, done.err
    if at == "while it runs":
        device.touch()
    with agent(shared, tmp_path) as running:
        if at == "while it runs":
            running.waits_for("pools with health checks")
            fails_over(shared, tmp_path, running)
            assert "the port of probes" not in running.said()
            device.unlink()
        for port in ("probe0", "p1"):
            shared.vsctl("del-port", port)
            wait(lambda: ports(shared) == ["p0", "p1", "probe0"], running.said)
        running.waits_for(TROUBLE)
        fails_over(shared, tmp_path, running)
        found = on(shared)("status", "--no-rates", "--json")
        assert found.code == 3 and "the port of probes cannot be set up" in found.out
        device.touch()
        running.waits_for("the port of probes is set up")
        assert running.said().count(TROUBLE) == 1
