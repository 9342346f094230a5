"""Two switches that have the same VIP, two routers and a client, in network namespaces: anycast on one machine.

    client -- router1 -- switch1 -- servers1        each router is on an uplink of each switch, and has a BGP session
          \\            x                            (BIRD) with BIRD beside each switch; client and routers spread
           - router2 -- switch2 -- servers2        flows over all ways (ECMP by addresses and ports).

A switch is an Open vSwitch of its own (userspace datapath), with NAT to two addresses of one name server (NSD). The next hop
of a VIP is an address that the switch alone has, a VIP that is never announced. Needs root, BIRD 2, NSD, Open vSwitch.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dnsteer.lab.command import environment, netns_exec, run
from dnsteer.lab.zone import zone_text

PREFIX = "dnsteer-sites-"
VIP = "192.0.2.53"
CLIENT = "10.99.0.10"
ROUTERS = (1, 2)
SITES = (1, 2)
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_QUIET = ("net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0", "net.ipv6.conf.default.disable_ipv6=1")
_ROUTES = (*_QUIET, "net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1")
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


def space(name: str) -> str:
    """A namespace."""
    return f"{PREFIX}{name}"


def inside(name: str, *argv: str) -> str:
    """Run something in a namespace, and return what it prints."""
    return run(netns_exec(space(name), list(argv)))


def _batch(*lines: str) -> None:
    run(["ip", "-batch", "-"], stdin="".join(f"{line}\n" for line in lines))


def _link(one: str, device: str, other: str, peer: str, mac: str = "") -> list[str]:
    """The lines that make a link between two namespaces; *mac* is that of the first end."""
    own = f" address {mac}" if mac else ""
    return [f"link add {peer} netns {space(other)} type veth peer name {device}{own} netns {space(one)}"]


@dataclass
class Process:
    """A daemon in a namespace."""

    argv: Sequence[str]
    where: str
    log: Path
    env: dict[str, str] = field(default_factory=dict)
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as file:
            argv = netns_exec(space(self.where), list(self.argv))
            self.running = subprocess.Popen(argv, stdout=file, stderr=file, env={**environment(), **self.env})

    def send(self, by: signal.Signals) -> None:
        """Send it a signal."""
        if self.running is not None:
            self.running.send_signal(by)

    def kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        """End it, and wait until it has."""
        if self.running is not None:
            self.running.send_signal(by)
            self.running.wait(20)
            self.running = None


class Site:
    """A switch with its servers, BIRD and agent."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self.folder = number, folder / f"site{number}"
        self.folder.mkdir()
        self.db = f"unix:{self.folder}/db.sock"
        self.switch, self.servers = f"switch{number}", f"servers{number}"
        env = {"OVS_RUNDIR": str(self.folder)}
        quiet = ["-vconsole:off"]
        self.database = self._process(
            "ovsdb-server", f"{self.folder}/conf.db", f"--remote=punix:{self.folder}/db.sock",
            f"--unixctl={self.folder}/db.ctl", *quiet, env=env,
        )  # fmt: skip
        self.vswitchd = self._process(
            "ovs-vswitchd", self.db, "--disable-system",
            f"--pidfile={self.folder}/ovs-vswitchd.pid", f"--log-file={self.folder}/vs.log", *quiet, env=env,
        )  # fmt: skip
        self.bird = self._process(
            "bird",
            "-f",
            "-c",
            f"{self.folder}/bird.conf",
            "-s",
            f"{self.folder}/bird.ctl",
            "-P",
            f"{self.folder}/bird.pid",
        )
        self.agent = self._process(sys.executable, "-m", "dnsteer", "agent", "--db", self.db)
        self.nsd = Process(["nsd", "-d", "-c", f"{self.folder}/nsd.conf"], self.servers, self.folder / "nsd.log")

    def _process(self, *argv: str, env: dict[str, str] | None = None) -> Process:
        return Process(argv, self.switch, self.folder / f"{Path(argv[0]).name}.out", env or {})

    def links(self) -> list[str]:
        """Lines that make the links of this site."""
        n = self.number
        lines = [
            line
            for r in ROUTERS
            for line in _link(f"router{r}", f"s{n}", self.switch, f"u{r}", f"02:00:00:00:1{n}:0{r}")
        ]
        lines += [line for r in ROUTERS for line in _link(f"router{r}", f"m{n}", self.switch, f"m{r}")]
        return [*lines, *_link(self.servers, "eth0", self.switch, "b1", f"02:00:00:00:2{n}:01")]

    def addresses(self) -> dict[str, list[str]]:
        """Addresses by namespace, each with its device."""
        n = self.number
        out = {self.switch: [], self.servers: []}  # type: dict[str, list[str]]
        for r in ROUTERS:
            out[f"router{r}"] = [f"10.{n}.0.25{r}/24 dev s{n}", f"10.{n}.10{r}.254/24 dev m{n}"]
            out[self.switch].append(f"10.{n}.10{r}.1/24 dev m{r}")
        out[self.servers] = [f"10.{n}.10.11/24 dev eth0", f"10.{n}.10.12/24 dev eth0"]
        return out

    def write(self, on_stop: str, interval: str, timeout: str) -> Path:
        """Write all configurations; returns the spec."""
        n, folder = self.number, self.folder
        sessions = "".join(
            f"protocol bgp router{r} {{ local 10.{n}.10{r}.1 as 6500{n}; neighbor 10.{n}.10{r}.254 as 6510{r};\n"
            "  hold time 9;"
            f'  ipv4 {{ import none; export where proto = "dnsteer4"; next hop address 10.{n}.0.1; }}; }}\n'
            for r in ROUTERS
        )
        head = f'router id 10.{n}.0.1;\nprotocol device {{ }}\ninclude "{folder}/dnsteer.conf*";\n'
        (folder / "bird.conf").write_text(head + sessions)
        (folder / "zone").write_text(zone_text(f"site{n}"))
        (folder / "nsd.conf").write_text(
            f"server:\n  ip-address: 10.{n}.10.11@53\n  ip-address: 10.{n}.10.12@53\n"
            f'  username: ""\n  zonesdir: "{folder}"\n'
            f'  pidfile: "{folder}/nsd.pid"\n  zonelistfile: "{folder}/zone.list"\n  xfrdfile: "{folder}/xfrd"\n'
            f'  xfrdir: "{folder}"\n  database: ""\n  rrl-ratelimit: 0\n  rrl-whitelist-ratelimit: 0\n'
            'remote-control:\n  control-enable: no\nzone:\n  name: "dnsteer.test"\n  zonefile: "zone"\n'
        )
        spec = folder / "spec.yaml"
        spec.write_text(SPEC.format(site=n, folder=folder, on_stop=on_stop, interval=interval, timeout=timeout))
        return spec

    def start(self, spec: Path) -> None:
        """Start everything but the agent, and apply the spec."""
        run(["ovsdb-tool", "create", f"{self.folder}/conf.db", _SCHEMA])
        self.database.start()
        _wait_for(self.folder / "db.sock")
        self.vsctl("init")
        for process in (self.vswitchd, self.nsd, self.bird):
            process.start()
        _wait_for(self.folder / "ovs-vswitchd.pid")
        self.dnsteer("apply", str(spec), "--yes")

    def vsctl(self, *args: str) -> None:
        """Run ovs-vsctl without waiting for the switch."""
        inside(self.switch, "ovs-vsctl", f"--db={self.db}", "--timeout=20", "--no-wait", *args)

    def dnsteer(self, *args: str) -> None:
        """Run the command on this switch, in its namespace."""
        argv = netns_exec(space(self.switch), [sys.executable, "-m", "dnsteer", *args, "--db", self.db])
        subprocess.run(argv, check=True, stdout=sys.stderr, env=environment())

    def kill_servers(self) -> None:
        """Kill its name server, with the processes that it has started."""
        found = inside(self.servers, "sh", "-c", "ip netns pids " + space(self.servers)).split()
        for pid in found:
            with suppress(OSError):  # it has ended
                if Path(f"/proc/{pid}/comm").read_text().strip() == "nsd":
                    os.kill(int(pid), signal.SIGKILL)
        self.nsd.kill()

    def hang(self, by: signal.Signals) -> None:
        """Stop ovs-vswitchd, or let it go on."""
        os.kill(int((self.folder / "ovs-vswitchd.pid").read_text()), by)

    def stop(self) -> None:
        """End all of it."""
        for process in (self.agent, self.bird, self.vswitchd, self.database):
            process.send(signal.SIGCONT)
            process.kill(signal.SIGTERM)
        self.kill_servers()


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + 20
    while not file.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{file} is not there after 20 s")
        time.sleep(0.02)


