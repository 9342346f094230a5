# SPDX-License-Identifier: Apache-2.0
"""A router or a backend that is replaced: what clients lose until the agent has followed its MAC address.

A client behind a router asks VIPs behind a switch whose spec gives the router and a backend by address alone. Then one of
them gets another MAC address at the same IP address, with gratuitous ARP (and unsolicited advertisements), or silently.
Prints JSON: the seconds until the record has the new MAC address, and the queries that were lost, over some repetitions.
`--fixed` gives fixed MAC addresses instead: all is lost until somebody changes the spec. Needs root, NSD, dnsperf, kdig,
Open vSwitch.

python -m bench.neighbors [--repeat 5] [--qps 500] [--seconds 6] [--only WORDS]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.events import SETTLE, parser, repeated, report, watching
from bench.hosts import Queries, Servers, SwitchHost, build, inside, link, remove, space
from dnsteer.lab.command import netns_exec, program_environment

NAT, DSR, NAT6 = "203.0.113.53", "203.0.113.54", "2001:db8:f::53"
ROUTER, ROUTER6, BACKEND = "198.51.100.1", "fe80::1", "192.0.2.12"
_MACS = {"router": "02:00:00:00:30:01", "server2": "02:00:00:00:20:02"}
SPEC = f"""\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:01:53
  gateways: [192.0.2.1, "2001:db8:53::1"]
  probe: {{addresses: [192.0.2.9/24, 198.51.100.9/24, "2001:db8:53::9/64"]}}
  uplinks:
    p0: {{next_hop: {{ipv4: {ROUTER}, ipv6: "{ROUTER6}"}}}}
pools:
  one:
    slots: 16
    health: {{query: {{name: dnsteer.test}}}}
    backends:
      - {{name: a, ipv4: 192.0.2.11, ipv6: "2001:db8:53::11", mac: "02:00:00:00:20:01"}}
  two:
    slots: 16
    health: {{query: {{name: dnsteer.test}}}}
    backends:
      - {{name: b, ipv4: {BACKEND}, mac: auto}}
vips:
  nat: {{addresses: [{NAT}, "{NAT6}"], services: [dns], pool: one, forwarding: nat}}
  dsr: {{addresses: [{DSR}], services: [dns], pool: two}}
