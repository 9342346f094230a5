# SPDX-License-Identifier: Apache-2.0
"""Two switches with one VIP on one network, and keepalived's real daemons: one dies, and the other one takes over."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from bench.vrrp import EVENTS, Member, Pair, available, measure

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces"),
    pytest.mark.usefixtures("goes_first"),
    pytest.mark.skipif(bool(available()), reason=f"needs {available()}"),
]


def end_as_systemd(member: Member) -> None:
    """SIGTERM for each process of the unit, as systemd sends it; keepalived sends its scripts another one."""
    assert member.keepalived.running is not None
    vrrp = int((member.folder / "vrrp.pid").read_text())
    scripts = Path(f"/proc/{vrrp}/task/{vrrp}/children").read_text().split()
    for pid in (member.keepalived.running.pid, vrrp, *map(int, scripts)):
        os.kill(pid, signal.SIGTERM)


def test_the_standby_takes_over_a_failed_switch(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        active = pair.wait_for_active()
        done = measure(pair, EVENTS["the uplink is lost"], 6, 300)
        assert done["away_s"] is not None and 0 < done["lost"] < 1200, done
        assert pair.wait_for_active() is not active
        done = measure(pair, EVENTS["keepalived ends"], 6, 300)
        assert done["away_s"] is not None and done["lost"] < 600, done
        assert pair.wait_for_active() is active


def test_a_reload_leaves_the_roles_and_the_end_after_it_is_noticed(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        active = pair.wait_for_active()
        assert active.keepalived.running is not None
        active.keepalived.running.send_signal(signal.SIGHUP)
        time.sleep(3)
        assert pair.wait_for_active(5) is active
        done = measure(pair, (end_as_systemd, lambda m: m.keepalived.kill(signal.SIGTERM)), 6, 300)
        assert done["away_s"] is not None and done["lost"] < 600, done
        time.sleep(2)
        assert pair.wait_for_active(5) is not active


def test_a_switch_that_forwards_no_more_without_its_database_is_relieved(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        active = pair.wait_for_active()
        # ovs-vswitchd, whose main thread polls the ports here, forwards no more.
        done = measure(pair, (lambda m: m.database.kill(), lambda m: m.database.start()), 10, 300)
        said = (active.folder / "forwards.out").read_text()
        assert "without its database, its main thread takes no packets" in said
        assert done["away_s"] is not None, done
