# SPDX-License-Identifier: Apache-2.0
"""Answers by NAT in small IPv4 fragments: the connection tracker takes them, after every start, and it is seen when not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dnsteer.bringup.inspection.machine import Machine
from dnsteer.bringup.inspection.openvswitch import inspect_openvswitch
from dnsteer.bringup.setup import setup_of
from dnsteer.checks.load import load_spec
from dnsteer.cli.output import Exit
from dnsteer.plan import min_fragment
from dnsteer.proof import check as check_module
from dnsteer.proof.check import prove
from tests.packet.command import on, run, spec_file
from tests.packet.restarted_switch import bare, running
from tests.packet.switches import BRIDGE, EXAMPLES, LARGE, SMALL, Running, Switch, line_of, spec_of

__all__ = ["bare", "running"]  # for pytest

DROPPED = LARGE.replace("forwarding: nat", "forwarding: nat\n    fragments: drop")
ONLY_IPV6 = LARGE.replace("[198.51.100.53, '2001:db8:1::53']", "['2001:db8:1::53']")


def size(switch: Switch) -> int:
    """The smallest IPv4 fragment, as the switch itself tells."""
    text = switch.appctl("dpctl/ipf-get-status", "netdev@ovs-netdev")
    (line,) = [line for line in text.splitlines() if "min v4 frag size" in line]
    return int(line.split(":")[1])


def make(switch: Switch, bytes_: int) -> None:
    switch.appctl("dpctl/ipf-set-min-frag", "netdev@ovs-netdev", "v4", str(bytes_))


def test_apply_sets_the_minimum_fragment_size_and_verify_names_another(bare: Running, tmp_path: Path) -> None:
    file = spec_file(tmp_path, LARGE)
    done = on(bare)("apply", file, "--grace", "0")
    assert (done.code, size(bare)) == (0, min_fragment.SMALLEST)
    assert "fragment" not in done.err
    assert on(bare)("verify", file).code == 0
    assert "nothing to change" in on(bare)("apply", file).out
    make(bare, min_fragment.DEFAULT)
    found = on(bare)("verify", file)
    assert found.code == Exit.DIFFERENT
    assert f"setting: VIP nat ({file}:{line_of(LARGE, '  nat:')}): " in found.out
    assert "is 1200 bytes, should be 400" in found.out
    assert on(bare)("status", "--interval", "0.5s").code == Exit.DIFFERENT
    planned = on(bare)("plan", file)
    assert planned.code == Exit.DIFFERENT
    assert "the connection tracker's smallest IPv4 fragment 1200 -> 400 bytes" in planned.out
    assert size(bare) == min_fragment.DEFAULT
    done = on(bare)("apply", file)
    assert (done.code, size(bare)) == (0, min_fragment.SMALLEST)
    assert "smallest IPv4 fragment 1200 -> 400 bytes" in done.out
    assert on(bare)("verify", file).code == 0


@pytest.mark.parametrize("verb", ["restore", "reconcile"])
def test_the_minimum_fragment_size_is_set_again_after_a_restart(verb: str, bare: Running, tmp_path: Path) -> None:
    assert on(bare)("apply", spec_file(tmp_path, LARGE), "--grace", "0").code == 0
    bare.kill_switch()
    bare.start_switch()
    assert size(bare) == min_fragment.DEFAULT  # it was forgotten
    assert on(bare)(verb).code == 0
    assert size(bare) == min_fragment.SMALLEST
    make(bare, min_fragment.DEFAULT)  # with tables that are whole
    assert "1 change)" in on(bare)("restore", "--dry-run").out
    assert on(bare)("restore", "--json").json["changed"] is True
    assert size(bare) == min_fragment.SMALLEST


@pytest.mark.parametrize("text", [SMALL, DROPPED, ONLY_IPV6], ids=["dsr", "fragments: drop", "IPv6"])
def test_the_minimum_fragment_size_is_left_alone_without_tracking(text: str, bare: Running, tmp_path: Path) -> None:
    assert on(bare)("apply", spec_file(tmp_path, text), "--grace", "0").code == 0
    assert size(bare) == min_fragment.DEFAULT
    assert on(bare)("verify", tmp_path / "spec.yaml").code == 0


def test_an_unreachable_fragment_setting_is_reported(bare: Running, tmp_path: Path) -> None:
    file = spec_file(tmp_path, LARGE)
    remote = "--db", bare.listen_on_tcp(), "--openflow", f"unix:{bare.dir}/{BRIDGE}.mgmt"
    done = run("apply", file, "--grace", "0", *remote)
    for said in (done, run("plan", file, *remote)):
        assert said.code in (0, Exit.DIFFERENT)
        assert said.err.count("smallest IPv4 fragment is not known, and by default 1200 bytes, and should be 400") == 1
        assert "dnsteer restore, or ovs-appctl dpctl/ipf-set-min-frag netdev@ovs-netdev v4 400" in said.err
    assert size(bare) == min_fragment.DEFAULT
    assert run("verify", file, *remote).code == 0
    assert on(bare)("restore").code == 0
    assert size(bare) == min_fragment.SMALLEST


def test_bringup_checks_the_minimum_fragment_size(bare: Running, tmp_path: Path) -> None:
    loaded = spec_of(LARGE)

    def item() -> tuple[str, str]:
        found = [i for i in inspect_openvswitch(Machine(), setup_of(loaded), bare.database) if "fragment" in i.name]
        return found[0].state, found[0].found

    assert item()[0] == "unknown"  # there is no bridge
    assert on(bare)("apply", spec_file(tmp_path, LARGE), "--grace", "0").code == 0
    assert item() == ("ok", "400 bytes")
    make(bare, 600)
    assert item() == ("missing", "600 bytes; should be 400")


def test_the_proof_sees_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(min_fragment, "SMALLEST", min_fragment.DEFAULT)
    report = prove(load_spec(EXAMPLES / "one-armed-nat.yaml"))
    lost = {1176, 552, 384}  # and not those that are smaller, which the spec does not promise
    assert report.failed == sum(3 for _ in lost)
    assert {int(f.vector.split(" of ")[1].split()[0]) for f in report.failures} == lost


@pytest.mark.parametrize("chunk", [5, 7])
def test_the_fragments_of_a_datagram_are_proven_together(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the many packets of a large spec are divided."""
    monkeypatch.setattr(check_module, "_CHUNK", chunk)
    report = prove(load_spec(EXAMPLES / "one-armed-nat.yaml"), per_service=8)
    assert report.ok, report.failures[:1]
