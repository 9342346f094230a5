# SPDX-License-Identifier: Apache-2.0
"""A bond by LACP beside the bridge: made, used, put right and taken back. Its partner is a bond of another bridge."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from dnsteer.checks.load import check_document, load_spec
from dnsteer.lint.run import run_finders
from dnsteer.offload.examine import examine
from dnsteer.offload.profile import profile
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.spec.read import parse_document
from dnsteer.switch.database import Database
from dnsteer.switch.lags import difference
from tests.packet.agents import wait
from tests.packet.command import fresh, on, run
from tests.packet.switches import EXAMPLES, Switch

VIP_MAC, ROUTER, GATEWAY_MAC = "02:00:00:00:00:53", "02:00:00:00:00:fe", "02:00:00:00:00:54"
BACKUP = (EXAMPLES / "bond.yaml").read_text().replace("vm1:\n", "vm1: {type: dummy}\n", 1)


def lacp_spec(folder: Path, sockets: Path, text: str = BACKUP, name: str = "lacp.yaml") -> Path:
    """The example with a bond by LACP, of ports that are one end of a link each."""
    members = "".join(
        f"        {p}: {{type: dummy, options: {{pstream: 'punix:{sockets}/{p}.link'}}}}\n" for p in ("p0", "p1")
    )
    text = text.replace("        p0:\n        p1:\n", members).replace("mode: active-backup", "mode: lacp")
    file = folder / name
    file.write_text(text)
    return file


@contextmanager
def partner(switch: Switch, folder: Path) -> Iterator[None]:
    """Another switch with the other ends as a LAG, and a router at its port c0."""
    ports = [
        word
        for q, p in (("q0", "p0"), ("q1", "p1"))
        for word in ("--", "set", "Interface", q, "type=dummy", f"options:stream=unix:{switch.dir}/{p}.link")
    ]
    bridge = ["add-br", "partner", "--", "set", "Bridge", "partner", "datapath_type=netdev"]
    bond = ["add-bond", "partner", "lag", "q0", "q1", "lacp=passive", "bond_mode=balance-tcp"]
    router = ["add-port", "partner", "c0", "--", "set", "Interface", "c0", "type=dummy"]
    switch.vsctl(*bridge, "--", *bond, "other_config:lacp-time=fast", *ports)
    switch.vsctl(*router, f"options:tx_pcap={folder}/c0.pcap")
    try:
        yield
    finally:
        switch.vsctl("del-br", "partner")


def links(switch: Switch) -> list[tuple[str, str, bool]]:
    """The members as `status` has them."""
    found = on(switch)("status", "--no-rates", "--json").json["bonds"]
    return [(m["name"], m["link"], m["active"]) for m in found[0]["members"]]


def has_both(switch: Switch) -> bool:
    """Whether both members carry packets, at both ends."""
    return switch.appctl("bond/show").count("may_enable: true") == 4


def query(port: int) -> str:
    """A query by a router."""
    packet = Ether(src=ROUTER, dst=VIP_MAC) / IP(src="198.18.0.1", dst="198.51.100.53") / UDP(sport=port, dport=53)
    return bytes(packet / bytes(30)).hex()


def set_link(switch: Switch, state: str) -> None:
    """Both ends of the link of p0 are up or down."""
    for port in ("p0", "q0"):
        switch.appctl("netdev-dummy/set-admin-state", port, state)


def ask(switch: Switch) -> None:
    """Queries of 128 clients; the dummy links lose some of many at once."""
    for first in range(1024, 1152, 16):
        switch.appctl("netdev-dummy/receive", "c0", *map(query, range(first, first + 16)))


def forwarded(folder: Path) -> int:
    """How many queries have come back for backends behind the bond."""
    return sum(p[Ether].dst in ("02:00:00:00:04:01", "02:00:00:00:04:02") for p in rdpcap(f"{folder}/c0.pcap"))


def sent(switch: Switch, port: str) -> int:
    """Packets that have left by a port."""
    found = re.search(r"tx pkts=(\d+)", switch.ofctl("dump-ports", port, bridge="bond0-lag"))
    assert found is not None
    return int(found[1])


def as_it_is(switch: Switch, name: str = "br-dns") -> object:
    """The bridge and its bonds in OVSDB, and the tables, without port numbers."""
    with Database(switch.database) as base:
        bridge = base.bridge(name)
    assert bridge is not None
    ports = {n: (p.type, dict(p.options), p.ours, p.port, p.mtu) for n, p in bridge.ports.items()}
    lags = {
        n: (lag.lag, lag.differs, lag.datapath_type, {m: now.mtu for m, now in lag.interfaces.items()})
        for n, lag in bridge.lags.items()
    }
    return ports, lags, switch.tables()


def mtus(switch: Switch) -> list[str]:
    return [switch.vsctl("get", "Interface", p, "mtu").strip() for p in ("p0", "p1")]


@pytest.fixture
def own(shared: Switch) -> Switch:
    fresh(shared)
    shared.vsctl("--if-exists", "del-br", "bond0-lag")
    return shared


def test_queries_and_answers_use_both_members(own: Switch, tmp_path: Path) -> None:
    spec, does = lacp_spec(tmp_path, own.dir), on(own)
    assert "make bond bond0 by LACP of p0, p1" in does("plan", spec).out + does("apply", spec, "--yes").out
    wait(lambda: not any(active for _, _, active in links(own)), lambda: str(links(own)))
    alone = does("status", "--no-rates")
    assert (alone.code, "bond bond0: no partner answers by LACP: nothing passes by it" in alone.out) == (3, True), (
        alone.out
    )
    with partner(own, tmp_path):
        wait(lambda: has_both(own), lambda: own.appctl("lacp/show"))
        assert links(own) == [("p0", "up", True), ("p1", "up", True)]
        assert does("status", "--no-rates").code == 0
        assert does("verify", spec).code == 0, does("verify", spec).out
        before = [sent(own, p) for p in ("p0", "p1")]
        ask(own)
        wait(lambda: forwarded(tmp_path) > 40, lambda: own.appctl("dpctl/dump-flows"))  # 2 of 3 backends are behind it
        wait(lambda: all(sent(own, p) > n + 10 for p, n in zip(("p0", "p1"), before, strict=True)), lambda: str(before))
        megaflows = own.appctl("dpctl/dump-flows", "-m")
        local = [
            line for line in megaflows.splitlines() if "actions:" in line and "bond0-lag" in line.split("actions:")[1]
        ]
        assert local == [], "something is flooded to the port of the bond's bridge"

        set_link(own, "down")
        wait(lambda: links(own) == [("p0", "down", False), ("p1", "up", True)], lambda: str(links(own)))
        assert "port p0" in does("verify", spec).out
        count = forwarded(tmp_path)
        ask(own)
        wait(lambda: forwarded(tmp_path) > count + 40, lambda: own.appctl("bond/show"))


def applied(switch: Switch, file: Path) -> object:
    """What is there after a spec was applied, which `verify` finds so."""
    done = on(switch)("apply", file, "--yes", "--grace", "0")
    assert done.code == 0, done.err
    seen = on(switch)("verify", file)
    assert seen.code == 0, seen.out
    return as_it_is(switch)


def test_a_bond_becomes_one_by_lacp_and_back(own: Switch, tmp_path: Path) -> None:
    lacp = lacp_spec(tmp_path, own.dir)
    backup = tmp_path / "backup.yaml"
    backup.write_text(lacp.read_text().replace("mode: lacp", "mode: active-backup"))
    three = tmp_path / "three.yaml"
    three.write_text(lacp.read_text().replace("      mode: lacp", "        p2: {type: dummy}\n      mode: lacp"))
    alone = tmp_path / "alone.yaml"
    single = re.sub(r"bond0:\n +members:\n.*\n.*\n +mode: lacp", "p0:\n      type: dummy", lacp.read_text())
    alone.write_text(single.replace(", port: bond0", ""))
    seen = [applied(own, file) for file in (backup, lacp, three, alone)]
    assert "bond0-lag" not in own.bridges()
    for there in seen[-2::-1]:  # each back to the one before
        done = on(own)("rollback", "--yes", "--grace", "0")
        assert done.code == 0, done.err
        assert as_it_is(own) == there
    assert "bond0-lag" not in own.bridges()


@pytest.mark.parametrize(("before", "after"), [("active-backup", "lacp"), ("lacp", "lacp"), ("lacp", "active-backup")])
def test_an_apply_that_fails_leaves_the_bond_as_it_was(own: Switch, tmp_path: Path, before: str, after: str) -> None:
    own.expected = ["unknown type nonexistent", "could not open network device"]
    lacp = lacp_spec(tmp_path, own.dir)
    there = tmp_path / "there.yaml"
    there.write_text(lacp.read_text().replace("mode: lacp", f"mode: {before}"))
    applied(own, there)
    own.vsctl("set", "Interface", "p0", "mtu_request=9000")
    seen = as_it_is(own)
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        lacp.read_text().replace("      mode: lacp", f"        p2: {{type: nonexistent}}\n      mode: {after}")
    )
    done = on(own)("apply", broken, "--yes")
    assert (done.code, "p2" in done.err) == (1, True), done.err
    assert as_it_is(own) == seen
    assert on(own)("verify", there).code == 0


def test_members_keep_the_mtu_of_bring_up(own: Switch, tmp_path: Path) -> None:
    lacp = lacp_spec(tmp_path, own.dir)
    jumbo = tmp_path / "jumbo.yaml"
    jumbo.write_text(lacp.read_text().replace("  gratuitous:", "  bringup: {mtu: 9000}\n  gratuitous:"))
    backup = tmp_path / "backup.yaml"
    backup.write_text(lacp.read_text().replace("mode: lacp", "mode: active-backup"))
    for file in (jumbo, backup, lacp):  # the others keep what is there
        applied(own, file)
        assert mtus(own) == ["9000", "9000"], file


def test_teardown_takes_the_bridges_of_bonds_that_are_its_own(own: Switch, tmp_path: Path) -> None:
    applied(own, lacp_spec(tmp_path, own.dir))
    other = lacp_spec(tmp_path, own.dir, BACKUP.replace("bond0", "bond1"), "other.yaml")
    own.vsctl("add-br", "bond1-lag", "--", "set", "Bridge", "bond1-lag", "datapath_type=netdev")  # somebody else's
    assert run("bringup", other, "-o", tmp_path / "scripts").code == 0
    env = {**os.environ, "OVS_RUNDIR": str(own.dir), "DNSTEER_DB": own.database, "DNSTEER_ROOT": str(tmp_path / "root")}
    done = subprocess.run(
        ["sh", tmp_path / "scripts" / "teardown.sh", "--yes"], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "bridge bond0-lag is gone" in done.stdout, done.stderr
    assert own.bridges() == ["bond1-lag"]
    own.vsctl("del-br", "bond1-lag")


def test_what_others_do_to_the_bond_is_named_and_put_right(own: Switch, tmp_path: Path) -> None:
    spec = lacp_spec(tmp_path, own.dir)
    seen = applied(own, spec)
    for deed, said in (
        (["set", "Port", "bond0-bond", "lacp=off"], "lacp is not active"),
        (["del-port", "bond0-peer"], "the patch port is not there"),
        (["del-bond-iface", "bond0-bond", "p1"], "its members are p0"),
        (["del-br", "bond0-lag"], "is not there"),
    ):
        own.vsctl(*deed)
        found = on(own)("verify", spec)
        assert found.code == 2 and said in found.out, found.out
        assert on(own)("restore").code == 0
        assert as_it_is(own) == seen


def test_a_bridge_of_somebody_else_is_refused_and_untouched(own: Switch, tmp_path: Path) -> None:
    own.vsctl("add-br", "bond0-lag", "--", "set", "Bridge", "bond0-lag", "datapath_type=netdev")
    before = own.conf()
    done = on(own)("apply", lacp_spec(tmp_path, own.dir), "--yes")
    assert (
        done.code == 1 and "bridge bond0-lag was not made for br-dns, and the bond bond0 by LACP needs one" in done.err
    )
    assert own.conf() == before


def test_the_rendered_script_makes_what_apply_makes(own: Switch, tmp_path: Path) -> None:
    spec = lacp_spec(tmp_path, own.dir)
    assert run("render", spec, "-o", tmp_path / "files").code == 0
    script = (tmp_path / "files" / "bridge.sh").read_text().partition("# names of the tables")[0]
    env = {**os.environ, "OVS_RUNDIR": str(own.dir), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    wrapper = tmp_path / "ovs-vsctl"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ovs-vsctl")} --db={own.database} "$@"\n')
    wrapper.chmod(0o755)
    for _ in range(2):
        subprocess.run(["sh", "-c", script], env=env, check=True, timeout=60)
    with Database(own.database) as base:
        want, have = wanted_bridge(load_spec(spec).spec), base.lags("br-dns")
    assert [difference(want, lag, have) for lag in want.lags] == [""]


@pytest.mark.parametrize(
    ("flavor", "says"),
    [
        ("ovs-doca", "8 bits of dp_hash; at most 4"),
        ("ovs-netdev", ""),
    ],
)
def test_lint_says_what_hardware_does_with_a_bond_by_lacp(flavor: str, says: str) -> None:
    text = (EXAMPLES / "bond.yaml").read_text().replace("active-backup", "lacp").replace("ovs-netdev", flavor)
    found = run_finders(examine(check_document(parse_document("spec.yaml", text)), profile(flavor)))
    texts = [each.text for each in found.findings if each.code.code == "DNS028"]
    assert [says in text for text in texts] == [True] * bool(says)
    assert not any(each.code.code == "DNS003" for each in found.findings)  # the patch port is judged as a port


def test_lint_names_a_bond_of_linux_beside_a_multiport_eswitch() -> None:
    text = (EXAMPLES / "bond.yaml").read_text().replace("ovs-netdev", "ovs-doca")
    text = text.replace(
        "    bond0:\n      members:\n        p0:\n        p1:\n      mode: active-backup\n", "    bond0:\n"
    )
    text = text.replace("  ports:\n", "    p2:\n  ports:\n").replace("    vm1:\n", "    vm1: {answers: bond0}\n", 1)
    for more, codes in (("", []), ("  bringup: {multiport: true}\n", ["DNS029"])):
        changed = text.replace("  gratuitous:", f"{more}  gratuitous:")
        if not more:
            changed = changed.replace("  gratuitous:", "  bringup: {multiport: false}\n  gratuitous:")
        found = run_finders(examine(check_document(parse_document("spec.yaml", changed)), profile("ovs-doca")))
        assert [each.code.code for each in found.findings if each.code.code == "DNS029"] == codes
