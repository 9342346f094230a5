# SPDX-License-Identifier: Apache-2.0
"""The path of one query through the running switch, by the switch's own trace and its flows' counters. Changes nothing.

What should happen is computed from the record, as `check` and `explain` do; where the switch does something else, it shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address

from dnsteer.deploy.maintenance_text import concerning, why_not_base
from dnsteer.modes import MODES
from dnsteer.plan.plan import Plan
from dnsteer.proof.dns_frames import answer_frame, query_frame
from dnsteer.proof.reference import wire
from dnsteer.proof.reference.packets import AddressService, Expectation, Reference
from dnsteer.proof.reference.topology import packed_mac
from dnsteer.render.templates import active_member
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.bonds import bond_members
from dnsteer.spec.errors import show_path
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.model.types import Address
from dnsteer.status.flow_counts import FlowKey
from dnsteer.switch.trace import UNCHANGED, Trace, TracedFlow, read_trace
from dnsteer.switch.unixctl import Appctl
from dnsteer.tables.cookies import GROUP_BASE, OBJECT_BITS, Category, cookie
from dnsteer.tables.ingress import PortRow
from dnsteer.tables.order import PIPELINE, TABLES
from dnsteer.tables.passes import with_chosen
from dnsteer.tables.table import Register

_TABLES = {table.number: table for table in TABLES}
_BACKENDS = PIPELINE.holding("backends").name
_NUMBERS = {Protocol.UDP: wire.UDP, Protocol.TCP: wire.TCP}
_OUTPUT = re.compile(r"output:(\S+)\Z")
_GROUP = re.compile(r"group:(\d+)\Z")
_BY_SWITCH = ("NORMAL", "FLOOD", "ALL", "LOCAL")
"""Actions that send a packet out of ports that the switch chooses, and that its trace does not name."""
_SLOT = cookie(Category.SLOT, 0) >> OBJECT_BITS
_BACKEND = cookie(Category.BACKEND, 0) >> OBJECT_BITS
_SET = re.compile(r"set_field:(\S+?)->(\w+)\Z")
_MOVE = re.compile(r"move:(\w+)\[([\d.]*)\]->NXM_NX_(X*REG)(\d+)\[[\d.]*\]\Z")
_NOW = re.compile(r"-> \S+ is now (\S+)\Z")
_TRACKED = re.compile(r"ct\((?:\S*,)?table=(\w+)[,)]")
_GOTO = re.compile(r"goto_table:(\w+)\Z")
_TABLE_NAMES = {str(table.number): table.name for table in TABLES}
_FIELDS = {
    "NXM_OF_UDP_SRC": "source port",
    "NXM_OF_TCP_SRC": "source port",
    "eth_src": "source MAC",
    "eth_dst": "destination MAC",
    "ip_src": "source address",
    "ip_dst": "destination address",
    "nw_src": "source address",
    "nw_dst": "destination address",
    "ipv6_src": "source address",
    "ipv6_dst": "destination address",
    "udp_src": "source port",
    "udp_dst": "destination port",
    "tcp_src": "source port",
    "tcp_dst": "destination port",
    "nw_ttl": "TTL",
}
_NO_BUCKET = "-> no live bucket"
"""What the trace says where the switch's hash chooses: the bucket is known in the next pass only."""


@dataclass(frozen=True)
class PathQuery:
    """One query of a client, that comes in by an uplink."""

    client: Address
    sport: int
    vip: Address
    port: int
    protocol: Protocol
    uplink: str


@dataclass(frozen=True)
class PathHeaders:
    """A packet at a port of the bridge: addresses, ports, TTL (or hop limit), and its VLAN, 0 for none."""

    port: str
    from_mac: str
    to_mac: str
    source: Address
    destination: Address
    sport: int
    dport: int
    ttl: int
    vlan: int = 0


@dataclass(frozen=True)
class PathStep:
    """A flow that the packet matched.

    *table* is the table's name, *about* the spec object that the cookie stands for, at *path* and *line* of the spec, in the
    file *part*; empty and 0 for a flow that is not dnsteer's. *does* are its actions in words. *key* finds its counters.
    """

    table: str
    purpose: str
    match: str
    does: tuple[str, ...]
    cookie: int
    about: str
    path: str
    line: int
    key: FlowKey
    part: str = ""


@dataclass(frozen=True)
class TracedPath:
    """The way of a packet: as it *enters*, the flows that it matches, what *leaves*; *problem*: what is not as recorded.

    *otherwise* is the action that sends it out of ports that no flow names, empty for none; *datapath* says which. *onward*
    are the bridges behind patch ports that it goes on to; their flows are not dnsteer's and not shown.
    """

    enters: PathHeaders
    steps: tuple[PathStep, ...]
    leaves: tuple[PathHeaders, ...]
    recirculates: bool
    problem: str = ""
    otherwise: str = ""
    datapath: str = ""
    onward: tuple[str, ...] = ()


