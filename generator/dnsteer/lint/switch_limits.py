# SPDX-License-Identifier: Apache-2.0
"""Findings about the switch as a whole: limits on totals over all flows, and the machine setup that verdicts assume."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.card.published import published
from dnsteer.lint.finder import SWITCH, LintContext, finder, limit_reason
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.offload.capabilities import LimitName
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.offload.offload_context import CT_IPV6, dp_hash_pools, eswitch_setup, uses_conntrack
from dnsteer.plan.sizes import FLOW_LIMIT as DEFAULT_FLOW_LIMIT
from dnsteer.spec import derived
from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.model.spec import Flavor

FLOW_LIMIT = Code("DNS013", Severity.WARNING, "More datapath flows than flow-limit allows")
TABLE_SIZE = Code("DNS014", Severity.ERROR, "More hardware rules than the card holds")
COUNTERS = Code("DNS016", Severity.WARNING, "More datapath flows than counters")
TABLES = Code("DNS019", Severity.WARNING, "More masks or tracker zones than hardware has")

_FEWER = "use fewer slots or services, or more switches"


@finder(FLOW_LIMIT, COUNTERS, TABLE_SIZE, TABLES, hardware=True)
def flow_totals(context: LintContext) -> Iterator[LintFinding]:
    """Report totals above flow-limit, above a limit of the profile or above the card's number of rules."""
    flows, rules = context.flows, context.rules
    if flows > DEFAULT_FLOW_LIMIT:
        text = f"about {flows:,} datapath flows exceed the default flow-limit of {DEFAULT_FLOW_LIMIT:,}"
        advice = f"set other_config:flow-limit to {2 * flows:,} (dnsteer bringup does)"
        yield context.finding(FLOW_LIMIT, SWITCH, text, advice)
    zones = {
        a.args.get("zone")
        for j in context.examination.judged
        if isinstance(j.flow, DatapathFlow)
        for a in j.flow.every_action()
    }
    counted: tuple[tuple[LimitName, int, Code, str], ...] = (
        (
            "counters",
            flows,
            COUNTERS,
            "datapath flows exceed the {:,} counters, of which each offloaded flow takes one",
        ),
        ("rules", rules, TABLE_SIZE, "hardware rules exceed the limit of {:,}"),
        ("masks", context.bound.total, TABLES, "masks, for any traffic, exceed the {:,} of the hardware"),
        (
            "conntrack_zones",
            len(zones - {None}),
            TABLES,
            "zones of the connection tracker exceed the {:,} of the hardware",
        ),
    )
    for name, count, code, text in counted:
        limit = context.profile.limits.get(name)
        if limit is not None and limit.value is not None and count > limit.value:
            reasons = (limit_reason(name, limit),)
            yield context.finding(code, SWITCH, f"about {count:,} {text.format(limit.value)}", _FEWER, reasons=reasons)
    yield from _card_limit(context)


def _card_limit(context: LintContext) -> Iterator[LintFinding]:
    """Report more hardware rules than published for the card, where the spec names the card."""
    hardware, rules = context.spec.switch.hardware, context.rules
    facts = published(hardware).facts if hardware is not None else None
    if hardware is not None and facts is not None and rules > facts.max_entries.value:
        most = facts.max_entries
        text = (
            f"about {rules:,} hardware rules, but {hardware.value} has {most.value:,.0f} ({most.about}; {most.source})"
        )
        yield context.finding(TABLE_SIZE, (*SWITCH, "hardware"), text, _FEWER)


HASH_AND_CONNTRACK = Code("DNS015", Severity.WARNING, "dp-hash and connection tracking on one switch")
WITHOUT_TRACKING = Code("DNS017", Severity.NOTE, "dp-hash is offloaded only without tracked connections")
ONE_ESWITCH = Code("DNS018", Severity.NOTE, "Offload between uplinks needs a multiport eSwitch")
IPV6_CONNECTIONS = Code("DNS025", Severity.NOTE, "Tracked connections of IPv6 are offloaded only with a setting")


@finder(IPV6_CONNECTIONS, hardware=True)
def ipv6_connections(context: LintContext) -> Iterator[LintFinding]:
    """Report that verdicts assume the offload of IPv6 connections, where the profile says that it needs a setting."""
    cases = context.profile.action("ct").cases
    if CT_IPV6 in context.examination.context.enabled and any(case.without == CT_IPV6 for case in cases):
        text = f"verdicts on IPv6 that passes the connection tracker assume {CT_IPV6}=true, which dnsteer bringup sets"
        yield context.finding(IPV6_CONNECTIONS, SWITCH, text)


@finder(HASH_AND_CONNTRACK, WITHOUT_TRACKING, ONE_ESWITCH, hardware=True)
def setup_assumptions(context: LintContext) -> Iterator[LintFinding]:
    """Report dp-hash pools that need connection-tracking offload off, and uplinks assumed to share one eSwitch."""
    limit = context.profile.limits.get("dp_hash_with_conntrack")
    pools = dp_hash_pools(context.loaded)
    if limit is not None and pools:
        reasons = (limit_reason("dp_hash_with_conntrack", limit),)
        for pool in pools:
            text = f"verdicts on pool {pool} (dp-hash) assume hw-offload-ct-size=0, which dnsteer bringup sets"
            yield context.finding(WITHOUT_TRACKING, ("pools", pool, "selection"), text, reasons=reasons)
        if uses_conntrack(context.plan):
            consequence = "hardware does not offload both" if limit.verdict == "no" else "hardware may not offload both"
            kept = derived.keeps_connections(context.spec)
            what = "connections are kept" if kept else "NAT VIPs track IPv4 fragments"
            text = f"pool {', '.join(pools)} selects by dp-hash, and {what}: {consequence}"
            avoid = "no keep and no ct-nat" if kept else "fragments: drop"
            advice = f"set hw-offload-ct-size=0 (dnsteer bringup does), or selection: source-port, or {avoid}"
            yield context.finding(HASH_AND_CONNTRACK, ("pools", pools[0], "selection"), text, advice, reasons=reasons)
    switch = context.spec.switch
    setup = eswitch_setup(context.loaded, context.plan, Flavor(context.profile.flavor))
    if setup.multiport and len(uplink_devices(switch)) > 1 and not context.examination.context.eswitches:
        uplinks = ", ".join(uplink_devices(switch))
        text = f"{uplinks} are assumed to share one eSwitch, which dnsteer bringup sets up (multiport): {setup.why}"
        yield context.finding(ONE_ESWITCH, (*SWITCH, "uplinks"), text)
