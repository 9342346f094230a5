# SPDX-License-Identifier: Apache-2.0
"""The most megaflows of queries that access lists look at, counted from the windows of the lists.

To follow every prefix of a list of 20,000 through the tables would take minutes, and nothing else of such a query is matched
in its first pass than what its service has: so there are as many as the windows have values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow
from dnsteer.spec.model.families import Family
from dnsteer.tables.access import ListedServiceRow
from dnsteer.tables.access_tree import WINDOW, AccessWindow
from dnsteer.tables.ingress import PortRow
from dnsteer.tables.order import PIPELINE, TABLES

_OF_LISTS = {table.number for table in TABLES if AccessWindow in table.uses.values()}
_GOTO = re.compile(r"goto_table:(\d+)")


def most_flows_of_list(plan: Plan, number: int) -> Counter[Family]:
    """Return, by family, the most megaflows that queries of one service can make at one uplink in a list.

    *number* is that of the register `list`; 0: the switch's own list.
    """
    most: Counter[Family] = Counter()
    for window in plan.rows.of(AccessWindow):
        if window.list == number:
            most[window.family] += _flows_of(window)
    return most


def all_flows_of_list(plan: Plan, number: int) -> int:
    """Return the most megaflows that queries of all services of a list can make, at all uplinks."""
    most, uplinks = most_flows_of_list(plan, number), sum(port.uplink for port in plan.rows.of(PortRow))
    services = plan.rows.of(ListedServiceRow)
    return uplinks * sum(most[s.family] for s in services if (s.list == number if number else s.by_switch))


def all_flows_of_lists(plan: Plan) -> int:
    """Return the sum over all lists. Where two look at a query, its megaflow is counted in the one that looks deeper."""
    return sum(all_flows_of_list(plan, number) for number in {window.list for window in plan.rows.of(AccessWindow)})


def without_lists(flows: Iterable[Flow]) -> Iterator[Flow]:
    """Yield the flows as they would be if the lists allowed all: queries go on where those go that are allowed."""
    admitted = f"goto_table:{PIPELINE.tables['admit'].number}"
    for flow in flows:
        if flow.table not in _OF_LISTS:
            actions = _GOTO.sub(lambda m: admitted if int(m[1]) in _OF_LISTS else m[0], flow.actions)
            yield flow if actions == flow.actions else replace(flow, actions=actions)


def _flows_of(window: AccessWindow) -> int:
    """The most datapath flows that end in a window: for each prefix that leads there one for each value of the window.

    Values that lead on to the next table end there, and those of one prefix in the next window are counted there.
    """
    if not window.bits:
        return 1
    deeper = [flow.match for flow in window.flows if flow.verdict == "deeper"]
    return (1 << WINDOW) * window.entrances - len(deeper)
