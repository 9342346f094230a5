# SPDX-License-Identifier: Apache-2.0
"""Two switches with one VIP on one network, without BGP: how soon the standby takes over, and what that costs.

keepalived on each switch's machine speaks VRRP with the other one's, over a link of their own, and tells `dnsteer
vrrp`. Queries are sent all the time while the active machine dies, its ovs-vswitchd hangs, its uplink is lost, or keepalived
ends for maintenance. Prints JSON: the time until the client has the MAC address of the other switch, and the queries that
were lost, over some repetitions. Needs root, keepalived 2, NSD, Open vSwitch.

python -m bench.vrrp [--repeat 5] [--qps 2000] [--seconds 10] [--plot FILE.svg]
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.events import SETTLE, parser, repeated, report, watching
from bench.hosts import Queries, Servers, SwitchHost, build, decoded, inside, link, remove
from dnsteer.lab.command import program_environment

VIP = "192.0.2.53"
_MEMBERS = (1, 2)
_SERVERS = ("net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:0{n}:53
  probe: {{addresses: [192.0.2.9{n}/24]}}
  uplinks:
    p0:
pools:
  farm:
    slots: 16
    health: {{check: dns, query: {{name: dnsteer.test}}, interval: 500ms, timeout: 250ms}}
    backends:
      - {{name: a, ipv4: 192.0.2.11, mac: '02:00:00:00:20:01'}}
      - {{name: b, ipv4: 192.0.2.12, mac: '02:00:00:00:20:02'}}
vips:
  dns: {{addresses: [192.0.2.53], services: [dns], pool: farm}}
"""
KEEPALIVED = """\
global_defs {{
  script_user root
  enable_script_security
  vrrp_version 3
  vrrp_notify_fifo {folder}/vrrp.fifo
  vrrp_notify_fifo_script "{folder}/follow"
}}
vrrp_script switch_answers {{
  script "/bin/sh -c '{ofctl} --timeout=1 -O OpenFlow15 get-frags unix:{folder}/br-dns.mgmt || exec {folder}/forwards'"
  interval 1
  timeout 3
  fall 2
  rise 1
}}
vrrp_instance dns {{
  state BACKUP
  nopreempt
  interface ha
  virtual_router_id 53
  priority {priority}
  advert_int 0.2
  unicast_peer {{ 10.97.0.{other} }}
  virtual_ipaddress {{ 10.97.0.100/32 dev lo }}
  track_interface {{ p0 }}
  track_script {{ switch_answers }}
}}
"""


class Member(SwitchHost):
    """One of the two switches."""

    def __init__(self, number: int, folder: Path) -> None:
        super().__init__(f"switch{number}", folder)
        self.number = number
        self.mac = f"02:00:00:00:0{number}:53"
        config = self.folder / "keepalived.conf"
        pid_files = ["-p", f"{self.folder}/keepalived.pid", "-r", f"{self.folder}/vrrp.pid"]
        self.keepalived = self.process("keepalived", "-n", "-l", "-P", "-f", str(config), *pid_files)
        ofctl = shutil.which("ovs-ofctl", path=program_environment()["PATH"])
        config.write_text(
            KEEPALIVED.format(ofctl=ofctl, folder=self.folder, priority=100 + number, other=_MEMBERS[2 - number])
        )
        self._script("follow", 'vrrp "$1"', 1)
        self._script("forwards", "forwards --bridge br-dns", 0.5)

    def _script(self, name: str, words: str, timeout: float) -> None:
        """A script that keepalived starts, which becomes a verb."""
        script, path = self.folder / name, program_environment()["PATH"]
        verb = f"{sys.executable} -m dnsteer {words} --db {self.db} --timeout {timeout} >>{script}.out 2>&1"
        script.write_text(
            f'#!/bin/sh\nexport PATH="{path}" PYTHONPATH="{":".join(filter(None, sys.path))}"\nexec {verb}\n'
        )
        script.chmod(0o700)

    def start(self) -> None:
        """Start everything, on standby until keepalived says otherwise."""
        self.start_switch(SPEC.format(n=self.number))
        self.dnsteer("role", "standby")
        self.agent.start()
        self.keepalived.start()

    def die(self) -> None:
        """All of the machine is gone at once: VRRP's process first, which would else say goodbye to the peer."""
        os.kill(int((self.folder / "vrrp.pid").read_text()), signal.SIGKILL)
        for process in (self.keepalived, self.agent, self.vswitchd, self.database):
            process.kill()

    def come_back(self) -> None:
        """Start what died; the database has its contents."""
        self.database.start()
        self.vswitchd.start()
        self.dnsteer("role", "standby")
        self.agent.start()
        self.keepalived.start()

    def uplink(self, state: str) -> None:
        """Take the link away, at the other end, or give it back."""
        inside("net", "ip", "link", "set", f"s{self.number}", state)

    def stop(self) -> None:
        """End all of it."""
        self.keepalived.kill(signal.SIGTERM)
        super().stop()


