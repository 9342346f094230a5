# SPDX-License-Identifier: Apache-2.0
"""Findings about pools of one and of two passes: what is not known of the second one, and too many rules for one."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.modes import MODES
from dnsteer.spec.errors import Path
from dnsteer.spec.model.spec import AUTO, Flavor, Selection
from dnsteer.tables.passes import passes_of, query_rules, rules_budget

SECOND_PASS = Code("DNS037", Severity.WARNING, "Two passes, whose offload is not published")
OVER_BUDGET = Code("DNS038", Severity.WARNING, "More rules for queries than the budget")


@finder(SECOND_PASS, hardware=True)
def second_passes(context: LintContext) -> Iterator[LintFinding]:
    """Report each pool of two passes, with the rules that they save."""
    spec = context.spec
    if context.profile.flavor == Flavor.OVS_DPDK.value:
        return  # of which it is known: the CPU forwards them, as other findings say
    rules = query_rules(spec, MODES)
    for name, passes in passes_of(spec, MODES).items():
        if passes != 2:
            continue
        path: Path = ("pools", name) if spec.pools[name].passes == AUTO else ("pools", name, "passes")
        text = (
            f"pool {name}: queries pass the datapath twice, by the connection tracker, which keeps no connection: "
            f"about {rules[name].in_two_passes:,} rules instead of {rules[name].in_one_pass:,}; whether hardware forwards "
            "what is of no connection is not known from public sources"
        )
        advice = "check on a running switch: dnsteer verify --offload; or set passes: 1 if the rules fit"
        yield context.finding(SECOND_PASS, path, text, advice)


@finder(OVER_BUDGET)
def over_budget(context: LintContext) -> Iterator[LintFinding]:
    """Report more rules for queries than the budget, where a pool of one pass would save some by two."""
    spec = context.spec
    rules, passes, most = query_rules(spec, MODES), passes_of(spec, MODES), rules_budget(spec)
    total = sum(r.in_two_passes if passes[name] == 2 else r.in_one_pass for name, r in rules.items())
    ports = {name for name, pool in spec.pools.items() if pool.selection is Selection.SOURCE_PORT}
    could = [n for n, r in rules.items() if passes[n] == 1 and n in ports and r.in_two_passes < r.in_one_pass]
    if total <= most or not could:
        return
    name = max(could, key=lambda n: rules[n].in_one_pass)
    path: Path = ("pools", name) if spec.pools[name].passes == AUTO else ("pools", name, "passes")
    text = (
        f"about {total:,} rules for queries, more than the {most:,} of switch.rules; pool {name} has "
        f"{rules[name].in_one_pass:,} in one pass, and would have {rules[name].in_two_passes:,} in two"
    )
    yield context.finding(OVER_BUDGET, path, text, f"set pools.{name}.passes: 2, fewer slots, or another switch.rules")
