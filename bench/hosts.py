# SPDX-License-Identifier: Apache-2.0
"""Machines for experiments with several switches: network namespaces, daemons in them, and an Open vSwitch of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dnsteer.lab.command import netns_exec, program_environment, run
from dnsteer.lab.names import ZONE
from dnsteer.lab.traffic import LoadResult, RunningLoad
from dnsteer.lab.zone import queries_text, zone_text
from dnsteer.switch.signals import ends_with_parent

_PREFIX = "dnsteer-bench-"
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_PATIENCE = 20.0
HOST = ("net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0", "net.ipv6.conf.default.disable_ipv6=1")
"""Settings of every namespace."""
_NO_OFFLOADS = [word for kind in ("tx", "tso", "gso", "gro") for word in (kind, "off")]


def space(name: str) -> str:
    """A namespace of this process."""
    return f"{_PREFIX}{os.getpid()}-{name}"


def inside(name: str, *argv: str) -> str:
    """Run something in a namespace, and return what it prints."""
    return run(netns_exec(space(name), list(argv)))


def link(one: str, device: str, other: str, peer: str, mac: str = "") -> str:
    """The line for `ip -batch` that links two namespaces; *mac* is that of the first end."""
    own = f" address {mac}" if mac else ""
    return f"link add {peer} netns {space(other)} type veth peer name {device}{own} netns {space(one)}"


def build(settings: Mapping[str, Sequence[str]], links: Iterable[str], addresses: Mapping[str, Sequence[str]]) -> None:
    """Make namespaces with their *settings* (sysctl), and links, all up, and addresses, each with its device.

    Those that a killed process has left are removed.
    """
    _remove(lambda pid: not Path(f"/proc/{pid}").exists())
    for name, wanted in settings.items():
        run(["ip", "netns", "add", space(name)])
        inside(name, "sysctl", "-qw", *HOST, *wanted)
    run(["ip", "-batch", "-"], stdin="".join(f"{line}\n" for line in links))
    for name in settings:
        for device in (found["ifname"] for found in decoded(inside(name, "ip", "-j", "link"))):
            inside(name, "ip", "link", "set", device, "up")
            if device != "lo":  # the userspace datapath needs whole frames with checksums
                inside(name, "ethtool", "-K", device, *_NO_OFFLOADS)
        for address in addresses.get(name, ()):
            inside(name, "ip", "address", "add", *address.split())


def remove() -> None:
    """Remove the namespaces of this process."""
    _remove(lambda pid: pid == os.getpid())


def _remove(owned: Callable[[int], bool]) -> None:
    for line in run(["ip", "netns", "list"]).splitlines():
        found = re.match(rf"{_PREFIX}(\d+)-\S+", line)
        if found is not None and owned(int(found[1])):
            run(["ip", "netns", "delete", found[0]])


def decoded(text: str) -> list[dict[str, Any]]:
    """What `ip -j` prints."""
    return json.loads(text or "[]")  # type: ignore[no-any-return]


def wait_for(file: Path) -> None:
    """Wait until there is a file."""
    deadline = time.monotonic() + _PATIENCE
    while not file.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{file} is not there after {_PATIENCE:g} s")
        time.sleep(0.02)


@dataclass
class Process:
    """A daemon in a namespace."""

    argv: Sequence[str]
    where: str
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as file:
            argv = netns_exec(space(self.where), list(self.argv))
            self.running = subprocess.Popen(
                argv,
                stdout=file,
                stderr=file,
                env={**program_environment(), **self.env},
                preexec_fn=ends_with_parent(signal.SIGKILL),
            )

    def kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        """End it, also one that was stopped, and wait until it has."""
        if self.running is not None:
            self.running.send_signal(by)
            self.running.send_signal(signal.SIGCONT)
            self.running.wait(20)
            self.running = None


class Servers:
    """A name server (NSD) that serves the lab's zone at several addresses of a namespace.

    It holds as many TCP connections at once as *connections* says; NSD's default is 100.
    """

    def __init__(self, where: str, folder: Path, name: str, addresses: Sequence[str], connections: int = 100) -> None:
        self.where = where
        (folder / "zone").write_text(zone_text(name))
        listens = "".join(f"  ip-address: {address}@53\n" for address in addresses)
        (folder / "nsd.conf").write_text(
            f'server:\n{listens}  ip-transparent: yes\n  username: ""\n  zonesdir: "{folder}"\n  server-count: 1\n'
            f'  pidfile: "{folder}/nsd.pid"\n  zonelistfile: "{folder}/zone.list"\n  xfrdfile: "{folder}/xfrd"\n'
            f'  xfrdir: "{folder}"\n  database: ""\n  tcp-count: {connections}\n'
            f"  rrl-ratelimit: 0\n  rrl-whitelist-ratelimit: 0\n  rrl-size: 1000\n"
            f'remote-control:\n  control-enable: no\nzone:\n  name: "{ZONE}"\n  zonefile: "zone"\n'
        )
        self._nsd = Process(["nsd", "-d", "-c", f"{folder}/nsd.conf"], where, folder / "nsd.log")

    def start(self) -> None:
        """Start it."""
        self._nsd.start()

    def kill(self) -> None:
        """Kill it, with the processes that it has started."""
        for pid in inside(self.where, "ip", "netns", "pids", space(self.where)).split():
            with suppress(OSError):  # it has ended
                if Path(f"/proc/{pid}/comm").read_text().strip() == "nsd":
                    os.kill(int(pid), signal.SIGKILL)
        self._nsd.kill()


class Queries:
    """Queries (dnsperf) of a namespace to a server for so many seconds. They begin at once.

    *qps* 0 asks as fast as answers come. *outstanding*: how many wait for an answer at most. With *transport* tcp the
    64 connections stay open.
    """

    def __init__(
        self,
        where: str,
        folder: Path,
        server: str,
        seconds: float,
        qps: int,
        outstanding: int = 20_000,
        transport: str = "udp",
    ) -> None:
        file = folder / "queries"
        file.write_text(queries_text())
        how = ["-l", f"{seconds:g}", "-c", "64", "-T", "1", "-t", "1", "-q", str(outstanding)]
        argv = ["dnsperf", "-m", transport, "-s", server, "-d", str(file), *how, *(["-Q", str(qps)] if qps else [])]
        process = subprocess.Popen(
            netns_exec(space(where), argv),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=program_environment(),
            preexec_fn=ends_with_parent(signal.SIGKILL),
        )
        self._load = RunningLoad(process, argv)

    def result(self) -> LoadResult:
        """Wait for their end, and return what dnsperf reports. A query without an answer within a second is lost."""
        return self._load.wait(120)

    def counted(self) -> tuple[int, int]:
        """Wait for their end, and return how many were sent, and how many of them had no answer within a second."""
        found = self.result()
        return found.sent, found.lost


class SwitchHost:
    """A machine with an Open vSwitch (userspace datapath) and an agent, in a namespace."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder / name
        self.folder.mkdir()
        self.db = f"unix:{self.folder}/db.sock"
        env = {"OVS_RUNDIR": str(self.folder)}
        self.database = self.process(
            "ovsdb-server",
            f"{self.folder}/conf.db",
            f"--remote=punix:{self.folder}/db.sock",
            f"--unixctl={self.folder}/db.ctl",
            "-vconsole:off",
            env=env,
        )
        self.vswitchd = self.process(
            "ovs-vswitchd",
            self.db,
            "--disable-system",
            f"--pidfile={self.folder}/ovs-vswitchd.pid",
            f"--log-file={self.folder}/vs.log",
            "-vconsole:off",
            env=env,
        )
        self.agent = self.process(sys.executable, "-m", "dnsteer", "agent", "--db", self.db)

    def process(self, *argv: str, env: Mapping[str, str] | None = None) -> Process:
        """A daemon on this machine, to be started."""
        return Process(argv, self.name, self.folder / f"{Path(argv[0]).name}.out", env or {})

    def start_switch(self, spec: str) -> None:
        """Start Open vSwitch, and apply a spec."""
        self.start_openvswitch()
        file = self.folder / "spec.yaml"
        file.write_text(spec)
        self.dnsteer("apply", str(file), "--yes")

    def start_openvswitch(self) -> None:
        """Start Open vSwitch, with an empty database."""
        run(["ovsdb-tool", "create", f"{self.folder}/conf.db", _SCHEMA])
        self.database.start()
        wait_for(self.folder / "db.sock")
        inside(self.name, "ovs-vsctl", f"--db={self.db}", "--timeout=20", "--no-wait", "init")
        self.vswitchd.start()
        wait_for(self.folder / "ovs-vswitchd.pid")

    def dnsteer(self, *args: str) -> None:
        """Run the command on this machine."""
        argv = netns_exec(space(self.name), [sys.executable, "-m", "dnsteer", *args, "--db", self.db])
        subprocess.run(argv, check=True, stdout=sys.stderr, env=program_environment())

    def hang(self, by: signal.Signals) -> None:
        """Stop ovs-vswitchd (SIGSTOP), or let it go on (SIGCONT)."""
        os.kill(int((self.folder / "ovs-vswitchd.pid").read_text()), by)

    def stop(self) -> None:
        """End all of it."""
        for process in (self.agent, self.vswitchd, self.database):
            process.kill(signal.SIGTERM)
