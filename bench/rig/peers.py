# SPDX-License-Identifier: Apache-2.0
"""What balances: dnsteer on Open vSwitch, and its peers, each in the balancer's namespace, one at a time.

All have the same VIP of both families, UDP and TCP at port 53, and the same four servers, and hide the servers' addresses
from the client. What else is for the routed prefix they drop. *denied* are prefixes whose packets they drop.
"""

from __future__ import annotations

import re
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bench.agent import dnsdist
from bench.agent.usage import dropped_of
from bench.hosts import Process, SwitchHost, decoded, inside, space
from bench.rig.junk import DENIED_24
from bench.rig.network import (
    BALANCER_MAC,
    CLIENT_MAC,
    FAMILIES,
    GATEWAY_MAC,
    PORTS,
    SERVERS,
    UPLINK,
    neighbour,
    server_mac,
)
from dnsteer.lab.command import netns_exec, run
from dnsteer.spec.model.access import MAX_ENTRIES
from dnsteer.switch.tools import ovs_version

_BALANCER = "balancer"
SLOTS = 64
_LONGEST = 120.0
"""Seconds that loading or changing a list may take."""


def denied_prefixes(count: int) -> list[str]:
    """So many /24 of 10.0.0.0/8, spread over it, the last one that of the junk of one network.

    None holds a server, and no good client has an address in them: each query is compared with all of the list.
    """
    used = ("10.53.", "10.98.")  # the servers' networks
    found: list[str] = []
    number = 0
    while len(found) < count - 1:
        number = (number + 40503) % 65536  # odd: all numbers come, in a mixed order
        one = f"10.{number >> 8}.{number & 255}.0/24"
        if not one.startswith(used) and one != DENIED_24:
            found.append(one)
    return [*found, DENIED_24][:count]


def spec_text(denied_file: str = "", more: str = "", forwarding: str = "nat") -> str:
    """The spec of the rig's VIP with *more* keys; it denies the prefixes of a file beside it where one is named."""
    access = f"  access: {{deny_file: {denied_file}}}\n" if denied_file else ""
    gateways = ", ".join(f.gateway for f in FAMILIES.values())
    vips = ", ".join(f'"{f.vip}"' for f in FAMILIES.values())
    ports = "".join(f"    {port}:\n" for port in PORTS)
    backends = "".join(
        f'      - {{name: s{n + 1}, ipv4: {FAMILIES[4].servers[n]}, ipv6: "{FAMILIES[6].servers[n]}", '
        f'mac: "{server_mac(n + 1)}", port: {PORTS[n]}}}\n'
        for n in range(SERVERS)
    )
    return f"""\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: "{BALANCER_MAC}"
  gateway_mac: "{GATEWAY_MAC}"
  gateways: [{gateways}]
{access}  uplinks:
    {UPLINK}: {{next_hop: "{CLIENT_MAC}"}}
  ports:
{ports}pools:
  servers:
    slots: {SLOTS}
    backends:
{backends}vips:
  dns: {{addresses: [{vips}], services: [dns], pool: servers, forwarding: {forwarding}{f", {more}" if more else ""}}}
"""


_DENIED_FILE = "denied.txt"


