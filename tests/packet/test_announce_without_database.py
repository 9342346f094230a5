# SPDX-License-Identifier: Apache-2.0
"""VIPs stay announced while what forwards does so without its database; on a real switch, with a real BIRD."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packet.announcing import (
    DNS,
    EXPECTED,
    OTHER,
    announced,
    announces,
    applied,
    folder,
    healthy,
    hung,
    kill_database,
    spec,
    start_database,
)
from tests.packet.birds import needs_bird
from tests.packet.command import run
from tests.packet.switches import BRIDGE, Switch

__all__ = ["folder"]  # for pytest
pytestmark = needs_bird
FORWARDS = "but the switch forwards: VIPs are not withdrawn for that"


def polled(folder: Path) -> str:
    """The spec, with uplinks that PMD threads poll, as those of DPDK."""
    text = spec(folder)
    assert "    p0:\n    p1:\n" in text
    return text.replace("    p0:\n    p1:\n", "    p0: {type: dummy-pmd}\n    p1: {type: dummy-pmd}\n")


def forwards(switch: Switch) -> int:
    """What keepalived's check ends with."""
    return run("forwards", "--bridge", BRIDGE, "--db", switch.database, "--timeout", "1").code


@pytest.mark.parametrize("dies", ["killed", "hung"])
def test_a_forwarding_switch_stays_announced_until_it_ends(dies: str, switch: Switch, folder: Path) -> None:
    switch.expected += [*EXPECTED, "Connection refused"]
    with announced(switch, folder, polled(folder)) as (own, running):
        assert forwards(switch) == 0
        kill_database(switch)
        running.waits_for(FORWARDS)
        assert own.routes() == DNS | OTHER
        assert "withdrawn: ovs-vswitchd" not in running.said()
        assert forwards(switch) == 0
        healthy(folder)  # all else is watched
        announces(own, OTHER)
        healthy(folder, "ns1")
        announces(own, DNS | OTHER)
        if dies == "hung":
            with hung(switch):
                announces(own, set())
                assert forwards(switch) == 69
        switch.kill_switch()
        announces(own, set())
        running.waits_for("VIP dns is withdrawn: ovs-vswitchd does not answer")
        assert forwards(switch) == 69
        start_database(switch)
        switch.start_switch()
        announces(own, DNS | OTHER)
        assert forwards(switch) == 0


def test_the_main_thread_forwards_nothing_without_its_database(switch: Switch, folder: Path) -> None:
    switch.expected += [*EXPECTED, "Connection refused"]
    with announced(switch, folder, spec(folder)) as (own, running):
        kill_database(switch)
        announces(own, set())
        running.waits_for("without its database, its main thread takes no packets, and no PMD thread polls a port")
        assert forwards(switch) == 69
        start_database(switch)
        announces(own, DNS | OTHER)


def test_a_database_that_hangs_changes_nothing(switch: Switch, folder: Path) -> None:
    switch.expected += EXPECTED
    with announced(switch, folder, spec(folder)) as (own, running):
        with hung(switch, "ovsdb-server"):
            running.waits_for("the switch stays as it is: ")
            assert own.routes() == DNS | OTHER
            assert forwards(switch) == 0
            switch.kill_switch()
            announces(own, set())
            assert forwards(switch) == 69
        switch.start_switch()
        announces(own, DNS | OTHER)


def test_a_switch_that_was_started_without_its_database_does_not_forward(switch: Switch, folder: Path) -> None:
    switch.expected += [*EXPECTED, "Connection refused"]
    applied(switch, folder, polled(folder))
    kill_database(switch)
    switch.kill_switch()
    super(Switch, switch).start_switch()
    done = run("forwards", "--bridge", BRIDGE, "--db", switch.database, "--timeout", "1")
    assert (done.code, "it has no bridge br-dns, as when it was started without its database" in done.err) == (
        69,
        True,
    ), done.err


def test_without_a_control_socket_no_option_is_named_that_the_verb_does_not_have(tmp_path: Path) -> None:
    done = run("forwards", "--bridge", BRIDGE, "--db", f"unix:{tmp_path}/db.sock", "--timeout", "1")
    assert done.code == 69 and "no control socket of an ovs-vswitchd there" in done.err
    assert "--control" not in done.err
