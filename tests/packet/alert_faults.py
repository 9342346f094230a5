# SPDX-License-Identifier: Apache-2.0
"""Faults of a switch, its backends and its agent, each with the alert that it must raise."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from ipaddress import IPv4Address
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from bench.repeated import repeated
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dnsteer.spec.loaded import Loaded
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.tools import SwitchError
from tests.packet.agents import Agent, agent, wait
from tests.packet.apply_spec import apply
from tests.packet.command import on
from tests.packet.prometheus import Prometheus, free_port
from tests.packet.status_cases import frames
from tests.packet.switches import Switch, spec_of

SPEC = """\
apiVersion: dnsteer/v1
switch:
  {name: dpu-1, flavor: ovs-netdev, bridge: br-dns, mac: 02:00:00:00:00:53, tracking: {connections: 5},
   uplinks: {p0: , bond0: {members: {m0: , m1: }}}}
pools:
  many:
    slots: 16
    slow_start: 6s
    hold_max: 1s
    panic: 100%
    health: CHECK
    backends: [BACKENDS-5]
  cautious:
    slots: 16
    hold_max: 1s
    health: CHECK
    backends: [BACKENDS-2]
  helped:
    slots: 16
    hold_max: 1s
    panic: 100%
    health: CHECK
    backup: spare
    backends: [BACKENDS-1]
  spare: {slots: 16, backends: [BACKENDS-1]}
  plain: {slots: 16, on_all_down: drop, backends: [BACKENDS-2]}
  kept:
    slots: 16
    hold_max: 1s
    keep_at_least: 2
    health: CHECK
    backends: [BACKENDS-3]
vips:
  many: {addresses: [198.51.100.1], services: [dns], pool: many}
  cautious: {addresses: [198.51.100.2], services: [dns], pool: cautious}
  helped: {addresses: [198.51.100.3], services: [dns], pool: helped}
  plain: {addresses: [198.51.100.4], services: [dns], pool: plain}
  kept: {addresses: [198.51.100.5], services: [dns], pool: kept, keep: connections, limits: {queries: 1k/s}}