@dataclass(frozen=True)
class PathView:
    """The path of a query, and of the answer to it where that passes the switch.

    *slot* and *backend* are those of the flows that it matched; *why* is what the record says of it, *base* the backend that
    has the slot when nobody is out and why it does not have it now. *group* is that of a pool whose slot the switch's hash
    chooses, 0 for none; *extension* is the port by which it leaves to the extension, *chosen_there* whom that chooses.
    *no_answer* says why there is no *answer*.
    """

    query: PathQuery
    way: TracedPath
    vip: str = ""
    pool: str = ""
    selection: str = ""
    slot: int | None = None
    slots: int = 0
    backend: str = ""
    why: str = ""
    base: str = ""
    group: int = 0
    extension: str = ""
    chosen_there: str = ""
    answer: TracedPath | None = None
    no_answer: str = ""
    warnings: tuple[str, ...] = field(default=())


class PathTracer:
    """Traces queries in a bridge that should hold the tables of a spec and overlay.

    *plan* is that of both: it says what cookies stand for.
    """

    def __init__(self, loaded: Loaded, plan: Plan, overlay: Overlay) -> None:
        self._loaded, self._plan, self._overlay = loaded, plan, overlay
        self._bonds = {active_member(p.members): p.bond for p in plan.rows.of(PortRow) if p.members}

    def trace(self, switch: Appctl, query: PathQuery) -> PathView:
        """Trace a query, and the answer to it. Raises SwitchError or UnavailableError where the switch cannot be asked."""
        loaded = self._loaded
        # Of this address alone: the reference makes the slots of each service, and there may be thousands.
        vips = {name: vip for name, vip in loaded.spec.vips.items() if query.vip in vip.addresses}
        reference = Reference(
            with_chosen(loaded.spec, MODES).model_copy(update={"vips": vips}),
            self._overlay,
            self._overlay.denials,
            self._overlay.macs,
        )
        ends = query.client, query.sport, query.vip, query.port, query.protocol
        data = query_frame(loaded, *ends, query.uplink)
        expected = reference.expect(query.uplink, data)
        key = query.vip.packed, _NUMBERS[query.protocol], query.port
        service = reference.services.get(key) or reference.unserved.get(key)
        way, found = self._way(switch, query.uplink, data)
        vip = service.vip if service is not None else next(iter(vips), "")
        pool = vips[vip].pool if vip else ""
        view = PathView(query, way, vip, pool, why=expected.why)
        if service is not None:
            base = service.base_slots[expected.slot] if service.base_slots and expected.slot is not None else None
            outages = concerning(self._overlay, pool, f"{query.port}/{query.protocol.value}", base, expected.slot)
            view = replace(
                view,
                selection=loaded.spec.pools[pool].selection.value,
                slots=len(service.slots),
                base=why_not_base(base, expected.backend, outages),
            )
        view = self._chosen(view, found)
        exit_port = reference.topology.extension_ingress
        if exit_port is not None and any(each.port == exit_port for each in way.leaves):
            view = replace(view, extension=exit_port, slot=expected.slot, chosen_there=_chosen_there(expected, service))
        problem = _problem(way, expected, service, exit_port)
        view = replace(view, way=replace(way, problem=problem))
        return self._with_answer(view, switch, reference, service)

    def _way(self, switch: Appctl, port: str, data: bytes) -> tuple[TracedPath, Trace]:
        bridge, ports = self._plan.bridge, bond_members(self._loaded.spec.switch, port)
        trace = read_trace(
            switch.run("ofproto/trace", "--names", bridge, f"in_port={ports[0] if ports else port}", data.hex())
        )
        steps = tuple(self._step(flow) for flow in trace.flows)
        enters = headers_of(port, data)
        # The datapath actions are those of further bridges too, which may drop it or let it recirculate.
        drops, recirculates = (not trace.onward and each for each in (trace.drops, trace.recirculates))
        leaves = () if drops or recirculates else tuple(_leaving(trace, enters, self._bonds))
        otherwise = "" if drops or recirculates else _otherwise(trace, leaves)
        return TracedPath(enters, steps, leaves, recirculates, "", otherwise, trace.datapath, trace.onward), trace

    def _step(self, flow: TracedFlow) -> PathStep:
        table = _TABLES.get(flow.table)
        subject = self._plan.subject(flow.cookie)
        return PathStep(
            table=table.name if table is not None else str(flow.table),
            purpose=table.does if table is not None else "",
            match=flow.match,
            does=tuple(trace_in_words(flow.table, flow.actions)),
            cookie=flow.cookie,
            about=subject.title if subject else "",
            path=show_path(subject.path) if subject else "",
            line=subject.line if subject else 0,
            key=FlowKey(flow.table, flow.priority, flow.match),
            part=subject.part if subject else "",
        )

    def _chosen(self, view: PathView, trace: Trace) -> PathView:
        """Add the slot, the backend or the group of the flows that it matched."""
        for flow, step in zip(trace.flows, view.way.steps, strict=True):
            if flow.cookie >> OBJECT_BITS == _SLOT:
                view = replace(view, slot=flow.cookie & 0xFFFF)
            if flow.cookie >> OBJECT_BITS == _BACKEND and step.table == _BACKENDS:
                view = replace(view, backend=step.about.removeprefix("backend ").partition(" of ")[0])
            for action in flow.actions:
                m = _GROUP.match(action)
                if m is not None and int(m[1]) > GROUP_BASE:
                    view = replace(view, group=int(m[1]))
        return view

    def _with_answer(
        self, view: PathView, switch: Appctl, reference: Reference, service: AddressService | None
    ) -> PathView:
        """Trace the answer of the backend that the query goes to, where it passes the switch."""
        if service is None or not view.way.leaves:
            if view.way.otherwise:
                return replace(view, no_answer="It is not known whether the query reaches a backend.")
            if view.group:
                return replace(view, no_answer="Which backend answers is known when the hash has chosen one.")
            return view
        leaves, topology = view.way.leaves[0], reference.topology
        if view.extension:
            return replace(
                view,
                no_answer="It comes through the extension or goes to the client directly; it is not traced.",
            )
        if not service.mode.rewrites_answers and leaves.port not in topology.ports:
            return replace(
                view, no_answer="The backend answers the client directly: its answer does not pass the switch."
            )
        data = answer_frame(
            topology.gateway_mac,
            packed_mac(leaves.to_mac),
            leaves.destination,
            leaves.source,
            (leaves.dport, leaves.sport),
            view.query.protocol,
            leaves.vlan,
        )
        way, _ = self._way(switch, leaves.port, data)
        problem = _problem(way, reference.expect(leaves.port, data), None, None)
        return replace(view, answer=replace(way, problem=problem))


