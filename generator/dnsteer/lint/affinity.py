# SPDX-License-Identifier: Apache-2.0
"""Findings about pools that bits of the clients' addresses select for."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.spec import derived
from dnsteer.spec.model.spec import Selection

UNEVEN_CLIENTS = Code("DNS039", Severity.NOTE, "How evenly backends are used depends on the clients' addresses")


@finder(UNEVEN_CLIENTS)
def uneven_clients(context: LintContext) -> Iterator[LintFinding]:
    """Report each pool whose slots follow clients' addresses, since nothing of the spec says how even that is."""
    used = {vip.pool for vip in context.spec.vips.values()}
    for name, pool in context.spec.pools.items():
        if name in used and pool.selection is Selection.SOURCE_ADDRESS:
            slots = derived.slot_count(context.spec, pool)
            lengths = f"/{derived.client_prefix(pool, 'ipv4')} and /{derived.client_prefix(pool, 'ipv6')}"
            text = (
                f"pool {name}: the slot is the last {slots.bit_length() - 1} bits of a client's {lengths} prefix; clients "
                "that are alike in them share a backend, and a busy client loads one alone"
            )
            advice = "look at your own clients: dnsteer explain SPEC --clients FILE"
            yield context.finding(UNEVEN_CLIENTS, ("pools", name, "selection"), text, advice)
