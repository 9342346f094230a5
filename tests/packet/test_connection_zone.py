# SPDX-License-Identifier: Apache-2.0
"""The tracker's zone of kept connections on a running switch: set, seen when it differs, restored, and removed."""

from __future__ import annotations

import re
from pathlib import Path

from dnsteer.cli.output import Exit
from dnsteer.spec.model.tracking import ZONE
from tests.packet.command import on, run, spec_file
from tests.packet.restarted_switch import bare, running
from tests.packet.switches import BRIDGE, SMALL, Running, Switch

__all__ = ["bare", "running"]  # for pytest

KEEP = SMALL.replace("pool: farm}", "pool: farm, keep: connections}").replace(
    "  uplinks:\n", "  tracking: {idle: 90s, connections: 5000}\n  uplinks:\n"
)


def limit(switch: Switch, zone: int = ZONE) -> int:
    found = re.search(
        rf"zone={zone},limit=(\d+)", switch.appctl("dpctl/ct-get-limits", "netdev@ovs-netdev", f"zone={zone}")
    )
    assert found is not None
    return int(found[1])


def timeouts(switch: Switch) -> str:
    """The zones with time-outs, as ovs-vsctl tells them."""
    return switch.vsctl("list-zone-tp", "netdev").strip()


def checks(switch: Switch) -> bool:
    """Whether the tracker checks sequence numbers."""
    return "enabled" in switch.appctl("dpctl/ct-get-tcp-seq-chk", "netdev@ovs-netdev")


def test_apply_sets_the_zone_and_what_differs_is_named(bare: Running, tmp_path: Path) -> None:
    file, do = spec_file(tmp_path, KEEP), on(bare)
    assert do("apply", file, "--grace", "0").code == 0
    assert (limit(bare), timeouts(bare)) == (5000, f"Zone:{ZONE}, Timeout Policies: tcp_syn_recv=90 tcp_syn_sent=90")
    assert do("verify", file).code == 0
    assert "nothing to change" in do("apply", file).out
    bare.appctl("dpctl/ct-set-limits", "netdev@ovs-netdev", f"zone={ZONE},limit=7")
    bare.vsctl("del-zone-tp", "netdev", f"zone={ZONE}")
    assert not checks(bare)
    bare.appctl("dpctl/ct-enable-tcp-seq-chk", "netdev@ovs-netdev")
    wrong = (
        f"zone {ZONE} of the connection tracker: limit 7 -> 5,000 connections, idle time -> 90s, "
        "checks of sequence numbers -> off"
    )
    found = do("verify", file)
    assert (found.code, wrong in found.out) == (Exit.DIFFERENT, True)
    planned = do("plan", file)
    assert (planned.code, wrong in planned.out) == (Exit.DIFFERENT, True)
    assert do("apply", file).code == 0
    assert (limit(bare), timeouts(bare)) == (5000, f"Zone:{ZONE}, Timeout Policies: tcp_syn_recv=90 tcp_syn_sent=90")


def test_the_limit_is_set_again_after_a_restart(bare: Running, tmp_path: Path) -> None:
    assert on(bare)("apply", spec_file(tmp_path, KEEP), "--grace", "0").code == 0
    bare.kill_switch()
    bare.start_switch()
    assert (limit(bare), checks(bare)) == (0, True)  # it was forgotten
    assert on(bare)("restore").code == 0
    assert (limit(bare), checks(bare)) == (5000, False)


def test_another_zone_and_no_zone_leave_nothing(bare: Running, tmp_path: Path) -> None:
    """Time-outs of others stay."""
    do = on(bare)
    assert do("apply", spec_file(tmp_path, KEEP), "--grace", "0").code == 0
    bare.vsctl("add-zone-tp", "netdev", "zone=9", "udp_first=5")
    other = KEEP.replace("idle: 90s", "idle: 2m, zone: 77")
    assert do("apply", spec_file(tmp_path, other), "--grace", "0").code == 0
    assert (limit(bare), limit(bare, 77)) == (0, 5000)
    assert set(timeouts(bare).splitlines()) == {
        "Zone:9, Timeout Policies: udp_first=5",
        "Zone:77, Timeout Policies: tcp_syn_recv=120 tcp_syn_sent=120",
    }
    applied = do("apply", spec_file(tmp_path, SMALL), "--grace", "0")
    assert (applied.code, limit(bare, 77), timeouts(bare)) == (0, 0, "Zone:9, Timeout Policies: udp_first=5")
    assert checks(bare)
    assert "zone 77 of the connection tracker: time-outs and limit are removed" in applied.out
    bare.vsctl("del-zone-tp", "netdev", "zone=9")


def test_a_tracker_out_of_reach_is_a_warning(bare: Running, tmp_path: Path) -> None:
    file = spec_file(tmp_path, KEEP)
    remote = "--db", bare.listen_on_tcp(), "--openflow", f"unix:{bare.dir}/{BRIDGE}.mgmt"
    done = run("apply", file, "--grace", "0", *remote)
    assert (done.code, done.err.count("should have at most 5,000 connections, and an idle time of 90s")) == (0, 1)
    assert timeouts(bare) == f"Zone:{ZONE}, Timeout Policies: tcp_syn_recv=90 tcp_syn_sent=90"
    assert run("verify", file, *remote).code == 0