def headers_of(port: str, data: bytes) -> PathHeaders:
    """The headers of a frame at a port."""
    packet = wire.parse(data)
    ttl = data[packet.l3 + (8 if packet.ethertype == wire.IPV4 else 7)]
    return PathHeaders(
        port=port,
        from_mac=data[6:12].hex(":"),
        to_mac=data[:6].hex(":"),
        source=ip_address(packet.source),
        destination=ip_address(packet.destination),
        sport=packet.sport,
        dport=packet.dport,
        ttl=ttl,
        vlan=packet.vlan,
    )


def _leaving(trace: Trace, enters: PathHeaders, bonds: Mapping[str, str]) -> Iterable[PathHeaders]:
    """What leaves, by the ports that flows send it to and its fields in the end. *bonds* has bonds by their action."""
    own = enters.port
    in_the_end = enters if trace.final == UNCHANGED else _final(trace, enters.port)
    if in_the_end is None:
        return
    for flow in trace.flows:
        for action in flow.actions:
            own = bonds.get(action, own)
            m = _OUTPUT.match(action)
            if m is not None or action == "IN_PORT":
                yield replace(in_the_end, port=m[1].strip('"') if m is not None else own)


def _final(trace: Trace, port: str) -> PathHeaders | None:
    """The headers in the end; None for a packet that is no longer a query or an answer by IP."""
    fields = dict(part.split("=", 1) for part in trace.final.split(",") if "=" in part)
    source, destination = (fields.get(f"nw_{end}") or fields.get(f"ipv6_{end}", "") for end in ("src", "dst"))
    if not source or not destination:
        return None
    return PathHeaders(
        port=port,
        from_mac=fields["dl_src"],
        to_mac=fields["dl_dst"],
        source=ip_address(source),
        destination=ip_address(destination),
        sport=int(fields["tp_src"]),
        dport=int(fields["tp_dst"]),
        ttl=int(fields.get("nw_ttl", 0)),
        vlan=int(fields.get("dl_vlan", 0)),
    )


