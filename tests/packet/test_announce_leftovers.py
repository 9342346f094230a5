# SPDX-License-Identifier: Apache-2.0
"""Routes do not outlive the spec that wanted them, whoever was away when it went; on a real switch and BIRD."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packet.agents import agent, wait
from tests.packet.announcing import DNS, EXPECTED, OTHER, READY, announces, applied, folder, spec
from tests.packet.birds import Bird, bird, needs_bird
from tests.packet.command import FARM, on, spec_file
from tests.packet.switches import BRIDGE, Switch

__all__ = ["EXPECTED", "folder"]  # for pytest
pytestmark = needs_bird
WITHDRAWN = "routes of earlier specs are withdrawn"


def elsewhere(folder: Path, own: Bird) -> str:
    """The spec with another file and protocol, which BIRD includes too."""
    other = f"{folder}/other.conf"
    own.write(f'{own.including}include "{other}*";\n')
    return spec(folder, ", protocol: other").replace(own.include.as_posix(), other)


def others(own: Bird) -> str:
    return own.ask("show", "route", "protocol", "other4")


def places(switch: Switch) -> str:
    return switch.vsctl("--if-exists", "get", "Bridge", BRIDGE, "external_ids:dnsteer-announced").strip()


@pytest.mark.parametrize("includes", [True, False])
def test_routes_end_after_a_spec_without_announce_was_applied_without_an_agent(
    includes: bool, shared: Switch, folder: Path
) -> None:
    applied(shared, folder, spec(folder))
    with bird(folder) as own:
        with agent(shared, folder, READY):
            announces(own, DNS | OTHER)
        assert own.routes() == DNS | OTHER
        if not includes:
            own.write("")
        assert on(shared)("apply", spec_file(folder, FARM), "--yes").code == 0
        with agent(shared, folder, "state 2", "later") as running:
            announces(own, set())
            wait(lambda: not places(shared), lambda: places(shared))
        assert "not withdrawn" not in running.said()


def test_routes_move_to_another_file_that_was_applied_without_an_agent(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    with bird(folder) as own:
        with agent(shared, folder, READY):
            announces(own, DNS | OTHER)
        assert on(shared)("apply", spec_file(folder, elsewhere(folder, own)), "--yes").code == 0
        with agent(shared, folder, "state 2", "later"):
            announces(own, set())
            wait(lambda: "192.0.2.54/32" in others(own), lambda: others(own))
        (folder / "other.conf").write_text("# Routes of bridge br-1 in OVSDB at unix:/x\n")  # somebody else's by now
        assert on(shared)("apply", spec_file(folder, spec(folder)), "--yes").code == 0
        with agent(shared, folder, "state 3", "third") as running:
            announces(own, DNS | OTHER)
        assert "br-1" not in running.said()


def test_a_moved_include_file_is_withdrawn_at_its_new_place(shared: Switch, folder: Path) -> None:
    """What is withdrawn at the former place goes at the present one too, so that is not tried again and again."""
    applied(shared, folder, spec(folder))
    with bird(folder) as own:
        with agent(shared, folder, READY):
            announces(own, DNS | OTHER)
        other = own.include.rename(folder / "moved.conf")
        own.write(f'include "{other}*";\n')
        own.ask("configure")
        text = spec(folder).replace(str(own.include), str(other))
        assert on(shared)("apply", spec_file(folder, text), "--yes").code == 0
        with agent(shared, folder, "state 2", "later"):
            wait(lambda: f"{other}" in places(shared), lambda: places(shared))
            assert f"{own.include}" not in places(shared)
            announces(own, DNS | OTHER)


@pytest.mark.parametrize("goes", ["nowhere", "elsewhere"])
def test_withdrawing_is_tried_until_it_succeeds(goes: str, shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    with bird(folder) as own, agent(shared, folder, READY) as running:
        announces(own, DNS | OTHER)
        text = elsewhere(folder, own) if goes == "elsewhere" else FARM
        moved = own.include.rename(folder / "moved")
        own.include.mkdir()  # which can be neither read nor written
        own.write(f'include "{moved}";\ninclude "{folder}/other.conf*";\n')
        assert on(shared)("apply", spec_file(folder, text), "--yes").code == 0
        running.waits_for(f"routes in {own.include} are not withdrawn: {own.include}: Is a directory")
        if goes == "elsewhere":  # which does not wait for that
            wait(lambda: "192.0.2.54/32" in others(own), lambda: others(own))
        assert own.routes() == DNS | OTHER
        own.include.rmdir()
        moved.rename(own.include)
        own.write(own.including)
        announces(own, set())
        running.waits_for(WITHDRAWN)


def test_a_damaged_announcement_record_is_named_and_rewritten(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    shared.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-announced=junk")
    with bird(folder) as own, agent(shared, folder, READY) as running:
        running.waits_for("external_ids:dnsteer-announced of bridge br-dns in OVSDB is damaged")
        announces(own, DNS | OTHER)
        running.waits_for(WITHDRAWN)
        assert f"{folder}/dnsteer.conf" in places(shared)
