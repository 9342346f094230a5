# SPDX-License-Identifier: Apache-2.0
"""Bring-up for real: OVS-DPDK with huge pages from the kernel, and OVS on a network device; both on a wire that is tried."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dnsteer.bringup.memory import buffer_bytes
from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.tools import SwitchError
from tests import worker_machine
from tests.packet.command import on, run

PROGRAM = Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
PAGES = Path("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages")
KEPT = Path("/run/dnsteer-bringup")
NEEDED = 128
"""Pages for the 256 MB that the spec gives to Open vSwitch."""
SLOTS = 64
CORE = max(os.sched_getaffinity(0))

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("huge pages and network devices"),
]
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: {flavor}
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0: {port}
  bringup:
    mtu: 1500
    {more}
pools:
  authoritative:
    slots: 64
    backends:
      - {{name: ns1, ipv4: 192.0.2.11, ipv6: 2001:db8::11, mac: 02:00:00:00:01:01}}
      - {{name: ns2, ipv4: 192.0.2.12, ipv6: 2001:db8::12, mac: 02:00:00:00:01:02, weight: 3}}
vips:
  dns: {{addresses: [192.0.2.53, "2001:db8::53"], services: [dns], pool: authoritative}}
"""


class Real(PrivateSwitch):
    """A real ovs-vswitchd in a namespace, with a database of its own, brought up by the scripts before it starts."""

    def __init__(self, program: str, folder: Path, spec: str, namespace: str) -> None:
        super().__init__()
        self.program, self.inside = program, ["ip", "netns", "exec", namespace]
        self.spec, self.scripts = folder / "spec.yaml", folder / "bringup"
        self.spec.write_text(spec)
        rendered = run("bringup", self.spec, "-o", self.scripts)
        assert rendered.code == 0, rendered.err
        self.first: list[str] = []

    def start_switch(self) -> None:
        code, self.first, said = self.run("bringup.sh", "--before-switch")
        if code:
            self.run("teardown.sh", "--yes")
            raise SwitchError(said)
        # A PMD thread that never rests holds up all others on its core.
        self.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:pmd-maxsleep=200")
        control = self.dir / "vswitchd.ctl"
        argv = [*self.inside, self.program, self.database, "--disable-system", f"--unixctl={control}"]
        argv += [f"--pidfile={self.dir}/ovs-vswitchd.pid", f"--log-file={self.dir}/vswitchd.log"]
        self._spawn([*argv, "-vconsole:off", "-vsyslog:off"], control)

    def end_switch(self) -> None:
        """End ovs-vswitchd; its database stays."""
        process = self._processes.get("ip")
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait(20)

    def run(self, script: str, *args: str) -> tuple[int, list[str], str]:
        """Exit code of a script, what it changed, and what it said on standard error."""
        env = {**os.environ, **self.env, "DNSTEER_DB": self.database}
        done = subprocess.run(
            [str(self.scripts / script), *args], capture_output=True, text=True, check=False, env=env, timeout=120
        )
        changed = [line.split(": changed: ")[1] for line in done.stdout.splitlines() if ": changed: " in line]
        return done.returncode, changed, done.stderr

    def look(self) -> dict[str, str]:
        """What `bringup --check` finds, by item."""
        done = on(self)("bringup", self.spec, "--check", "--json")
        assert done.code in (0, 2), done.err
        return {i["name"]: i["state"] for i in done.json["items"]}


@contextmanager
def wire(name: str) -> Iterator[socket.socket]:
    """A namespace with a wire: its end p0 for the switch, and the other one as a socket."""
    subprocess.run(["ip", "netns", "add", name], check=True, timeout=10)
    try:
        for command in ("link add p0 type veth peer name far", "link set p0 up", "link set far up"):
            subprocess.run(["ip", "-n", name, *command.split()], check=True, timeout=10)
        with socket_in(name, "far") as far:
            yield far
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True, timeout=10)


def socket_in(namespace: str, device: str) -> socket.socket:
    """A packet socket of a device in a namespace: a thread enters it, and the socket stays there."""
    made: list[socket.socket] = []

    def make() -> None:
        with Path("/run/netns", namespace).open() as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
                raise OSError(ctypes.get_errno(), "setns")
        made.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        made[0].bind((device, 0))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    made[0].settimeout(0.2)
    return made[0]


def forwarded(far: socket.socket, wait: float = 15) -> Counter[str]:
    """Send two queries for each slot into the wire; the MAC addresses that they come back to."""
    for port in range(20000, 20000 + 4 * SLOTS, 2):
        query = (
            IP(src="198.51.100.7", dst="192.0.2.53") / UDP(sport=port, dport=53) / DNS(qd=DNSQR(qname="example.com"))
        )
        far.send(bytes(Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / query))
        time.sleep(0.001)
    found: Counter[str] = Counter()
    deadline = time.monotonic() + wait
    while found.total() < 2 * SLOTS and time.monotonic() < deadline:
        with suppress(TimeoutError):
            frame, (_, _, kind, *_) = far.recvfrom(2048)
            if kind != socket.PACKET_OUTGOING and frame[6:12].hex(":") == "02:00:00:00:00:53":
                found[frame[:6].hex(":")] += 1
    return found