class Network:
    """All of it, as a context manager."""

    def __init__(
        self, folder: Path, *, on_stop: str = "withdraw", interval: str = "500ms", timeout: str = "250ms"
    ) -> None:
        self.folder = folder
        self._settings = on_stop, interval, timeout
        self.sites = {n: Site(n, folder) for n in SITES}
        self.routers = {
            r: Process(
                ["bird", "-f", "-c", f"{folder}/r{r}.conf", "-s", f"{folder}/r{r}.ctl", "-P", f"{folder}/r{r}.pid"],
                f"router{r}", folder / f"r{r}.log",
            )
            for r in ROUTERS
        }  # fmt: skip

    def __enter__(self) -> Network:
        try:
            self._build()
            for router in self.routers.values():
                router.start()
            for site in self.sites.values():
                site.start(site.write(*self._settings))
                site.agent.start()
            self.wait_for_ways({1: set(SITES), 2: set(SITES)}, 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self) -> None:
        names = [
            "client",
            *(f"router{r}" for r in ROUTERS),
            *(s for site in self.sites.values() for s in (site.switch, site.servers)),
        ]
        for name in names:
            run(["ip", "netns", "add", space(name)])
            inside(name, "sysctl", "-qw", *(_ROUTES if name.startswith(("router", "client")) else _QUIET))
        lines = [line for r in ROUTERS for line in _link("client", f"r{r}", f"router{r}", "c0")]
        _batch(*lines, *(line for site in self.sites.values() for line in site.links()))
        addresses: dict[str, list[str]] = {"client": [f"{CLIENT}/32 dev lo"]}
        for r in ROUTERS:
            addresses["client"].append(f"10.98.{r}.2/24 dev r{r}")
            addresses[f"router{r}"] = [f"10.98.{r}.1/24 dev c0"]
        for site in self.sites.values():
            for name, found in site.addresses().items():
                addresses.setdefault(name, []).extend(found)
        for name in names:
            devices = [word["ifname"] for word in _json(inside(name, "ip", "-j", "link"))]
            for device in devices:
                inside(name, "ip", "link", "set", device, "up")
                if device != "lo":
                    inside(name, "ethtool", "-K", device, "tx", "off", "tso", "off", "gso", "off", "gro", "off")
            for address in addresses.get(name, ()):
                inside(name, "ip", "address", "add", *address.split())
        ways = [word for r in ROUTERS for word in ("nexthop", "via", f"10.98.{r}.1")]
        inside("client", "ip", "route", "add", VIP, "src", CLIENT, *ways)
        for r in ROUTERS:
            inside(f"router{r}", "ip", "route", "add", CLIENT, "via", f"10.98.{r}.2")
            (self.folder / f"r{r}.conf").write_text(_router(r))
        for n in SITES:
            inside(f"servers{n}", "ip", "route", "add", "default", "via", f"10.{n}.10.1")

    def ways(self, router: int) -> set[int]:
        """The sites by which a router reaches the VIP, as its kernel has it."""
        found = inside(f"router{router}", "ip", "-j", "route", "show", VIP)
        return {
            int(hop["dev"][1:])
            for route in _json(found)
            for hop in route.get("nexthops", [route])
            if hop["dev"][0] == "s"
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
        for line in run(["ip", "netns", "list"]).splitlines():
            if line.startswith(PREFIX):
                run(["ip", "netns", "delete", line.split()[0]])


def _json(text: str) -> list[dict[str, Any]]:
    return json.loads(text or "[]")  # type: ignore[no-any-return]


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
    path = environment()["PATH"]
    missing = [name for name in ("bird", "nsd", "ovs-vswitchd", "dnsperf") if shutil.which(name, path=path) is None]
    return ", ".join(missing)
