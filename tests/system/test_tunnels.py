# SPDX-License-Identifier: Apache-2.0
"""NSD behind a router, at the end of VXLAN tunnels: the kernel takes queries out, and the servers answer by the router."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dnsteer.lab.command import netns_exec, run

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces, and devices in them")]
SWITCH, ROUTER, SERVERS = "dnst-tsw", "dnst-trt", ("dnst-tns1", "dnst-tns2")
VIPS = ("192.0.2.53", "2001:db8::53")
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-tun
  mac: 02:00:00:00:00:53
  tunnel: {ipv4: 198.51.100.2, ipv6: '2001:db8:51::2', key: 53}
  uplinks:
    p0: {next_hop: '02:00:00:00:00:fe'}
pools:
  farm:
    slots: 16
    backends:
      - {name: ns1, ipv4: 203.0.113.11, mac: '02:00:00:00:01:01'}
      - {name: ns2, ipv6: '2001:db8:9:2::11', mac: '02:00:00:00:01:02'}
vips:
  dns: {addresses: [192.0.2.53, '2001:db8::53'], services: [dns], pool: farm, forwarding: vxlan}
"""
ENDS = ("203.0.113.11", "2001:db8:9:2::11")


def ip(space: str, *words: str) -> None:
    run(["ip", "-n", space, *words])


def _link(one: str, device: str, other: str, at_other: str) -> None:
    """A link whose ends compute checksums themselves, as the userspace datapath needs it."""
    ip(one, "link", "add", device, "type", "veth", "peer", "name", at_other, "netns", other)
    for space, name in ((one, device), (other, at_other)):
        run(netns_exec(space, ["ethtool", "-K", name, "tx", "off", "gso", "off", "gro", "off"]))
        ip(space, "link", "set", name, "up")


def _network() -> None:
    for space in (SWITCH, ROUTER, *SERVERS):
        run(["ip", "netns", "add", space])
        ip(space, "link", "set", "lo", "up")
        ways = "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"
        run(netns_exec(space, ["sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"]))
        if space == ROUTER:
            run(netns_exec(space, ["sysctl", "-qw", *ways]))
    _link(ROUTER, "rt0", SWITCH, "p0")
    ip(ROUTER, "link", "set", "rt0", "address", "02:00:00:00:00:fe")
    for network in ("192.0.2.1/24", "2001:db8::1/64"):
        ip(ROUTER, "address", "add", network, "dev", "rt0", *(["nodad"] if ":" in network else []))
    for client in ("198.18.0.7/32", "2001:2::7/128"):
        ip(ROUTER, "address", "add", client, "dev", "lo")
    for number, (space, end, mac) in enumerate(zip(SERVERS, ENDS, ("01", "02"), strict=True), 1):
        _link(ROUTER, f"down{number}", space, "eth0")
        for router, server in ((f"203.0.{112 + number}.1/24", f"203.0.{112 + number}.11/24"),
                               (f"2001:db8:9:{number}::1/64", f"2001:db8:9:{number}::11/64")):  # fmt: skip
            six = ["nodad"] if ":" in router else []
            ip(ROUTER, "address", "add", router, "dev", f"down{number}", *six)
            ip(space, "address", "add", server, "dev", "eth0", *six)
            ip(space, *(["-6"] if six else []), "route", "add", "default", "via", router.partition("/")[0])
        vxlan = ["type", "vxlan", "id", "53", "dstport", "4789", "local", end, "nolearning"]
        ip(space, "link", "add", "vx0", "address", f"02:00:00:00:01:{mac}", *vxlan)
        ip(space, "link", "set", "vx0", "up")
        for vip in VIPS:
            ip(space, "address", "add", vip, "dev", "vx0", *(["nodad"] if ":" in vip else []))


