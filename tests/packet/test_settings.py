"""What stops or changes traffic and is no flow: `verify` and `status` name it, `apply` puts right what is dnsteer's."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dnsteer.control.deploy import Options, look
from dnsteer.control.where import Switch as Where
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.proof.reference import Frame, Reference
from dnsteer.proof.vectors import Vector, vectors
from dnsteer.switch.settings import SETTINGS, Level
from dnsteer.switch.verify import Drift, verify
from tests.packet.applying import apply
from tests.packet.command import SLOW, fresh, on
from tests.packet.switches import BRIDGE, LARGE, SMALL, Switch, spec_of, unexpected

SPEC = spec_of(LARGE)
REFERENCE = Reference(SPEC.spec)
VECTORS = list(vectors(SPEC.spec, REFERENCE, 1))
EXPECTED = [*SLOW, "sFlow agent", "not supported", "Connection refused", "Connection reset by peer"]


QUERY = next(v for v in VECTORS if v.kind == "query" and "straight 198.51.100.54" in v.name)
PIECE = next(v for v in VECTORS if v.kind == "fragment" and "2001:db8" in v.name)


def leaves(vector: Vector) -> Frame:
    """What must leave for a frame."""
    (frame,) = REFERENCE.expect(vector.port, vector.data).options
    return frame


def passes(switch: Switch, vector: Vector, port: str = "") -> bool:
    """Whether a frame gets through, by the counter of the port that it must leave by."""
    port = port or leaves(vector).port

    def sent() -> int:
        found = re.search(r"tx pkts=(\d+)", switch.ofctl("dump-ports", port))
        assert found is not None
        return int(found[1])

    before = sent()
    switch.appctl("netdev-dummy/receive", vector.port, vector.data.hex())
    for _ in range(20):
        if sent() > before:
            return True
        time.sleep(0.01)
    return False


@dataclass(frozen=True)
class Case:
    """A setting changed behind dnsteer's back: what must be said, and the frame that it stops, if any."""

    change: Callable[[Switch], object]
    about: str
    said: str
    stops: Vector | None = None
    spec: str = LARGE
    lasting: bool = True
    """Whether the setting outlives the switch."""


def vsctl(*args: str) -> Callable[[Switch], object]:
    return lambda switch: switch.vsctl(*args)


def ofctl(*args: str) -> Callable[[Switch], object]:
    return lambda switch: switch.ofctl(*args)


def port_of(switch: Switch, name: str) -> str:
    return switch.column("Port", name, "_uuid")