class Peer(ABC):
    """Something that balances: `prepare` and `load` put it into the balancer's namespace, `stop` takes it out."""

    programs: tuple[str, ...] = ()
    """What must be installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def prepare(self) -> None:
        """Set up what the list of denied prefixes has nothing to do with."""

    @abstractmethod
    def load(self, denied: Sequence[str]) -> None:
        """Start it, or load its rules. It may take until the first answer to finish that."""

    @abstractmethod
    def stop(self) -> None:
        """Take it away, also where it was set up in part."""

    @abstractmethod
    def deny(self, prefix: str) -> None:
        """Add a prefix to the list that it has."""

    @abstractmethod
    def forget(self) -> None:
        """Forget what packets of earlier runs have left."""

    def state(self) -> dict[str, int]:
        """How much it keeps of the packets that came."""
        return {}

    def pid(self) -> int | None:
        """The program that forwards, where it is not the kernel."""
        return None

    @abstractmethod
    def version(self) -> str:
        """What is installed."""


class Dnsteer(Peer):
    """dnsteer: NAT without state by slots of source ports, on Open vSwitch's userspace datapath."""

    programs: tuple[str, ...] = ("ovs-vswitchd", "ovsdb-server")
    _host: SwitchHost | None = None
    _denied: list[str]
    _before: Mapping[str, int] = MappingProxyType({})
    """Counters at the begin of a run."""

    def prepare(self) -> None:
        """Nothing: the switch comes with its list."""

    def load(self, denied: Sequence[str]) -> None:
        """Start a switch, and apply the spec."""
        self._host = SwitchHost(_BALANCER, Path(tempfile.mkdtemp(dir=self.folder)))
        self._denied = list(denied)
        self._host.start_switch(self._spec())

    def deny(self, prefix: str) -> None:
        """Apply the spec with one prefix more; in place of another one where it has as many as a spec may have."""
        assert self._host is not None
        self._denied = [*self._denied[len(self._denied) >= MAX_ENTRIES :], prefix]
        file = self._host.folder / "spec.yaml"
        file.write_text(self._spec())
        self._host.dnsteer("apply", str(file), "--yes")

    def _spec(self) -> str:
        """The spec, with its list in a file beside it."""
        assert self._host is not None
        if not self._denied:
            return self.spec()
        (self._host.folder / _DENIED_FILE).write_text("".join(f"{prefix}\n" for prefix in self._denied))
        return self.spec(_DENIED_FILE)

    def spec(self, denied_file: str = "") -> str:
        """The spec, which denies the prefixes of a file beside it where one is named."""
        return spec_text(denied_file)

    def stop(self) -> None:
        """End the switch, and remove its devices, which outlive it."""
        if self._host is not None:
            self._host.stop()
            self._host = None
            self._before = {}
        for device in (found["ifname"] for found in decoded(inside(_BALANCER, "ip", "-j", "link"))):
            if device not in ("lo", UPLINK, *PORTS):
                inside(_BALANCER, "ip", "link", "delete", device)

    def forget(self) -> None:
        """Remove all megaflows."""
        self._appctl("revalidator/purge")
        self._before = self._counters()

    def state(self) -> dict[str, int]:
        """Megaflows, how many the switch allows itself now, and of this run upcalls, and frames that it had no time for.

        Those are dropped by the kernel at the sockets from which the switch reads, before any flow. Revalidation is the time
        of the last dump of all megaflows, by which the switch sets how many it allows itself.
        """
        said = self._appctl("upcall/show")
        found = re.search(r"flows *: \(current (\d+)\).*\(limit (\d+)\)\s+dump duration *: (\d+)ms", said)
        if found is None:
            raise RuntimeError("upcall/show says nothing of flows")
        grown = {name: count - self._before.get(name, 0) for name, count in self._counters().items()}
        names = ("megaflows", "flow_limit", "revalidation_ms")
        return {**{name: int(text) for name, text in zip(names, found.groups(), strict=True)}, **grown}

    def pid(self) -> int | None:
        """That of ovs-vswitchd."""
        running = self._host.vswitchd.running if self._host is not None else None
        return running.pid if running is not None else None

    def version(self) -> str:
        """That of Open vSwitch."""
        return f"Open vSwitch {ovs_version()}"

    def _counters(self) -> dict[str, int]:
        found = re.search(r"missed:(\d+) lost:(\d+)", self._appctl("dpctl/show"))
        if found is None:
            raise RuntimeError("dpctl/show says nothing of lookups")
        unread = dropped_of(inside(_BALANCER, "ss", "-0", "-a", "-m"))
        return {"upcalls": int(found[1]), "upcalls_lost": int(found[2]), "unread": unread}

    def _appctl(self, *words: str) -> str:
        assert self._host is not None
        (control,) = self._host.folder.glob("ovs-vswitchd.*.ctl")
        return inside(_BALANCER, "ovs-appctl", "-t", str(control), *words)


