# SPDX-License-Identifier: Apache-2.0
"""Private switches for tests, and what tests need to look at them without the code that they test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from dnsteer.checks.load import check_document
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from dnsteer.switch import private_switch
from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.rpc import Rpc
from dnsteer.switch.tools import run
from dnsteer.tables.order import PIPELINE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
STATE_TABLE = f"table={PIPELINE.holding('state').number}"
"""How a flow of table state begins its match, as ovs-ofctl prints and takes it."""
NEIGHBOR_TABLE = f"table={PIPELINE.holding('addresses').number}"
NUMBER = {table.name: table.number for table in PIPELINE.tables.values()}
"""The number of each table."""
PROTECT_TABLE = f"table={NUMBER['protect']}"
VIP_TABLE = f"table={NUMBER['vip']}"
SLOT_TABLE = f"table={NUMBER['slot']}"
FORWARD_TABLE = f"table={NUMBER['forward']}"
RETURN_TABLE = f"table={NUMBER['return']}"
EGRESS_TABLE = f"table={NUMBER['egress']}"
BRIDGE = "br-dns"

# Two specs of one bridge: many objects and a group, and few.
LARGE = """\
apiVersion: dnsteer/v1
switch:
  name: dpu-1
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, '2001:db8:53::1']
  uplinks:
    p0: {next_hop: '02:00:00:00:00:fe'}
  ports:
    vf0:
    vf1:
    vf2:
pools:
  hashed:
    selection: dp-hash
    slots: 16
    backends:
      - {name: a, ipv4: 10.53.0.11, ipv6: '2001:db8:53::11', mac: '02:00:00:00:03:01', port: vf0}
      - {name: b, ipv4: 10.53.0.12, ipv6: '2001:db8:53::12', mac: '02:00:00:00:03:02', port: vf1}
  direct:
    slots: 32
    backends:
      - {name: a, ipv4: 10.53.0.11, ipv6: '2001:db8:53::11', mac: '02:00:00:00:03:01', port: vf0}
      - {name: c, ipv4: 10.53.0.13, ipv6: '2001:db8:53::13', mac: '02:00:00:00:03:03', port: vf2}
vips:
  nat:
    addresses: [198.51.100.53, '2001:db8:1::53']
    services: [{protocol: udp, port: 53, target_port: 5353}, {protocol: tcp, port: 53, target_port: 5353}]
    pool: hashed
    forwarding: nat
  straight:
    addresses: [198.51.100.54, '2001:db8:1::54']
    services: [dns]
    pool: direct
"""
SMALL = """\
apiVersion: dnsteer/v1
switch:
  name: dpu-1
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0:
pools:
  farm:
    slots: 16
    backends:
      - {name: ns1, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01'}
      - {name: ns2, ipv4: 192.0.2.12, mac: '02:00:00:00:01:02', weight: 2}
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: farm}
"""


class Switch(PrivateSwitch):
    """A private switch, with ovs-ofctl, and with the warnings that the test expects in its logs (*expected*)."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[str] = []

    def ofctl(self, command: str, *args: str, bridge: str = BRIDGE, stdin: str | None = None) -> str:
        """What `ovs-ofctl COMMAND BRIDGE ARGS` prints; it must succeed."""
        argv = ["ovs-ofctl", "-O", "OpenFlow15", command, f"unix:{self.dir}/{bridge}.mgmt", *args]
        return run(argv, stdin=stdin, timeout=30)

    def flows(self, bridge: str = BRIDGE) -> set[str]:
        """All flows, as ovs-ofctl prints them."""
        lines = self.ofctl("dump-flows", "--no-names", "--no-stats", bridge=bridge).splitlines()
        return {line.strip() for line in lines if "actions=" in line}

    def groups(self, bridge: str = BRIDGE) -> set[str]:
        """All groups, as ovs-ofctl prints them."""
        return {line.strip() for line in self.ofctl("dump-groups", bridge=bridge).splitlines() if "group_id=" in line}

    def tables(self, bridge: str = BRIDGE) -> tuple[set[str], set[str]]:
        """Flows and groups, with ports by name: numbers change when ports leave and come back."""
        ports = dict(re.findall(r"^ (\d+)\((.+)\): addr", self.ofctl("dump-ports-desc", bridge=bridge), re.M))

        def named_ports(found: re.Match[str]) -> str:
            prefix, numbers = found[1] or "", found[2] or found[0]
            return prefix + ",".join(ports.get(number, number) for number in numbers.split(","))

        named = {
            re.sub(r"\b(in_port=|output:)(\d+)|(?<=\bmembers:)[\d,]+", named_ports, line) for line in self.flows(bridge)
        }
        return named, self.groups(bridge)

    def start_switch(self) -> None:
        """As the original, and wait until the bridges of the database are there."""
        super().start_switch()
        self.vsctl("set", "Open_vSwitch", ".", "external_ids:started=yes")
        deadline = time.monotonic() + 10  # the sockets of the one that was killed are there, and nobody listens
        while any(not private_switch._listens(self.dir / f"{name}.mgmt") for name in self.bridges()):
            assert time.monotonic() < deadline, "a bridge does not listen"
            time.sleep(0.01)

    def kill_switch(self) -> None:
        """Kill ovs-vswitchd as a crash would; the database stays."""
        if self._control is not None:
            self._control.close()
            self._control = None
        process = self._processes["ovs-vswitchd"]
        process.kill()
        process.wait()

    def listen_on_tcp(self) -> str:
        """Let the database be reached by TCP too; returns the remote."""
        control = next(self.dir.glob("ovsdb-server.*.ctl"))
        before = self.ports_chosen("ovsdb")
        subprocess.run(["ovs-appctl", "-t", control, "ovsdb-server/add-remote", "ptcp:0:127.0.0.1"], check=True)
        return f"tcp:127.0.0.1:{self.port_chosen('ovsdb', after=len(before))}"

    def port_chosen(self, daemon: str, after: int = 0) -> int:
        """The port that the kernel chose for port 0 of a remote. The daemon answers who adds it before it listens."""
        deadline = time.monotonic() + 10
        while len(ports := self.ports_chosen(daemon)) <= after:
            assert time.monotonic() < deadline, f"{daemon} does not listen"
            time.sleep(0.01)
        return ports[-1]

    def ports_chosen(self, daemon: str) -> list[int]:
        """All ports that the kernel has chosen for a daemon, in order."""
        return [int(port) for port in re.findall(r"listening on port (\d+)", (self.dir / f"{daemon}.log").read_text())]

    def conf(self) -> bytes:
        """The database file: it grows with every transaction."""
        # The switch itself still writes a moment after a bridge was made (datapath_version): wait until it is done.
        file, deadline = self.dir / "conf.db", time.monotonic() + 10
        last = file.read_bytes()
        while time.monotonic() < deadline:
            time.sleep(0.3)
            now = file.read_bytes()
            if now == last:
                break
            last = now
        return last

    def column(self, table: str, record: str, name: str) -> str:
        """A column of a record, as ovs-vsctl prints it."""
        return self.vsctl("get", table, record, name).strip()

    def ports(self, bridge: str = BRIDGE) -> set[str]:
        """The bridge's ports."""
        return set(self.vsctl("list-ports", bridge).split())

    def bridges(self) -> list[str]:
        """The bridges."""
        return self.vsctl("list-br").split()


