"""Findings about all datapath flows and hardware rules together, and about what the verdicts rest on."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.capacity.data import published
from dnsteer.lint import codes
from dnsteer.lint.codes import Code
from dnsteer.lint.findings import Finding
from dnsteer.lint.port_scans import scanned
from dnsteer.lint.wording import finding
from dnsteer.offload.capabilities import Limit, LimitName
from dnsteer.offload.context import hashes, joined, tracks
from dnsteer.offload.examine import Examination
from dnsteer.offload.flow import Flow
from dnsteer.offload.judge import Reason
from dnsteer.plan.mask_policy import MaskPolicy
from dnsteer.plan.sizes import FLOW_LIMIT, flow_limit, sizes_of
from dnsteer.spec.errors import Path as SpecPath
from dnsteer.spec.model.spec import Flavor

_SWITCH: SpecPath = ("switch",)
_FEWER = "fewer slots or services, or several switches"


def of_the_whole(seen: Examination, flows: int, rules: int, masks: int) -> Iterator[Finding]:
    """Findings about limits of all flows together."""
    if flows > FLOW_LIMIT:
        text = f"about {flows:,} datapath flows, and flow-limit is {FLOW_LIMIT:,} where it is not set"
        advice = f"set other_config:flow-limit to {2 * flows:,} (bringup does)"
        yield finding(seen, codes.FLOW_LIMIT, _SWITCH, text, advice)
    zones = {a.args.get("zone") for j in seen.judged if isinstance(j.flow, Flow) for a in j.flow.every_action()}
    counted: tuple[tuple[LimitName, int, Code, str], ...] = (
        (
            "counters",
            flows,
            codes.COUNTERS,
            "datapath flows, and there are {:,} counters, one for each that is offloaded",
        ),
        ("rules", rules, codes.TABLE_SIZE, "hardware rules, and there is room for {:,}"),
        ("masks", masks, codes.TABLES, "masks whatever the traffic, and hardware takes {:,}"),
        (
            "conntrack_zones",
            len(zones - {None}),
            codes.TABLES,
            "zones of the connection tracker, and hardware has {:,}",
        ),
    )
    for name, count, code, text in counted:
        limit = seen.profile.limits.get(name)
        if limit is not None and limit.value is not None and count > limit.value:
            reasons = (_reason(name, limit),)
            yield finding(seen, code, _SWITCH, f"about {count:,} {text.format(limit.value)}", _FEWER, reasons=reasons)
    yield from of_the_card(seen, rules)


def of_the_card(seen: Examination, rules: int) -> Iterator[Finding]:
    """More rules than the card is known to hold, where the spec names it."""
    hardware = seen.loaded.spec.switch.hardware
    facts = published(hardware).facts if hardware is not None else None
    if hardware is not None and facts is not None and rules > facts.max_entries.value:
        most = facts.max_entries
        text = (
            f"about {rules:,} hardware rules, and {hardware.value} has {most.value:,.0f} ({most.about}; {most.source})"
        )
        yield finding(seen, codes.TABLE_SIZE, (*_SWITCH, "hardware"), text, _FEWER)


def of_the_settings(seen: Examination) -> Iterator[Finding]:
    """What verdicts rest on besides the flows: tracking that is off for a hash, and eSwitches that are joined."""
    limit = seen.profile.limits.get("dp_hash_with_conntrack")
    pools = hashes(seen.loaded)
    if limit is not None and pools:
        reasons = (_reason("dp_hash_with_conntrack", limit),)
        for pool in pools:
            text = f"what is said of pool {pool} (dp-hash) holds only with hw-offload-ct-size=0, which bring-up sets"
            yield finding(seen, codes.WITHOUT_TRACKING, ("pools", pool, "selection"), text, reasons=reasons)
        if tracks(seen.plan):
            beside = "hardware does not take both" if limit.verdict == "no" else "both together may not be offloaded"
            text = f"pool {', '.join(pools)} selects by dp-hash, and NAT VIPs track fragments of IPv4: {beside}"
            advice = "hw-offload-ct-size=0 (bringup sets it), or selection: source-port, or fragments: drop"
            yield finding(
                seen, codes.HASH_AND_CONNTRACK, ("pools", pools[0], "selection"), text, advice, reasons=reasons
            )
    switch = seen.loaded.spec.switch
    set_up = joined(seen.loaded, seen.plan, Flavor(seen.profile.flavor))
    if set_up.multiport and len(switch.uplinks) > 1 and not seen.around.eswitches:
        text = (
            f"{', '.join(switch.uplinks)} are taken to be of one eSwitch, which bring-up sets (multiport): {set_up.why}"
        )
        yield finding(seen, codes.ONE_ESWITCH, (*_SWITCH, "uplinks"), text)


def of_scans(seen: Examination, flows: int) -> Iterator[Finding]:
    """More datapath flows than flow-limit allows, made by somebody who scans the VIPs' ports."""
    scans = scanned(seen.plan)
    total, limit = sum(scans.values()), flow_limit(sizes_of(seen.loaded.spec, seen.plan).total)
    if flows + total <= limit:
        return
    address, most = max(((a, n) for a, n in scans.items() if a), key=lambda item: item[1])
    text = (
        f"scans of the VIPs' ports can make {total:,} datapath flows that drop ({most:,} of them by scanning {address}), "
        f"and flow-limit is {limit:,} (bringup's)"
    )
    yield finding(seen, codes.SCANS, ("vips",), text, _against_scans(seen))


def _against_scans(seen: Examination) -> str:
    if not MaskPolicy(seen.plan).port_bits:
        return "one selection for all pools, or the NAT VIPs and dp-hash pools on switches of their own"
    return "fewer slots, or fewer VIPs on one switch"


def _reason(name: LimitName, limit: Limit) -> Reason:
    """What a limit says, as a reason."""
    verdict = "no" if limit.verdict == "split" else limit.verdict
    return Reason(
        "limit", name, verdict, limit.note or f"at most {limit.value} {limit.unit}", limit.source, limit.certainty
    )
