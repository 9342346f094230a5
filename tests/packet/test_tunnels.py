# SPDX-License-Identifier: Apache-2.0
"""Tunnels by Open vSwitch: every byte of what leaves, whom the switch asks, and the routes that come and go with a spec."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.cli.output import Exit
from dnsteer.lint.masks.bound import mask_bound
from dnsteer.plan.bridge import full_mtu
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.proof.check import prove
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.proof.reference.wire import parse
from tests.mask_attack import attack
from tests.packet.command import on, run, spec_file
from tests.packet.restarted_switch import bare, running
from tests.packet.switches import BRIDGE, EXAMPLES, ROOT, Running
from tests.unit.spec_text import changed, load

__all__ = ["bare", "running"]  # for pytest

TEXT = (EXAMPLES / "vxlan.yaml").read_text(encoding="utf-8")
GRE = TEXT.replace("forwarding: vxlan", "forwarding: gre")
UPLINK = "    p0:\n      next_hop: 02:00:00:00:00:fe "
TAGGED = ("    p0:\n", "    p0:\n      vlan: 100\n")
BOND = (
    UPLINK,
    "    bond0:\n      mode: active-backup\n      members: {p0: , p1: }\n      next_hop: 02:00:00:00:00:fe ",
)
KEPT = ("    forwarding: vxlan", "    forwarding: vxlan\n    keep: connections")
PROBED = ("\npools:", "\n  probe: {addresses: [198.51.100.9/24]}\npools:")
BOTH = ("\nvips:", "\nvips:\n  other: {addresses: [192.0.2.54], services: [dns], pool: authoritative, forwarding: gre}")
PLAIN = re.sub(r"  tunnel:\n(    .*\n)+", "", TEXT).replace("forwarding: vxlan", "forwarding: dsr")
ROUTES = [
    f"User: {end} dev {BRIDGE} GW {gateway} SRC {source}"
    for end, gateway, source in (
        ("203.0.113.11/32", "198.51.100.3", "198.51.100.2"),
        ("203.0.113.12/32", "198.51.100.3", "198.51.100.2"),
        ("2001:db8:9::13/128", "2001:db8:51::3", "2001:db8:51::2"),
    )
]


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("forwarding: vxlan", "forwarding: geneve"),
        changed(TAGGED, KEPT, BOTH, text=TEXT),
        changed(BOND, PROBED, text=GRE),
    ],
    ids=["geneve", "kept, in a VLAN, beside gre", "probed gre by a bond"],
)
def test_every_packet_leaves_in_its_tunnel(text: str) -> None:
    """The example is tried with the others."""
    report = prove(load(text), per_service=16)
    assert report.ok, report.text()


def routes(switch: Running) -> list[str]:
    """The routes of the bridge as ovs-vswitchd shows them."""
    return [line for line in switch.appctl("ovs/route/show").splitlines() if f" dev {BRIDGE} " in line]


def prepare(switch: Running) -> None:
    """Make the bridge with the addresses that its port needs: a dummy device has none of the kernel's."""
    switch.vsctl("--may-exist", "add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev")
    switch.appctl("netdev-dummy/ip4addr", BRIDGE, "198.51.100.2/31")
    switch.appctl("netdev-dummy/ip6addr", BRIDGE, "2001:db8:51::2/127")


def hwaddr(switch: Running) -> str:
    return switch.vsctl("--if-exists", "get", "Bridge", BRIDGE, "other_config:hwaddr").strip().strip('"')


