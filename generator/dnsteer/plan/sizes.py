# SPDX-License-Identifier: Apache-2.0
"""The hardware that a plan needs, counted from its rows: bring-up sizes tables and connection tracking by it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from dnsteer.modes import BY_PROGRAM, MODES
from dnsteer.modes.base import PROTOCOL_NUMBERS
from dnsteer.plan.extension.program import ExtensionPlan
from dnsteer.plan.mask_policy import MaskPolicy
from dnsteer.plan.plan import Plan
from dnsteer.slots.dp_hash import hash_values_newer
from dnsteer.spec import derived
from dnsteer.spec.bonds import is_lag, uplink_devices
from dnsteer.spec.model.families import FAMILY_NAMES, Family
from dnsteer.spec.model.spec import Backend, Selection, Spec
from dnsteer.spec.neighbors import asked_address
from dnsteer.spec.tunnels import tunnel_uplink
from dnsteer.tables.access import ListedServiceRow
from dnsteer.tables.client import ClientLimitRow
from dnsteer.tables.forward import ForwardRow
from dnsteer.tables.ingress import OUT_SAME, PortRow
from dnsteer.tables.keep import KeptRow
from dnsteer.tables.passes import passes_of
from dnsteer.tables.recirculate import RecirculateRow
from dnsteer.tables.return_ import FragmentRow, NatReturnRow, OwnReturnRow
from dnsteer.tables.selection import SelectionRow
from dnsteer.tables.slot import GroupRow
from dnsteer.tables.syn import SynRow
from dnsteer.tables.vip import ServiceRow

_USUAL_FLAGS = 3
"""Values that SYN and ACK have in packets of clients: SYN, ACK, and neither in some with RST."""
FLOW_LIMIT = 200_000
"""Open vSwitch's own limit of datapath flows."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of datapath flows, each a rule of the hardware, and what else the datapath has to do.

    *rules* counts them by direction and family: those of one direction and family have one mask, and so share a hardware
    table. It is what all queries and answers of clients can cause, where each network has one router. *services* is the
    number of services (addresses times protocols and ports). *hashed* names the pools that the switch's hash selects for,
    *recirculated* those of two passes, *tracked* is the number of backend addresses whose fragments go through the tracker
    of connections, and *crossing* says by which way packets come in by one uplink or port and leave by another; empty: none.
    *plain* tells whether there is plain DNS over UDP, whose clients take another source port for each query. *kept* is how
    many connections are kept at most. *listed* tells whether queries pass the tracker for access lists or limits of clients,
    *tracks_ipv6* whether packets of IPv6 pass it.
    """

    uplinks: int
    services: int
    slots: int
    rules: Mapping[tuple[str, Family], int]
    hashed: tuple[str, ...]
    recirculated: tuple[str, ...]
    tracked: int
    crossing: str
    plain: bool
    kept: int = 0
    listed: bool = False
    tracks_ipv6: bool = False

    @property
    def total(self) -> int:
        return sum(self.rules.values())

    @property
    def largest(self) -> tuple[str, int]:
        """The largest set of rules with one mask: what it is, and how many."""
        (direction, family), count = max(self.rules.items(), key=lambda item: item[1])
        return f"{FAMILY_NAMES[family]} {direction}", count


def flow_limit(flows: int) -> int:
    """The flow-limit for so many flows: twice as many, and never less than Open vSwitch's own."""
    return max(FLOW_LIMIT, -(-2 * flows // 10_000) * 10_000)


def sizes_of(spec: Spec, plan: Plan) -> Sizes:
    """The sizes of a plan and of its spec."""
    uplinks = len(uplink_devices(spec.switch))
    backends = _by_address(spec)
    rules = _of_queries(plan, uplinks)
    rules.update(_of_answers(spec, plan, backends))
    if plan.extension is not None:
        rules += _through(plan.extension, backends, uplinks)
    used = {vip.pool for vip in spec.vips.values()}
    return Sizes(
        uplinks,
        len(plan.rows.of(ServiceRow)),
        max((derived.slot_count(spec, pool) for name, pool in spec.pools.items() if name in used), default=0),
        dict(rules),
        tuple(n for n, pool in spec.pools.items() if n in used and pool.selection is Selection.DP_HASH),
        tuple(name for name, passes in passes_of(spec, MODES).items() if passes == 2),
        sum(row.family == "ipv4" for row in plan.rows.of(FragmentRow)),
        _crossing(spec, plan),
        any((service.protocol, service.port) == ("udp", 53) for service in plan.rows.of(ServiceRow)),
        derived.tracking(spec).connections if derived.keeps_connections(spec) else 0,
        bool(plan.rows.of(ListedServiceRow)),
        _tracks_ipv6(plan),
    )


def _tracks_ipv6(plan: Plan) -> bool:
    """Whether TCP or UDP of IPv6 passes the tracker: kept connections, pools of two passes, lists and limits of clients."""
    families = [row.family for row in plan.rows.of(RecirculateRow)]
    families += [row.family for row in plan.rows.of(ListedServiceRow)]
    families += [row.family for row in plan.rows.of(ServiceRow) if row.zone]
    return "ipv6" in families


def _of_queries(plan: Plan, uplinks: int) -> Counter[tuple[str, Family]]:
    """Count the flows of queries: one for each slot of a service, or in two passes one for each of both, at each uplink."""
    found: Counter[tuple[str, Family]] = Counter()
    with_ports = {row.pool for row in plan.rows.of(ForwardRow) if row.ports}
    slots_of = {row.pool: 1 << row.slot_bits for row in plan.rows.of(SelectionRow)}
    again: set[tuple[int, int, str, Family, int]] = set()
    hashes = {row.pool: len(row.backends) for row in plan.rows.of(GroupRow)}
    kept: dict[int, set[tuple[Family, int, str, int]]] = defaultdict(set)
    begins: set[tuple[int, Family, int, str, int]] = set()
    writing = {row.mode for row in plan.rows.of(ForwardRow) if row.address}
    with_flags = {(row.address, row.port) for row in plan.rows.of(SynRow)}
    for family, flows in client_flows(plan).items():
        found["queries by their clients", family] += flows
    for service in plan.rows.of(ServiceRow):
        # A hashed packet passes twice: one rule for the hash, then one for each of its values, as newer releases have them.
        buckets = hashes.get(service.pool)
        slots = 1 + hash_values_newer(buckets) if buckets else 1 << service.slot_bits
        if service.protocol == "tcp" and (service.address, service.port) in with_flags:
            slots *= _USUAL_FLAGS
        found["queries", service.family] += slots * uplinks
        if service.zone:
            # With NAT the second pass tells VIPs apart: what is written is matched.
            of_vip = service.address if service.mode in writing else ""
            kept[service.pool].add((service.family, service.mode, of_vip, service.target_port))
            begins.add((service.pool, service.family, service.mode, of_vip, service.target_port))
        if service.two_passes:
            port = (service.target_port or service.port) if service.pool in with_ports else 0
            again.add((service.pool, service.mode, service.protocol, service.family, port))
    for pool, family, *_ in begins:
        found["queries in their second pass", family] += slots_of.get(pool, 1) * uplinks
    for row in plan.rows.of(KeptRow):  # of the packets after those that begin a connection
        for own_family, *_ in kept[row.pool]:
            found["queries in their second pass", own_family] += uplinks
    for pool, _, _, family, _ in again:
        found["queries in their second pass", family] += slots_of[pool] * uplinks
    return found


def client_flows(plan: Plan) -> Counter[Family]:
    """The most flows, by family, in which queries find the bucket of their client, at all uplinks.

    That is the first pass, of each service by itself, or where access lists take that one the second, of all together.
    """
    found: Counter[Family] = Counter()
    uplinks = sum(row.uplink for row in plan.rows.of(PortRow))
    buckets = {(row.limit, row.family): 1 << row.bits for row in plan.rows.of(ClientLimitRow)}
    limited = [row for row in plan.rows.of(ListedServiceRow) if row.limit]
    for row in limited:
        if not row.is_listed:
            found[row.family] += uplinks * buckets[row.limit, row.family]
    for limit, family in {(row.limit, row.family) for row in limited if row.is_listed}:
        found[family] += uplinks * buckets[limit, family]
    return found


def _of_answers(spec: Spec, plan: Plan, backends: Mapping[str, Backend]) -> Counter[tuple[str, Family]]:
    """Count the flows of answers that pass the switch: by the ports of their backends, or by all uplinks."""
    found: Counter[tuple[str, Family]] = Counter()
    part = plan.extension
    told_apart = len(MaskPolicy.native) if part is not None and part.translated else 1
    for row in plan.rows.of(NatReturnRow):
        ways = 1 if backends[row.backend].port else len(uplink_devices(spec.switch))
        found["answers", row.family] += ways * (told_apart if row.family == "ipv6" else 1)
    pools: dict[str, set[str]] = {}
    for vip in spec.vips.values():
        for a in vip.addresses:
            pools.setdefault(str(a), set()).add(vip.pool)
    for answer in plan.rows.of(OwnReturnRow):
        members = [b for p in pools[answer.vip] for b in derived.members(spec.pools[p], answer.family)]
        ours = [b for b in members if b.port in spec.switch.ports]
        behind = {(asked_address(b) if b.follows_mac else b.mac, b.port) for b in ours}
        found["answers", answer.family] += len(behind) * len(answer.protocols)
    return found


def _through(part: ExtensionPlan, at: Mapping[str, Backend], uplinks: int) -> Counter[tuple[str, Family]]:
    """Count the flows to and from the extension, by the MAC address and protocol that they match."""
    found: Counter[tuple[str, Family]] = Counter()
    for row in part.translated:
        found["answers to translate", "ipv6"] += 1 if at[row.backend].port else uplinks
    given: set[tuple[Family, str, int]] = set()
    for service in part.services:
        mode = BY_PROGRAM[service.forward]
        for target in {part.targets[name] for name in service.slots}:
            family, protocol = mode.returned_as(service, target)
            given.add((family, target.mac, protocol))
    given |= {("ipv4", "", PROTOCOL_NUMBERS[row.protocol]) for row in part.translated}
    for family, _, _ in given:
        found["packets from the extension", family] += 1
    return found


def _by_address(spec: Spec) -> dict[str, Backend]:
    backends = [b for pool in spec.pools.values() for b in pool.backends]
    return {str(address): b for b in backends for address in (b.ipv4, b.ipv6) if address is not None}


def _crossing(spec: Spec, plan: Plan) -> str:
    """The first way by which packets change their port, where there is more than one uplink."""
    lag = next((name for name, uplink in spec.switch.uplinks.items() if is_lag(uplink)), None)
    if lag is not None:
        return f"what comes in by one member of {lag} leaves by any, or by another port"
    uplinks = [p for p in plan.rows.of(PortRow) if p.uplink]
    if len(uplinks) < 2:
        return ""
    backup = next((p for p in uplinks if p.members and p.name != p.members[0]), None)
    if backup is not None:
        return f"what comes in by {backup.name} leaves by the active member of {backup.bond}"
    names = {p.number: p.name for p in plan.rows.of(PortRow)}
    part = plan.extension
    if part is not None and part.services:  # its functions are of one eSwitch
        return f"queries that come in by {uplinks[1].name} go to {part.ingress.name}"
    for row in plan.rows.of(ForwardRow):
        if row.out != OUT_SAME:
            leave = tunnel_uplink(spec.switch) if row.tunnel_end else names[row.out]
            come = next(p.name for p in uplinks if p.name != leave)
            return f"queries that come in by {come} leave by {leave}"
    used = {b.port for pool in spec.pools.values() for b in pool.backends}
    for port in plan.rows.of(PortRow):
        if plan.has_gateways and port.answers_out not in (None, OUT_SAME) and (port.uplink or port.name in used):
            return f"answers that come in by {port.name} leave by {names[port.answers_out or 0]}"
    return ""