EXPECTED = {"02:00:00:00:01:01": SLOTS // 2, "02:00:00:00:01:02": 3 * SLOTS // 2}


def bring_up(switch: Real, far: socket.socket, kind: str) -> None:
    """The bridge, its port and the flows; once again; then queries, and nothing that is missing."""
    assert switch.run("bringup.sh") == (0, ["bridge br-dns (netdev)", f"port p0 ({kind})"], "")
    assert switch.run("bringup.sh") == (0, [], "")
    applied = on(switch)("apply", switch.spec)
    assert applied.code == 0, applied.err
    assert set(forwarded(far, wait=1)) == set(
        EXPECTED
    )  # while the switch still settles, the first of a flow may be lost
    assert dict(forwarded(far)) == EXPECTED
    assert on(switch)("verify", switch.spec).code == 0
    found = switch.look()
    assert [
        name for name, state in found.items() if state == "missing" and name != "interface p0"
    ] == []  # of the namespace
    assert found["port p0"] == found["bridge br-dns"] == found["other_config:flow-limit"] == "ok"


def pages_given(count: int) -> int:
    """How many more huge pages the kernel gives when it is asked for so many; it has them back then."""
    before = PAGES.read_text()
    try:
        PAGES.write_text(str(int(before) + count))
        return int(PAGES.read_text()) - int(before)
    finally:
        PAGES.write_text(before)


@pytest.fixture
def dpdk(tmp_path: Path) -> Iterator[tuple[Real, socket.socket]]:
    """OVS-DPDK with huge pages, and a wire; everything is put back afterwards."""
    if list(worker_machine.outside(KEPT).glob("hugepages-*")):
        pytest.skip(f"this machine is brought up already ({KEPT}); this test would take that back")
    if not PAGES.exists():
        pytest.skip("this kernel has no huge pages of 2 MB")
    given = pages_given(NEEDED)
    if given < NEEDED:
        pytest.skip(f"asked by the test itself, the kernel gives {given} of {NEEDED} huge pages")
    name = f"bringup-{os.getpid()}"  # not by the lab's prefix, whose `down` would remove it
    port = '{options: {dpdk-devargs: "net_pcap0,rx_iface_in=p0,tx_iface=p0"}}'
    more = f"memory: [256]\n    pmd_cores: [{CORE}]\n    dpdk_extra: --no-telemetry --file-prefix={name}"
    with wire(name) as far:
        real = Real(str(PROGRAM), tmp_path, SPEC.format(flavor="ovs-dpdk", port=port, more=more), name)
        with ExitStack() as stack:
            stack.enter_context(real)
            try:
                yield real, far
            finally:
                real.end_switch()
                code, _, said = real.run("teardown.sh", "--yes")
    assert (code, said) == (0, "")
    assert not list(KEPT.glob("hugepages-*"))


def test_ovs_dpdk_comes_up_and_forwards(dpdk: tuple[Real, socket.socket]) -> None:
    switch, far = dpdk
    assert "dpdk-init: none -> true" in switch.first
    assert "dpdk-socket-mem: none -> 256" in switch.first
    bring_up(switch, far, "dpdk")
    assert switch.vsctl("get", "Open_vSwitch", ".", "dpdk_initialized").strip() == "true"
    assert {"DPDK running", "huge pages, node 0", "DPDK in Open vSwitch"} <= {
        n for n, s in switch.look().items() if s == "ok"
    }

    # 256 MB are too little for 262,144 buffers: Open vSwitch halves their number until they fit.
    argv = ["ovs-appctl", "-t", f"{switch.dir}/vswitchd.ctl", "netdev-dpdk/get-mempool-info", "p0"]
    pool = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20).stdout
    count, header, element, trailer = (
        int(re.search(rf"^ +{key}=(\d+)", pool, re.M)[1])  # type: ignore[index]
        for key in ("size", "header_size", "elt_size", "trailer_size")
    )
    assert count == 65536, pool
    assert abs(header + element + trailer - buffer_bytes(1500)) <= 128, pool


def test_settings_that_need_a_restart_wait_for_it(dpdk: tuple[Real, socket.socket]) -> None:
    switch, _ = dpdk
    assert switch.run("bringup.sh")[0] == 0
    switch.spec.write_text(switch.spec.read_text().replace("memory: [256]", "memory: [300]"))
    assert run("bringup", switch.spec, "-o", switch.scripts).code == 0
    code, changed, said = switch.run("bringup.sh")
    assert (code, changed[-1]) == (3, "dpdk-socket-mem: 256 -> 300")
    assert "run this again with --restart" in said
    assert switch.look()["running settings"] == "missing"
    assert switch.run("bringup.sh")[0] == 3


def test_ovs_netdev_comes_up_and_forwards(tmp_path: Path) -> None:
    name = f"bringup-{os.getpid()}"  # not by the lab's prefix, whose `down` would remove it
    with wire(name) as far:
        switch = Real("ovs-vswitchd", tmp_path, SPEC.format(flavor="ovs-netdev", port="", more=""), name)
        with switch:
            bring_up(switch, far, "system")
            assert switch.run("teardown.sh", "--yes")[:2] == (
                0,
                ["bridge br-dns is gone", "flow-limit: as before (none)"],
            )
