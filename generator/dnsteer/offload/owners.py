# SPDX-License-Identifier: Apache-2.0
"""Find the owner of a datapath flow: the service whose queries or answers it carries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Literal

from dnsteer.modes import BY_PROGRAM
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.plan.extension.program import ExtensionPlan
from dnsteer.plan.plan import Plan
from dnsteer.spec.model.families import Family
from dnsteer.tables.return_ import PREFIX, NatReturnRow, OwnReturnRow
from dnsteer.tables.vip import ServiceRow

Direction = Literal["query", "answer"]
_NUMBERS = {"udp": 17, "tcp": 6}
"""IP protocol numbers."""
_TRANSLATED = ip_network(PREFIX)


@dataclass(frozen=True, order=True)
class Owner:
    """The queries or the answers of one service (`udp/53`) of a VIP in one address family."""

    vip: str
    service: str
    family: Family
    direction: Direction


class Owners:
    """Finds the owners of datapath flows by their match; recirculated ones by the flow that recirculates to them.

    Packets that return from the extension are recognised by port, destination MAC, family and protocol, which several
    services may share.
    """

    def __init__(self, plan: Plan) -> None:
        self._queries: dict[tuple[int, int, int], Owner] = {}
        self._answers: dict[tuple[int, int, int], Owner] = {}
        self._direct: dict[tuple[int, int], list[Owner]] = defaultdict(list)
        self._fragments: dict[int, list[Owner]] = defaultdict(list)
        services: dict[tuple[str, str], list[tuple[int, Owner]]] = defaultdict(list)
        for row in plan.rows.of(ServiceRow):
            vip, number, address = str(row.subject.path[1]), _NUMBERS[row.protocol], int(ip_address(row.address))
            owner = Owner(vip, f"{row.protocol}/{row.port}", row.family, "query")
            self._queries[address, number, row.port] = owner
            services[row.address, row.protocol].append((row.port, Owner(*_parts(owner), "answer")))
        for nat_return in plan.rows.of(NatReturnRow):
            port = nat_return.port or nat_return.target_port
            owner = next(o for p, o in services[nat_return.vip, nat_return.protocol] if p == port)
            source = int(ip_address(nat_return.backend))
            self._answers[source, _NUMBERS[nat_return.protocol], nat_return.target_port] = owner
            if nat_return.protocol == "udp":
                self._fragments[source].append(owner)
        for direct in plan.rows.of(OwnReturnRow):
            for protocol in direct.protocols:
                found = [owner for _, owner in services[direct.vip, protocol]]
                self._direct[int(ip_address(direct.vip)), _NUMBERS[protocol]] += found
                self._fragments[int(ip_address(direct.vip))] += found
        self._returned: dict[tuple[str, int, Family, int], dict[Owner, None]] = defaultdict(dict)
        self._translated: dict[tuple[int, int, int], dict[Owner, None]] = defaultdict(dict)
        if plan.extension is not None:
            self._add_extension(plan.extension)

    def _add_extension(self, extension: ExtensionPlan) -> None:
        by, towards = extension.ingress.name, _packed(extension.answers_to)
        for service in extension.services:
            number, mode = _NUMBERS[service.protocol], BY_PROGRAM[service.forward]
            owner = self._queries[int(ip_address(service.address)), number, service.port]
            for name in dict.fromkeys(service.slots):
                target = extension.targets[name]
                family, protocol = mode.returned_as(service, target)
                self._returned[extension.egress.name, _packed(target.mac), family, protocol][owner] = None
            if not mode.translates:
                continue
            answer = Owner(*_parts(owner), "answer")
            self._returned[by, towards, "ipv4", number][answer] = None
            ends = {extension.targets[name].address for name in service.slots}
            for row in extension.translated:
                if (row.protocol, row.port) == (service.protocol, service.port) and row.backend in ends:
                    self._translated[int(ip_address(row.backend)), number, row.port][answer] = None

    def of(self, flows: Iterable[DatapathFlow]) -> dict[DatapathFlow, tuple[Owner, ...]]:
        """Return the owners of each flow; an empty tuple for flows of no service."""
        found: dict[DatapathFlow, tuple[Owner, ...]] = {}
        sent_to: dict[int, list[Owner]] = defaultdict(list)
        waiting: list[DatapathFlow] = []
        for flow in flows:
            if flow.recirculated:
                waiting.append(flow)
                continue
            found[flow] = tuple(self._first_pass(flow))
            _note(flow, found[flow], sent_to)
        while waiting:  # a recirculated flow may recirculate again
            ready = [f for f in waiting if _recirculation(f) in sent_to]
            for flow in ready or waiting:
                sent = dict.fromkeys(sent_to.get(_recirculation(flow), ()))  # both families may share a recirc_id
                named = [
                    owner for owner in self._first_pass(flow) if owner in sent
                ]  # where it looks at the service again
                found[flow] = tuple(named or (owner for owner in sent if owner.family == flow.family))
                _note(flow, found[flow], sent_to)
            waiting = [f for f in waiting if f not in found]
        return found

    def _first_pass(self, flow: DatapathFlow) -> Iterable[Owner]:
        family, proto = flow.family, flow.proto
        if not family or proto is None:
            return ()
        came_by, towards = flow.get("in_port"), _exact(flow, "eth.dst")
        given = (str(came_by.value) if came_by is not None else "", towards or 0, family, proto)
        if given in self._returned:
            return self._returned[given]
        name = {17: "udp", 6: "tcp"}.get(proto, "")
        dport, sport = (_exact(flow, f"{name}.{end}") if name else None for end in ("dst", "src"))
        destination = _exact(flow, f"{family}.dst")
        if destination is not None and dport is not None and (destination, proto, dport) in self._queries:
            return (self._queries[destination, proto, dport],)
        source = _exact(flow, f"{family}.src")
        return self._answering(flow, source, proto, sport) if source is not None else ()

    def _answering(self, flow: DatapathFlow, source: int, proto: int, sport: int | None) -> Iterable[Owner]:
        """The owners of answers from an address and port, None where the port is not matched."""
        if sport is not None and _is_translated(flow):
            return self._translated.get((source, proto, sport), ())
        if sport is not None and (source, proto, sport) in self._answers:
            return (self._answers[source, proto, sport],)
        if (source, proto) in self._direct:
            return self._direct[source, proto]
        fragment = flow.get(f"{flow.family}.frag")
        if fragment is not None and fragment.value != "no":
            return self._fragments.get(source, ())
        return ()


def owners_in_words(owners: Sequence[Owner]) -> str:
    """What a datapath flow of these owners carries: `queries of dns over ipv4 (udp/53)`."""
    if not owners:
        return "packets of no service"
    directions = {"query": "queries", "answer": "answers"}
    services = ", ".join(dict.fromkeys(owner.service for owner in owners))
    return f"{directions[owners[0].direction]} of {owners[0].vip} over {owners[0].family} ({services})"


def _parts(owner: Owner) -> tuple[str, str, Family]:
    return owner.vip, owner.service, owner.family


def _exact(flow: DatapathFlow, key: str) -> int | None:
    field = flow.get(key)
    return int(field.value) if field is not None and field.exact else None


def _packed(mac: str) -> int:
    return int(mac.replace(":", "") or "0", 16)


def _is_translated(flow: DatapathFlow) -> bool:
    """Whether the flow's IPv6 destinations are translated clients: inside the translation prefix."""
    field = flow.get("ipv6.dst")
    netmask = int(_TRANSLATED.netmask)
    return (
        field is not None
        and field.mask & netmask == netmask
        and int(field.value) & netmask == int(_TRANSLATED.network_address)
    )


def _recirculation(flow: DatapathFlow) -> int:
    field = flow.get("recirc_id")
    return int(field.value) if field is not None else 0


def _note(flow: DatapathFlow, owners: tuple[Owner, ...], sent_to: dict[int, list[Owner]]) -> None:
    """Record the owners under each recirc_id that the flow recirculates to."""
    for action in flow.every_action():
        if action.name == "recirc":
            sent_to[int(action.args["value"])] += owners
