# SPDX-License-Identifier: Apache-2.0
"""Findings about bonds by LACP: what hardware does with their packets, and where a bond of Linux must stand alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dnsteer.lint.finder import SWITCH, LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.offload.datapath_flow import read_flow
from dnsteer.offload.judge import join_reasons, judge
from dnsteer.offload.offload_context import eswitch_setup
from dnsteer.spec.bonds import is_lag
from dnsteer.spec.model.spec import Flavor

LAG_IN_SOFTWARE = Code("DNS028", Severity.WARNING, "What leaves by a bond by LACP is not all in hardware")
LAG_AND_MULTIPORT = Code("DNS029", Severity.WARNING, "A multiport eSwitch and a bond of Linux exclude each other")

_LINUX_BOND = re.compile(r"(bond|team|lag)[-_.]?\d*$", re.I)
_FLOWS = (
    "recirc_id(0),in_port(p0),packet_type(ns=0,id=0),eth(src=02:00:00:00:00:fe,dst=02:00:00:00:00:53),eth_type(0x0800),"
    "ipv4(dst=198.51.100.53,proto=17,frag=no),udp(src=2/0x7e,dst=53), packets:1, bytes:60, used:0.1s, "
    "actions:set(eth(dst=02:00:00:00:04:01)),hash(l4(0)),recirc(0x1)",
    "recirc_id(0x1),dp_hash(0x33/0xff),in_port(p0),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no), packets:1, "
    "bytes:60, used:0.1s, actions:p1",
)
"""What Open vSwitch 3.1.0 makes of a packet that leaves by a bond by LACP: a hash in one pass, the member in another."""


@finder(LAG_IN_SOFTWARE, LAG_AND_MULTIPORT, hardware=True)
def bonds_in_hardware(context: LintContext) -> Iterator[LintFinding]:
    """Report bonds by LACP whose packets hardware does not forward, and bonds of Linux beside a multiport eSwitch."""
    switch = context.spec.switch
    for name, uplink in switch.uplinks.items():
        if not is_lag(uplink):
            continue
        judged = [judge(read_flow(text), context.profile, context.examination.context) for text in _FLOWS]
        reasons = tuple(dict.fromkeys(reason for each in judged for reason in each.reasons if reason.verdict != "yes"))
        if not reasons:
            continue
        yield context.finding(
            LAG_IN_SOFTWARE,
            (*SWITCH, "uplinks", name, "mode"),
            f"each packet that leaves by {name} takes a hash and a second pass for its member: {join_reasons(reasons)}; "
            "other findings are about the bridge alone, as if the bond were one port",
            "let Linux make the bond (VF LAG), and name that as an uplink without members: the card then shares its links",
            reasons=reasons,
        )
    if not eswitch_setup(context.loaded, context.plan, Flavor(context.profile.flavor)).multiport:
        return
    for name, uplink in switch.uplinks.items():
        if uplink.members is None and _LINUX_BOND.match(name):
            yield context.finding(
                LAG_AND_MULTIPORT,
                (*SWITCH, "uplinks", name),
                f"{name} has the name of a bond that Linux makes, and the card's functions become one eSwitch (multiport): "
                "a card does one or the other",
                "with a bond of Linux leave multiport and other uplinks of the card out; if it is none, rename it",
            )
