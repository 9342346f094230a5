"""An agent whose changes OVSDB cannot record: the switch stays as it is, and what is due is done once there is room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packet.agents import agent, wait
from tests.packet.command import FARM, SLOW, on, spec_file
from tests.packet.full_disk import REFUSED, enduring, leave
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import Switch, unexpected

ENDED = ["Connection reset by peer", "connection dropped", "Broken pipe", "receive error", "flow_limit"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Switch]:
    with enduring(tmp_path), Switch() as private:
        private.expected = [*SLOW, *REFUSED, *ENDED]
        yield private
        assert unexpected(private) == []


def test_what_is_due_is_done_when_there_is_room(disk: Switch, tmp_path: Path) -> None:
    """A backend that fails, and one that comes back meanwhile."""
    marks = tmp_path / "marks"
    marks.mkdir()
    for name in ("ns1", "ns2", "ns3"):
        (marks / name).touch()
    times = "interval: 1s, timeout: 900ms, fall: 1, rise: 1"
    check = f"{{check: command, command: [test, -e, '{marks}/{{backend}}'], {times}}}"
    spec = spec_file(tmp_path, FARM.replace("  farm:\n", f"  farm:\n    health: {check}\n"))
    assert on(disk)("apply", spec, "--yes").code == 0
    with agent(disk, tmp_path) as running:
        (marks / "ns1").unlink()
        wait(lambda: [e["backend"] for e in overlay(disk)] == ["ns1"], running.said)
        before = disk.tables()
        leave(disk, 0)
        (marks / "ns1").touch()
        (marks / "ns3").unlink()
        running.waits_for("farm/ns3 is unhealthy")
        running.waits_for("the switch stays as it is: ")
        assert disk.tables() == before
        assert [e["backend"] for e in overlay(disk)] == ["ns1"]
        leave(disk, None)
        wait(lambda: [e["backend"] for e in overlay(disk)] == ["ns3"], running.said)
        running.waits_for("the switch can be reached again")
        wait(lambda: on(disk)("verify", spec).code == 0, running.said)
        assert disk.tables() != before