@pytest.fixture(scope="module")
def switch(goes_first: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an Open vSwitch in a namespace, with NSD on both servers."""
    folder = tmp_path_factory.mktemp("tunnels")
    running: list[subprocess.Popen[bytes]] = []

    def start(space: str, *words: str) -> None:
        argv = netns_exec(space, ["env", f"OVS_RUNDIR={folder}", *words])
        running.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    with ExitStack() as cleanup:
        for space in (SWITCH, ROUTER, *SERVERS):
            cleanup.callback(subprocess.run, ["ip", "netns", "del", space], check=False, capture_output=True)
        cleanup.callback(lambda: [(each.terminate(), each.wait()) for each in running])
        _network()
        run(["ovsdb-tool", "create", f"{folder}/conf.db", "/usr/share/openvswitch/vswitch.ovsschema"])
        start(SWITCH, "ovsdb-server", f"{folder}/conf.db", f"--remote=punix:{folder}/db.sock", "-vconsole:off")
        _wait(lambda: (folder / "db.sock").exists())
        run(["ovs-vsctl", f"--db=unix:{folder}/db.sock", "--no-wait", "init"])
        pid = f"--pidfile={folder}/ovs-vswitchd.pid"
        start(SWITCH, "ovs-vswitchd", f"unix:{folder}/db.sock", "--disable-system", "-vconsole:off", pid)
        _wait(lambda: bool(list(folder.glob("ovs-vswitchd.*.ctl"))))
        for name, space in zip(("ns1", "ns2"), SERVERS, strict=True):
            start(space, "nsd", "-d", "-c", str(_nsd(folder, name)))
        yield folder


def _wait(until: object) -> None:
    for _ in range(100):
        if until():  # type: ignore[operator]
            return
        time.sleep(0.1)
    raise AssertionError("it did not start")


def _nsd(folder: Path, name: str) -> Path:
    """NSD's configuration: it answers as the VIPs, and says its name as the TXT record of example."""
    (folder / f"{name}.zone").write_text(
        f"example. 60 IN SOA a. b. 1 2 3 4 5\nexample. 60 IN NS a.\nexample. 60 IN TXT {name}\n"
    )
    addresses = "".join(f"  ip-address: {vip}\n" for vip in VIPS)
    file = folder / f"{name}.conf"
    file.write_text(
        f'server:\n{addresses}  username: ""\n  pidfile: ""\n  zonesdir: {folder}\n  database: ""\n'
        f"  xfrdfile: {folder}/{name}.xfrd\n  zonelistfile: {folder}/{name}.list\n  xfrdir: {folder}\n  rrl-ratelimit: 0\n"
        f"zone:\n  name: example.\n  zonefile: {name}.zone\nremote-control:\n  control-enable: no\n"
    )
    return file


def dnsteer(folder: Path, *words: str) -> str:
    """What a command prints, in the namespace of the switch."""
    command = [sys.executable, "-m", "dnsteer", *words, "--db", f"unix:{folder}/db.sock"]
    return run(netns_exec(SWITCH, command), timeout=60)


def asked(vip: str, *how: str, queries: int = 24) -> Counter[str]:
    """Who answers queries of a client with a source port each."""
    source = "2001:2::7" if ":" in vip else "198.18.0.7"
    found = Counter[str]()
    for _ in range(queries):
        words = ["kdig", f"@{vip}", "example", "TXT", "+short", "+timeout=1", "+retry=0", "-b", source, *how]
        done = subprocess.run(netns_exec(ROUTER, words), capture_output=True, text=True, check=False, timeout=20)
        found[done.stdout.strip().strip('"') if done.returncode == 0 else ""] += 1
    return found


def test_servers_behind_a_router_answer_clients_as_the_vip(switch: Path, tmp_path: Path) -> None:
    """Over both families inside and outside, UDP and TCP; also after a restart of ovs-vswitchd's tables and a drain."""
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC)
    dnsteer(switch, "apply", str(file), "--yes", "--grace", "0")
    dnsteer(switch, "verify", str(file))
    addresses = run(["ip", "-n", SWITCH, "-br", "address", "show", "dev", "br-tun"])
    assert "198.51.100.2/31" in addresses
    assert "2001:db8:51::2/127" in addresses
    assert "br-tun" not in run(["ip", "-n", SWITCH, "route"])
    _wait(lambda: set(asked(VIPS[0], queries=8)) == {"ns1", "ns2"})
    for vip in VIPS:
        for how in ((), ("+tcp",)):
            found = asked(vip, *how)
            assert set(found) == {"ns1", "ns2"}, (vip, how, found)
    dnsteer(switch, "drain", "farm/ns1", "--yes")
    assert set(asked(VIPS[0])) == {"ns2"}
    dnsteer(switch, "undrain", "farm/ns1", "--yes")

    # The other address of the same /31 is the source: Open vSwitch chooses among those of the bridge's own port.
    file.write_text(SPEC.replace("198.51.100.2", "198.51.100.3"))
    dnsteer(switch, "apply", str(file), "--yes", "--grace", "0")
    dnsteer(switch, "verify", str(file))
    assert set(asked(VIPS[0])) == {"ns1", "ns2"}
    file.write_text(SPEC.replace("198.51.100.2", "198.51.100.9"))
    dnsteer(switch, "apply", str(file), "--yes", "--grace", "0")
    addresses = run(["ip", "-n", SWITCH, "-br", "-4", "address", "show", "dev", "br-tun"])
    assert ("198.51.100.9/31" in addresses, "198.51.100.3" in addresses) == (True, False)
    dnsteer(switch, "rollback", "--yes", "--grace", "0")
    assert set(asked(VIPS[0])) == {"ns1", "ns2"}
