# SPDX-License-Identifier: Apache-2.0
"""The figures of the demo of the agent, from the queries and the times."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from dnsteer.lab.errors import LabError
from dnsteer.lab.failover_report import FailoverReport, StreamQuery, add_to_report, print_failover, summarize_failover

KILLED, NOTICED, MOVED, STARTED, HEALTHY, WHOLE = TIMES = (100.0, 102.0, 102.1, 105.0, 107.0, 117.0)
SAID = (
    "bridge br-dns: state 1, pools with health checks: 2, targets: 16",
    "a/ns1 is unhealthy: dns [fd00::1]:53: no answer",
    "128 of 256 slots of pool a move (128 ns1 -> ns2): 50.0 % of its clients",
    "a/ns1 is healthy",
)


def summed(*queries: tuple[float, int, str | None]) -> FailoverReport:
    """Two clients, of which flow 0 has ns1 and flow 1 has ns2, and more queries: when, flow, server."""
    begin = [(99.0, 0, "ns1"), (99.1, 1, "ns2"), (118.0, 1, "ns2")]
    every = [StreamQuery(sent, -1.0 if by is None else 0.001, flow, by) for sent, flow, by in [*begin, *queries]]
    return summarize_failover(
        sorted(every), target="dns IPv4 udp/53", backend="a/ns1", server="ns1", pids=(7, 8), times=TIMES, said=SAID
    )


GOOD = ((100.5, 0, None), (102.05, 0, None), (103.0, 0, "ns2"), (106.0, 0, "ns2"), (118.0, 0, "ns1"))


def test_a_good_failover_has_no_problem() -> None:
    found = summed(*GOOD)
    assert (found.noticed, found.moved, found.healthy, found.whole) == (2.0, 2.1, 2.0, 12.0)
    assert (found.own.clients, found.own.asked, found.own.lost, found.own.last_lost) == (1, 5, 2, 2.05)
    assert (found.own.moved, found.own.back) == (1, 1)
    assert (found.others.clients, found.others.asked, found.others.lost, found.others.last_lost) == (1, 1, 0, None)
    assert (found.others.moved, found.others.back, found.lost_on_return) == (0, 1, 0)
    assert found.problems == [] and found.said == SAID[1:]


@pytest.mark.parametrize(
    ("queries", "problem"),
    [
        ((*GOOD, (104.0, 1, None)), "clients of other servers lost 1 queries"),
        ((*GOOD, (108.0, 0, None)), "1 queries were lost when ns1 came back"),
        ((GOOD[0], GOOD[-1]), "1 clients of ns1 were not moved"),
        (GOOD[:-1], "1 clients of ns1 did not come back to it"),
    ],
)
def test_problems_of_a_failover_are_named(queries: tuple[tuple[float, int, str | None], ...], problem: str) -> None:
    found = summed(*queries)
    assert found.problems == [problem] and not found.ok


def test_a_client_that_moved_before_the_kill_is_of_its_last_server() -> None:
    found = summed((99.5, 0, "ns2"), *GOOD)
    assert (found.own.clients, found.others.clients) == (0, 2)


def test_the_summary_names_times_moves_and_losses(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w") as said:
        print_failover(summed(*GOOD), Console(file=said, width=200), Path("report.json"))
    text = (tmp_path / "said").read_text()
    assert re.search(r"2\.0 s  the agent knows: a/ns1 is unhealthy: dns \[fd00::1\]:53: no answer\n", text)
    assert re.search(r"2\.1 s  128 of 256 slots of pool a move \(128 ns1 -> ns2\)", text)
    assert "its clients: 1 source ports, 2 of 5 queries lost, 1 moved, 1 came back" in text
    assert "all others: 1 source ports, 0 of 1 queries lost, 0 moved" in text


def test_the_report_of_the_demo_keeps_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "build" / "report.json"
    add_to_report(summed(*GOOD), file)
    assert list(json.loads(file.read_text())) == ["agent"]
    file.write_text('{"queries": 7, "agent": 1}')
    add_to_report(summed(*GOOD), file)
    told = json.loads(file.read_text())
    assert told["queries"] == 7 and told["agent"]["own"]["lost"] == 2 and told["agent"]["ok"] is True


@pytest.mark.parametrize("text", ["no JSON", "[1]"])
def test_a_foreign_report_file_is_not_overwritten(tmp_path: Path, text: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(text)
    with pytest.raises(LabError, match="another --report"):
        add_to_report(summed(*GOOD), file)
    assert file.read_text() == text