NEEDED = sizes_of(SPEC.spec, build_plan(SPEC)).total
TO = leaves(QUERY).port
DPDK = re.sub(r"^(    vf\d):$", r"\1: {type: dummy}", LARGE, flags=re.M).replace("p0: {", "p0: {type: dummy, ")
DPDK = DPDK.replace("ovs-netdev", "ovs-dpdk").replace("    selection: dp-hash\n", "")
"""The same in a flavor with hardware, on ports that a private switch has."""
OURS = {
    "stp_enable": Case(vsctl("set", "Bridge", BRIDGE, "stp_enable=true"), "bridge br-dns", "stp_enable is true", QUERY),
    "rstp_enable": Case(vsctl("set", "Bridge", BRIDGE, "rstp_enable=true"), "bridge br-dns", "rstp_enable is true", QUERY),
    "set-frags": Case(ofctl("set-frags", "drop"), "bridge br-dns", "set-frags is drop", PIECE, lasting=False),
    "set-frags nx-match": Case(
        ofctl("set-frags", "nx-match"), "bridge br-dns", "set-frags is nx-match", PIECE, lasting=False
    ),
    "no-receive": Case(ofctl("mod-port", "p0", "no-receive"), "port p0", "no-receive is true", QUERY, lasting=False),
    "no-forward": Case(ofctl("mod-port", TO, "no-forward"), f"port {TO}", "no-forward is true", QUERY, lasting=False),
}  # fmt: skip
OTHERS = {
    "flow-limit": Case(
        vsctl("set", "Open_vSwitch", ".", "other_config:flow-limit=9"), "switch",
        f"other_config:flow-limit is 9: all clients of the spec need {NEEDED} datapath flows",
    ),
    "hw-offload": Case(
        vsctl("set", "Open_vSwitch", ".", "other_config:hw-offload=false"), "switch",
        "other_config:hw-offload is false, should be true", spec=DPDK,
    ),
    "vlan-limit": Case(
        vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=2"), "switch", "other_config:vlan-limit is 2"
    ),
    "mirrors": Case(
        lambda s: s.vsctl(
            "--", "--id=@m", "create", "Mirror", "name=watch", "select_all=true", f"output_port={port_of(s, 'vf1')}",
            "--", "set", "Bridge", BRIDGE, "mirrors=@m",
        ),
        "bridge br-dns", "mirrors is watch",
    ),
    "netflow": Case(
        vsctl("--", "--id=@n", "create", "NetFlow", 'targets="127.0.0.1:9"', "--", "set", "Bridge", BRIDGE, "netflow=@n"),
        "bridge br-dns", "netflow is 127.0.0.1:9",
    ),
    "sflow": Case(
        vsctl("--", "--id=@n", "create", "sFlow", 'targets="127.0.0.1:9"', "--", "set", "Bridge", BRIDGE, "sflow=@n"),
        "bridge br-dns", "sflow is 127.0.0.1:9",
    ),
    "ipfix": Case(
        vsctl("--", "--id=@n", "create", "IPFIX", 'targets="127.0.0.1:9"', "--", "set", "Bridge", BRIDGE, "ipfix=@n"),
        "bridge br-dns", "ipfix is 127.0.0.1:9",
    ),
    "controller": Case(
        vsctl("set-controller", BRIDGE, "tcp:127.0.0.1:9"), "bridge br-dns", "controller is tcp:127.0.0.1:9"
    ),
    "hwaddr": Case(
        vsctl("set", "Bridge", BRIDGE, "other_config:hwaddr=02:00:00:00:00:99"), "bridge br-dns",
        "other_config:hwaddr is 02:00:00:00:00:99",
    ),
    "ports of others": Case(vsctl("add-port", BRIDGE, "vf9"), "bridge br-dns", "ports of others are vf9"),
    "flow_limit": Case(
        vsctl("set", "Flow_Table", "vip", "flow_limit=5000"), "table vip", "flow_limit is 5000"
    ),
    "prefixes": Case(
        vsctl("set", "Flow_Table", "vip", "prefixes=nw_src"), "table vip", "prefixes is nw_src"
    ),
    "ingress_policing_rate": Case(
        vsctl("set", "Interface", "p0", "ingress_policing_rate=1"), "port p0", "ingress_policing_rate is 1"
    ),
    "ingress_policing_kpkts_rate": Case(
        vsctl("set", "Interface", "p0", "ingress_policing_kpkts_rate=1"), "port p0", "ingress_policing_kpkts_rate is 1"
    ),
    "qos": Case(
        vsctl("--", "--id=@q", "create", "QoS", "type=linux-htb", "--", "set", "Port", "p0", "qos=@q"), "port p0",
        "qos is linux-htb",
    ),
    "tag": Case(vsctl("set", "Port", "p0", "tag=100"), "port p0", "tag is 100"),
    "trunks": Case(vsctl("set", "Port", "p0", "trunks=100,200"), "port p0", "trunks is 100, 200"),
    "vlan_mode": Case(vsctl("set", "Port", "p0", "vlan_mode=native-untagged"), "port p0", "vlan_mode is native-untagged"),
}  # fmt: skip
DOWN = Case(ofctl("mod-port", "p0", "down"), "port p0", "admin_state is down, should be up", QUERY)
IGNORED = {
    "mcast_snooping_enable": "Bridge br-dns mcast_snooping_enable=true",
    "forward-bpdu": "Bridge br-dns other_config:forward-bpdu=true",
    "protected": "Port p0 protected=true",
    "bfd": "Interface p0 bfd:enable=true",
    "lldp": "Interface p0 lldp:enable=true",
}