def test_routes_come_and_go_with_the_spec(bare: Running, tmp_path: Path) -> None:
    prepare(bare)
    bare.appctl("ovs/route/add", "203.0.113.99/32", BRIDGE, "198.51.100.3")
    file, do = spec_file(tmp_path, TEXT), on(bare)
    done = do("apply", file, "--adopt", "--grace", "0", "--yes")
    assert (done.code, sorted(routes(bare)), hwaddr(bare)) == (0, sorted(ROUTES), "02:00:00:00:00:53"), done.err
    assert do("verify", file).code == 0
    assert "nothing to change" in do("apply", file).out

    bare.appctl("ovs/route/del", "203.0.113.11/32")
    found = do("verify", file)
    assert (found.code, "no route to 203.0.113.11: these backends get nothing" in found.out) == (Exit.DIFFERENT, True)
    assert do("apply", file, "--yes").code == 0
    assert sorted(routes(bare)) == sorted(ROUTES)

    fewer = changed(("      - {name: ns2, ipv4: 203.0.113.12, mac: 02:00:00:00:01:02}\n", ""), text=TEXT)
    done = do("apply", spec_file(tmp_path, fewer), "--grace", "0", "--yes")
    assert (done.code, sorted(routes(bare))) == (0, sorted(line for line in ROUTES if ".12/" not in line))
    assert "remove 1 route of tunnels (203.0.113.12/32)" in done.out
    assert do("rollback", "--grace", "0", "--yes").code == 0
    assert sorted(routes(bare)) == sorted(ROUTES)

    done = do("apply", spec_file(tmp_path, PLAIN), "--grace", "0", "--yes")
    assert (done.code, routes(bare), hwaddr(bare), "dns-vxlan" in bare.vsctl("list-ports", BRIDGE)) == (
        0,
        [],
        "",
        False,
    )
    assert "hwaddr" not in done.err

    # What an apply of tunnels leaves that is killed before its flows.
    port = ("--", "set", "Port", "dns-vxlan", "external_ids:dnsteer=port", "--", "set", "Interface", "dns-vxlan")
    bare.vsctl("add-port", BRIDGE, "dns-vxlan", *port, "type=vxlan", "options:remote_ip=flow", "options:key=flow")
    bare.appctl("ovs/route/add", "203.0.113.11/32", BRIDGE, "198.51.100.3")
    done = do("apply", spec_file(tmp_path, PLAIN), "--grace", "0", "--yes")
    assert (done.code, routes(bare)) == (0, []), done.err
    assert "remove port dns-vxlan" in done.out


def test_after_a_restart_the_routes_are_back(bare: Running, tmp_path: Path) -> None:
    prepare(bare)
    assert on(bare)("apply", spec_file(tmp_path, TEXT), "--adopt", "--grace", "0", "--yes").code == 0
    bare.kill_switch()
    bare.start_switch()
    prepare(bare)
    assert routes(bare) == []
    assert on(bare)("restore").code == 0
    assert sorted(routes(bare)) == sorted(ROUTES)


@pytest.mark.parametrize("unit", ["restore", "reconcile", "agent"])
def test_units_may_give_the_source_addresses_again(unit: str) -> None:
    """After a boot the bridge's own port has none; `ip` asks the kernel by netlink."""
    lines = (ROOT / f"ovs/systemd/dnsteer-{unit}.service").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    assert "CAP_NET_ADMIN" in settings["CapabilityBoundingSet"].split()
    assert "AF_NETLINK" in settings["RestrictAddressFamilies"].split()


def test_without_a_source_address_nothing_is_changed(bare: Running, tmp_path: Path) -> None:
    """The bridge's own port is no device of the kernel here, so that it cannot be given its address."""
    for route in routes(bare):  # of a bridge that is no more
        bare.appctl("ovs/route/del", route.split()[1])
    plain = spec_file(tmp_path, PLAIN)
    assert on(bare)("apply", plain, "--grace", "0", "--yes").code == 0
    before = bare.flows(BRIDGE), bare.vsctl("list-ports", BRIDGE), hwaddr(bare)
    bare.appctl("netdev-dummy/ip4addr", BRIDGE, "198.51.100.2/31")
    done = on(bare)("apply", spec_file(tmp_path, TEXT), "--grace", "0", "--yes")
    assert done.code != 0
    assert f'Cannot find device "{BRIDGE}"' in done.err
    assert "nothing was changed" in done.err
    assert (bare.flows(BRIDGE), bare.vsctl("list-ports", BRIDGE), hwaddr(bare)) == before
    assert routes(bare) == []