class KernelPeer(Peer):
    """A peer of which the kernel routes packets to servers and client, and drops by a route what is for nobody."""

    owns_vip = False
    """Whether the VIP is an address of the machine, for a program. The kernel refuses packets from others with it."""

    def forget(self) -> None:
        """Nothing: what keeps connections says how."""

    def prepare(self) -> None:
        """Give the kernel the balancer's addresses and routes."""
        devices = (UPLINK, *PORTS)
        inside(_BALANCER, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for device in devices:
            inside(_BALANCER, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=0")
        lines = []
        for f in FAMILIES.values():
            lines += [f"addr add {f.vip}/{f.bits} dev {UPLINK}{_no_dad(f.version)}"] if self.owns_vip else []
            lines.append(f"route add {f.client}/{f.bits} dev {UPLINK}")
            lines.append(f"route add default via {f.client} dev {UPLINK} onlink")
            for port, server in zip(PORTS, f.servers, strict=True):
                lines.append(f"addr add {f.gateway}/{f.bits} dev {port}{_no_dad(f.version)}")
                lines.append(f"route add {server}/{f.bits} dev {port}")
            lines.append(f"route add blackhole {f.routed}")
        run(["ip", "-n", space(_BALANCER), "-batch", "-"], stdin="".join(f"{line}\n" for line in lines))
        for f in FAMILIES.values():
            neighbour(_BALANCER, f.client, UPLINK, CLIENT_MAC)
            for n, server in enumerate(f.servers, 1):
                neighbour(_BALANCER, server, PORTS[n - 1], server_mac(n))

    def stop(self) -> None:
        """Take rules and addresses away."""
        self.unload()
        for version in FAMILIES:
            inside(_BALANCER, "ip", f"-{version}", "route", "flush", "type", "blackhole")
            for device in (UPLINK, *PORTS):
                inside(_BALANCER, "ip", f"-{version}", "address", "flush", "dev", device, "scope", "global")
                inside(_BALANCER, "ip", "neigh", "flush", "dev", device, "nud", "permanent")
                inside(_BALANCER, "ip", f"-{version}", "route", "flush", "dev", device)
        for device in (UPLINK, *PORTS):
            inside(_BALANCER, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
        inside(_BALANCER, "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0")

    @abstractmethod
    def unload(self) -> None:
        """Remove its rules."""


def _no_dad(version: int) -> str:
    return " nodad" if version == 6 else ""


class Nftables(KernelPeer):
    """nftables that rewrites addresses without state, by a hash of client address and port, denied prefixes in a set."""

    programs: tuple[str, ...] = ("nft",)

    def load(self, denied: Sequence[str]) -> None:
        """Load the ruleset."""
        at_balancer(["nft", "-f", "-"], self.ruleset(denied))

    def unload(self) -> None:
        """Remove all rules."""
        inside(_BALANCER, "nft", "flush", "ruleset")

    def deny(self, prefix: str) -> None:
        """Add an element to the set."""
        at_balancer(["nft", "add", "element", "inet", "rig", "denied", f"{{ {prefix} }}"])

    def version(self) -> str:
        """That of nft."""
        return run(["nft", "--version"]).strip()

    def ruleset(self, denied: Sequence[str]) -> str:
        """The rules as nft reads them."""
        head, drop = "", ""
        if denied:
            elements = ", ".join(denied)
            head = f"  set denied {{ type ipv4_addr; flags interval; elements = {{ {elements} }}; }}\n"
            drop = "    ip saddr @denied drop\n"
        return (
            f"table inet rig {{\n{head}{self.sets()}"
            f"  chain first {{\n    type filter hook prerouting priority raw;\n"
            f"{drop}{self.limits()}{self.stateless()}  }}\n"
            f"{self.stateful()}}}\n"
        )

    def sets(self) -> str:
        """Further sets."""
        return ""

    def limits(self) -> str:
        """Rules of the first chain that drop."""
        return ""

    def stateless(self) -> str:
        """Rules of the first chain."""
        lines = ""
        for v, f in FAMILIES.items():
            answer = f"{_ip(v)} saddr {{ {', '.join(f.servers)} }} meta l4proto {{ tcp, udp }} th sport 53"
            lines += f"    {_query(v)} {_ip(v)} daddr set {_by_hash(v)}\n"
            lines += f"    {answer} {_ip(v)} saddr set {f.vip}\n"
        return lines

    def stateful(self) -> str:
        """A further chain."""
        return ""


class NftablesDnat(Nftables):
    """nftables with `dnat`: connection tracking keeps the server of each client's address and port."""

    programs: tuple[str, ...] = ("nft", "conntrack")

    def stateless(self) -> str:
        """Nothing: connection tracking does it."""
        return ""

    def stateful(self) -> str:
        """The chain of NAT; the way back is connection tracking's."""
        rules = "".join(f"    {_query(v)} dnat {_ip(v)} to {_by_hash(v)}\n" for v in FAMILIES)
        return f"  chain nat {{\n    type nat hook prerouting priority dstnat;\n{rules}  }}\n"

    def forget(self) -> None:
        """Remove all connections."""
        forget_connections()

    def state(self) -> dict[str, int]:
        """Connections."""
        return connections()


def _ip(version: int) -> str:
    return "ip6" if version == 6 else "ip"


def _query(version: int) -> str:
    return f"{_ip(version)} daddr {FAMILIES[version].vip} meta l4proto {{ tcp, udp }} th dport 53"


def _by_hash(version: int) -> str:
    servers = ", ".join(f"{n} : {server}" for n, server in enumerate(FAMILIES[version].servers))
    return f"jhash {_ip(version)} saddr . th sport mod {SERVERS} map {{ {servers} }}"


class Iptables(KernelPeer):
    """iptables with DNAT to the servers by turns, and a rule for each denied prefix, one after the other."""

    kind = ""
    """What the names of its programs end with."""
    programs: tuple[str, ...] = ("iptables", "ip6tables", "conntrack")

    def load(self, denied: Sequence[str]) -> None:
        """Load the rules of both families."""
        for version in FAMILIES:
            text = self.rules(version, denied if version == 4 else ())
            at_balancer([self._program(version, "-restore")], text)

    def unload(self) -> None:
        """Remove all rules."""
        empty = "".join(f"*{table}\nCOMMIT\n" for table in ("raw", "nat"))
        for version in FAMILIES:
            at_balancer([self._program(version, "-restore")], empty)
        forget_connections()

    def deny(self, prefix: str) -> None:
        """Add a rule."""
        at_balancer([self._program(4), "-t", "raw", "-A", "PREROUTING", "-s", prefix, "-j", "DROP"])

    def forget(self) -> None:
        """Remove all connections."""
        forget_connections()

    def state(self) -> dict[str, int]:
        """Connections."""
        return connections()

    def version(self) -> str:
        """That of iptables, and which it is."""
        return run([self._program(4), "--version"]).strip()

    def rules(self, version: int, denied: Sequence[str]) -> str:
        """The rules of a family as iptables-restore reads them."""
        f = FAMILIES[version]
        drops = "".join(f"-A PREROUTING -s {prefix} -j DROP\n" for prefix in denied)
        nat = "".join(
            f"-A PREROUTING -d {f.vip} -p {protocol} --dport 53 {_turn(SERVERS - n)}-j DNAT --to-destination {server}\n"
            for protocol in ("udp", "tcp")
            for n, server in enumerate(f.servers)
        )
        return f"*raw\n{drops}COMMIT\n*nat\n{nat}COMMIT\n"

    def _program(self, version: int, end: str = "") -> str:
        return f"{_ip(version)}tables{self.kind}{end}"


class IptablesLegacy(Iptables):
    """The same with the kernel's own iptables and not nftables behind them."""

    kind = "-legacy"
    programs: tuple[str, ...] = ("iptables-legacy", "ip6tables-legacy", "conntrack")


def _turn(of: int) -> str:
    """Every *of*-th of the connections that are left; of one all."""
    return f"-m statistic --mode nth --every {of} --packet 0 " if of > 1 else ""


class Dnsdist(KernelPeer):
    """dnsdist with its defaults, so one thread for UDP, and the denied prefixes in one group."""

    owns_vip = True
    programs: tuple[str, ...] = ("dnsdist",)
    _CONSOLE = "127.0.0.1:5199"
    _KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    _DENY = "clearRules() addAction(NetmaskGroupRule(denied), DropAction())"
    LIMIT = ""
    """A further action, before the servers."""
    _process: Process | None = None

    def load(self, denied: Sequence[str]) -> None:
        """Start it."""
        servers = {f"s{n}": address for n, address in enumerate(FAMILIES[4].servers, 1)}
        more = [f'controlSocket("{self._CONSOLE}")', f'setKey("{self._KEY}")', "denied = newNMG()"]
        more += [f'denied:addMask("{prefix}")' for prefix in denied]
        more += [self._DENY] if denied else []
        more += [self.LIMIT] if self.LIMIT else []
        listens = [f.to(53) for f in FAMILIES.values()]
        self._config.write_text(dnsdist.configuration(servers, listens, more))
        argv = ["dnsdist", "--supervised", "--disable-syslog", "--config", str(self._config)]
        self._process = Process(argv, _BALANCER, self.folder / "dnsdist.log")
        self._process.start()

    def unload(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill(signal.SIGTERM)
            self._process = None

    def deny(self, prefix: str) -> None:
        """Make the rule anew, as it holds a copy of its prefixes."""
        command = f'denied:addMask("{prefix}") {self._DENY} {self.LIMIT}'
        at_balancer(["dnsdist", "--config", str(self._config), "-c", self._CONSOLE, "-e", command])

    def pid(self) -> int | None:
        """That of dnsdist."""
        running = self._process.running if self._process is not None else None
        return running.pid if running is not None else None

    def version(self) -> str:
        """That of dnsdist."""
        return dnsdist.version()

    @property
    def _config(self) -> Path:
        return self.folder / "dnsdist.conf"


def at_balancer(argv: Sequence[str], text: str = "") -> str:
    """Run something at the balancer with a text as its input. Raises LabCommandError, also after two minutes."""
    return run(netns_exec(space(_BALANCER), list(argv)), stdin=text, timeout=_LONGEST)


def connections() -> dict[str, int]:
    """Connections that are tracked, and how many there may be."""
    names = ("count", "max")
    found = inside(_BALANCER, "sysctl", "-n", *(f"net.netfilter.nf_conntrack_{name}" for name in names)).split()
    return {"connections": int(found[0]), "connections_max": int(found[1])}


def forget_connections() -> None:
    """Remove all tracked connections."""
    inside(_BALANCER, "conntrack", "-F")


PEERS: Mapping[str, type[Peer]] = {
    "dnsteer": Dnsteer,
    "nftables": Nftables,
    "nftables-dnat": NftablesDnat,
    "iptables": Iptables,
    "iptables-legacy": IptablesLegacy,
    "dnsdist": Dnsdist,
}


def about(peer: Peer) -> dict[str, Any]:
    """What is reported of a peer."""
    return {"is": (peer.__class__.__doc__ or "").rstrip("."), "version": peer.version()}