def _otherwise(trace: Trace, leaves: Collection[PathHeaders]) -> str:
    """The action that sends a packet that is not dropped out of ports that no flow names."""
    named = [action for flow in trace.flows for action in flow.actions if action in _BY_SWITCH]
    if named or leaves:
        return ", ".join(dict.fromkeys(named))
    return "its datapath actions" if trace.datapath not in ("", "drop") else ""


def _chosen_there(expected: Expectation, service: AddressService | None) -> str:
    """Whom the extension chooses, by the record: it is a program of its own and is not traced."""
    if expected.backend is not None:
        return f"{expected.backend}, by the source port"
    if service is None or not expected.options:
        return ""
    held = Counter(target.name for target in service.slots)
    names = ", ".join(f"{name} has {n}" for name, n in sorted(held.items()))
    return f"{service.selection.describe(service)}; of {len(service.slots)} slots {names}"


def _problem(way: TracedPath, expected: Expectation, service: AddressService | None, extension: str | None) -> str:
    """How a way differs from the record; empty where it does not."""
    if service is not None and service.by_extension:  # which drops what it cannot forward
        ports = {each.port for each in way.leaves}
        return (
            ""
            if ports == {extension} and not way.otherwise
            else f"it should leave to the extension, by port {extension}"
        )
    if not expected.options:
        return "it should be dropped" if way.leaves or way.recirculates or way.otherwise else ""
    if way.recirculates:
        hashed = service is not None and not service.selection.predicts_slot
        return "" if hashed else "it recirculates, and no flow of this path should"
    wanted = {headers_of(frame.port, frame.data) for frame in expected.options}
    if way.leaves and set(way.leaves) <= wanted and not way.otherwise:
        return ""
    first = min(wanted, key=str)
    backend = f"to {expected.backend} " if expected.backend else ""
    vlan = f" in VLAN {first.vlan}" if first.vlan else ""
    text = f"it should leave {backend}by port {first.port}{vlan}, from {first.from_mac} to {first.to_mac}, "
    return text + f"{first.source} port {first.sport} to {first.destination} port {first.dport}"


def trace_in_words(table: int, actions: Iterable[str]) -> list[str]:
    """Return the trace's lines about a flow of an OpenFlow table in words. What is not known stays as it is."""
    lines = list(actions)
    return [*_words(table, lines)] or ["drops the packet: there is no action"]


def _words(table: int, lines: list[str]) -> Iterator[str]:
    tracked = next((m for line in lines if (m := _TRACKED.match(line)) is not None), None)
    if tracked is not None:  # what the trace says after it is of the packet that stays behind, which ends there
        lines = lines[: lines.index(tracked.string)]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if (m := _SET.match(line)) is not None:
            yield f"sets {_name(table, m[2])} to {_value(table, m[2], m[1])}"
        elif (m := _MOVE.match(line)) is not None:
            now = _NOW.match(following)
            if m[3] == "REG":  # the longer ones are only written, so that masks are alike
                bits = f", bits {m[2].replace('..', ' to ')}" if m[2] else ""
                yield f"sets {_name(table, f'reg{m[4]}')} to the {_FIELDS.get(m[1], m[1])}{bits}" + (
                    f": {_decimal(now[1])}" if now else ""
                )
        elif (m := _GOTO.match(line)) is not None:
            yield f"goes on to table {_TABLE_NAMES.get(m[1], m[1])}"
        elif (m := _OUTPUT.match(line)) is not None:
            yield f"sends it out of port {m[1]}"
        elif line == "IN_PORT":
            yield "sends it out of the port that it came in by"
        elif (m := _GROUP.match(line)) is not None:
            yield f"takes a bucket of group {m[1]}, by the switch's hash"
        elif line == "drop":
            yield "drops the packet"
        elif line != _NO_BUCKET and not _NOW.match(line):
            yield line
    if tracked is not None:
        yield f"goes on to table {_TABLE_NAMES.get(tracked[1], tracked[1])} in a second pass, by the connection tracker"


def _name(table: int, field: str) -> str:
    """What a field is called, or a register that is live in the table."""
    register = _register(table, field)
    return register.name if register is not None else _FIELDS.get(field, field)


def _value(table: int, field: str, value: str) -> str:
    """A value, by its name where the register names it."""
    register = _register(table, field)
    names = register.values if register is not None else {}
    return next((name for name, number in names.items() if value in (str(number), hex(number))), value)


def _register(table: int, field: str) -> Register | None:
    for register in PIPELINE.registers.values():
        live = PIPELINE.owners[register.name].number <= table <= PIPELINE.tables[register.until].number
        if register.field == field and live:
            return register
    return None


def _decimal(text: str) -> str:
    try:
        return str(int(text, 0))
    except ValueError:
        return text
