# SPDX-License-Identifier: Apache-2.0
"""The program that takes the outer header off on name servers, on real devices: native and generic XDP."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from ipaddress import ip_address
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import ICMPv6ND_RA, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, GRE, Dot1Q
from scapy.packet import Raw

from dnsteer.lab import command, decap
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.errors import LabCommandError, MissingProgramError
from tests.system.decap_net import Net, Tap, build_network, echo_tcp, echo_udp, end, tunnel_device, within, xdp_mode
from tests.system.tunnel_frames import (
    BALANCER,
    BALANCER_MAC,
    CLIENT,
    ETHERNET,
    FAMILIES,
    REMOTES,
    SERVER,
    SERVER_MAC,
    TAKEN_OFF,
    VIP,
    changed,
    ethernet,
    ip,
    outer,
    query,
    resummed,
    tunneled,
    without_outer,
)

pytestmark = pytest.mark.system
root = pytest.mark.root("network namespaces, raw sockets and XDP")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("decap") / "decap.o"
    decap.build(target)
    return target


@pytest.fixture(scope="module", params=["native", "generic"])
def net(request: pytest.FixtureRequest, program: Path) -> Iterator[Net]:
    names = [f"decap-{part}-{os.getpid()}" for part in ("server", "wire", "client")]
    with ExitStack() as stack:
        for name in names:
            stack.callback(subprocess.run, ["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)
        build_network(*names)
        server = names[0]
        for family, version in ((socket.AF_INET, 4), (socket.AF_INET6, 6)):
            with within(server):
                udp, tcp = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_STREAM)
            for sock, serve in ((udp, echo_udp), (tcp, echo_tcp)):
                sock.bind((VIP[version], 53))
                stack.callback(end, sock)
                threading.Thread(target=serve, args=[sock], daemon=True).start()
        if request.param == "native":
            decap.attach(server, "eth0", program, remotes=REMOTES)
        else:
            run(
                netns_exec(
                    server, ["ip", "link", "set", "dev", "eth0", "xdpgeneric", "obj", str(program), "sec", "xdp"]
                )
            )
        network = Net(server, names[2], Tap(names[1]), Tap(server))
        if request.param == "generic":
            options = [word for remote in REMOTES for word in ("--remote", remote)]
            network.control("allow", "eth0", *options)
        assert xdp_mode(server) == {"native": 1, "generic": 2}[request.param]
        yield network
        network.wire.socket.close()
        network.arrived.socket.close()


@pytest.fixture
def quiet(net: Net) -> Net:
    """The network with nothing under way."""
    time.sleep(0.05)
    net.arrived.empty()
    net.wire.empty()
    return net


@root
@pytest.mark.parametrize("size", [0, 1, 12, 512, 1400])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_query_in_a_tunnel_is_answered_without_one(quiet: Net, family: str, size: int) -> None:
    inner, _ = FAMILIES[family]
    payload = bytes(i % 251 for i in range(size))
    frame = tunneled(family, payload)
    before = quiet.counts()
    assert quiet.through(frame) == without_outer(frame, family)
    port = ETHERNET + (20 if inner == 4 else 40) + 2  # others are what hosts say of themselves
    answer = quiet.wire.receive(lambda f: f[port : port + 2] == (40001).to_bytes(2, "big"))
    assert answer[:6].hex(":") == BALANCER_MAC and answer[6:12].hex(":") == SERVER_MAC
    assert answer[12:14] == (b"\x08\x00" if inner == 4 else b"\x86\xdd")
    header = IP(answer[ETHERNET:]) if inner == 4 else IPv6(answer[ETHERNET:])
    assert (header.src, header.dst) == (VIP[inner], CLIENT[inner])
    segment = UDP(sport=53, dport=40001) / Raw(payload)
    expected = bytes(ip(inner, VIP[inner], CLIENT[inner]) / segment)[-8 - size :]  # with its checksum
    assert answer[ETHERNET + (20 if inner == 4 else 40) :] == expected
    assert quiet.counted(before) == {family: 1}


def accepted() -> dict[str, tuple[str, bytes]]:
    """Frames that are unusual, and yet to be taken off: family and frame."""
    padded = tunneled("4in4")
    return {
        "from the first of the prefix": ("4in4", tunneled("4in4", src="192.0.2.0")),
        "from the last of the prefix": ("4in4", tunneled("4in4", src="192.0.2.7")),
        "from the last of the IPv6 prefix": ("6in6", tunneled("6in6", src="2001:db8::7")),
        "reserved bit, DF, DSCP, last hop": ("6in4", tunneled("6in4", flags=6, tos=0xB8, ttl=1)),
        "flow label, traffic class, last hop": ("4in6", tunneled("4in6", fl=0x12345, tc=0xB8, hlim=1)),
        "padded after the outer packet": ("4in4", padded + bytes(9)),
        "padded within the outer packet": ("6in6", bytes(ethernet() / outer(6, 6) / query(6) / Raw(bytes(5)))),
        "options in the inner header": (
            "4in6",
            bytes(ethernet() / outer(4, 6) / query(4, options=[IPOption_NOP()] * 8)),
        ),
        "TCP": ("6in4", bytes(ethernet() / outer(6, 4) / ip(6, CLIENT[6], VIP[6]) / TCP(dport=5353, flags="R"))),
    }


@root
@pytest.mark.parametrize("name", accepted())
def test_tunnels_for_own_vips_are_decapsulated(quiet: Net, name: str) -> None:
    family, frame = accepted()[name]
    before = quiet.counts()
    assert quiet.through(frame) == without_outer(frame, family)
    assert quiet.counted(before) == {family: 1}


@cache
def left_alone() -> dict[str, tuple[str, bytes]]:
    """Frames that go up as they came: what they count as, and the frame."""
    four, six = tunneled("4in4"), tunneled("6in6")
    at4, at6 = ETHERNET + 20, ETHERNET + 40  # the inner header
    fragment, options = IPv6ExtHdrFragment(nh=41, m=1), IPv6ExtHdrDestOpt(nh=41)
    to4, to6 = ip(4, CLIENT[4], VIP[4]), ip(6, CLIENT[6], VIP[6])
    return {
        "no tunnel, IPv4": ("passed", bytes(ethernet() / query(4))),
        "no tunnel, IPv6": ("passed", bytes(ethernet() / query(6))),
        "ARP": ("passed", bytes(ethernet() / ARP(op=2, psrc=BALANCER[4], pdst=SERVER[4]))),
        "GRE": ("passed", bytes(ethernet() / ip(4, BALANCER[4], SERVER[4], proto=47) / GRE() / query(4))),
        "unknown type": ("passed", bytes(ethernet())[:12] + b"\x88\xb5" + bytes(46)),
        "an Ethernet header only": ("passed", four[:ETHERNET]),
        "less than an IPv4 header": ("passed", four[: ETHERNET + 19]),
        "less than an IPv6 header": ("passed", six[: ETHERNET + 39]),
        "outer IPv6 fragment": ("passed", bytes(ethernet() / outer(6, 6, nh=44) / fragment / query(6))),
        "outer destination options": ("passed", bytes(ethernet() / outer(6, 6, nh=60) / options / query(6))),
        "outer IPv4 checksum": ("malformed", changed(four, ETHERNET + 10, bytes([four[ETHERNET + 10] ^ 1]))),
        "outer IPv4 version": ("malformed", resummed(changed(four, ETHERNET, b"\x55"))),
        "outer IPv4 header length": ("malformed", resummed(changed(four, ETHERNET, b"\x44"))),
        "outer IPv4 longer than the frame": ("malformed", bytes(ethernet() / outer(4, 4, len=57) / query(4))),
        "outer IPv4 shorter than its header": ("malformed", bytes(ethernet() / outer(4, 4, len=19) / query(4))),
        "outer IPv4 with nothing in it": ("malformed", bytes(ethernet() / outer(4, 4))),
        "outer IPv6 version": ("malformed", changed(six, ETHERNET, b"\x40")),
        "outer IPv6 longer than the frame": ("malformed", bytes(ethernet() / outer(6, 6, plen=57) / query(6))),
        "outer IPv6 jumbogram": ("malformed", bytes(ethernet() / outer(6, 6, plen=0) / query(6))),
        "inner IPv4 cut": ("malformed", bytes(ethernet() / outer(4, 4) / Raw(bytes(to4)[:19]))),
        "inner IPv6 cut": ("malformed", bytes(ethernet() / outer(6, 6) / Raw(bytes(to6)[:39]))),
        "inner IPv4 is IPv6": ("malformed", bytes(ethernet() / outer(4, 4) / query(6))),
        "inner IPv6 is IPv4": ("malformed", bytes(ethernet() / outer(6, 4) / query(4, bytes(40)))),
        "inner IPv4 version": ("malformed", changed(four, at4, b"\x65")),
        "inner IPv6 version": ("malformed", changed(six, at6, b"\x70")),
        "inner IPv4 header length": ("malformed", changed(four, at4, b"\x44")),
        "inner IPv4 header longer than its packet": (
            "malformed",
            changed(bytes(ethernet() / outer(4, 4) / to4), at4, b"\x46"),
        ),
        "inner IPv4 longer than the outer": ("malformed", bytes(ethernet() / outer(4, 4) / query(4, len=37))),
        "inner IPv6 longer than the outer": ("malformed", changed(six, at6 + 4, b"\xff\xff")),
        "outer IPv4 options": ("unsupported", bytes(ethernet() / outer(4, 4, options=[IPOption_NOP()] * 4) / query(4))),
        "first outer fragment": ("unsupported", bytes(ethernet() / outer(4, 4, flags="MF") / query(4))),
        "later outer fragment": ("unsupported", bytes(ethernet() / outer(4, 4, frag=8191) / query(4))),
        "first inner fragment": ("unsupported", bytes(ethernet() / outer(4, 4) / query(4, flags="MF"))),
        "later inner fragment": ("unsupported", bytes(ethernet() / outer(4, 4) / query(4, frag=1))),
        "inner IPv6 fragment": ("unsupported", bytes(ethernet() / outer(6, 6) / to6 / IPv6ExtHdrFragment(m=1) / UDP())),
        "inner IPv6 options": ("unsupported", bytes(ethernet() / outer(6, 6) / to6 / IPv6ExtHdrHopByHop() / UDP())),
        "inner ICMP": ("unsupported", bytes(ethernet() / outer(4, 4) / to4 / ICMP())),
        "inner router advertisement": (
            "unsupported",
            bytes(ethernet() / outer(6, 4) / ip(6, "fe80::1", VIP[6], hlim=255) / ICMPv6ND_RA()),
        ),
        "a tunnel in a tunnel": ("unsupported", bytes(ethernet() / outer(4, 4) / outer(4, 4) / query(4))),
        "to everyone's MAC": ("unsupported", changed(four, 0, b"\xff" * 6)),
        "to a group's MAC": ("unsupported", changed(six, 0, bytes.fromhex("333300000001"))),
        "below the prefix": ("no_tunnel", tunneled("4in4", src="192.0.1.255")),
        "above the prefix": ("no_tunnel", tunneled("4in4", src="192.0.2.8")),
        "above the IPv6 prefix": ("no_tunnel", tunneled("6in6", src="2001:db8::8")),
        "to another IPv4 address": ("no_tunnel", tunneled("4in4", dst="192.0.2.12")),
        "to another IPv6 address": ("no_tunnel", tunneled("4in6", dst="2001:db8::12")),
        "to the VIP itself": ("no_tunnel", tunneled("4in4", dst=VIP[4])),
        "IPv4 addresses mapped into IPv6": (
            "no_tunnel",
            tunneled("4in6", src=f"::ffff:{BALANCER[4]}", dst=f"::ffff:{SERVER[4]}"),
        ),
        "IPv4 addresses in IPv6's first bits": (
            "no_tunnel",
            tunneled("4in6", src=in_ipv6(BALANCER[4]), dst=in_ipv6(SERVER[4])),
        ),
        "inner IPv4 to the server's own address": (
            "no_vip",
            bytes(ethernet() / outer(4, 4) / ip(4, CLIENT[4], SERVER[4]) / UDP()),
        ),
        "inner IPv6 to the server's own address": (
            "no_vip",
            bytes(ethernet() / outer(6, 6) / ip(6, CLIENT[6], SERVER[6]) / UDP()),
        ),
        "inner broadcast": ("no_vip", bytes(ethernet() / outer(4, 4) / ip(4, CLIENT[4], "255.255.255.255") / UDP())),
        "inner multicast": ("no_vip", bytes(ethernet() / outer(6, 6) / ip(6, "fe80::1", "ff02::1:2") / UDP())),
        "inner loopback": ("no_vip", bytes(ethernet() / outer(4, 4) / ip(4, "127.0.0.1", "127.0.0.1") / UDP())),
    }


def in_ipv6(address: str) -> str:
    """How the lists hold an IPv4 address, read as an IPv6 address."""
    return str(ip_address(ip_address(address).packed + bytes(12)))


@root
@pytest.mark.parametrize("name", left_alone())
def test_other_packets_are_left_alone(quiet: Net, name: str) -> None:
    outcome, frame = left_alone()[name]
    before = quiet.counts()
    assert quiet.through(frame) == frame
    assert quiet.counted(before) == {outcome: 1}


@root
def test_a_vlan_tag_is_left_alone(quiet: Net) -> None:
    frame = bytes(ethernet() / Dot1Q(vlan=5) / outer(4, 4) / query(4))
    before = quiet.counts()
    # The kernel takes the tag off before it shows the frame to anybody.
    assert quiet.through(frame) in (frame, frame[:12] + frame[16:])
    assert quiet.counted(before) == {"passed": 1}


@root
@pytest.mark.parametrize("family", FAMILIES)
def test_packets_cut_at_any_byte_are_left_alone(quiet: Net, family: str) -> None:
    frame = tunneled(family)
    before = quiet.counts()
    for length in range(ETHERNET, len(frame)):
        assert quiet.through(frame[:length]) == frame[:length]
    counted = quiet.counted(before)
    assert set(counted) == {"passed", "malformed"} and sum(counted.values()) == len(frame) - ETHERNET


@root
def test_randomly_damaged_packets_lose_at_most_one_header(quiet: Net) -> None:
    """Whatever comes, it goes up as it was or without exactly one outer header, and is counted once."""
    dice = random.Random(4)
    before, taken = quiet.counts(), dict.fromkeys(TAKEN_OFF, 0)
    sent = 0
    while sent < 4000:
        family = dice.choice(TAKEN_OFF)
        damaged = bytearray(
            tunneled(family, bytes(dice.randrange(40)), ttl=9)
            if FAMILIES[family][1] == 4
            else tunneled(family, bytes(dice.randrange(40)))
        )
        for _ in range(dice.choice((0, 1, 1, 2, 5))):
            damaged[dice.randrange(12, len(damaged))] = dice.randrange(256)
        frame = bytes(damaged[: dice.choice((len(damaged), dice.randrange(ETHERNET, len(damaged) + 1)))])
        if frame[12:14] in (b"\x81\x00", b"\x88\xa8"):  # see test_a_vlan_tag_is_left_alone
            continue
        if dice.random() < 0.5 and frame[12:15] == b"\x08\x00\x45" and len(frame) >= ETHERNET + 20:
            frame = resummed(frame)  # so that what is behind the checksum is reached
        got, sent = quiet.through(frame), sent + 1
        if got != frame:
            (found,) = [f for f in TAKEN_OFF if got == without_outer(frame, f)]
            taken[found] += 1
    counted = quiet.counted(before)
    assert {name: counted.get(name, 0) for name in TAKEN_OFF} == taken
    assert all(n > 100 for n in taken.values())
    assert sum(counted.values()) == sent


@root
@pytest.mark.parametrize("family", FAMILIES)
def test_tcp_passes_through_tunnels(quiet: Net, family: str) -> None:
    inner, _ = FAMILIES[family]
    sent, got = random.Random(1).randbytes(300_000), bytearray()
    before = quiet.counts()
    with tunnel_device(quiet, family):
        with within(quiet.client):
            connection = socket.socket(socket.AF_INET if inner == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        with connection:
            connection.settimeout(20)
            connection.connect((VIP[inner], 53))
            writer = threading.Thread(target=lambda: (connection.sendall(sent), connection.shutdown(socket.SHUT_WR)))
            writer.start()
            while data := connection.recv(65536):
                got += data
            writer.join()
    assert bytes(got) == sent
    assert quiet.counted(before).get(family, 0) > 200


@root
def test_the_lists_of_vips_and_tunnels_can_be_set(quiet: Net) -> None:
    """They become what was asked for last; the defaults are the addresses of eth0 and lo."""
    shown = json.loads(quiet.control("show", "eth0"))
    assert shown["vips"] == sorted(VIP.values())
    assert shown["tunnels"] == [{"local": SERVER[v], "remote": REMOTES[i]} for i, v in enumerate((4, 6))]
    frame = tunneled("4in4")
    try:
        quiet.control("allow", "eth0", "--remote", "192.0.2.9/32", "--remote", "192.0.2.10", "--vip", VIP[4])
        assert quiet.through(frame) == frame
        quiet.control("allow", "eth0", "--remote", BALANCER[4], "--vip", VIP[6])
        assert quiet.through(frame) == frame
        quiet.control("allow", "eth0", "--remote", "0.0.0.0/0", "--local", SERVER[4], "--vip", VIP[4])
        assert quiet.through(frame) == without_outer(frame, "4in4")
        assert json.loads(quiet.control("show", "eth0"))["tunnels"] == [{"local": SERVER[4], "remote": "0.0.0.0/0"}]
    finally:
        quiet.control("allow", "eth0", *(word for remote in REMOTES for word in ("--remote", remote)))
    assert json.loads(quiet.control("show", "eth0"))["tunnels"] == shown["tunnels"]


@root
def test_decapctl_names_wrong_arguments(quiet: Net) -> None:
    with pytest.raises(
        LabCommandError, match=r"lo has no decapsulation program: ip link set dev lo xdp obj decap.o sec xdp"
    ):
        quiet.control("show", "lo")
    with pytest.raises(LabCommandError, match='Device "eth9" does not exist'):
        quiet.control("show", "eth9")
    with pytest.raises(LabCommandError, match="eth0 has no address of the remotes' IP version"):
        quiet.control("allow", "eth0", "--remote", "2001:db8::/64", "--local", SERVER[4])
    with pytest.raises(LabCommandError, match=r"invalid ip_network value: '192\.0\.2\.1/24'"):
        quiet.control("allow", "eth0", "--remote", "192.0.2.1/24")


@root
def test_a_new_attachment_takes_nothing_until_configured(quiet: Net, program: Path) -> None:
    mode = {1: "xdpdrv", 2: "xdpgeneric"}[
        json.loads(run(["ip", "-j", "-n", quiet.server, "link", "show", "eth0"]))[0]["xdp"]["mode"]
    ]
    frame = tunneled("6in4")
    run(
        netns_exec(
            quiet.server, ["ip", "-force", "link", "set", "dev", "eth0", mode, "obj", str(program), "sec", "xdp"]
        )
    )
    try:
        assert quiet.through(frame) == frame
        assert quiet.counts()["no_tunnel"] == 1
    finally:
        quiet.control("allow", "eth0", *(word for remote in REMOTES for word in ("--remote", remote)))
    assert quiet.through(frame) == without_outer(frame, "6in4")


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "clang"
    compiler.write_text("#!/bin/sh\necho \"x.c:3:10: fatal error: 'bpf/bpf_helpers.h' file not found\" >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(MissingProgramError, match=r"missing bpf/bpf_helpers\.h: apt-get install libbpf-dev"):
        decap.build(tmp_path / "decap.o")
    monkeypatch.setattr(command, "_SBIN", ())
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingProgramError, match="missing clang: apt-get install clang"):
        decap.build(tmp_path / "decap.o")
