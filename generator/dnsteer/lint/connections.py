# SPDX-License-Identifier: Apache-2.0
"""Findings about connections that are kept: what is not known of their offload."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.spec.errors import counted
from dnsteer.spec.model.spec import Flavor

KEPT = Code("DNS041", Severity.WARNING, "Connections of which one direction is tracked, whose offload is not published")


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