Act = Callable[[Member], object]
EVENTS: dict[str, tuple[Act, Act]] = {
    "the machine dies": (Member.die, Member.come_back),
    "ovs-vswitchd hangs": (lambda m: m.hang(signal.SIGSTOP), lambda m: m.hang(signal.SIGCONT)),
    "the uplink is lost": (lambda m: m.uplink("down"), lambda m: m.uplink("up")),
    "keepalived ends": (lambda m: m.keepalived.kill(signal.SIGTERM), lambda m: m.keepalived.start()),
}
"""What happens to the active switch, and what puts it right."""


class Pair:
    """Both switches with client and servers on one network, as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.members = {n: Member(n, folder) for n in _MEMBERS}
        self.servers = [self._server(n) for n in _MEMBERS]

    def _server(self, number: int) -> Servers:
        folder = self.folder / f"server{number}"
        folder.mkdir()
        return Servers(f"server{number}", folder, f"server{number}", [f"192.0.2.1{number}", VIP])

    def __enter__(self) -> Pair:
        try:
            lines = [link("net", "c0", "client", "eth0")]
            lines += [link("net", f"s{n}", f"switch{n}", "p0") for n in _MEMBERS]
            lines += [link(f"server{n}", "eth0", "net", f"b{n}", f"02:00:00:00:20:0{n}") for n in _MEMBERS]
            lines.append(link("switch1", "ha", "switch2", "ha"))
            addresses = {"client": ["192.0.2.200/24 dev eth0"]}
            addresses |= {f"switch{n}": [f"10.97.0.{n}/24 dev ha"] for n in _MEMBERS}
            addresses |= {f"server{n}": [f"192.0.2.1{n}/24 dev eth0", f"{VIP}/32 dev lo"] for n in _MEMBERS}
            hosts: dict[str, tuple[str, ...]] = dict.fromkeys(("net", "client", "switch1", "switch2"), ())
            build(hosts | dict.fromkeys(("server1", "server2"), _SERVERS), lines, addresses)
            inside("net", "ip", "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
            inside("net", "ip", "link", "set", "br0", "up")
            for port in ("c0", "b1", "b2", "s1", "s2"):
                inside("net", "ip", "link", "set", port, "master", "br0")
            for server in self.servers:
                server.start()
            for member in self.members.values():
                member.start()
            self.wait_for_active()
        except BaseException:
            self.__exit__()
            raise
        return self

    def answering(self) -> str:
        """The MAC address that the client has for the VIP; empty without one."""
        found = decoded(inside("client", "ip", "-j", "neigh", "show", VIP))
        return str(found[0].get("lladdr", "")) if found else ""

    def wait_for_active(self, patience: float = 40.0) -> Member:
        """Wait until one switch answers for the VIP; that one."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            inside("client", "ip", "neigh", "flush", "dev", "eth0")
            inside("client", "sh", "-c", f"kdig @{VIP} dnsteer.test SOA +timeout=1 +retry=0 || true")
            active = [m for m in self.members.values() if m.mac == self.answering()]
            if active:
                return active[0]
            time.sleep(0.2)
        raise RuntimeError(f"no switch answers for {VIP} after {patience:g} s")

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            member.stop()
        for server in self.servers:
            server.kill()
        remove()


def measure(pair: Pair, event: tuple[Act, Act], seconds: float, qps: int) -> dict[str, Any]:
    """One event at the active switch, under load."""
    active = pair.wait_for_active()
    (standby,) = (m for m in pair.members.values() if m is not active)
    queries = Queries("client", pair.folder, VIP, seconds, qps)
    time.sleep(SETTLE)
    with watching({"client": lambda: pair.answering() == standby.mac}) as seen:
        began = time.monotonic()
        event[0](active)
        sent, lost = queries.counted()
    event[1](active)
    return {"away_s": round(seen["client"] - began, 3) if seen else None, "sent": sent, "lost": lost}


def main() -> None:
    """Run it."""
    options = parser("Take-over by VRRP: time and lost queries.", seconds=10).parse_args()
    missing = available()
    if missing:
        sys.exit(f"bench.vrrp: missing on this machine: {missing}")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="dnsteer-vrrp-") as folder, Pair(Path(folder)) as pair:
        for name, event in EVENTS.items():
            if options.only in name:
                measured = partial(measure, pair, event, options.seconds, options.qps)
                found[name] = repeated(name, options.repeat, 4, measured)  # both are settled
    report(options, found, "the client has the other switch's MAC address")


def available() -> str:
    """What is missing on this machine; empty: nothing."""
    path = program_environment()["PATH"]
    needed = ("keepalived", "nsd", "ovs-vswitchd", "dnsperf", "kdig")
    return ", ".join(name for name in needed if shutil.which(name, path=path) is None)


if __name__ == "__main__":
    main()