"""
PAUSE = 16.0
"""Seconds between two repetitions: the agent makes three changes of a neighbour in a minute, and then waits."""
_FORWARDS = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
_IPV6 = ("net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.default.accept_dad=0")
_SERVER = ("net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")


class Site:
    """A client, its router, a switch with an agent, and two servers on one network, as a context manager."""

    def __init__(self, folder: Path, spec: str = SPEC, *, agent: bool = True) -> None:
        self.folder, self.spec, self.with_agent = folder, spec, agent
        self.switch = SwitchHost("switch", folder)
        own = {"server1": ["192.0.2.11", "2001:db8:53::11"], "server2": [BACKEND, DSR]}
        self.servers = []
        for name, addresses in own.items():
            (folder / name).mkdir()
            self.servers.append(Servers(name, folder / name, name, addresses))
        self.macs = dict(_MACS)

    def __enter__(self) -> Site:
        try:
            self._build()
            for server in self.servers:
                server.start()
            self.switch.start_switch(self.spec)
            if self.with_agent:
                self.switch.agent.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self) -> None:
        lines = [link("client", "eth0", "router", "wan"), link("router", "eth0", "net", "r0", _MACS["router"])]
        lines += [link("switch", "p0", "net", "s0"), link("server1", "eth0", "net", "b1", "02:00:00:00:20:01")]
        lines.append(link("server2", "eth0", "net", "b2", _MACS["server2"]))
        settings = {"net": (), "switch": (), "client": _IPV6, "router": (*_IPV6, *_FORWARDS)}
        addresses = {
            "client": ["198.18.0.2/24 dev eth0", "2001:db8:c::2/64 dev eth0"],
            "router": [
                "198.18.0.1/24 dev wan",
                "2001:db8:c::1/64 dev wan",
                f"{ROUTER}/24 dev eth0",
                "192.0.2.254/24 dev eth0",
                f"{ROUTER6}/64 dev eth0",
            ],
            "server1": ["192.0.2.11/24 dev eth0", "2001:db8:53::11/64 dev eth0"],
            "server2": [f"{BACKEND}/24 dev eth0", f"{DSR}/32 dev lo"],
        }
        build(settings | {"server1": (*_IPV6, *_SERVER), "server2": _SERVER}, lines, addresses)
        inside("net", "ip", "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
        inside("net", "ip", "link", "set", "br0", "up")
        for port in ("r0", "s0", "b1", "b2"):
            inside("net", "ip", "link", "set", port, "master", "br0")
        routes = {
            "client": ["default via 198.18.0.1", "default via 2001:db8:c::1"],
            "router": [f"{NAT} dev eth0", f"{DSR} dev eth0", f"{NAT6} dev eth0"],
            "server1": ["default via 192.0.2.1", "default via 2001:db8:53::1"],
            "server2": ["default via 192.0.2.254"],
        }
        for name, wanted in routes.items():
            for route in wanted:
                inside(name, "ip", *(["-6"] if "2001:" in route else []), "route", "add", *route.split())

    def recorded(self) -> dict[str, str]:
        """The MAC addresses of neighbours in the record, by address."""
        text = inside("switch", "ovs-vsctl", f"--db={self.switch.db}", "get", "bridge", "br-dns", "external_ids")
        found = text.partition('dnsteer-overlay="')[2].partition('", dnsteer-')[0].replace("\\", "")
        entries = json.loads(found) if found else []
        return {n[0]: n[1] for entry in entries for n in entry.get("neighbors", ())}

    def answers(self, address: str) -> bool:
        """Whether the client gets an answer of a VIP."""
        try:
            argv = netns_exec(space("client"), ["kdig", f"@{address}", "dnsteer.test", "SOA", "+timeout=1", "+retry=0"])
            done = subprocess.run(argv, capture_output=True, text=True, check=False, env=program_environment())
        except OSError:
            return False
        return done.returncode == 0 and "NOERROR" in done.stdout

    def wait(self, until: Callable[[], bool], what: str, patience: float = 30.0) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + patience
        while not until():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not after {patience:g} s: {self.said()}")
            time.sleep(0.05)

    def said(self) -> str:
        """What the agent has said."""
        log = self.switch.agent.log
        return log.read_text() if log.exists() else ""

    def replace(self, host: str, *, announced: bool) -> str:
        """Give a host another MAC address at its IP addresses, and return it."""
        number = int(self.macs[host][-2:], 16) ^ 0x80
        mac = self.macs[host] = f"{self.macs[host][:-2]}{number:02x}"
        for family in ("ipv4", "ipv6") if host == "router" else ("ipv4",):
            key = "arp_notify" if family == "ipv4" else "ndisc_notify"
            inside(host, "sysctl", "-qw", f"net.{family}.conf.eth0.{key}={int(announced)}")
        inside(host, "ip", "link", "set", "eth0", "address", mac)
        return mac

    def __exit__(self, *_: object) -> None:
        self.switch.stop()
        for server in self.servers:
            server.kill()
        remove()


EVENTS: dict[str, tuple[str, str, str, bool]] = {
    "router with gratuitous ARP, nat": ("router", ROUTER, NAT, True),
    "router without, nat": ("router", ROUTER, NAT, False),
    "router with unsolicited advertisement, nat over IPv6": ("router", ROUTER6, NAT6, True),
    "router without, nat over IPv6": ("router", ROUTER6, NAT6, False),
    "backend with gratuitous ARP, dsr": ("server2", BACKEND, DSR, True),
    "backend without, dsr": ("server2", BACKEND, DSR, False),
}
"""Who is replaced, its address, the VIP that is asked, and whether it says so."""


def measure(site: Site, event: tuple[str, str, str, bool], seconds: float, qps: int) -> dict[str, Any]:
    """One replacement under load."""
    host, address, vip, announced = event
    queries = Queries("client", site.folder, vip, seconds, qps)
    time.sleep(SETTLE)
    before = site.macs[host]
    with watching({"record": lambda: site.recorded().get(address) not in (before, None)}) as seen:
        began = time.monotonic()
        site.replace(host, announced=announced)
        sent, lost = queries.counted()
    away = round(seen["record"] - began, 3) if seen else None
    return {"away_s": away, "sent": sent, "lost": lost, "lost_s": round(lost / qps, 3)}


def available() -> str:
    """What is missing on this machine; empty: nothing."""
    path = program_environment()["PATH"]
    needed: Sequence[str] = ("nsd", "ovs-vswitchd", "dnsperf", "kdig")
    return ", ".join(name for name in needed if shutil.which(name, path=path) is None)


def fixed(text: str) -> str:
    """The spec with MAC addresses in place of addresses."""
    router = f'{{ipv4: {ROUTER}, ipv6: "{ROUTER6}"}}'
    return text.replace(router, f"'{_MACS['router']}'").replace("mac: auto", f"mac: '{_MACS['server2']}'")


def main() -> None:
    """Run it."""
    options = parser("A router or backend that is replaced: time and lost queries.", seconds=6)
    options.add_argument("--fixed", action="store_true", help="give fixed MAC addresses, which nobody follows")
    options.set_defaults(qps=500)
    chosen = options.parse_args()
    missing = available()
    if missing:
        sys.exit(f"bench.neighbors: missing on this machine: {missing}")
    found: dict[str, Any] = {}
    for name, event in EVENTS.items():
        if chosen.only in name:
            with (
                tempfile.TemporaryDirectory(prefix="dnsteer-neighbors-") as folder,
                Site(Path(folder), fixed(SPEC) if chosen.fixed else SPEC) as site,
            ):
                site.wait(partial(site.answers, event[2]), "no answer")
                how = partial(measure, site, event, chosen.seconds, chosen.qps)
                found[name] = repeated(name, chosen.repeat, PAUSE, how)
    report(chosen, found, "the record has the new MAC address")


if __name__ == "__main__":
    main()