"""
ONE_FLOW = "tcp,nw_dst=198.51.100.1"
VIPS = {f"198.51.100.{n}" for n in range(1, 6)}


def spec_text(folder: Path) -> str:
    """The spec: a check of a backend passes while there is a file of its name in *folder*."""
    number = 0
    out = []
    for line in SPEC.splitlines():
        head, marked, count = line.partition("[BACKENDS-")
        if marked:
            backends = []
            for _ in range(int(count[0])):
                number += 1
                backends.append(f"{{name: b{number}, ipv4: 192.0.2.{number}, mac: '02:00:00:00:01:{number:02x}'}}")
                (folder / f"b{number}").touch()
            line = f"{head}[{', '.join(backends)}{count[1:]}"
        out.append(line)
    command = f"[test, -e, '{folder}/{{backend}}']"
    check = f"{{check: command, command: {command}, interval: 500ms, timeout: 400ms, fall: 1, rise: 1}}"
    return "\n".join(out).replace("CHECK", check) + "\n"


class Watched:
    """A switch with the spec applied, an agent and a Prometheus that scrapes it."""

    def __init__(self, switch: Switch, folder: Path) -> None:
        self.switch, self.folder, self.run = switch, folder, on(switch)
        self.address = f"127.0.0.1:{free_port()}"
        (folder / "spec.yaml").write_text(spec_text(folder))
        self.apply()
        self._one_at_a_time = threading.Lock()
        self.quiet: set[str] = set()
        """VIPs to which nobody sends packets."""
        self.agent = self.start()
        self.prometheus = Prometheus(folder, self.address)

    def start(self, ready: str = "pools with health checks: 4") -> Agent:
        started = Agent(self.switch, self.folder / "agent.log", "--metrics", self.address)
        if os.geteuid() == 0:  # as the test: its averages of seconds need readings in time
            os.setpriority(os.PRIO_PROCESS, started.process.pid, os.getpriority(os.PRIO_PROCESS, 0))
        started.waits_for(ready)
        return started

    def restart(self) -> None:
        """End the agent and start it again."""
        assert self.agent.end() == 0, self.agent.said()
        self.agent = self.start()

    @contextmanager
    def not_repaired(self) -> Iterator[None]:
        """The spec has `repair: report` meanwhile; it is applied again in the end."""
        file = self.folder / "report.yaml"
        file.write_text(
            (self.folder / "spec.yaml").read_text().replace("bridge: br-dns", "repair: report, bridge: br-dns")
        )
        self.does("apply", file, "--yes")
        number = self.run("status", "--no-rates", "--json").json["state"]["state"]
        self.agent.waits_for(f"state {number},")  # it may be in the middle of a repair
        try:
            yield
        finally:
            self.apply()

    def apply(self) -> None:
        """Apply the spec."""
        self.does("apply", self.folder / "spec.yaml", "--yes")

    def does(self, *args: object) -> None:
        """Run a verb, which must succeed."""
        done = self.run(*args)
        assert done.code == 0, done.err

    @contextmanager
    def failed(self, *backends: str) -> Iterator[None]:
        """These fail their checks meanwhile."""
        for name in backends:
            (self.folder / name).unlink()
        try:
            yield
        finally:
            for name in backends:
                (self.folder / name).touch()

    @contextmanager
    def out(self, *backends: str) -> Iterator[None]:
        """These are down meanwhile."""
        for name in backends:
            self.does("down", name, "--yes")
        try:
            yield
        finally:
            for name in backends:
                self.does("up", name)

    @contextmanager
    def setting(self, setting: str) -> Iterator[None]:
        """The switch has it in `other_config` meanwhile."""
        self.switch.vsctl("set", "Open_vSwitch", ".", f"other_config:{setting}")
        try:
            yield
        finally:
            self.switch.vsctl("remove", "Open_vSwitch", ".", "other_config", setting.partition("=")[0])

    @contextmanager
    def foreign_bridge(self, *flows: str, kind: str = "") -> Iterator[None]:
        """Another bridge with a port `px`, and these flows, is there meanwhile."""
        port = ["--", "set", "Interface", "px", f"type={kind}"] if kind else []
        self.switch.vsctl(
            "add-br", "brx", "--", "set", "Bridge", "brx", "datapath_type=netdev", "--", "add-port", "brx", "px", *port
        )
        try:
            for flow in flows:
                self.switch.ofctl("add-flow", flow, bridge="brx")
            yield
        finally:
            self.switch.vsctl("del-br", "brx")

    def traffic(self) -> AbstractContextManager[None]:
        """Some packets to each VIP while the block runs: those that stop are a fault."""

        def send() -> None:
            with suppress(SwitchError):  # it may be away
                for address in VIPS - self.quiet:
                    self.receive("p0", *frames(address, udp=4, tcp=0))

        return repeated(send, every=0.5)

    def receive(self, port: str, *packets: str) -> None:
        """Packets come in at a port."""
        with self._one_at_a_time:
            self.switch.appctl("netdev-dummy/receive", port, *packets)


@contextmanager
def one_returns_slowly(it: Watched) -> Iterator[None]:
    with it.failed("b1"):
        wait(lambda: "many/b1" in it.run("status", "--no-rates").out.partition("\npool")[0], lambda: "not out")
    yield


@contextmanager
def no_traffic(it: Watched) -> Iterator[None]:
    it.quiet = {"198.51.100.1"}
    try:
        yield
    finally:
        it.quiet = set()


def no_backend(it: Watched) -> AbstractContextManager[None]:
    return it.out("plain/b10", "plain/b11")


@contextmanager
def flood(it: Watched) -> Iterator[None]:
    some = frames("198.51.100.99", udp=20, tcp=0)
    with repeated(lambda: it.receive("p0", *some), every=0.05):
        yield


@contextmanager
def vip_is_flooded(it: Watched) -> Iterator[None]:
    """Queries come faster than the limit of the VIP."""
    some = frames("198.51.100.5", udp=90, tcp=0)
    with repeated(lambda: it.receive("p0", *some), every=0.02):
        yield


@contextmanager
def tracker_is_nearly_full(it: Watched) -> Iterator[None]:
    """As many connections are open as the tracker may remember."""
    it.receive("p0", *frames("198.51.100.5", udp=0, tcp=5))
    yield
    it.switch.appctl("dpctl/flush-conntrack")


@contextmanager
def no_link(it: Watched, *members: str) -> Iterator[None]:
    for member in members:
        it.switch.appctl("netdev-dummy/set-admin-state", member, "down")
    try:
        yield
    finally:
        for member in members:
            it.switch.appctl("netdev-dummy/set-admin-state", member, "up")


@contextmanager
def switch_dies(it: Watched) -> Iterator[None]:
    it.switch.kill_switch()
    try:
        yield
    finally:
        it.switch.start_switch()


@contextmanager
def tables_are_gone(it: Watched) -> Iterator[None]:
    with it.not_repaired():
        it.switch.ofctl("del-flows")
        yield


@contextmanager
def waits_for_flows(it: Watched) -> Iterator[None]:
    with it.not_repaired(), it.setting("flow-restore-wait=true"):
        yield


@contextmanager
def flow_is_gone(it: Watched) -> Iterator[None]:
    with it.not_repaired():
        it.switch.ofctl("del-flows", ONE_FLOW)
        yield


@contextmanager
def somebody_fights(it: Watched) -> Iterator[None]:
    with repeated(lambda: it.switch.ofctl("del-flows", ONE_FLOW), every=0.4):
        yield


def hang_in_the_middle(spec: Loaded, database: str) -> None:
    """Apply, and stop where the change is begun."""
    OpenFlow.bundle = lambda *_: os.kill(os.getpid(), signal.SIGSTOP)  # type: ignore[method-assign]
    apply(spec, database)


@contextmanager
def change_hangs(it: Watched) -> Iterator[None]:
    other = (it.folder / "spec.yaml").read_text().replace("addresses: [198.51.100.4]", "addresses: [198.51.100.9]")
    child = get_context("fork").Process(target=hang_in_the_middle, args=(spec_of(other), it.switch.database))
    child.start()
    try:
        yield
    finally:
        child.kill()
        child.join()


@contextmanager
def maintenance_cannot_end(it: Watched) -> Iterator[None]:
    """Somebody holds the bridge's lock when a drain should end."""
    it.does("drain", "plain/b10", "--for", "5s", "--yes")
    with change_hangs(it):
        yield


