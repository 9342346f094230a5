# SPDX-License-Identifier: Apache-2.0
"""NSD and a client behind a router's link with a small MTU: large answers over TCP need the router's ICMP errors."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address

import pytest

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import names
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.zone import LARGE
from dnsteer.spec.read import parse_document
from dnsteer.status.counters import ROUND
from dnsteer.status.icmp_errors import count_errors
from dnsteer.switch.meters import read_meter_counts
from dnsteer.switch.openflow import OpenFlow
from dnsteer.tables.meter_rows import limits_by_meter
from tests.system.lab_specs import apply_in_lab

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
VIPS = ("198.51.100.1", "2001:db8:1::1")
SPEC = """
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-mtu
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, "2001:db8:53::1"]
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
  ports:
    vf0:
    vf1:
pools:
  farm:
    slots: 16
    backends:
      - {name: a, ipv4: 10.53.0.11, ipv6: "2001:db8:53::11", mac: 02:00:00:00:05:01, port: vf0}
      - {name: b, ipv4: 10.53.0.12, ipv6: "2001:db8:53::12", mac: 02:00:00:00:05:02, port: vf1}
vips:
  dns: {addresses: [198.51.100.1, "2001:db8:1::1"], services: [dns, doq], pool: farm, errors: drop}
"""
DROPPED = check_document(parse_document("spec.yaml", SPEC))
COPIED = check_document(parse_document("spec.yaml", SPEC.replace(", errors: drop", "")))
KEPT = check_document(parse_document("spec.yaml", SPEC.replace(", errors: drop", ", keep: connections")))
FAR = "dnst-far"
"""The namespace of the client behind the router, which the lab's usual client is."""
MTU = 1280


@pytest.fixture(scope="module")
def state(no_lab: None) -> Iterator[lab.LabState]:
    try:
        lab.up(DROPPED.spec)
        found = lab.status()
        assert found is not None
        _add_far_client(found.client(None).namespace)
        yield found
    finally:
        subprocess.run(["ip", "netns", "del", FAR], check=False, capture_output=True)
        lab.down()


