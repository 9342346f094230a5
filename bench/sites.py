# SPDX-License-Identifier: Apache-2.0
"""Two switches that have the same VIP, two routers and a client, in network namespaces: anycast on one machine.

    client -- router1 -- switch1 -- servers1        each router is on an uplink of each switch, and has a BGP session
          \\            x                            (BIRD) with BIRD beside each switch; client and routers spread
           - router2 -- switch2 -- servers2        flows over all ways (ECMP by addresses and ports).

A switch is an Open vSwitch of its own (userspace datapath), with NAT to two addresses of one name server (NSD). The next hop
of a VIP is an address that the switch alone has, a VIP that is never announced. Needs root, BIRD 2, NSD, Open vSwitch.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from bench.hosts import Process, Servers, SwitchHost, build, decoded, inside, link, remove
from dnsteer.lab.command import program_environment

VIP = "192.0.2.53"
CLIENT = "10.99.0.10"
ROUTERS = (1, 2)
SITES = (1, 2)
_ROUTES = ("net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1")
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:0{site}:53
  gateways: [10.{site}.10.1]
  probe: {{addresses: [10.{site}.10.9/24]}}
  announce: {{via: bird, include: {folder}/dnsteer.conf, control: {folder}/bird.ctl, hold_max: 0s, on_stop: {on_stop}}}
  uplinks:
    u1: {{next_hop: '02:00:00:00:1{site}:01'}}
    u2: {{next_hop: '02:00:00:00:1{site}:02'}}
  ports:
    b1: {{answers: u{site}}}
pools:
  farm:
    slots: 16
    hold_max: 0s
    health: {{check: dns, query: {{name: dnsteer.test}}, interval: {interval}, timeout: {timeout}, fall: 2, rise: 2}}
    backends:
      - {{name: a, ipv4: 10.{site}.10.11, mac: '02:00:00:00:2{site}:01', port: b1}}
      - {{name: b, ipv4: 10.{site}.10.12, mac: '02:00:00:00:2{site}:01', port: b1}}
vips:
  dns: {{addresses: [192.0.2.53], services: [dns], pool: farm, forwarding: nat}}
  self:
    {{addresses: [10.{site}.0.1], services: [{{protocol: tcp, port: 8053}}], pool: farm, forwarding: nat,
     fragments: drop, announce: never}}
"""


class Site(SwitchHost):
    """A switch with its servers, BIRD and agent."""

    def __init__(self, number: int, folder: Path) -> None:
        super().__init__(f"switch{number}", folder)
        self.number = number
        addresses = [f"10.{number}.10.11", f"10.{number}.10.12"]
        self.servers = Servers(f"servers{number}", self.folder, f"site{number}", addresses)
        own = ("-c", f"{self.folder}/bird.conf", "-s", f"{self.folder}/bird.ctl", "-P", f"{self.folder}/bird.pid")
        self.bird = self.process("bird", "-f", *own)

    def links(self) -> list[str]:
        """Lines that make the links of this site."""
        n = self.number
        lines = [link(self.servers.where, "eth0", self.name, "b1", f"02:00:00:00:2{n}:01")]
        for r in ROUTERS:
            lines.append(link(f"router{r}", f"s{n}", self.name, f"u{r}", f"02:00:00:00:1{n}:0{r}"))
            lines.append(link(f"router{r}", f"m{n}", self.name, f"m{r}"))
        return lines

    def addresses(self) -> Mapping[str, list[str]]:
        """Addresses by namespace, each with its device."""
        n = self.number
        of_routers = {f"router{r}": [f"10.{n}.0.25{r}/24 dev s{n}", f"10.{n}.10{r}.254/24 dev m{n}"] for r in ROUTERS}
        return {
            **of_routers,
            self.name: [f"10.{n}.10{r}.1/24 dev m{r}" for r in ROUTERS],
            self.servers.where: [f"10.{n}.10.11/24 dev eth0", f"10.{n}.10.12/24 dev eth0"],
        }

    def start(self, **settings: str) -> None:
        """Start everything."""
        n = self.number
        sessions = "".join(
            f"protocol bgp router{r} {{ local 10.{n}.10{r}.1 as 6500{n}; neighbor 10.{n}.10{r}.254 as 6510{r};\n"
            "  hold time 9;"
            f'  ipv4 {{ import none; export where proto = "dnsteer4"; next hop address 10.{n}.0.1; }}; }}\n'
            for r in ROUTERS
        )
        head = f'router id 10.{n}.0.1;\nprotocol device {{ }}\ninclude "{self.folder}/dnsteer.conf*";\n'
        (self.folder / "bird.conf").write_text(head + sessions)
        self.servers.start()
        self.bird.start()
        self.start_switch(SPEC.format(site=n, folder=self.folder, **settings))
        self.agent.start()

    def stop(self) -> None:
        """End all of it."""
        super().stop()
        self.bird.kill()
        self.servers.kill()


