"""Say which way a client's query goes, from the switch's own trace and from a packet really sent."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from dnsteer.plan.build import build_plan
from dnsteer.plan.objects import Plan
from dnsteer.plan.pipeline import COOKIE_TAG, PIPELINE
from dnsteer.plan.subject import Subject
from dnsteer.proof.harness import Harness
from dnsteer.proof.reference import Frame, Reference
from dnsteer.proof.show import summary
from dnsteer.spec.load import Loaded
from dnsteer.spec.model import Protocol
from dnsteer.spec.types import Address

_STEP = re.compile(r"^\s*(\d+)\. (.*)$")
_COOKIE = re.compile(r"cookie (0x[0-9a-f]+)")
_TABLE_NAMES = {t.number: t.name for t in PIPELINE.tables.values()}
_ROUTER_MAC = "02:00:00:00:00:fe"


@dataclass(frozen=True)
class Step:
    """A flow that the packet met."""

    table: str
    match: str
    cookie: int
    about: str
    line: int


@dataclass(frozen=True)
class Way:
    """The way of one query. *passes* counts datapath passes; *out* is empty when the query is dropped."""

    ingress: str
    query: str
    slot: int | None
    backend: str | None
    why: str
    steps: tuple[Step, ...]
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
    loaded: Loaded, client: Address, sport: int, vip: Address, port: int, protocol: Protocol, uplink: str
) -> Way:
    """Send a query through a private switch that holds the spec's flows, and say what happened and why."""
    data = query_frame(loaded, client, sport, vip, port, protocol)
    plan = build_plan(loaded)
    expected = Reference(loaded.spec).expect(uplink, data)
    with Harness(plan) as harness:
        trace = harness.trace(uplink, data)
        steps = _steps(plan, trace.replace(f"in_port={harness.port_number(uplink)},", f"in_port={uplink},"))
        before = harness.counters().recirculations
        frames = harness.send([Frame(uplink, data)])
        passes = 1 + harness.counters().recirculations - before
    as_expected = set(frames) <= expected.options and bool(frames) == bool(expected.options)
    backend = expected.backend
    if backend is None and frames:
        backend = _backend_by_mac(loaded, frames[0].data)
    return Way(
        uplink,
        summary(data),
        expected.slot,
        backend,
        expected.why,
        steps,
        passes,
        tuple((f.port, summary(f.data)) for f in frames),
        as_expected,
    )


def _backend_by_mac(loaded: Loaded, data: bytes) -> str | None:
    mac = ":".join(f"{b:02x}" for b in data[:6])
    names = {b.name for pool in loaded.spec.pools.values() for b in pool.backends if b.mac == mac}
    return " or ".join(sorted(names)) or None


def _steps(plan: Plan, trace: str) -> tuple[Step, ...]:
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
