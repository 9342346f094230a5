# SPDX-License-Identifier: Apache-2.0
"""A finding about access lists: the datapath flows that clients make which a list looks at, and the second pass."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.lint.masks.bound import mask_bound
from dnsteer.lint.masks.list_flows import all_flows_of_list, all_flows_of_lists, most_flows_of_list
from dnsteer.plan.plan import Plan
from dnsteer.plan.sizes import flow_limit, sizes_of
from dnsteer.spec.errors import counted
from dnsteer.spec.model.spec import Spec
from dnsteer.tables.access import access_lists

ACCESS_LIST = Code("DNS070", Severity.NOTE, "Access lists make datapath flows by the sources of queries")


def exceeded_bounds(spec: Spec, plan: Plan) -> dict[str, str]:
    """What the lists of a plan exceed, `masks` or `flows`, each in words; empty where they exceed nothing."""
    found: dict[str, str] = {}
    masks, flows = mask_bound(plan).total, all_flows_of_lists(plan)
    if masks > (most := spec.lint.masks):
        found["masks"] = (
            f"packets of all kinds can now make {masks} masks, more than lint.masks: {most}: shorter prefixes make fewer"
        )
    if flows > (limit := flow_limit(sizes_of(spec, plan).total)):
        found["flows"] = (
            f"sources of all kinds can now make {flows:,} datapath flows at access lists, more than the {limit:,} that "
            "dnsteer bringup sets as flow-limit: join prefixes that lie side by side"
        )
    return found


@finder(ACCESS_LIST)
def access_list_flows(context: LintContext) -> Iterator[LintFinding]:
    """Say of each list how many datapath flows the sources of queries to one service can make, at most."""
    limit = flow_limit(sizes_of(context.spec, context.plan).total)
    for one in access_lists(context.spec):
        number = one.number if one.vips else 0
        most, total = most_flows_of_list(context.plan, number), all_flows_of_list(context.plan, number)
        each = " and ".join(f"{counted(n, 'flow')} of {'IPv4' if f == 'ipv4' else 'IPv6'}" for f, n in most.items())
        beyond = f", more than the {limit:,} that dnsteer bringup sets as flow-limit" if total > limit else ""
        yield context.finding(
            ACCESS_LIST,
            one.path,
            f"{counted(one.access.entries, 'entry', 'entries')}: sources of all kinds can make at most {each} for a service "
            f"at an uplink, {total:,} for all of them{beyond}; and each query of such a service passes the datapath twice, "
            "by the connection tracker without commit: whether hardware takes that is not known from public sources",
            "fewer and shorter prefixes make fewer flows: join those that lie side by side",
        )
