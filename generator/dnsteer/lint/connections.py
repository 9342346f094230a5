# SPDX-License-Identifier: Apache-2.0
"""Findings about connections that are kept: what is not known of their offload."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.spec import derived
from dnsteer.spec.errors import counted
from dnsteer.spec.model.spec import Flavor
from dnsteer.spec.model.tracking import MAX_CONNECTIONS

FULL = Code("DNS026", Severity.NOTE, "More connections may begin than the tracker remembers")
UNANSWERED = 30
"""Seconds that the tracker remembers a SYN without an answer where it sees answers, and no VIP has `keep`."""
KEPT = Code("DNS041", Severity.WARNING, "Connections of which one direction is tracked, whose offload is not published")
BOTH_WAYS = Code("DNS042", Severity.WARNING, "Answers that pass the connection tracker, whose offload is not published")


@finder(BOTH_WAYS, hardware=True)
def tracked_answers(context: LintContext) -> Iterator[LintFinding]:
    """Report the VIPs whose answers the tracker sees."""
    if context.profile.flavor == Flavor.OVS_DPDK.value:
        return
    names = [name for name, vip in context.spec.vips.items() if derived.tracks_answers(vip)]
    if not names:
        return
    text = (
        f"answers over TCP of {counted(len(names), 'VIP')} pass the connection tracker on their way out, and no second "
        "pass follows: what is published is of connections that begin one. New connections are the CPU's in any case"
    )
    advice = "check on a running switch: dnsteer verify --offload; UDP is not concerned"
    yield context.finding(BOTH_WAYS, ("vips", names[0], "forwarding"), text, advice)


@finder(KEPT, hardware=True)
def kept_connections(context: LintContext) -> Iterator[LintFinding]:
    """Report the VIPs whose connections are kept."""
    if context.profile.flavor == Flavor.OVS_DPDK.value:
        return  # of which it is known: the CPU forwards what is tracked, as other findings say
    names = [name for name, vip in context.spec.vips.items() if vip.keep is not None]
    if not names:
        return
    text = (
        f"connections to {counted(len(names), 'VIP')} are kept by the connection tracker, which sees what clients "
        "send alone: what is published is of connections of which both directions were seen, so that the CPU may "
        "forward all TCP of these VIPs, whatever is said of its datapath flows"
    )
    advice = "check on a running switch: dnsteer verify --offload; UDP is not concerned"
    yield context.finding(KEPT, ("vips", names[0], "keep"), text, advice)


@finder(FULL)
def full_tracker(context: LintContext) -> Iterator[LintFinding]:
    """Report limits of SYN that let more connections begin than the tracker can remember, where all such VIPs have one."""
    spec, tracking = context.spec, derived.tracking(context.spec)
    kept = {name: vip for name, vip in spec.vips.items() if derived.keeps(vip)}
    rate = 0
    for vip in kept.values():
        if vip.limits is None or vip.limits.tcp_syn is None:
            return  # nothing is said of how many begin
        tcp = sum(end.protocol.value == "tcp" for end in derived.endpoints(vip))
        rate += vip.limits.tcp_syn * (tcp if vip.limits.per == "service" else 1)
    remembered = tracking.idle if any(vip.keep is not None for vip in kept.values()) else UNANSWERED
    if rate * remembered <= tracking.connections:
        return
    text = (
        f"limits.tcp_syn lets {rate:,} connections a second begin, each remembered for {remembered:g} s at least: the "
        f"tracker with its {tracking.connections:,} is full after {tracking.connections / rate:.0f} s, and those beyond "
        "are not kept"
    )
    enough = rate * remembered
    more = f"set switch.tracking.connections to {enough:,.0f}, or " if enough <= MAX_CONNECTIONS else "set "
    shorter = "a shorter idle time, or " if remembered != UNANSWERED else ""
    advice = f"{more}{shorter}lower limits"
    yield context.finding(FULL, ("vips", next(iter(kept)), "limits", "tcp_syn"), text, advice)
