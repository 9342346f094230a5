# SPDX-License-Identifier: Apache-2.0
"""Load a plan into a private switch, send frames into it, and read the frames that leave and the megaflows they caused.

If the plan has an extension, its program runs too: it gets the frames that the bridge sends to the extension's ports, and
the frames that it sends return to the bridge.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType

from scapy.utils import RawPcapReader

from dnsteer.plan import min_fragment
from dnsteer.plan.bridge import TUNNEL_OPTIONS
from dnsteer.plan.plan import Plan
from dnsteer.plan.tunnel_routes import tunnel_routes
from dnsteer.proof.harness import load_errors
from dnsteer.proof.harness.extension_process import IN, OUT, ExtensionProcess, Handled
from dnsteer.proof.reference.packets import Frame
from dnsteer.render.flows import groups_of, lines_of
from dnsteer.render.meters import Meter, meters_of
from dnsteer.render.template_types import check_own_template_rows
from dnsteer.switch.megaflows import Megaflow, read_megaflows
from dnsteer.switch.meters import bring_meters
from dnsteer.switch.openflow import OpenFlow, RejectedError, Tables
from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.table_changes import compare_tables
from dnsteer.switch.thread_counters import Counters, read_counters
from dnsteer.switch.tools import SwitchError, TimedOutError
from dnsteer.tables.ingress import PortRow, ProbeRow, TunnelRow

_BATCH = 100  # a dummy device queues 100 packets and drops any more
_KEPT = {"max-idle": "3600000", "max-revalidator": "3600000", "flow-limit": "1000000"}
"""Idle time after which megaflows expire and maximum revalidation interval (both ms); maximum number of megaflows."""
_STUCK = 60.0  # seconds
_LONG_MTU = 1600
"""Bytes of which queries as long as on usual links leave in tunnels."""
_RATE, _UNREACHED = re.compile(r"rate=\d+,burst_size=\d+"), "rate=100000000,burst_size=100000000"
_CONNECTION = re.compile(r"^tcp,orig=\(src=([^,]+),dst=([^,]+),sport=(\d+),dport=(\d+)\).*state=(\w+)", re.MULTILINE)
_MAX_ROUNDS = 8  # round trips between switch and extension; a query or an answer takes one


def _tunnel_ports(plan: Plan) -> list[str]:
    """The arguments of ovs-vsctl that add the ports of tunnels, and give the bridge the MAC address that they leave with."""
    args = ["--", "set", "Bridge", plan.bridge, f"other_config:hwaddr={plan.mac}"] if plan.tunnel_ports else []
    for name, kind in plan.tunnel_ports:
        options = [f"options:{key}={value}" for key, value in TUNNEL_OPTIONS.items()]
        args += ["--", "add-port", plan.bridge, name, "--", "set", "Interface", name, f"type={kind}", *options]
    return args


def _prepare_tunnels(plan: Plan, switch: PrivateSwitch) -> None:
    """Give the bridge what an apply gives it for tunnels."""
    wanted = tunnel_routes(plan)
    if wanted is None:
        return
    for address in wanted.addresses:
        switch.appctl("netdev-dummy/ip6addr" if ":" in address else "netdev-dummy/ip4addr", plan.bridge, address)
    for route in wanted.routes:
        switch.appctl("ovs/route/add", route.prefix, plan.bridge, route.gateway)
    for gateway, mac in wanted.neighbors:
        switch.appctl("tnl/neigh/set", plan.bridge, gateway, mac)


@dataclass(frozen=True)
class BondWay:
    """How packets come in by bonds: by which member, counted from 0, or the last one; and how many first ones are *down*."""

    member: int = 0
    down: int = 0


class Harness:
    """A context manager: the plan's bridge in a PrivateSwitch, with the ports of the spec as dummy devices.

    *extension* is the extension's process, None if the plan has no extension; *extension_frames* counts frames sent to it,
    *flows* what the switch shows of the plan's flows.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        part = plan.extension
        # Before the switch starts: if the program is missing, fail early.
        self.extension = ExtensionProcess(part) if part is not None and part.services else None
        self.extension_frames = 0
        self.flows = 0
        self._extension_ports = {part.ingress.name: IN, part.egress.name: OUT} if part is not None else {}
        probes = (row.name for row in plan.rows.of(ProbeRow))
        self._ports = [*(port.name for port in plan.rows.of(PortRow)), *probes, *self._extension_ports]
        self._tunnels = plan.rows.of(TunnelRow)
        self._resources = ExitStack()
        self._captures: dict[str, RawPcapReader] = {}
        self._bonds = {port.bond: port.members for port in plan.rows.of(PortRow) if port.members}
        self._way = BondWay()
        self._sent = 0

    def __enter__(self) -> Harness:
        with ExitStack() as resources:
            if self.extension is not None:
                resources.enter_context(self.extension)
            resources.callback(self._close_captures)
            self.switch = resources.enter_context(PrivateSwitch(real_tunnels=bool(self._tunnels)))
            self._load()
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def _load(self) -> None:
        plan, switch = self.plan, self.switch
        args = ["add-br", plan.bridge, "--", "set", "Bridge", plan.bridge, "datapath_type=dummy", "fail_mode=secure"]
        # No megaflow may expire while packets are still being counted, and rare revalidation saves the switch work.
        args += ["--", "set", "Open_vSwitch", ".", *(f"other_config:{key}={value}" for key, value in _KEPT.items())]
        for port in self._ports:
            args += ["--", "add-port", plan.bridge, port, "--", "set", "Interface", port]
            args += ["type=dummy", f"options:tx_pcap={self._capture(port)}"]
            args += [f"mtu_request={_LONG_MTU}"] if plan.tunnel_ports else []
        args += _tunnel_ports(plan)
        switch.vsctl(*args)
        _prepare_tunnels(plan, switch)
        # Besides flow-limit, the switch has a dynamic limit, which starts at 10,000 and follows the revalidator's speed.
        switch.appctl("upcall/set-flow-limit", _KEPT["flow-limit"])
        switch.appctl(
            *min_fragment.setting(min_fragment.SMALLEST, "dummy@ovs-dummy")
        )  # as a bring-up and an apply set it
        self.openflow = OpenFlow(f"unix:{switch.dir}/{plan.bridge}.mgmt", switch.env)
        check_own_template_rows()
        lines, groups, meters = dict.fromkeys(lines_of(plan, check=True)), groups_of(plan), meters_of(plan)
        try:
            bring_meters(self.openflow, meters, ())
            # a new bridge in fail mode secure has no flows
            self.openflow.bundle(compare_tables(lines, groups, Tables()).bundle())
        except RejectedError as err:
            raise SwitchError(load_errors.rejected(err, lines)) from None
        tables = self.openflow.dump(lines)
        if todo := compare_tables(lines, groups, tables, meters):
            raise SwitchError(load_errors.shown_differently(lines, todo, tables))
        self.flows = len(tables.same) + len(tables.flows)
        # What is dropped by its rate cannot be predicted of a packet: here all pass the meters, as few would.
        bring_meters(self.openflow, (), [Meter(m.number, _RATE.sub(_UNREACHED, m.text)) for m in meters])

    def _capture(self, port: str) -> str:
        return str(self.switch.dir / f"{port}.pcap")

    def bond_ways(self) -> list[BondWay]:
        """All ways to send by bonds: by each member, then by the last one while the others are down; one without bonds."""
        most = max(map(len, self._bonds.values()), default=1)
        return [*map(BondWay, range(most)), *([BondWay(most - 1, most - 1)] if most > 1 else [])]

    def use_bonds(self, way: BondWay) -> None:
        """Send what comes in by bonds the *way*, with the links of members up or down for it."""
        if way == self._way:
            return
        for members in self._bonds.values():
            for i, port in enumerate(members[:-1]):
                if (i < way.down) != (i < self._way.down):
                    state = "down" if i < way.down else "up"
                    self.switch.appctl("netdev-dummy/set-admin-state", port, state)
                    self.switch.vsctl("--timeout=10", "wait-until", "Interface", port, f"link_state={state}")
        self._way = way
        for _ in range(3):  # each is answered in another round of the switch's main loop, which sees to the ports first
            self.switch.appctl("version")

    def _enters(self, port: str) -> str:
        """The port of the bridge by which a packet comes in that the spec sends in by *port*."""
        members = self._bonds.get(port, (port,))
        return members[min(self._way.member, len(members) - 1)]

    def _leaves(self) -> dict[str, str]:
        """The bonds by the members that packets must leave by: the first ones that are up."""
        return {members[min(self._way.down, len(members) - 1)]: bond for bond, members in self._bonds.items()}

    def counters(self) -> Counters:
        """Return the switch's own packet counters."""
        return read_counters(self.switch.appctl("dpif-netdev/pmd-stats-show"))

    def send(self, frames: Iterable[Frame], on_handled: Callable[[Handled], None] = lambda _: None) -> list[Frame]:
        """Send frames into the switch, wait until it has processed them, and return the frames that left.

        They come port by port, each port's in order; frames that passed the extension come last. *on_handled* is called for
        each frame that the extension handled.
        """
        self._put(frames)
        out, to_extension = self._collect()
        for _ in range(_MAX_ROUNDS):
            if self.extension is None or not to_extension:
                return out
            results = self.extension.run([(self._extension_ports[frame.port], frame.data) for frame in to_extension])
            self.extension_frames += len(results)
            from_extension: list[Frame] = []
            for result in results:
                on_handled(result)
                from_extension += [Frame(self.bridge_port(port), data) for port, data in result.sent]
            self._put(sorted(from_extension, key=lambda frame: frame.port))
            left, to_extension = self._collect()
            out += left
        raise SwitchError(f"{len(to_extension)} packets loop between the switch and the extension")

    def _put(self, frames: Iterable[Frame]) -> None:
        port, batch = "", list[str]()

        def flush() -> None:
            if batch:
                self.switch.appctl("netdev-dummy/receive", self._enters(port), *batch)
                self._sent += len(batch)
                batch.clear()
                self._settle()

        for frame in frames:
            if frame.port != port or len(batch) >= _BATCH:
                flush()
                port = frame.port
            batch.append(frame.data.hex())
        flush()

    def _settle(self) -> None:
        deadline = time.monotonic() + _STUCK
        while self.counters().received < self._sent:
            if time.monotonic() > deadline:
                raise TimedOutError(f"the private switch did not process all packets within {_STUCK:g} s")
            time.sleep(0.001)

    def bridge_port(self, program_port: str) -> str:
        """Return the bridge's port that is connected to a port of the extension's program."""
        return next(name for name, port in self._extension_ports.items() if port == program_port)

    def _collect(self) -> tuple[list[Frame], list[Frame]]:
        """Return the frames that left since the last call: by the spec's ports, and by the extension's."""
        out: list[Frame] = []
        to_extension: list[Frame] = []
        leaves = self._leaves()
        for port in self._ports:
            reader = self._captures.get(port)
            if reader is None:
                reader = self._captures[port] = RawPcapReader(self._capture(port))
            frames = to_extension if port in self._extension_ports else out
            frames.extend(Frame(leaves.get(port, port), bytes(data)) for data, _ in reader)
        return out, to_extension

    def _close_captures(self) -> None:
        for reader in self._captures.values():
            reader.close()

    def megaflows(self) -> list[Megaflow]:
        """The datapath flows now."""
        return read_megaflows(self.switch.dump("dpctl/dump-flows", "-m"))

    def connections(self) -> dict[tuple[bytes, int, bytes, int], str]:
        """The state of each TCP connection that the tracker knows, by client and VIP with their ports."""
        found = _CONNECTION.findall(self.switch.dump("dpctl/dump-conntrack"))
        return {
            (ip_address(client).packed, int(sport), ip_address(vip).packed, int(dport)): state
            for client, vip, sport, dport, state in found
        }

    def forget_megaflows(self) -> None:
        """Delete all datapath flows, so that the next packets cause new ones."""
        self.switch.appctl("revalidator/purge")

    def change(self, plan: Plan) -> None:
        """Bring flows and groups to those of another *plan* of the same spec, and forget all megaflows."""
        lines = dict.fromkeys(lines_of(plan))
        # First, since the switch warns of megaflows that are forgotten while it looks whether they are right.
        self.forget_megaflows()
        self.openflow.bundle(compare_tables(lines, groups_of(plan), self.openflow.dump(lines)).bundle())
        self.plan = plan

    def port_number(self, name: str) -> int:
        """The OpenFlow number of a port of the private switch, of a bond that of the member by which packets come in."""
        return int(self.switch.vsctl("get", "Interface", self._enters(name), "ofport"))

    def trace(self, port: str, data: bytes) -> str:
        """`ofproto/trace` of a packet."""
        return self.switch.appctl("ofproto/trace", self.plan.bridge, f"in_port={self.port_number(port)}", data.hex())
