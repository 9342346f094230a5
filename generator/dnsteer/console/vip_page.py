# SPDX-License-Identifier: Apache-2.0
"""The page of a VIP: its services and whether it is announced, its backends, and its datapath flows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from dnsteer.console.offload_page import OffloadPageData, OffloadSnapshot
from dnsteer.console.overview_page import unannounced_vips
from dnsteer.console.page_data import PageData, PageHistory
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.slots.denial import Denial
from dnsteer.spec.announced import announced_vips
from dnsteer.spec.derived import Endpoint, endpoints
from dnsteer.spec.model.spec import Protocol, Spec, Vip
from dnsteer.spec.model.types import Address
from dnsteer.status.lists import LimitView, ListView, view_limits, view_lists
from dnsteer.status.pools import PoolView
from dnsteer.view import wording
from dnsteer.view.attention_item import Command, dnsteer_command

PREFIX = "vip/"
"""How the key of such a page begins; the name follows."""
MAX_BACKENDS = 50
"""Backends of a pool that are listed; the page of the pool has all."""
_CLIENT = {4: "198.51.100.7", 6: "2001:db8::7"}
"""Addresses of examples (RFC 5737, RFC 3849)."""


@dataclass(frozen=True)
class VipFlows:
    """The datapath flows of a VIP: how many, how many are in hardware, and the verdicts of the profile."""

    total: int
    in_hardware: int
    verdicts: Counter[str]


def vip_parts(
    macros: Any, name: str, views: Sequence[PoolView], data: PageData, history: PageHistory, read: object
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """The shape, parts and numbers of the page of a VIP."""
    applied = data.applied
    assert applied is not None
    spec = applied.known.spec
    vip = spec.vips[name]
    unannounced = unannounced_vips(data.snapshot.agent, spec).get(name)
    parts = {
        "vip": str(macros.facts(vip, spec.pools[vip.pool], views, unannounced, name in announced_vips(spec)))
        + str(
            macros.drops(_lists(name, applied.known, applied.overlay.denials, history), _limits(name, spec, history))
        ),
        "run": str(macros.run(_commands(name, vip, spec.switch.announce is not None, unannounced, history.options))),
        "offload": str(macros.offload(_flows(name, read), _view(read), spec.switch.flavor.value)),
    }
    values: dict[str, Any] = {}
    for letter, unit in (("q", "queries"), ("p", "packets")):
        values[letter] = wording.rounded(data.rates.get(("vip", name, unit)))
    services = services_of(vip)
    rates = history.services.rates([(name, service) for service in services])
    for n, service in enumerate(services):
        values[f"s{n}"] = wording.rounded(rates.get((name, service)))
    for n, view in enumerate(views):
        listed = sorted(view.backends, key=lambda backend: backend.state == "up")[:MAX_BACKENDS]
        parts[f"backends-{n}"] = str(macros.backends(n, view, listed, data.snapshot.failing))
        for m, backend in enumerate(listed):
            for letter, unit in (("q", "queries"), ("p", "packets")):
                rate = data.rates.get(("backend", view.name, backend.name, unit))
                values[f"{letter}-{n}-{m}"] = wording.rounded(rate)
    return f"{data.snapshot.bridge} {applied.known.state.number} {len(views)}", parts, values


def vip_values(name: str, views: Sequence[PoolView], data: PageData, history: PageHistory) -> dict[str, Any]:
    """What the page has beside its parts: names, services with their ports, the way to a path, the line of queries."""
    assert data.applied is not None
    vip = data.applied.known.spec.vips[name]
    address, end = _example(vip)
    asked = {"client": _CLIENT[address.version], "port": "40000", "vip": str(address), "service": _service(end)}
    return {
        "name": name,
        "vip": vip,
        "views": views,
        "services": services_of(vip),
        "path": f"/path?{urlencode(asked)}",
        "line": history.traffic.lines([("vip", name, "queries")])[("vip", name, "queries")],
    }


def _lists(name: str, known: AppliedBridge, denials: Sequence[Denial], history: PageHistory) -> list[ListView]:
    """The access lists of the spec that queries to a VIP must pass."""
    found = [one for one in view_lists(known.spec, known.state.text, denials) if not one.vips or name in one.vips]
    return [replace(one, denied=history.dropped.get((one.title,))) for one in found]


def _limits(name: str, spec: Spec, history: PageHistory) -> list[LimitView]:
    """The limits of a VIP."""
    found = [one for one in view_limits(spec) if one.vip == name]
    return [replace(one, dropped=history.dropped.get((one.vip, one.service))) for one in found]


def services_of(vip: Vip) -> list[str]:
    """Its services: 53/udp, 53/tcp."""
    return list(dict.fromkeys(_service(end) for end in endpoints(vip)))


def _service(end: Endpoint) -> str:
    return f"{end.port}/{end.protocol.value}"


def _example(vip: Vip) -> tuple[Address, Endpoint]:
    """An address and a service to ask."""
    return vip.addresses[0], endpoints(vip)[0]


def _commands(name: str, vip: Vip, announces: bool, unannounced: Any, options: str) -> list[Command]:
    """The commands that an operator may want: to look first, then to change."""
    address, end = _example(vip)
    found = []
    if end.protocol in (Protocol.UDP, Protocol.TCP) and end.port == 53:
        by = " +tcp" if end.protocol is Protocol.TCP else ""
        found.append(Command("To ask it, from a client", f"kdig @{address} example.org{by}"))
    host = f"[{address}]" if address.version == 6 else str(address)
    client = f"[{_CLIENT[6]}]" if address.version == 6 else _CLIENT[4]
    ends = "--live", "--client", f"{client}:40000", "--vip", f"{host}:{_service(end)}"
    found.append(Command("To see which backend a client gets", dnsteer_command("explain", options, *ends)))
    found.append(Command("To see its packets for 30 s", dnsteer_command("capture", options, name)))
    if announces and vip.announce != "never":
        if unannounced is not None and unannounced.by_people:
            found.append(Command("To announce it again", dnsteer_command("announce", options, name)))
        else:
            found.append(Command("To send clients to another site", dnsteer_command("withdraw", options, name)))
    return found


def _view(read: object) -> OffloadSnapshot | None:
    return read.view if isinstance(read, OffloadPageData) else None


def _flows(name: str, read: object) -> VipFlows | None:
    """The datapath flows of a VIP in a reading; None where there is none."""
    view = _view(read)
    if view is None or view.reading is None:
        return None
    mine = [each for each in view.reading.flows if any(owner.vip == name for owner in each.owners)]
    in_hardware = sum(each.actual == "yes" for each in mine)
    return VipFlows(len(mine), in_hardware, Counter(each.predicted.verdict for each in mine))