class Running(Switch):
    """A private switch whose ovs-vswitchd is found by its pid file, as ovs-appctl and scripts find it."""

    def start_switch(self) -> None:
        (self.dir / "ovs-vswitchd.pid").unlink(missing_ok=True)
        control = self.dir / "vswitchd.ctl"
        argv = ["ovs-vswitchd", self.database, "--enable-dummy=override", "--disable-system", f"--unixctl={control}"]
        argv += [f"--pidfile={self.dir}/ovs-vswitchd.pid", f"--log-file={self.dir}/vswitchd.log"]
        self._spawn([*argv, "-vconsole:off", "-vsyslog:off"], control)
        (self.dir / f"ovs-vswitchd.{self._processes['ovs-vswitchd'].pid}.ctl").symlink_to(control)
        self._control = Rpc(f"unix:{control}", "the private ovs-vswitchd", 10)
        self.vsctl("set", "Open_vSwitch", ".", "external_ids:started=yes")
        deadline = time.monotonic() + 10  # the sockets of the one that was killed are there, and nobody listens
        while any(not private_switch._listens(self.dir / f"{name}.mgmt") for name in self.bridges()):
            assert time.monotonic() < deadline, "a bridge does not listen"
            time.sleep(0.01)


LATE = "Unreasonably long"
"""A warning about a daemon that was stopped, or about a machine that is too busy."""


def unexpected(private: Switch) -> list[str]:
    """Warnings in the logs that the test did not expect."""
    # What a rate limit drops is of the kind that it lets through at other times, and is seen then.
    # A client that ends while the server still talks to it (ovs-vsctl does) leaves two lines that mean nothing.
    noise = [
        r"Dropped \d+ log messages in last",
        r"send error: Broken pipe",
        r"connection dropped \(Broken pipe\)",
        r"unix#\d+: (receive error: |connection dropped \()Connection reset by peer",
        # Of Open vSwitch 3.1.0, when a bridge goes whose packets were recirculated a moment ago.
        r"recirc_id \d+ left allocated when ofproto",
    ]
    known = [*private.expected, *noise]
    if LATE in known:  # what the switch says of its resources then belongs to it
        known += [rf"timeval\|WARN\|{what}: " for what in ("faults", "disk", "context switches")]
    return [c for c in private.complaints() if not any(re.search(e, c) for e in known)]


def line_of(text: str, part: str) -> int:
    """The line of *text*, from 1, that *part* is in."""
    return next(n for n, line in enumerate(text.splitlines(), 1) if part in line)


def spec_of(text: str) -> Loaded:
    """A spec from its text."""
    return check_document(parse_document("spec.yaml", text))


def cli(*args: object, env: dict[str, str] | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run `dnsteer` as a process of its own."""
    argv = [sys.executable, "-m", "dnsteer", *map(str, args)]
    environment = {**os.environ, **(env or {})}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout, env=environment)


def processes_naming(text: str) -> list[str]:
    """Command lines of running processes that mention *text*, other than this one's."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line and folder.name != str(os.getpid()):
            found.append(line)
    return found
