# SPDX-License-Identifier: Apache-2.0
"""Findings about traffic of backends' own: resolvers whose questions do not pass, and ports that are taken for answers'."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.finder import SWITCH, LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.modes import MODES
from dnsteer.spec.errors import some_of
from dnsteer.spec.own_traffic import served_ports

CANNOT_ASK = Code("DNS045", Severity.NOTE, "Resolvers behind NAT cannot ask the world through this switch")
SERVED_PORTS = Code("DNS046", Severity.NOTE, "What backends send from a service's port leaves as the VIP")


@finder(CANNOT_ASK, SERVED_PORTS)
def own_traffic(context: LintContext) -> Iterator[LintFinding]:
    """Report resolvers whose default route is the switch and whose own traffic does not pass; else the ports they must not
    send from."""
    spec = context.spec
    translated = [vip.pool for vip in spec.vips.values() if MODES[vip.forwarding].translates_ports]
    if spec.switch.own_traffic is None:
        for name in dict.fromkeys(translated):
            if spec.pools[name].serves == "resolver":
                text = (
                    f"pool {name}: the resolvers' answers must come back through the switch, and what they ask other "
                    "servers does not pass it"
                )
                advice = "set switch.pass: backends, or give what they ask a route of its own (docs/pass.md)"
                yield context.finding(CANNOT_ASK, ("pools", name, "serves"), text, advice)
    elif translated:
        ports = [f"{port}/{protocol}" for protocol, found in served_ports(spec).items() for port in found if port]
        text = (
            f"what backends send from {some_of(ports)} is taken for answers, and leaves as the VIP: a question from there "
            "is never answered"
        )
        advice = "let servers ask from any port: no query-source port 53 in BIND, nor the like elsewhere"
        yield context.finding(SERVED_PORTS, (*SWITCH, "pass"), text, advice)
