# SPDX-License-Identifier: Apache-2.0
"""The network of one name server: the probe's namespace on one side, on the other side the Internet as a resolver sees it.

probe 10.53.0.9, 198.51.100.9 -- 10.53.0.53 server 192.31.196.2 -- 192.31.196.1 upstream (and the root's addresses)
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from dnsteer.lab.command import netns_exec, run

Result = TypeVar("Result")
PROBE, SERVER, UPSTREAM = "servers-probe", "servers-server", "servers-upstream"
ADDRESS = "10.53.0.53"
"""The server's."""
NEAR, FAR = "10.53.0.9", "198.51.100.9"
"""Addresses of the probe: in the server's network, and in another one, which no server allows by default."""
NETWORK = "10.53.0.0/24"
GATEWAY, OUTSIDE = "192.31.196.1", "192.31.196.2"
"""Upstream's address and the server's on the link between them, of a network that resolvers do not avoid."""
FORWARDER = "192.31.196.3"
"""A resolver upstream, for servers that only forward."""
PRIMARY = "192.31.196.4"
"""Where secondaries get their zone from."""
_HINTS = Path("/usr/share/dns/root.hints")
_CLONE_NEWNET = 0x40000000

_SETUP = {
    PROBE: f"""\
link set lo up
link set eth0 up
address add {NEAR}/24 dev eth0
address add {FAR}/32 dev lo
""",
    SERVER: f"""\
link set lo up
link set eth0 up
address add {ADDRESS}/24 dev eth0
route add {FAR} via {NEAR} dev eth0
""",
    UPSTREAM: f"""\
link set lo up
link add up0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
link set up0 up
address add {GATEWAY}/24 dev up0
address add {FORWARDER}/24 dev up0
address add {PRIMARY}/24 dev up0
""",
}


def root_addresses() -> dict[str, str]:
    """The IPv4 addresses of the root's servers, by their names, from the hints that Debian ships."""
    lines = (line.split() for line in _HINTS.read_text(encoding="ascii").splitlines())
    return {words[0].lower(): words[3] for words in lines if len(words) == 4 and words[2] == "A"}


@contextmanager
def namespaces(*spaces: str) -> Iterator[None]:
    """Namespaces, which are deleted at the end."""
    try:
        run(["ip", "-batch", "-"], stdin="".join(f"netns add {space}\n" for space in spaces))
        yield
    finally:
        for space in spaces:
            if Path("/run/netns", space).exists():
                run(["ip", "netns", "delete", space])


@contextmanager
def network() -> Iterator[None]:
    """The three namespaces and their links."""
    with namespaces(PROBE, SERVER), upstream_network():
        run(["ip", "link", "add", "eth0", "netns", PROBE, "type", "veth", "peer", "name", "eth0", "netns", SERVER])
        for space in (PROBE, SERVER):
            run(["ip", "-n", space, "-batch", "-"], stdin=_SETUP[space])
        # By default the kernel reports one closed port a second.
        run(netns_exec(SERVER, ["sysctl", "-qw", "net.ipv4.icmp_ratelimit=0"]))
        attach(SERVER, OUTSIDE)
        yield


@contextmanager
def upstream_network() -> Iterator[None]:
    """The namespace upstream, with the addresses of the root's servers."""
    with namespaces(UPSTREAM):
        run(["ip", "-n", UPSTREAM, "-batch", "-"], stdin=_SETUP[UPSTREAM])
        addresses = (f"address add {address}/32 dev lo\n" for address in root_addresses().values())
        run(["ip", "-n", UPSTREAM, "-batch", "-"], stdin="".join(addresses))
        yield


def attach(space: str, address: str) -> None:
    """Join a server's namespace to upstream, by an address there and the default route."""
    device = f"u{address.rpartition('.')[2]}"
    run(["ip", "link", "add", "up0", "netns", space, "type", "veth", "peer", "name", device, "netns", UPSTREAM])
    run(["ip", "-n", UPSTREAM, "link", "set", device, "master", "up0", "up"])
    run(["ip", "-n", space, "address", "add", f"{address}/24", "dev", "up0"])
    set_upstream("works", space, address)


def set_upstream(state: str, space: str = SERVER, address: str = OUTSIDE) -> None:
    """Let a resolver reach the root (`works`), have the root's answers lost (`dropped`), or take its link away (`none`)."""
    run(["ip", "-n", UPSTREAM, "route", "flush", address, "type", "blackhole"])
    if state == "dropped":
        run(["ip", "-n", UPSTREAM, "route", "add", "blackhole", address])
    run(["ip", "-n", space, "link", "set", "up0", "down" if state == "none" else "up"])
    if state != "none":
        run(["ip", "-n", space, "route", "replace", "default", "via", GATEWAY])


def probe_from(address: str) -> None:
    """Have probes come from one of the probe's addresses."""
    run(["ip", "-n", PROBE, "route", "replace", ADDRESS, "dev", "eth0", "src", address])


def inside(space: str, do: Callable[[], Result]) -> Result:
    """What *do* returns, done by a thread whose sockets are in a namespace."""
    found: list[Result] = []
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            handle = os.open(f"/run/netns/{space}", os.O_RDONLY)
            try:
                if libc.setns(handle, _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), f"setns {space}")
            finally:
                os.close(handle)
            found.append(do())
        except BaseException as error:  # noqa: BLE001  # raised again below, in the thread that asked
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
