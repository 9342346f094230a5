"""The network of one name server: the probe's namespace on one side, on the other side the Internet as a resolver sees it.

    probe 10.53.0.9, 198.51.100.9 -- 10.53.0.53 server 198.18.0.2 -- 198.18.0.1 upstream (and the root's addresses)
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
GATEWAY, OUTSIDE = "198.18.0.1", "198.18.0.2"
"""Upstream's address and the server's on the link between them, of a network that resolvers do not avoid."""
FORWARDER = "198.18.0.3"
"""A resolver upstream, for servers that only forward."""
PRIMARY = "198.18.0.4"
"""Where secondaries get their zone from."""
_HINTS = Path("/usr/share/dns/root.hints")
_CLONE_NEWNET = 0x40000000

_LINES = f"""\
link add eth0 netns {PROBE} type veth peer name eth0 netns {SERVER}
link add up0 netns {SERVER} type veth peer name up0 netns {UPSTREAM}
"""
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
link set up0 up
address add {ADDRESS}/24 dev eth0
address add {OUTSIDE}/24 dev up0
route add {FAR} via {NEAR} dev eth0
""",
    UPSTREAM: f"""\
link set lo up
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
def network() -> Iterator[None]:
    """The three namespaces and their links."""
    spaces = (PROBE, SERVER, UPSTREAM)
    try:
        run(["ip", "-batch", "-"], stdin="".join(f"netns add {space}\n" for space in spaces))
        run(["ip", "-batch", "-"], stdin=_LINES)
        for space in spaces:
            run(["ip", "-n", space, "-batch", "-"], stdin=_SETUP[space])
        addresses = (f"address add {address}/32 dev lo\n" for address in root_addresses().values())
        run(["ip", "-n", UPSTREAM, "-batch", "-"], stdin="".join(addresses))
        # By default the kernel reports one closed port a second.
        run(netns_exec(SERVER, ["sysctl", "-qw", "net.ipv4.icmp_ratelimit=0"]))
        set_upstream("works")
        yield
    finally:
        for space in spaces:
            if Path("/run/netns", space).exists():
                run(["ip", "netns", "delete", space])


def set_upstream(state: str) -> None:
    """Let resolvers reach the root (`works`), have its answers lost (`dropped`), or take the link to it away (`none`)."""
    run(["ip", "-n", UPSTREAM, "route", "flush", OUTSIDE, "type", "blackhole"])
    if state == "dropped":
        run(["ip", "-n", UPSTREAM, "route", "add", "blackhole", OUTSIDE])
    run(["ip", "-n", SERVER, "link", "set", "up0", "down" if state == "none" else "up"])
    if state != "none":
        run(["ip", "-n", SERVER, "route", "replace", "default", "via", GATEWAY])


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