@contextmanager
def record_is_damaged(it: Watched) -> Iterator[None]:
    """By hand, so that the agent can do nothing on a switch that answers."""
    it.switch.vsctl("--no-wait", "set", "Bridge", "br-dns", "external_ids:dnsteer-overlay=nonsense")
    try:
        yield
    finally:
        it.switch.vsctl("--no-wait", "remove", "Bridge", "br-dns", "external_ids", "dnsteer-overlay")


@contextmanager
def upcalls_are_lost(it: Watched) -> Iterator[None]:
    """Upcalls fail while the threads of the switch are restarted; a port that a thread of its own polls goes on."""
    rounds, settings = count(), count()

    def flood() -> None:
        n = next(rounds) % 250
        it.receive("px", *(strange(n, i) for i in range(90)))

    def restart_threads() -> None:
        number = 1 + next(settings) % 2
        it.switch.vsctl("--no-wait", "set", "Open_vSwitch", ".", f"other_config:n-revalidator-threads={number}")

    with (
        it.setting("n-revalidator-threads=1"),
        it.foreign_bridge(kind="dummy-pmd"),
        repeated(flood, every=0),
        repeated(restart_threads, every=0),
    ):
        yield


@contextmanager
def many_masks(it: Watched) -> Iterator[None]:
    """Foreign flows of decreasing priority, each of one bit: who meets the last one has a mask of all bits before it."""
    bits = [f"nw_src={bit}/{bit}" for bit in map(str, map(IPv4Address, (1 << n for n in range(31))))]
    bits += [f"tp_src={bit:#x}/{bit:#x}" for bit in (1 << n for n in range(15))]
    flows = [f"priority={1000 - n},udp,{bit} actions=drop" for n, bit in enumerate(bits)]
    sources = [(str(IPv4Address(1 << n)), 0) for n in range(31)] + [("128.0.0.0", 1 << n) for n in range(15)]
    head = Ether(src="02:00:00:01:00:00", dst="02:00:00:00:00:01")
    some = [bytes(head / IP(src=s, dst="198.18.0.1") / UDP(sport=port, dport=9)).hex() for s, port in sources]
    with it.foreign_bridge(*flows), repeated(lambda: it.receive("px", *some), every=0.5):
        time.sleep(0.6)
        it.restart()  # masks are read once a minute, and at its start
        yield
    it.restart()


@contextmanager
def many_megaflows(it: Watched) -> Iterator[None]:
    some = [strange(0, n) for n in range(95)]
    flow = "priority=1,dl_src=02:00:00:02:00:00 actions=drop"  # so that each source is a megaflow
    with it.setting("flow-limit=100"), it.foreign_bridge(flow), repeated(lambda: it.receive("px", *some), every=0.5):
        yield


def strange(one: int, other: int) -> str:
    """A frame from a source of its own."""
    return bytes(
        Ether(src=f"02:00:00:01:{one:02x}:{other:02x}", dst="02:00:00:00:00:01", type=0x88B5) / bytes(46)
    ).hex()


@contextmanager
def agent_hangs(it: Watched) -> Iterator[None]:
    it.agent.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        it.agent.process.send_signal(signal.SIGCONT)


@contextmanager
def not_scraped(it: Watched) -> Iterator[None]:
    it.prometheus.scrape()
    try:
        yield
    finally:
        it.prometheus.scrape(it.address)


@contextmanager
def another_acts(it: Watched) -> Iterator[None]:
    with agent(it.switch, it.folder, "standing by", "other") as other:
        assert it.agent.end() == 0, it.agent.said()
        other.waits_for("control socket")
        it.agent = it.start("standing by")
        yield


@contextmanager
def slow_switch(it: Watched) -> Iterator[None]:
    """The switch hangs for a while when a backend fails."""
    with it.failed("b6"):
        process = it.switch._processes["ovs-vswitchd"]
        process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(2.5)
        finally:
            process.send_signal(signal.SIGCONT)
        yield
