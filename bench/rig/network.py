# SPDX-License-Identifier: Apache-2.0
"""The network: a client, a balancer and four servers (NSD), each in a namespace of its own, joined by veth alone.

    client -- balancer -- server1 ... server4      each server on a link of its own: queries and answers take
         \\________________ server1                  the same hops whatever balances; the other link is for the control

Client and servers know the MAC addresses of the balancer, which are the same whatever balances: each can take another's
place. NSD's response rate limit is off.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from bench.hosts import Queries, Servers, build, inside, link, remove
from dnsteer.lab.command import program_environment
from dnsteer.lab.errors import LabCommandError
from dnsteer.lab.names import ZONE
from dnsteer.lab.traffic import LoadResult

SERVERS = 4
BALANCER_MAC, GATEWAY_MAC, CLIENT_MAC = "02:00:00:00:00:53", "02:00:00:00:00:52", "02:00:00:00:00:fe"
"""The balancer's to the client and to servers, and the client's."""
UPLINK, PORTS = "p0", [f"b{n}" for n in range(1, SERVERS + 1)]
"""The balancer's devices, to the client and to each server."""
_PATIENCE = 20.0
_CONNECTIONS = 9000
"""TCP connections that a server holds at once. Above half of them NSD hurries its clients."""


@dataclass(frozen=True)
class Family:
    """Addresses of one family. The *routed* prefix holds the VIP, and all of it comes to the balancer."""

    version: int
    vip: str
    routed: str
    client: str
    gateway: str
    servers: tuple[str, ...]
    direct: tuple[str, str]
    """Ends of the link without a balancer: the client's and the server's."""
    others: str
    """Further clients' addresses, which are the client's too."""
    bits: int
    """Length of an address."""

    def to(self, port: int) -> str:
        """The VIP with a port."""
        return f"[{self.vip}]:{port}" if self.version == 6 else f"{self.vip}:{port}"

    def clients(self, count: int) -> list[str]:
        """So many addresses of clients, each in a /24 or /56 of its own."""
        first, step = ip_network(self.others)[10], 1 << (8 if self.version == 4 else 72)
        return [str(first + n * step) for n in range(count)]


_NUMBERS = range(11, 11 + SERVERS)
FAMILIES = {
    4: Family(
        4,
        vip="192.0.2.53",
        routed="192.0.2.0/24",
        client="203.0.113.10",
        gateway="10.53.0.1",
        servers=tuple(f"10.53.0.{n}" for n in _NUMBERS),
        direct=("10.98.0.1", "10.98.0.2"),
        others="172.17.0.0/16",
        bits=32,
    ),
    6: Family(
        6,
        vip="2001:db8:53::53",
        routed="2001:db8:53::/64",
        client="2001:db8:ffff::10",
        gateway="2001:db8:10::1",
        servers=tuple(f"2001:db8:10::{n}" for n in _NUMBERS),
        direct=("2001:db8:98::1", "2001:db8:98::2"),
        others="2001:db8:c0::/48",
        bits=128,
    ),
}
_IPV6 = ("net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.default.accept_dad=0")


def server_mac(number: int) -> str:
    """The MAC address of a server, from 1."""
    return f"02:00:00:00:04:{number:02x}"


class Network:
    """All of it without what balances, as a context manager. Servers have the VIP too, and can answer as it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._servers: list[Servers] = []

    def __enter__(self) -> Network:
        try:
            self._build()
            for n in range(1, SERVERS + 1):
                own = self.folder / f"server{n}"
                own.mkdir()
                addresses = [f.servers[n - 1] for f in FAMILIES.values()]
                addresses += [f.direct[1] for f in FAMILIES.values()] if n == 1 else []
                addresses += [f.vip for f in FAMILIES.values()]
                self._servers.append(Servers(f"server{n}", own, f"server{n}", addresses, _CONNECTIONS))
                self._servers[-1].start()
            for family in FAMILIES.values():
                wait_for_answer(family.direct[1])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.kill()
        remove()

    def _build(self) -> None:
        numbers = range(1, SERVERS + 1)
        settings: dict[str, tuple[str, ...]] = {f"server{n}": _IPV6 for n in numbers}
        settings |= {"client": _IPV6, "balancer": ()}  # no IPv6 of the kernel beside a switch
        links = [link("client", "eth0", "balancer", UPLINK, CLIENT_MAC), link("client", "direct", "server1", "direct")]
        links += [link(f"server{n}", "eth0", "balancer", PORTS[n - 1], server_mac(n)) for n in numbers]
        addresses: dict[str, list[str]] = {name: [] for name in settings}
        for f in FAMILIES.values():
            net = 24 if f.version == 4 else 64
            addresses["client"] += [f"{f.client}/{f.bits} dev eth0", f"{f.direct[0]}/{net} dev direct"]
            addresses["server1"].append(f"{f.direct[1]}/{net} dev direct")
            for n in numbers:
                addresses[f"server{n}"].append(f"{f.servers[n - 1]}/{net} dev eth0")
        build(settings, links, addresses)
        for device in (UPLINK, *PORTS):
            mac = BALANCER_MAC if device == UPLINK else GATEWAY_MAC
            inside("balancer", "ip", "link", "set", device, "address", mac)
        for f in FAMILIES.values():
            inside("client", "ip", "route", "add", f.vip, "dev", "eth0", "src", f.client)
            inside("client", "ip", "route", "add", "local", f.others, "dev", "lo")
            neighbour("client", f.vip, "eth0", BALANCER_MAC)
            for n in numbers:
                neighbour(f"server{n}", f.gateway, "eth0", GATEWAY_MAC)
                inside(f"server{n}", "ip", "route", "add", "default", "via", f.gateway, "dev", "eth0")
                inside(f"server{n}", "ip", "route", "add", "local", f.vip, "dev", "lo")

    def ask(self, server: str, seconds: float, qps: int) -> Callable[[], dict[str, Any]]:
        """Queries of the client from one address (dnsperf). They begin at once; call it to wait for their figures."""
        queries = Queries("client", self.folder, server, seconds, qps, outstanding=20_000 if qps else 200)
        return lambda: figures(queries.result())


def neighbour(where: str, address: str, device: str, mac: str) -> None:
    """Say who has an address."""
    inside(where, "ip", "neigh", "replace", address, "lladdr", mac, "dev", device, "nud", "permanent")


def wait_for_answer(server: str, transport: str = "udp") -> None:
    """Wait until the client gets an answer over UDP or TCP. Raises RuntimeError where none comes for 20 s."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            inside(
                "client",
                "kdig",
                f"@{server}",
                ZONE,
                "SOA",
                "+timeout=1",
                "+retry=0",
                f"+{'no' if transport == 'udp' else ''}tcp",
            )
        except LabCommandError as err:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{server} does not answer after {_PATIENCE:g} s") from err
            time.sleep(0.1)
        else:
            return


def dropped() -> int:
    """Frames that the client's link has not delivered to the balancer, whose kernel had no place for them."""
    text = inside("client", "cat", "/sys/class/net/eth0/statistics/tx_dropped")
    return int(text)


def figures(found: LoadResult) -> dict[str, Any]:
    """What is reported of a load: answers a second, the share without an answer, and the mean latency of answers."""
    return {
        "qps": round(found.qps),
        "lost": round(found.lost / max(1, found.sent), 5),
        "latency_ms": round(found.latency * 1000, 3),
    }


def missing(programs: Sequence[str]) -> list[str]:
    """Those of *programs* that are not installed."""
    path = program_environment()["PATH"]
    return [name for name in programs if shutil.which(name, path=path) is None]
