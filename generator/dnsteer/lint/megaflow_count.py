# SPDX-License-Identifier: Apache-2.0
"""Findings about megaflows: how many somebody can make who is behind a router, and who is on the network itself."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import Any

from dnsteer.lint.finder import SWITCH, LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.lint.masks.megaflows import MegaflowBound, MegaflowKind, show_count
from dnsteer.spec.errors import Path

MEGAFLOW_BUDGET = Code(
    "DNS035", Severity.WARNING, "Traffic from behind routers can make more megaflows than the budget"
)
ON_THE_NETWORK = Code("DNS036", Severity.NOTE, "Who is on the network itself can make many megaflows")

_BUDGET: Path = ("lint", "megaflows")
_SHOWN = 3
_SAFE = 1 << 53
"""Whole numbers from here on are not the same for all readers of JSON (RFC 8259, section 6)."""


@finder(MEGAFLOW_BUDGET, ON_THE_NETWORK)
def megaflow_count(context: LintContext) -> Iterator[LintFinding]:
    """Report how many megaflows attackers can make: above the budget from behind a router, and always on the network."""
    routed, local = context.megaflows
    budget = context.spec.lint.megaflows
    if routed.beyond > budget:
        text = (
            f"somebody {routed.attacker} can make up to {show_count(routed.beyond)} megaflows beyond those of good traffic, "
            f"and the budget is {budget:,}: {_most(routed)}"
        )
        yield context.finding(MEGAFLOW_BUDGET, _BUDGET, text, _advice(routed.beyond))
    text = f"somebody {local.attacker} can make up to {show_count(local.total)} megaflows: {_most(local)}"
    yield context.finding(ON_THE_NETWORK, SWITCH, text, "let only routers and backends into the switch's network")


def _advice(megaflows: int) -> str:
    filtered = "filter what makes most before the switch, name in switch.routed only what routers send here"
    if megaflows <= _SAFE:
        return f"{filtered}, or set lint.megaflows: {megaflows} if the switch has room (--explain DNS035)"
    return f"{filtered} (--explain DNS035)"


def _most(bound: MegaflowBound) -> str:
    """The kinds of packets that make most megaflows."""
    kinds = [kind for kind in bound.kinds if not kind.served]
    left = sum(kind.megaflows for kind in kinds[_SHOWN:])
    rest = [f"all others: {show_count(left)}"] if left else []
    return "; ".join([*map(str, kinds[:_SHOWN]), *rest])


def bound_as_json(bound: MegaflowBound) -> dict[str, Any]:
    """Return a bound as a JSON object. Numbers too large for JSON are null there; *log2* has them all."""
    return {
        "attacker": bound.attacker,
        **_number(bound.total),
        "beyond_good_traffic": _number(bound.beyond),
        "kinds": [_kind(kind) for kind in bound.kinds],
    }


def _kind(kind: MegaflowKind) -> dict[str, Any]:
    fields = {name: show_count(count) for name, count in kind.many}
    return {"kind": kind.kind, "table": kind.table, **_number(kind.megaflows), "good": kind.served, "fields": fields}


def _number(count: int) -> dict[str, Any]:
    return {"megaflows": count if count <= _SAFE else None, "log2": round(log2(count), 2) if count else None}