class Network:
    """All of it, as a context manager. *settings* are those of both specs."""

    def __init__(
        self, folder: Path, *, on_stop: str = "withdraw", interval: str = "500ms", timeout: str = "250ms"
    ) -> None:
        self.folder = folder
        self._settings = {"on_stop": on_stop, "interval": interval, "timeout": timeout}
        self.sites = {n: Site(n, folder) for n in SITES}
        self.routers = {
            r: Process(
                ["bird", "-f", "-c", f"{folder}/r{r}.conf", "-s", f"{folder}/r{r}.ctl", "-P", f"{folder}/r{r}.pid"],
                f"router{r}",
                folder / f"r{r}.log",
            )
            for r in ROUTERS
        }

    def __enter__(self) -> Network:
        try:
            self._build()
            for router in self.routers.values():
                router.start()
            for site in self.sites.values():
                site.start(**self._settings)
            self.wait_for_ways({1: set(SITES), 2: set(SITES)}, 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self) -> None:
        sites = self.sites.values()
        settings: dict[str, tuple[str, ...]] = dict.fromkeys(("client", "router1", "router2"), _ROUTES)
        settings |= {name: () for site in sites for name in (site.name, site.servers.where)}
        links = [link("client", f"r{r}", f"router{r}", "c0") for r in ROUTERS]
        addresses: dict[str, list[str]] = {"client": [f"{CLIENT}/32 dev lo"]}
        for r in ROUTERS:
            addresses["client"].append(f"10.98.{r}.2/24 dev r{r}")
            addresses[f"router{r}"] = [f"10.98.{r}.1/24 dev c0"]
        for site in sites:
            links += site.links()
            for name, found in site.addresses().items():
                addresses.setdefault(name, []).extend(found)
        build(settings, links, addresses)
        ways = [word for r in ROUTERS for word in ("nexthop", "via", f"10.98.{r}.1")]
        inside("client", "ip", "route", "add", VIP, "src", CLIENT, *ways)
        for r in ROUTERS:
            inside(f"router{r}", "ip", "route", "add", CLIENT, "via", f"10.98.{r}.2")
            (self.folder / f"r{r}.conf").write_text(_router(r))
        for n in SITES:
            inside(f"servers{n}", "ip", "route", "add", "default", "via", f"10.{n}.10.1")

    def ways(self, router: int) -> set[int]:
        """The sites by which a router reaches the VIP, as its kernel has it."""
        found = decoded(inside(f"router{router}", "ip", "-j", "route", "show", VIP))
        return {
            int(hop["dev"][1:]) for route in found for hop in route.get("nexthops", [route]) if hop["dev"][0] == "s"
        }

    def wait_for_ways(self, wanted: dict[int, set[int]], patience: float = 20.0) -> None:
        """Wait until each router has these ways."""
        deadline = time.monotonic() + patience
        while (found := {r: self.ways(r) for r in wanted}) != wanted:
            if time.monotonic() > deadline:
                raise RuntimeError(f"routers reach the VIP by {found} after {patience:g} s, not by {wanted}")
            time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        for site in self.sites.values():
            site.stop()
        for router in self.routers.values():
            router.kill()
        remove()


def _router(r: int) -> str:
    """The configuration of a router: BGP with each site, and all equal ways into the kernel."""
    sessions = "".join(
        f"protocol bgp site{n} {{ local 10.{n}.10{r}.254 as 6510{r}; neighbor 10.{n}.10{r}.1 as 6500{n}; hold time 9;\n"
        "  ipv4 { import all; export none; gateway recursive; }; }\n"
        for n in SITES
    )
    return (
        f'router id 10.98.{r}.1;\nprotocol device {{ }}\nprotocol direct {{ ipv4; interface "s*", "m*"; }}\n'
        f"protocol kernel {{ ipv4 {{ import none; export where source = RTS_BGP; }}; merge paths on; }}\n{sessions}"
    )


def available() -> str:
    """What is missing on this machine; empty: nothing."""
    path = program_environment()["PATH"]
    missing = [name for name in ("bird", "nsd", "ovs-vswitchd", "dnsperf") if shutil.which(name, path=path) is None]
    return ", ".join(missing)
