# SPDX-License-Identifier: Apache-2.0
"""`capture` on a switch whose ports are network devices, in a namespace of its own: raw sockets and their filter."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import ICMP, IP, UDP, IPerror, UDPerror
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils import rdpcap

from tests.packet.command import FARM, on, spec_file
from tests.packet.switches import BRIDGE, ROOT, Switch

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
NAMESPACE = f"dncap{os.getpid()}"
_CLONE_NEWNET = 0x40000000
TO_VIP = {"src": "02:00:00:00:00:fe", "dst": "02:00:00:00:00:53"}
SPEC = FARM.replace("    p1:\n", "")


class WithDevices(Switch):
    """A private switch with the userspace datapath, whose ports are devices of the namespace."""

    def start_switch(self) -> None:
        control = self.dir / "vswitchd.ctl"
        argv = ["ip", "netns", "exec", NAMESPACE, "ovs-vswitchd", self.database, "--disable-system"]
        argv += [f"--unixctl={control}", f"--log-file={self.dir}/vswitchd.log", "-vconsole:off", "-vsyslog:off"]
        self._spawn(argv, control)


def in_namespace(*argv: object, **options: object) -> subprocess.Popen[str]:
    words = ["ip", "netns", "exec", NAMESPACE, *map(str, argv)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="module")
def wire() -> Iterator[socket.socket]:
    """The other end of the uplink p0."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    ip("netns", "add", NAMESPACE)
    try:
        ip("-n", NAMESPACE, "link", "add", "p0", "type", "veth", "peer", "name", "far")
        for name in ("p0", "far"):
            ip("-n", NAMESPACE, "link", "set", name, "up")
        made: list[socket.socket] = []

        def make() -> None:  # the namespace of a thread alone
            with Path(f"/run/netns/{NAMESPACE}").open() as file:
                assert ctypes.CDLL(None).setns(file.fileno(), _CLONE_NEWNET) == 0
            made.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
            made[0].bind(("far", 0))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        with made[0]:
            yield made[0]
    finally:
        ip("netns", "del", NAMESPACE)


@pytest.fixture(scope="module")
def devices(wire: socket.socket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    with WithDevices() as private:
        file = spec_file(tmp_path_factory.mktemp("spec"), SPEC)
        done = on(private)("apply", file, "--yes")
        assert done.code == 0, done.err
        yield private


def begin(switch: Switch, *args: object) -> subprocess.Popen[str]:
    """A capture, when its mirrors are there."""
    process = in_namespace(sys.executable, "-m", "dnsteer", "capture", *args, "--db", switch.database)
    assert process.stderr is not None
    said = process.stderr.readline()
    assert "mirroring p0" in said, said + process.stderr.read()
    return process


def query(vip: str = "192.0.2.53", **more: int) -> Packet:
    return IP(src="198.51.100.7", dst=vip) / UDP(sport=4000, dport=53) / DNS(id=7, qd=DNSQR(qname="a.example"), **more)


def none_left(switch: Switch) -> bool:
    links = subprocess.run(["ip", "-n", NAMESPACE, "link"], capture_output=True, text=True, check=True).stdout
    return switch.vsctl("list", "Mirror").strip() == "" and switch.ports() == {"p0"} and " cap" not in links


def test_devices_give_exactly_the_packets_of_the_vip(devices: Switch, wire: socket.socket, tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    clients = IPv6(src="2001:db8:99::7", dst="2001:db8::53")
    six = (
        IPv6(src="2001:db8:99::7", dst="2001:db8::53")
        / UDP(sport=4000, dport=53)
        / DNS(id=8, qd=DNSQR(qname="b.example"))
    )
    answer = IP(src="192.0.2.53", dst="198.51.100.7") / UDP(sport=53, dport=4000) / Raw(b"x" * 40)
    error = IP(src="198.51.100.7", dst="192.0.2.53") / ICMP(type=3, code=3) / IPerror(bytes(answer))
    assert isinstance(error.getlayer(UDPerror), UDPerror)
    mine = [
        Ether(**TO_VIP) / query(),
        Ether(**TO_VIP) / Dot1Q(vlan=0, prio=3) / query(),
        Ether(**TO_VIP) / six,
        Ether(**TO_VIP) / clients / IPv6ExtHdrFragment(nh=17, offset=181, id=9) / Raw(b"y" * 30),
        Ether(**TO_VIP) / error,
    ]
    others = [
        Ether(**TO_VIP) / query("192.0.2.54"),
        Ether(src=TO_VIP["src"], dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="192.0.2.1", pdst="192.0.2.53"),
        Ether(**TO_VIP) / IP(src="198.51.100.7", dst="192.0.2.53") / UDP(sport=4000, dport=54) / Raw(b"no service"),
    ]
    process = begin(devices, "dns", "--for", "20s", "-w", file, "--count", 8)
    for frame in [*others, *mine]:
        wire.send(bytes(frame))
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    found = [bytes(p) for p in rdpcap(str(file))]
    came = [bytes(frame) for frame in mine]
    assert sorted(f for f in found if f[:6] == came[0][:6]) == sorted(came)  # the tag with priority alone too
    out = [f for f in found if f[:6] != came[0][:6]]
    assert len(out) == 3  # the queries, to a backend; fragments of queries and the error are dropped
    assert all(f[6:12] == came[0][:6] for f in out)
    assert sorted(f[12:] for f in out) == sorted(f[12:] for f in came[:3])
    assert "0 dropped" in said
    assert none_left(devices)


def test_a_killed_capture_leaves_nothing_after_reconcile(devices: Switch) -> None:
    process = begin(devices, "dns", "--for", "5m")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    assert not none_left(devices)
    done = on(devices)("reconcile")
    assert (done.code, "capture of VIP dns" in done.out) == (0, True), done.err
    deadline = time.monotonic() + 10
    while not none_left(devices):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_without_the_right_to_read_packets_nothing_is_mirrored(devices: Switch) -> None:
    words = [
        "setpriv",
        "--bounding-set=-net_raw",
        sys.executable,
        "-m",
        "dnsteer",
        "capture",
        "dns",
        "--db",
        devices.database,
    ]
    process = in_namespace(*words)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, "run as root" in said) == (77, True), said
    assert none_left(devices)


def test_a_capture_away_from_the_devices_is_refused(devices: Switch) -> None:
    done = on(devices)("capture", "dns", "--for", "5s")
    assert (done.code, done.out) == (1, "")
    assert "run dnsteer capture where ovs-vswitchd runs" in done.err
    assert none_left(devices)
    assert BRIDGE in devices.bridges()
