# SPDX-License-Identifier: Apache-2.0
"""Findings about traffic besides queries and answers: fragments, ARP, drops, port scans; and flows that cannot be parsed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from dnsteer.lint.finder import SWITCH, LintContext, finder, first_reason
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.offload.datapath_flow import Unreadable
from dnsteer.offload.examine import JudgedFlow
from dnsteer.plan.mask_policy import MaskPolicy, TrafficKind
from dnsteer.plan.plan import Plan
from dnsteer.plan.sizes import flow_limit, sizes_of
from dnsteer.tables.ingress import PortRow
from dnsteer.tables.vip import ServiceRow

SOFTWARE_FLAVOR = Code("DNS005", Severity.NOTE, "This flavor forwards in software")
FRAGMENTS = Code("DNS020", Severity.NOTE, "Fragments run on the CPU")
NEIGHBORS = Code("DNS021", Severity.NOTE, "ARP, neighbour discovery and echo run on the CPU")
REFUSED = Code("DNS022", Severity.NOTE, "Some dropped packets are dropped by the CPU")
UNUSUAL = Code("DNS023", Severity.NOTE, "Some unusual packets of a service run on the CPU")
UNREADABLE = Code("DNS040", Severity.WARNING, "A datapath flow that cannot be read")

_TRAFFIC = {
    "fragment": (FRAGMENTS, "fragments"),
    "neighbor": (NEIGHBORS, "ARP and neighbour discovery"),
    "echo": (NEIGHBORS, "echo requests"),
    "unusual": (UNUSUAL, "unusual packets"),
    "drop": (REFUSED, "dropped packets"),
}
_SHOWN = 200


@finder(SOFTWARE_FLAVOR)
def software_flavor(context: LintContext) -> Iterator[LintFinding]:
    """Report a profile without hardware: the CPU forwards everything."""
    if not context.profile.hardware:
        model = ", and the extension runs on its software model" if context.examination.extension_parts else ""
        text = f"{context.profile.title}: the CPU forwards everything{model}"
        yield context.finding(SOFTWARE_FLAVOR, SWITCH, text, "omit --flavor to see what hardware would do")


@finder(FRAGMENTS, NEIGHBORS, REFUSED, UNUSUAL, hardware=True)
def other_traffic(context: LintContext) -> Iterator[LintFinding]:
    """Report fragments, neighbour discovery, echo, unusual and dropped packets not in hardware, one finding per reason."""
    found: dict[tuple[str, bool, str], list[JudgedFlow]] = defaultdict(list)
    for judged in context.examination.judged:
        if judged.kind in _TRAFFIC and judged.judgement.verdict != "yes":
            found[judged.kind, judged.judgement.verdict == "unknown", first_reason(judged)].append(judged)
    for (kind, unknown, reason), flows in found.items():
        code, what = _TRAFFIC[kind]
        verdict = "may or may not be in hardware (not published)" if unknown else "not in hardware"
        text = f"{what}: {len(flows)} datapath flow{'s' if len(flows) > 1 else ''} {verdict}: {reason}"
        yield context.finding(code, SWITCH, text, "", flows)


@finder(UNREADABLE)
def unreadable_flows(context: LintContext) -> Iterator[LintFinding]:
    """Report datapath flows that the parser cannot read."""
    for judged in context.examination.judged:
        if isinstance(judged.flow, Unreadable):
            text = f"{judged.flow.problem}: {judged.flow.text[:_SHOWN]}"
            yield context.finding(UNREADABLE, SWITCH, text, "please report this line", [judged])


PORT_SCANS = Code("DNS032", Severity.WARNING, "Port scans can make more datapath flows than flow-limit allows")

_PORTS = 1 << 16


@finder(PORT_SCANS)
def port_scans(context: LintContext) -> Iterator[LintFinding]:
    """Report when scans of all VIPs' ports can create more datapath flows than the flow-limit that bring-up sets."""
    by_address = scan_flows(context.plan)
    total, limit = sum(by_address.values()), flow_limit(sizes_of(context.spec, context.plan).total)
    if context.flows + total <= limit:
        return
    address, most = max(((a, n) for a, n in by_address.items() if a), key=lambda item: item[1])
    text = (
        f"port scans of the VIPs can create {total:,} datapath flows that drop ({most:,} of them by scanning {address}); "
        f"dnsteer bringup sets flow-limit to {limit:,}"
    )
    advice = "use fewer slots, or fewer VIPs per switch"
    if not MaskPolicy(context.plan).port_bits:
        advice = "use one selection for all pools, or separate switches for NAT VIPs and dp-hash pools"
    yield context.finding(PORT_SCANS, ("vips",), text, advice)


def scan_flows(plan: Plan) -> dict[str, int]:
    """Return the number of datapath flows that scans of all ports create, by scanned address; "" has the shared ones.

    Each flow drops and matches the bits of the destination port that the tables unwildcard. Where the first table
    unwildcards only the port's low bits, ports with the same low bits as a service's reach later tables: their flows match
    the full port, the address and the slot's bits.
    """
    policy, uplinks = MaskPolicy(plan), sum(port.uplink for port in plan.rows.of(PortRow))
    services = Counter((s.address, s.protocol) for s in plan.rows.of(ServiceRow))
    addresses = {s.address: s.family for s in plan.rows.of(ServiceRow)}
    out: dict[str, int] = defaultdict(int)
    for kind in policy.kinds:
        passing = _passing(kind, policy.port_bits)
        if policy.port_bits:
            out[""] += uplinks * ((1 << policy.port_bits) - len(kind.low_ports))
        for address, family in addresses.items():
            if family == kind.family:
                out[address] += uplinks * (passing - services[address, kind.protocol]) << kind.slot_bits
    return dict(out)


def _passing(kind: TrafficKind, port_bits: int) -> int:
    """Return how many destination ports pass the first table and reach the service table."""
    return len(kind.low_ports) * (_PORTS >> port_bits) if port_bits else _PORTS
