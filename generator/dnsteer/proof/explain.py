# SPDX-License-Identifier: Apache-2.0
"""Explain the path of one client's query, from the switch's own trace and from a packet that is actually sent."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from typing import Any

from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.proof.dns_frames import query_frame
from dnsteer.proof.harness.extension_process import Handled
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.packet_text import packet_summary
from dnsteer.proof.reference import wire
from dnsteer.proof.reference.packets import AddressService, Expectation, Frame, Reference
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.model.types import Address
from dnsteer.switch.trace import read_trace
from dnsteer.tables.cookies import COOKIE_TAG, Subject
from dnsteer.tables.order import PIPELINE

_TABLE_NAMES = {t.number: t.name for t in PIPELINE.tables.values()}
_PROTOCOL_NUMBERS = {"udp": wire.UDP, "tcp": wire.TCP}


@dataclass(frozen=True)
class Step:
    """A flow that the packet matched: its table and match, and the object of the spec that its cookie means."""

    table: str
    match: str
    cookie: int
    about: str
    line: int
    part: str = ""


@dataclass(frozen=True)
class ExtensionHop:
    """What the extension did: its verdict and reason, the pipes that the query passed, and (port, packet summary) sent.

    *target* is the backend in the extension's program, which holds *share* of the *slots* slots.
    """

    verdict: str
    reason: str
    pipes: tuple[str, ...]
    target: str | None
    share: int
    slots: int
    sent: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class QueryPath:
    """The path of one query. *passes* counts datapath passes; *out* is empty when the query is dropped.

    *base_backend* is the slot's backend when every backend is in service; None if the slot is not predicted. *steps* are the
    flows matched in the switch; if the query then goes to the *extension*, *returned_steps* are those matched on its return.
    """

    ingress: str
    query: str
    selection: str
    slot: int | None
    base_backend: str | None
    backend: str | None
    why: str
    steps: tuple[Step, ...]
    extension: ExtensionHop | None
    returned_steps: tuple[Step, ...]
    passes: int
    out: tuple[tuple[str, str], ...]
    as_expected: bool
    bucket: int | None = None
    """The bucket of the client, where the VIP limits clients."""
    kept: bool = False
    """Whether a connection that is open goes by the tracker's mark, and not by its slot as this one, which begins."""

    def as_json(self) -> dict[str, Any]:
        """The path as a JSON object. Other programs read its keys, so they stay when fields here are renamed."""
        value = asdict(self)
        value["own"], value["back"] = value.pop("base_backend"), value.pop("returned_steps")
        hop = value["extension"]
        if hop is not None:
            hop["why"], hop["gave"] = hop.pop("reason"), hop.pop("sent")
        return value


def explain_query(
    loaded: Loaded,
    client: Address,
    sport: int,
    vip: Address,
    port: int,
    protocol: Protocol,
    uplink: str,
    overlay: Overlay = NO_OVERLAY,
) -> QueryPath:
    """Send a query through a private switch that holds the flows of the spec and overlay; return its path and the reasons.

    Raises SwitchError or UnavailableError when the switch itself fails.
    """
    frame = Frame(uplink, query_frame(loaded, client, sport, vip, port, protocol, uplink))
    plan = build_plan(loaded, overlay)
    reference = Reference(loaded.spec, overlay, overlay.denials, overlay.macs)
    expected = reference.expect(frame.port, frame.data)
    service = reference.services.get((vip.packed, _PROTOCOL_NUMBERS[protocol.value], port))
    handled: list[Handled] = []
    with Harness(plan) as harness:
        steps = _steps(plan, harness, frame)
        before = harness.counters().recirculations
        left = harness.send([frame], handled.append)
        returned = [Frame(harness.bridge_port(by), data) for result in handled for by, data in result.sent]
        passes = 1 + len(returned) + harness.counters().recirculations - before
        hop = _extension_hop(harness, handled[0], service) if handled else None
        returned_steps = tuple(step for each in returned for step in _steps(plan, harness, each))
    return QueryPath(
        ingress=uplink,
        query=packet_summary(frame.data),
        selection=loaded.spec.pools[loaded.spec.vips[service.vip].pool].selection.value if service is not None else "",
        slot=expected.slot,
        base_backend=_base_backend(service, expected.slot),
        backend=_backend(loaded, reference, expected, frame, left),
        why=expected.why,
        steps=steps,
        extension=hop,
        returned_steps=returned_steps,
        passes=passes,
        out=tuple((each.port, packet_summary(each.data)) for each in left),
        as_expected=set(map(reference.comparable, left)) <= expected.options and bool(left) == bool(expected.options),
        bucket=reference.clients.bucket(service.vip, client.packed) if service is not None else None,
        kept=service is not None and protocol is Protocol.TCP and derived.keeps(loaded.spec.vips[service.vip]),
    )


