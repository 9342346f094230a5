"""Say which way a client's query goes, from the switch's own trace and from a packet really sent."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.proof.harness.extension_process import Crossing
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.packet_text import summary
from dnsteer.proof.reference import wire
from dnsteer.proof.reference.packets import Expectation, Frame, Reference, Service
from dnsteer.proof.reference.services import own_of
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.model.types import Address
from dnsteer.tables.cookies import COOKIE_TAG
from dnsteer.tables.order import PIPELINE
from dnsteer.tables.subject import Subject

_STEP = re.compile(r"^\s*(\d+)\. (.*)$")
_COOKIE = re.compile(r"cookie (0x[0-9a-f]+)")
_TABLE_NAMES = {t.number: t.name for t in PIPELINE.tables.values()}
_ROUTER_MAC = "02:00:00:00:00:fe"
_NUMBERS = {"udp": wire.UDP, "tcp": wire.TCP}


@dataclass(frozen=True)
class Step:
    """A flow that the packet met."""

    table: str
    match: str
    cookie: int
    about: str
    line: int


@dataclass(frozen=True)
class Through:
    """What the extension did: its verdict and why, the pipes that the query met, and what it gave back by which port.

    *target* is the backend in its program, which names it in *share* of *slots* slots.
    """

    verdict: str
    why: str
    pipes: tuple[str, ...]
    target: str | None
    share: int
    slots: int
    gave: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Way:
    """The way of one query. *passes* counts datapath passes; *out* is empty when the query is dropped.

    *own* is the backend that the slot is for when nobody is out; None where the slot is not predicted. *steps* are in the
    switch; where *extension* has the query after them, *back* are those in the switch again.
    """

    ingress: str
    query: str
    selection: str
    slot: int | None
    own: str | None
    backend: str | None
    why: str
    steps: tuple[Step, ...]
    extension: Through | None
    back: tuple[Step, ...]
    passes: int
    out: tuple[tuple[str, str], ...]
    as_expected: bool


def query_frame(loaded: Loaded, client: Address, sport: int, vip: Address, port: int, protocol: Protocol) -> bytes:
    """The Ethernet frame of a DNS query, as a router hands it to the balancer."""
    network = IP(src=str(client), dst=str(vip)) if vip.version == 4 else IPv6(src=str(client), dst=str(vip))
    head = Ether(src=_ROUTER_MAC, dst=loaded.spec.switch.mac) / network
    if protocol is Protocol.UDP:
        return bytes(head / UDP(sport=sport, dport=port) / DNS(rd=1, qd=DNSQR(qname="example.com")))
    return bytes(head / TCP(sport=sport, dport=port, flags="S"))


def explain_query(
    loaded: Loaded,
    client: Address,
    sport: int,
    vip: Address,
    port: int,
    protocol: Protocol,
    uplink: str,
    overlay: Overlay = NO_OVERLAY,
) -> Way:
    """Send a query through a private switch that holds the flows of the spec and overlay; say what happened and why."""
    data = query_frame(loaded, client, sport, vip, port, protocol)
    plan = build_plan(loaded, overlay)
    reference = Reference(loaded.spec, overlay)
    expected = reference.expect(uplink, data)
    crossings: list[Crossing] = []
    with Harness(plan) as harness:
        steps = _steps(plan, harness, Frame(uplink, data))
        before = harness.counters().recirculations
        frames = harness.send([Frame(uplink, data)], crossings.append)
        given = [Frame(harness.port_of(by), gave) for crossing in crossings for by, gave in crossing.gave]
        passes = 1 + len(given) + harness.counters().recirculations - before
        through = _through(harness, crossings[0], _dump(harness)) if crossings else None
        back = tuple(step for frame in given for step in _steps(plan, harness, frame))
    service = reference.services.get((vip.packed, _NUMBERS[protocol.value], port))
    return Way(
        uplink,
        summary(data),
        service.selection.value if service is not None else "",
        expected.slot,
        _own(loaded, service, expected.slot),
        _backend(loaded, expected, frames),
        expected.why,
        steps,
        through,
        back,
        passes,
        tuple((f.port, summary(f.data)) for f in frames),
        set(frames) <= expected.options and bool(frames) == bool(expected.options),
    )


def _own(loaded: Loaded, service: Service | None, slot: int | None) -> str | None:
    if service is None or slot is None:
        return None
    pool = loaded.spec.pools[loaded.spec.vips[service.vip].pool]
    return own_of(loaded.spec, pool, service.mode, 4 if len(service.address) == 4 else 6)[slot]


def _backend(loaded: Loaded, expected: Expectation, frames: list[Frame]) -> str | None:
    if expected.backend is not None or not frames:
        return expected.backend
    return dict(expected.takers).get(frames[0]) or _backend_by_mac(loaded, frames[0].data)


def _backend_by_mac(loaded: Loaded, data: bytes) -> str | None:
    mac = ":".join(f"{b:02x}" for b in data[:6])
    names = {b.name for pool in loaded.spec.pools.values() for b in pool.backends if b.mac == mac}
    return " or ".join(sorted(names)) or None


def _dump(harness: Harness) -> dict[str, Any]:
    return harness.beside.ask(command="dump") if harness.beside is not None else {}


def _through(harness: Harness, crossing: Crossing, dump: dict[str, Any]) -> Through:
    """What the extension did with a query, from its verdict, and from what its program holds."""
    decided = crossing.why.partition(":")[0]
    gave = tuple((harness.port_of(by), summary(data)) for by, data in crossing.gave)
    service = _service(crossing.data, dump)
    if service is None or not gave:
        return Through(crossing.verdict, crossing.why, (decided,), None, 0, 0, gave)
    select, forward, slots = service["select"], service["forward"], [slot["backend"] for slot in service["slots"]]
    way = ["classifier", f"{select}{len(slots)}-{forward}", f"slots-{forward}"]
    way += ["to-ipv6", "translated"] if forward == "siit" else []
    taker = _target(dump["program"]["backends"], Counter(slots), crossing.gave[0][1])
    return Through(
        crossing.verdict,
        crossing.why,
        tuple(dict.fromkeys([*way, decided])),
        taker,
        Counter(slots)[taker or ""],
        len(slots),
        gave,
    )


def _service(data: bytes, dump: dict[str, Any]) -> dict[str, Any] | None:
    """The service of the program that a query is for."""
    packet = wire.parse(data)
    for vip in dump["program"]["vips"]:
        if (ip_address(vip["address"]).packed, _NUMBERS[vip["protocol"]], vip["port"]) == (
            packet.destination,
            packet.protocol,
            packet.dport,
        ):
            return next((each for each in dump["services"] if each["vip"] == vip["name"]), None)
    return None


def _target(backends: list[dict[str, Any]], among: Counter[str], data: bytes) -> str | None:
    """The backend that a frame goes to: by its MAC address, and by the destination of a tunnel or a translation."""
    to_mac, to = data[:6].hex(":"), wire.parse(data).destination
    for each in backends:
        here = each["name"] in among and each["mac"] == to_mac
        if here and (not each.get("address") or ip_address(each["address"]).packed == to):
            return str(each["name"])
    return None


def _steps(plan: Plan, harness: Harness, frame: Frame) -> tuple[Step, ...]:
    """The flows that a frame meets, by the switch's own trace."""
    number = harness.port_number(frame.port)
    trace = re.sub(rf"in_port={number}\b", f"in_port={frame.port}", harness.trace(frame.port, frame.data))
    out = []
    for line in trace.splitlines():
        step = _STEP.match(line)
        cookie = _COOKIE.search(line)
        if step is None or cookie is None:
            continue
        number = int(cookie[1], 16)
        subject = plan.subject(number)
        match = step[2].split(", priority")[0] if not step[2].startswith("priority") else "(any)"
        out.append(
            Step(
                _TABLE_NAMES.get(int(step[1]), step[1]),
                match,
                number,
                subject.title if subject else "not dnsteer's",
                subject.line if subject else 0,
            )
        )
    return tuple(out)


def explain_cookie(loaded: Loaded, cookie: int) -> Subject | None:
    """The object of the spec that a cookie stands for. None when the spec has none such."""
    return build_plan(loaded).subject(cookie)


def is_tagged(cookie: int) -> bool:
    """Whether a cookie is one of dnsteer's at all."""
    return cookie >> 48 == COOKIE_TAG