def test_a_change_that_fails_leaves_the_routes_of_running_tunnels(bare: Running, tmp_path: Path) -> None:
    for route in routes(bare):  # of a bridge that is no more
        bare.appctl("ovs/route/del", route.split()[1])
    prepare(bare)
    file = spec_file(tmp_path, TEXT)
    assert on(bare)("apply", file, "--adopt", "--grace", "0", "--yes").code == 0
    (tmp_path / "other").mkdir()
    elsewhere = spec_file(tmp_path / "other", changed(("ipv4: 198.51.100.2 ", "ipv4: 198.51.100.8 "), text=TEXT))
    done = on(bare)("apply", elsewhere, "--grace", "0", "--yes")
    assert f'Cannot find device "{BRIDGE}"' in done.err
    assert sorted(routes(bare)) == sorted(ROUTES)
    assert on(bare)("verify", file).code == 0


def test_a_switch_whose_control_socket_is_out_of_reach_gets_no_tunnels(bare: Running, tmp_path: Path) -> None:
    remote = "--db", bare.listen_on_tcp(), "--openflow", f"unix:{bare.dir}/{BRIDGE}.mgmt"
    done = run("apply", spec_file(tmp_path, TEXT), "--grace", "0", "--yes", *remote)
    assert done.code != 0
    assert "ovs-vswitchd's control socket cannot be reached through tcp:" in done.err
    assert BRIDGE not in bare.vsctl("list-br")


def test_the_switch_is_told_the_next_hop_whenever_it_asks() -> None:
    """It forgets the MAC address after a while; the first query then is lost, and the bridge itself answers."""
    with Harness(build_plan(load(TEXT))) as harness:

        def neighbors() -> set[tuple[str, ...]]:
            lines = harness.switch.appctl("tnl/neigh/show").splitlines()[2:]
            return {tuple(line.split()[:2]) for line in lines}

        known = {("198.51.100.3", "02:00:00:00:00:fe"), ("2001:db8:51::3", "02:00:00:00:00:fe")}
        assert neighbors() == known
        for _ in range(2):
            harness.forget_megaflows()
            harness.switch.appctl("tnl/neigh/flush")
            assert neighbors() == set()
            sent = [Frame("p0", frame) for frame in queries()]
            harness.send(sent)
            harness.forget_megaflows()
            assert len(harness.send(sent)) == len(sent)
            assert neighbors() == known


def queries(tos: int = 0) -> list[bytes]:
    """Queries from many ports, so that each backend gets some."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    ether = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53")
    return [
        bytes(ether / IP(src="198.18.0.7", dst="192.0.2.53", tos=tos) / UDP(sport=port, dport=53) / bytes(12))
        for port in range(20000, 20032, 2)
    ]


@pytest.mark.parametrize(("tos", "outside"), [(0xB8, 0), (0xB9, 1), (0xBA, 2), (0xBB, 2)])
def test_of_the_type_of_service_only_congestion_is_seen_outside(tos: int, outside: int) -> None:
    with Harness(build_plan(load(TEXT))) as harness:
        left = harness.send([Frame("p0", frame) for frame in queries(tos)])
    assert len(left) == 16
    for frame in left:
        packet = parse(frame.data)
        word = int.from_bytes(frame.data[14:16], "big")
        assert (word & 0xFF if packet.ethertype == 0x0800 else word >> 4 & 0xFF) == outside


def test_masks_and_megaflows_are_those_computed() -> None:
    plan = build_plan(load_spec(EXAMPLES / "vxlan.yaml"))
    bound, found = mask_bound(plan), attack(plan, 20.0, 53, 20_000)
    assert [mask for mask in found.masks if not bound.allows(mask)] == []
    assert any(("nw_tos", 3) in mask for mask in found.masks)
    assert found.subtables <= bound.total


def test_of_several_uplinks_tunnels_leave_by_one_and_no_other_port_needs_their_mtu() -> None:
    other = ("  uplinks:\n", "  ports: {vf0: }\n  uplinks:\n    p1:\n")
    loaded = load(changed(other, ("  bringup:\n    mtu: 1600 ", "  # "), text=TEXT))
    assert sizes_of(loaded.spec, build_plan(loaded)).crossing == "queries that come in by p1 leave by p0"
    assert [full_mtu(loaded.spec, port) for port in ("p0", "p1", "vf0")] == [1570, 1570, 1500]
