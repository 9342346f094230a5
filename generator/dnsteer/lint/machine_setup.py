"""Findings about the machine setup that verdicts assume: offload of connection tracking, multiport eSwitch."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.context import SWITCH, LintContext
from dnsteer.lint.finder import finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.lint.reasons import limit_reason
from dnsteer.offload.context import dp_hash_pools, eswitch_setup, uses_conntrack
from dnsteer.spec.model.spec import Flavor

HASH_AND_CONNTRACK = Code("DNS015", Severity.WARNING, "dp-hash and connection tracking on one switch")
WITHOUT_TRACKING = Code("DNS017", Severity.NOTE, "dp-hash is offloaded only without tracked connections")
ONE_ESWITCH = Code("DNS018", Severity.NOTE, "Offload between uplinks needs a multiport eSwitch")


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
            text = f"pool {', '.join(pools)} selects by dp-hash, and NAT VIPs track IPv4 fragments: {consequence}"
            advice = "set hw-offload-ct-size=0 (dnsteer bringup does), or selection: source-port, or fragments: drop"
            yield context.finding(HASH_AND_CONNTRACK, ("pools", pools[0], "selection"), text, advice, reasons=reasons)
    switch = context.spec.switch
    setup = eswitch_setup(context.loaded, context.plan, Flavor(context.profile.flavor))
    if setup.multiport and len(switch.uplinks) > 1 and not context.examination.context.eswitches:
        uplinks = ", ".join(switch.uplinks)
        text = f"{uplinks} are assumed to share one eSwitch, which dnsteer bringup sets up (multiport): {setup.why}"
        yield context.finding(ONE_ESWITCH, (*SWITCH, "uplinks"), text)