def _base_backend(service: AddressService | None, slot: int | None) -> str | None:
    if service is None or slot is None or not service.base_slots:
        return None
    return service.base_slots[slot]


def _backend(loaded: Loaded, reference: Reference, expected: Expectation, sent: Frame, left: list[Frame]) -> str | None:
    if expected.backend is not None or not left:
        return expected.backend
    found = dict(expected.backends).get(left[0]) or reference.receiver(sent, left[0])
    return found or _backend_by_mac(reference, left[0].data)


def _backend_by_mac(reference: Reference, data: bytes) -> str | None:
    mac = data[:6].hex(":")
    names = {b.name for pool in reference.spec.pools.values() for b in pool.backends if b.mac == mac}
    return " or ".join(sorted(names)) or None


def _extension_hop(harness: Harness, result: Handled, service: AddressService | None) -> ExtensionHop:
    """Return what the extension did with a query, from its verdict and from its loaded program."""
    decided_by = result.reason.partition(":")[0]
    sent = tuple((harness.bridge_port(by), packet_summary(data)) for by, data in result.sent)
    dump = harness.extension.ask(command="dump") if harness.extension is not None else {}
    held = _held_service(result.data, dump)
    if service is None or held is None or not sent:
        return ExtensionHop(result.verdict, result.reason, (decided_by,), None, 0, 0, sent)
    select, forward, slots = held["select"], held["forward"], Counter(slot["backend"] for slot in held["slots"])
    pipes = ["classifier", f"{select}{slots.total()}-{forward}", f"slots-{forward}", *service.mode.extension_pipes]
    target = _held_backend(dump["program"]["backends"], slots, result.sent[0][1])
    return ExtensionHop(
        result.verdict,
        result.reason,
        tuple(dict.fromkeys([*pipes, decided_by])),
        target,
        slots[target or ""],
        slots.total(),
        sent,
    )


def _held_service(data: bytes, dump: dict[str, Any]) -> dict[str, Any] | None:
    """Return the service in the extension's program that a query is for; None if there is none."""
    packet = wire.parse(data)
    wanted = packet.destination, packet.protocol, packet.dport
    for vip in dump["program"]["vips"]:
        if (ip_address(vip["address"]).packed, _PROTOCOL_NUMBERS[vip["protocol"]], vip["port"]) == wanted:
            return next((each for each in dump["services"] if each["vip"] == vip["name"]), None)
    return None


def _held_backend(backends: list[dict[str, Any]], among: Counter[str], data: bytes) -> str | None:
    """Return the backend that a frame goes to, by its MAC address and, if tunneled or translated, by its IP destination."""
    to_mac, destination = data[:6].hex(":"), wire.parse(data).destination
    for each in backends:
        if each["name"] not in among or each["mac"] != to_mac:
            continue
        if not each.get("address") or ip_address(each["address"]).packed == destination:
            return str(each["name"])
    return None


def _steps(plan: Plan, harness: Harness, frame: Frame) -> tuple[Step, ...]:
    """Return the flows that a frame matches, from the switch's own trace."""
    number = harness.port_number(frame.port)
    text = re.sub(rf"in_port={number}\b", f"in_port={frame.port}", harness.trace(frame.port, frame.data))
    out = []
    for flow in read_trace(text).flows:
        subject = plan.subject(flow.cookie)
        about, line, part = (subject.title, subject.line, subject.part) if subject else ("not dnsteer's", 0, "")
        out.append(Step(_TABLE_NAMES.get(flow.table, str(flow.table)), flow.match, flow.cookie, about, line, part))
    return tuple(out)


def explain_cookie(loaded: Loaded, cookie: int, overlay: Overlay = NO_OVERLAY) -> Subject | None:
    """Return the object that a cookie stands for in the tables of a spec and overlay; None when there is none."""
    return build_plan(loaded, overlay).subject(cookie)


def is_tagged(cookie: int) -> bool:
    """Whether a cookie carries dnsteer's tag."""
    return cookie >> 48 == COOKIE_TAG