def _add_far_client(router: str) -> None:
    """A client behind the router: only the router's end of the link between them has the small MTU."""
    run(["ip", "netns", "add", FAR])
    run(["ip", "link", "add", "far", "netns", router, "type", "veth", "peer", "name", "eth0", "netns", FAR])
    for space, device, own4, own6 in ((router, "far", "1", "1"), (FAR, "eth0", "2", "2")):
        run(["ip", "-n", space, "addr", "add", f"198.18.99.{own4}/24", "dev", device])
        run(["ip", "-n", space, "addr", "add", f"2001:2:0:99::{own6}/64", "dev", device, "nodad"])
        run(netns_exec(space, ["ethtool", "-K", device, "tx", "off", "tso", "off", "gso", "off", "gro", "off"]))
        run(["ip", "-n", space, "link", "set", device, "up"])
    run(["ip", "-n", router, "link", "set", "far", "mtu", str(MTU)])
    run(["ip", "-n", FAR, "route", "add", "default", "via", "198.18.99.1"])
    run(["ip", "-n", FAR, "-6", "route", "add", "default", "via", "2001:2:0:99::1"])
    run(netns_exec(router, ["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]))


def _set_source(number: int) -> tuple[IPv4Address, IPv6Address]:
    """Give the far client addresses for which no server has learnt an MTU."""
    found = IPv4Address(f"198.18.99.{number}"), IPv6Address(f"2001:2:0:99::{number:x}")
    for address, bits in zip(found, (24, 64), strict=True):
        run(["ip", "-n", FAR, "addr", "add", f"{address}/{bits}", "dev", "eth0", *(["nodad"] if bits == 64 else [])])
    return found


def seconds(vip: str, source: object, *options: str) -> float | None:
    """How long a large answer takes; None where none comes within a second."""
    words = ["kdig", f"@{vip}", LARGE, "TXT", "+timeout=1", "+retry=0", "-b", str(source), *options]
    begun = time.monotonic()
    found = subprocess.run(netns_exec(FAR, words), capture_output=True, text=True, check=False, timeout=20)
    if "status: NOERROR" not in found.stdout:
        return None
    assert "ANSWER: 1" in found.stdout
    return time.monotonic() - begun


def copied() -> int:
    """Errors that the meter has let pass."""
    (number,) = (n for n, limited in limits_by_meter(COPIED.spec).items() if limited.kind == "errors")
    found = read_meter_counts(OpenFlow(f"unix:{names.RUN_DIR}/br-mtu.mgmt"))[number]
    return found.packets - found.dropped


RESPONDER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
own = socket.socket(family, socket.SOCK_DGRAM)
own.bind((sys.argv[1], 853))
while True:
    _, client = own.recvfrom(100)
    try:
        own.sendto(bytes(1400), client)
    except OSError:
        pass
"""
"""A server whose sockets are told nothing: Linux sets DF until it knows that the MTU of the path is smaller."""


@contextmanager
def responders(state: lab.LabState) -> Iterator[None]:
    """One on each server and address of the VIP."""
    spaces = {server.namespace for server in state.servers}
    words = [netns_exec(space, [sys.executable, "-c", RESPONDER, vip]) for space in spaces for vip in VIPS]
    running = [subprocess.Popen(each) for each in words]
    time.sleep(0.5)
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


ASKER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
own = socket.socket(family, socket.SOCK_DGRAM)
own.bind((sys.argv[2], 0))
own.settimeout(0.2)
for _ in range(3):
    own.sendto(b"?", (sys.argv[1], 853))
    try:
        print(len(own.recv(2000)))
    except TimeoutError:
        print(0)
"""


def sizes_over_udp(vip: str, source: object) -> list[str]:
    """Bytes of the answers to three queries of one socket; 0 where none came."""
    words = netns_exec(FAR, [sys.executable, "-c", ASKER, vip, str(source)])
    return run(words, timeout=20).split()


def test_large_answers_over_a_path_of_a_small_mtu(state: lab.LabState) -> None:
    sources = _set_source(10)
    apply_in_lab(DROPPED)
    without = {vip: seconds(vip, source, "+tcp") for vip, source in zip(VIPS, sources, strict=True)}
    assert without == dict.fromkeys(VIPS)
    sources = _set_source(11)  # servers still repeat what they sent to the one before, and learn from errors about it
    with responders(state):
        assert [sizes_over_udp(vip, source) for vip, source in zip(VIPS, sources, strict=True)] == [["0"] * 3] * 2
        apply_in_lab(COPIED)
        over_udp = [sizes_over_udp(vip, source) for vip, source in zip(VIPS, sources, strict=True)]
    assert over_udp == [["0", "1400", "1400"]] * 2  # the first is lost, and the error about it lets the others pass
    before = copied()
    found = {
        (vip, n): seconds(vip, source, "+tcp")
        for n in range(20, 24)  # several, so that both servers answer some of them
        for vip, source in zip(VIPS, _set_source(n), strict=True)
    }
    assert all(took is not None and took < 1 for took in found.values()), found
    assert copied() - before >= len(found)  # one for each client at least


def test_with_keep_errors_go_to_the_server_of_their_connection_alone(state: lab.LabState) -> None:
    apply_in_lab(KEPT)
    client = OpenFlow(f"unix:{names.RUN_DIR}/br-mtu.mgmt")
    before = count_errors(client)
    found = {
        (vip, n): seconds(vip, source, "+tcp")
        for n in range(30, 34)
        for vip, source in zip(VIPS, _set_source(n), strict=True)
    }
    assert all(took is not None and took < 1 for took in found.values()), found
    time.sleep(ROUND)
    after = count_errors(client)
    # Servers still repeat answers to clients of the test before, whose connections are not kept.
    assert after.one - before.one >= len(found) > after.each - before.each