@pytest.fixture(scope="module")
def one() -> Iterator[Switch]:
    """One switch for all cases; each leaves it as the spec says."""
    with Switch() as private:
        private.expected = EXPECTED
        yield private
        assert unexpected(private) == []


@pytest.fixture
def applied(one: Switch) -> Switch:
    """The switch with the spec applied, and nothing else."""
    if not one.bridges() or verify(SPEC, one.database):
        clean(one)
        apply(SPEC, one.database)
        assert verify(SPEC, one.database) == []
    return one


def status(switch: Switch) -> Any:
    """What `dnsteer status` says."""
    return on(switch)("status", "--json", "--no-rates").json


def clean(switch: Switch) -> None:
    """Leave nothing of dnsteer's, and no setting of the whole switch."""
    fresh(switch)
    for key in ("flow-limit", "hw-offload", "vlan-limit", "flow-restore-wait"):
        switch.vsctl("remove", "Open_vSwitch", ".", "other_config", key)


def mend(switch: Switch, drift: Drift) -> None:
    """Run the command that *drift* names."""
    command = drift.detail.rpartition(": ")[2].replace("del-port br-dns PORT", "del-port br-dns vf9")
    words = shlex.split(command.partition(", then")[0])
    assert words[0] in ("ovs-vsctl", "ovs-ofctl"), command
    env = {**os.environ, **switch.env, "OVS_RUNDIR": str(switch.dir)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, (command, done.stderr)


def only(switch: Switch, case: Case, loaded: object = SPEC) -> Drift:
    """The one thing that verify names."""
    (found,) = verify(spec_of(case.spec), switch.database)
    assert found.about == case.about
    assert case.said in found.detail
    line = case.spec.splitlines()[found.line - 1] if found.line else ""
    assert not line or case.about.partition(" ")[2] in line
    assert bool(line) is (case.about != "switch" and not case.about.startswith("table"))
    return found


@pytest.mark.parametrize("what", OURS)
def test_what_is_dnsteers_is_named_and_put_right(what: str, applied: Switch, tmp_path: Path) -> None:
    case = OURS[what]
    assert case.stops is not None
    assert passes(applied, case.stops)
    case.change(applied)
    assert passes(applied, case.stops) is (what == "set-frags nx-match")
    found = only(applied, case)
    assert not found.warns
    seen = status(applied)
    assert [d["detail"] for d in seen["drift"]] == [found.detail]
    assert (seen["ok"], seen["warnings"]) == (False, [])
    outlook = look(SPEC, Where(applied.database), Options())
    assert len(outlook.prepared.settings) == 1
    assert case.said.replace(" is ", " ") in outlook.prepared.settings[0]
    done = apply(SPEC, applied.database)
    assert done.settings == outlook.prepared.settings
    assert not done.flows
    assert verify(SPEC, applied.database) == []
    assert passes(applied, case.stops)
    assert not apply(SPEC, applied.database).changed
    case.change(applied)
    mend(applied, only(applied, case))
    assert verify(SPEC, applied.database) == []


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_not_dnsteers_is_warned_of_and_left(what: str, applied: Switch, tmp_path: Path) -> None:
    case = OTHERS[what]
    loaded, file = spec_of(case.spec), tmp_path / "spec.yaml"
    file.write_text(case.spec)
    if case.spec != LARGE:
        fresh(applied)
        apply(loaded, applied.database)
    assert passes(applied, QUERY)
    case.change(applied)
    if what == "controller":  # Open vSwitch empties all tables when the first one comes, and when the last one goes
        assert any(d.kind == "flow missing" for d in verify(loaded, applied.database))
        assert on(applied)("restore").code == 0
    found = only(applied, case)
    assert found.warns
    ran = on(applied)("verify", file)
    assert (ran.code, ran.out) == (0, "br-dns: as the spec says\n")
    assert ran.err == f"warning: {found.text(str(file))}\n"
    as_json = on(applied)("verify", file, "--json")
    assert (as_json.code, as_json.json["ok"], as_json.json["drift"]) == (0, True, [])
    assert as_json.json["warnings"] == [found.as_json()]
    seen = status(applied)
    assert (seen["ok"], seen["drift"], seen["warnings"]) == (True, [], [found.text("spec.yaml")])
    again = on(applied)("apply", file)
    assert (again.code, again.out) == (0, "br-dns: nothing to change\n")
    assert again.err == f"warning: {found.about}: {found.detail}\n"
    assert only(applied, case) == found
    mend(applied, found)
    if what == "hw-offload":
        clean(applied)
        return
    if what == "controller":
        assert on(applied)("restore").code == 0
    assert verify(loaded, applied.database) == []
    if case.about == "switch":
        clean(applied)


def test_every_setting_of_the_list_is_tried() -> None:
    tried = {*OURS, *OTHERS, "admin_state", "link_state", "flow-restore-wait"}
    assert {s.name.rpartition(":")[2] for s in SETTINGS} <= tried
    assert {s.name for s in SETTINGS if s.level is Level.SET} <= set(OURS)


def test_enough_datapath_flows_are_no_warning(applied: Switch) -> None:
    for limit, warned in ((NEEDED - 1, True), (NEEDED, False)):
        applied.vsctl("set", "Open_vSwitch", ".", f"other_config:flow-limit={limit}")
        assert bool(verify(SPEC, applied.database)) is warned
    applied.vsctl("remove", "Open_vSwitch", ".", "other_config", "flow-limit")


def test_a_controller_that_only_listens_is_no_warning(applied: Switch) -> None:
    """So remote switches are reached."""
    applied.vsctl("set-controller", BRIDGE, "ptcp:0:127.0.0.1")
    assert verify(SPEC, applied.database) == []
    applied.vsctl("del-controller", BRIDGE)


@pytest.mark.parametrize("what", IGNORED)
def test_what_flows_do_not_look_at_is_not_named(what: str, applied: Switch) -> None:
    applied.vsctl("set", *IGNORED[what].split())
    assert passes(applied, QUERY)
    assert verify(SPEC, applied.database) == []
    fresh(applied)


@pytest.mark.parametrize("what", ["tag", "trunks", "vlan_mode", "hwaddr", "ports of others", "mirrors", "netflow"])
def test_what_changes_no_query_is_said_rightly(what: str, applied: Switch) -> None:
    """The warnings of these say that frames pass all the same."""
    OTHERS[what].change(applied)
    assert passes(applied, QUERY)
    fresh(applied)


def test_frames_with_two_tags_pass_by_the_vlan_limit_alone(applied: Switch) -> None:
    """As its warning says. The outer tag has a priority alone, which is served."""
    twice = replace(QUERY, data=QUERY.data[:12] + bytes.fromhex("8100600081000064") + QUERY.data[12:])
    assert not REFERENCE.expect(twice.port, twice.data).options
    assert not passes(applied, twice, leaves(QUERY).port)
    OTHERS["vlan-limit"].change(applied)
    assert passes(applied, twice, leaves(QUERY).port)
    clean(applied)


def test_netflow_makes_a_datapath_flow_for_each_client(applied: Switch) -> None:
    """As its warning says: without it one serves all clients of a slot."""

    def flows() -> int:
        applied.appctl("dpctl/del-flows")
        for client in range(1, 4):
            ip = IP(src=f"198.18.0.{client}", dst="198.51.100.54") / UDP(sport=20000, dport=53)
            frame = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / ip
            applied.appctl("netdev-dummy/receive", "p0", bytes(frame).hex())
        time.sleep(0.2)
        return applied.appctl("dpctl/dump-flows").count("udp(")

    assert flows() == 1
    OTHERS["netflow"].change(applied)
    assert flows() == 3
    fresh(applied)


def test_a_port_that_is_down_is_not_gone(applied: Switch, tmp_path: Path) -> None:
    assert passes(applied, QUERY)
    DOWN.change(applied)  # a dummy device takes frames all the same; real ones are tried in tests/system
    found = only(applied, DOWN)
    assert (found.kind, found.warns) == ("port down", False)
    assert found.detail.endswith("ovs-ofctl -O OpenFlow15 mod-port br-dns p0 up")
    seen = status(applied)
    assert (seen["ok"], seen["drift"][0]["kind"]) == (False, "port down")
    outlook = look(SPEC, Where(applied.database), Options())
    assert not outlook.changed  # somebody took it down; apply only says so
    assert outlook.warnings == [f"port p0: {found.detail}"]
    mend(applied, found)
    assert verify(SPEC, applied.database) == []
    assert passes(applied, QUERY)


def test_an_interface_of_a_bond_is_named(switch: Switch) -> None:
    apply(spec_of(SMALL), switch.database)
    switch.vsctl("del-port", BRIDGE, "p0", "--", "add-bond", BRIDGE, "bond0", "p0", "p9")
    found = verify(spec_of(SMALL), switch.database)
    assert "is part of the bond bond0" in found[0].detail
    switch.expected = ["default bond_mode"]


def test_a_switch_that_waits_is_named(applied: Switch) -> None:
    applied.vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
    (found,) = verify(SPEC, applied.database)
    assert (found.kind, found.about, found.warns) == ("switch waits", "switch", False)
    assert found.detail.endswith("dnsteer restore")
    assert on(applied)("restore").code == 0
    assert verify(SPEC, applied.database) == []


@pytest.mark.parametrize("what", OURS)
def test_after_a_restart_restore_leaves_nothing_otherwise(what: str, applied: Switch) -> None:
    """What OpenFlow alone has does not outlive the switch; what OVSDB has does, and restore puts it right."""
    case = OURS[what]
    assert case.stops is not None
    case.change(applied)
    applied.kill_switch()
    applied.start_switch()
    assert (case.said in " ".join(d.detail for d in verify(SPEC, applied.database))) is case.lasting
    assert on(applied)("restore").code == 0
    assert verify(SPEC, applied.database) == []
    assert passes(applied, case.stops)


def test_a_restore_without_a_restart_puts_it_right(applied: Switch) -> None:
    for what in ("no-forward", "set-frags", "stp_enable"):
        OURS[what].change(applied)
    foreseen = on(applied)("restore", "--dry-run")
    assert "3 changes" in foreseen.out
    assert on(applied)("restore").code == 0
    assert verify(SPEC, applied.database) == []


def test_an_adopted_bridge_is_put_right(one: Switch) -> None:
    clean(one)
    one.vsctl("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "rstp_enable=true", "--", "add-port",
              BRIDGE, "p0")  # fmt: skip
    one.ofctl("set-frags", "drop")
    done = apply(SPEC, one.database, adopt=True)
    assert {s for s in done.settings if "->" in s} >= {"rstp_enable true -> false", "set-frags drop -> normal"}
    assert verify(SPEC, one.database) == []


def test_an_apply_that_fails_leaves_settings(applied: Switch) -> None:
    """They are changed after the tables: nothing of them is when these are refused."""
    OURS["no-forward"].change(applied)
    applied.vsctl("set", "Bridge", BRIDGE, "rstp_enable=true")
    row = applied.column("Bridge", BRIDGE, "flow_tables:20")
    applied.vsctl("set", "Flow_Table", row, "flow_limit=4", "overflow_policy=refuse")
    more = LARGE.replace("[198.51.100.54,", "[198.51.100.54, 198.51.100.55,")
    before = {d.detail for d in verify(SPEC, applied.database)}
    with pytest.raises(Exception, match="refused"):
        apply(spec_of(more), applied.database)
    assert {d.detail for d in verify(SPEC, applied.database)} == before
    fresh(applied)
