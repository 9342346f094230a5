# SPDX-License-Identifier: Apache-2.0
"""A name server in a namespace of its own, and the wire to it, which is a raw socket."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from scapy.packet import Raw

from dnsteer.lab import decap
from dnsteer.lab.command import netns_exec, run
from tests.system.tunnel_frames import (
    BALANCER,
    BALANCER_MAC,
    CLIENT,
    ETHERNET,
    FAMILIES,
    SERVER,
    SERVER_MAC,
    VIP,
    ethernet,
    outer,
)

_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def within(namespace: str) -> Iterator[None]:
    """This thread's new sockets are in *namespace*; they stay there afterwards."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        assert _LIBC.setns(there, 0x40000000) == 0
        yield
    finally:
        assert _LIBC.setns(home, 0x40000000) == 0
        os.close(there)
        os.close(home)


class Tap:
    """Whole frames of a device: sent, and received by it."""

    def __init__(self, namespace: str, device: str = "eth0") -> None:
        with within(namespace):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.socket.bind((device, 3))

    def send(self, frame: bytes) -> None:
        self.socket.send(frame)

    def receive(self, wanted: Callable[[bytes], bool] = lambda _: True, timeout: float = 3) -> bytes:
        deadline = time.monotonic() + timeout
        while True:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            frame, address = self.socket.recvfrom(65536)
            if address[2] != socket.PACKET_OUTGOING and wanted(frame):
                return frame

    def empty(self) -> None:
        self.socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                self.socket.recv(65536)


def echo_udp(sock: socket.socket) -> None:
    with suppress(OSError):
        while (received := sock.recvfrom(65536))[1]:  # there is no client when it was shut down
            sock.sendto(*received)


def echo_tcp(listener: socket.socket) -> None:
    listener.listen()
    with suppress(OSError):
        while True:
            with listener.accept()[0] as connection:
                while data := connection.recv(65536):
                    connection.sendall(data)


def end(sock: socket.socket) -> None:
    with suppress(OSError):  # a socket without a peer still wakes up
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _descriptors() -> set[int]:
    """Those that are open; not the one by which they are listed."""
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}  # noqa: PTH208, PTH110


@cache
def _decapctl() -> Any:
    spec = spec_from_file_location("decapctl", decap.sources_dir() / "decapctl.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Net:
    server: str
    client: str
    wire: Tap  # sends to the server, receives its answers
    arrived: Tap  # what the server's kernel got from the device

    def control(self, *arguments: str) -> str:
        tool = decap.sources_dir() / "decapctl.py"
        return run(netns_exec(self.server, [sys.executable, str(tool), *arguments]))

    def counts(self) -> dict[str, int]:
        """As `decapctl show` prints them, without a start of Python for each."""
        before = _descriptors()
        with within(self.server):
            shown: dict[str, int] = _decapctl().state("eth0")["packets"]
        for descriptor in _descriptors() - before:  # of its maps, which end with the command otherwise
            os.close(descriptor)
        return shown

    def counted(self, before: dict[str, int]) -> dict[str, int]:
        return {name: n - before[name] for name, n in self.counts().items() if n != before[name]}

    def through(self, frame: bytes) -> bytes:
        self.wire.send(frame)
        return self.arrived.receive()


def build_network(server: str, wire: str, client: str) -> None:
    for space in (server, wire, client):
        run(["ip", "netns", "add", space])
        run(["ip", "-n", space, "link", "set", "lo", "up"])
    for space in (wire, client):  # nothing comes from these but what the tests send
        run(
            netns_exec(
                space, ["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]
            )
        )
    run(["ip", "-n", server, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", wire])
    run(netns_exec(server, ["sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.eth0.rp_filter=1"]))
    run(["ip", "-n", server, "link", "set", "eth0", "address", SERVER_MAC])
    run(["ip", "-n", wire, "link", "set", "eth0", "address", BALANCER_MAC])
    for space in (server, wire):
        run(netns_exec(space, ["ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off", "gro", "off"]))
    run(["ip", "-n", wire, "link", "set", "eth0", "up"])
    for version, length in ((4, 24), (6, 64)):
        run(
            [
                "ip",
                "-n",
                server,
                "address",
                "add",
                f"{SERVER[version]}/{length}",
                "dev",
                "eth0",
                *(["nodad"] if version == 6 else []),
            ]
        )
        # Without nodad an IPv6 address is tentative for a moment, on the loopback too, and nobody can bind it.
        run(["ip", "-n", server, "address", "add", VIP[version], "dev", "lo", *(["nodad"] if version == 6 else [])])
    run(["ip", "-n", server, "link", "set", "eth0", "up"])
    for version in (4, 6):
        run(["ip", "-n", server, "neighbor", "add", BALANCER[version], "lladdr", BALANCER_MAC, "dev", "eth0"])
        run(["ip", "-n", server, f"-{version}", "route", "add", "default", "via", BALANCER[version]])


def xdp_mode(server: str) -> int:
    shown = json.loads(run(["ip", "-j", "-n", server, "link", "show", "eth0"]))
    return int(shown[0]["xdp"]["mode"])


@contextmanager
def tunnel_device(net: Net, family: str) -> Iterator[None]:
    """The client's network device, whose packets go to the server in tunnels; answers come as they are."""
    inner, version = FAMILIES[family]
    head = bytes(ethernet())[:12] + (b"\x08\x00" if version == 4 else b"\x86\xdd")
    stop = threading.Event()
    with within(net.client):
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(
            device, 0x400454CA, struct.pack("16sH22x", b"tun0", 0x1001)
        )  # TUNSETIFF, without packet information
    run(netns_exec(net.client, ["sysctl", "-qw", "net.ipv6.conf.tun0.disable_ipv6=0"]))
    run(["ip", "-n", net.client, "link", "set", "tun0", "mtu", "1460", "up"])
    length, nodad = ("32", []) if inner == 4 else ("128", ["nodad"])
    run(["ip", "-n", net.client, "address", "add", f"{CLIENT[inner]}/{length}", "dev", "tun0", *nodad])
    run(["ip", "-n", net.client, "route", "add", VIP[inner], "dev", "tun0"])

    def out() -> None:
        while not stop.is_set():
            with suppress(BlockingIOError):
                packet = os.read(device, 65536)
                if packet[0] >> 4 == inner:  # the device's own neighbour discovery is not for the server
                    net.wire.socket.send(head + bytes(outer(inner, version) / Raw(packet)))
                continue
            time.sleep(0.0005)

    def back() -> None:
        kind = b"\x08\x00" if inner == 4 else b"\x86\xdd"
        while not stop.is_set():
            with suppress(TimeoutError, BlockingIOError):
                os.write(device, net.wire.receive(lambda f: f[12:14] == kind, timeout=0.2)[ETHERNET:])

    threads = [threading.Thread(target=part) for part in (out, back)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        os.close(device)
