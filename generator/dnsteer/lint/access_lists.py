# SPDX-License-Identifier: Apache-2.0
"""A finding about access lists: the datapath flows that clients make which a list looks at, and the second pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.plan.sizes import flow_limit, sizes_of
from dnsteer.spec.errors import counted
from dnsteer.tables.access import ListedServiceRow, access_lists
from dnsteer.tables.access_tree import WINDOW, AccessWindow

ACCESS_LIST = Code("DNS070", Severity.NOTE, "Access lists make datapath flows by the sources of queries")


@finder(ACCESS_LIST)
def access_list_flows(context: LintContext) -> Iterator[LintFinding]:
    """Say of each list how many datapath flows the sources of queries to one service can make, at most."""
    windows = context.plan.rows.of(AccessWindow)
    services = context.plan.rows.of(ListedServiceRow)
    limit = flow_limit(sizes_of(context.spec, context.plan).total)
    for one in access_lists(context.spec):
        number = one.number if one.vips else 0
        table = "vip_list" if one.vips else "switch_list"
        most = Counter[str]()
        for window in windows:
            if window.list == number and window.table.startswith(table):
                most[window.family] += _flows_of(window)
        total = sum(most[s.family] for s in services if (s.list == number if one.vips else s.by_switch))
        total *= len(context.spec.switch.uplinks)
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


def _flows_of(window: AccessWindow) -> int:
    """The most datapath flows that end in a window: for each prefix that leads there one for each value of the window.

    Values that lead on to the next table end there, and those of one prefix in the next window are counted there.
    """
    if not window.bits:
        return 1
    deeper = [flow.match for flow in window.flows if flow.verdict == "deeper"]
    return (1 << WINDOW) * window.entrances - len(deeper)
