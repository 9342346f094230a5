# SPDX-License-Identifier: Apache-2.0
"""The page of the demo: its charts are of the figures that were measured, and of nothing else."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dnsteer.lab.demo_page import demo_page, write_demo_page
from dnsteer.lab.errors import LabError
from dnsteer.lab.failover_report import StreamQuery, summarize_failover
from tests.unit.test_report import Page

SCRIPT = "<script>alert(1)</script>"
SAID = (
    "a/ns1 is unhealthy: dns [fd00::1]:53: no answer",
    "2 of 4 slots of pool a move (2 ns1 -> ns2)",
    "a/ns1 is healthy",
)


def run(target: str, path: str, began: float, qps: float, lost: int = 0) -> dict[str, Any]:
    """A run of dnsperf of 2 s."""
    sent = int(2 * qps)
    return {
        "target": target,
        "path": path,
        "began": began,
        "seconds": 2.0,
        "qps": qps,
        "sent": sent,
        "lost": lost,
        "completed": sent - lost,
    }


LOAD: dict[str, Any] = {
    "ok": True,
    "problems": [],
    "time": "2026-01-02T03:04:05+00:00",
    "spec": "quickstart.yaml",
    "bridge": "br-dns",
    "queries": 36000,
    "lost": 0,
    "qps": 9000.0,
    "direct_qps": 8000.0,
    "median_pair_ratio": 1.125,
    "megaflows": 77,
    "masks": 4,
    "recirculations": 0,
    "backends": {
        "ns1": {"queries": 9000, "share": 0.25, "expected": 0.25, "by_weight": 0.24, "tolerance": 0.02},
        "ns2": {"queries": 27000, "share": 0.75, "expected": 0.75, "by_weight": 0.76, "tolerance": 0.02},
    },
    "targets": {"dns IPv4 udp/53": {"qps": 9000.0, "direct_qps": 8000.0}},
    "runs": [
        run("dns IPv4 udp/53", "direct", 0.0, 8000),
        run("dns IPv4 udp/53", "vip", 2.0, 10000),
        run("dns IPv4 udp/53", "vip", 4.0, 8000),
        run("dns IPv4 udp/53", "direct", 6.0, 8000),
        run("dns IPv4 udp/53", "vip", 8.0, 9000),
        run("dns IPv4 udp/53", "sweep", 10.0, 100_000),
    ],
    "machine": {
        "cpus": 2,
        "cpu": "a CPU",
        "kernel": "6.1",
        "load_before": 0.1,
        "openvswitch": "3.1.0",
        "nsd": "4.6",
        "dnsperf": "2.1",
    },
}


def failover() -> dict[str, Any]:
    """Four queries a second to each of two servers; ns1 is killed at 2 s, moved at 4 s, started at 6 s and whole at 8 s."""
    queries = []
    for n in range(80):
        sent = n / 8 + 0.01
        flow = n % 2
        server: str | None = f"ns{flow + 1}"
        if flow == 0 and 2 <= sent < 8:
            server = None if sent < 4 else "ns2"
        queries.append(StreamQuery(100 + sent, 0.001 if server else -1.0, flow, server))
    found = summarize_failover(
        queries,
        target="dns IPv4 udp/53",
        backend="a/ns1",
        server="ns1",
        pids=(7,),
        times=(102.0, 103.9, 104.0, 106.0, 107.0, 108.0),
        said=SAID,
        time="2026-01-02T03:05:05+00:00",
    )
    return json.loads(json.dumps(found.as_json()))  # type: ignore[no-any-return]


def test_the_timeline_has_each_query_in_the_step_in_which_it_was_sent() -> None:
    timeline = failover()["timeline"]
    assert (timeline["step"], timeline["begin"]) == (0.25, -1.75)
    lost = timeline["lost"]
    assert len(lost) == 38, "the first and the last step, of which the load may have a part, are left out"
    assert [n for n, step in enumerate(lost) if step] == list(range(7, 15)) and set(lost[7:15]) == {1}
    assert sum(timeline["answered"]["ns1"]) + sum(timeline["answered"]["ns2"]) + sum(lost) == 76
    assert timeline["answered"]["ns2"][14:16] == [1, 2]


def test_the_page_shows_load_and_failover() -> None:
    text = demo_page({**LOAD, "agent": failover()})
    Page(text)
    assert "36,000, 0 lost" in text and "9,000 queries/s" in text and "25.00 %" in text and "24.00 %" in text
    lines = re.findall(r'<path class="line (\w+)" d="([^"]*)"/>', text)
    assert [css for css, _ in lines] == ["direct", "vip"]
    direct, vip = (
        [tuple(map(float, point.split())) for point in path.removeprefix("M").split("L")] for _, path in lines
    )
    assert len(direct) == len(vip) == 2 and text.count('<circle class="dot ') == 4, "a point for each turn"
    assert vip[0][1] == vip[1][1] < direct[0][1] == direct[1][1], "9,000 a second each, above 8,000"
    assert direct[0][0] < vip[0][0] < direct[1][0] < vip[1][0]
    assert len(re.findall(r'<path class="area c\d" d="', text)) == 2 and text.count('class="area lost"') == 2
    assert text.count('<text class="mark-text"') == 6 and "ns1 is killed (process 7)" in text
    assert SAID[0] in text and SAID[1].replace("->", "-&gt;") in text
    moments = re.findall(r"<time>([\d.]+) s</time>", text)
    assert moments == ["0.0", "1.9", "2.0", "4.0", "5.0", "6.0"]


def test_the_page_shows_either_part_alone() -> None:
    text = demo_page(LOAD)
    Page(text)
    assert "fails and comes back" not in text and "Shares against weights" in text
    text = demo_page({"agent": failover()})
    Page(text)
    assert "fails and comes back" in text and "Shares against weights" not in text


def test_problems_come_first_and_names_are_escaped() -> None:
    agent = failover()
    agent["problems"], agent["said"] = ["clients of other servers lost 3 queries"], [f"{SCRIPT} is unhealthy"]
    load = copy.deepcopy(LOAD)
    load["problems"], load["machine"]["cpu"], load["backends"][SCRIPT] = [SCRIPT], SCRIPT, load["backends"].pop("ns2")
    text = demo_page({**load, "agent": agent})
    Page(text)
    assert "<script" not in text and text.count("&lt;script&gt;") >= 4
    assert "As it should be" not in text and "clients of other servers lost 3 queries" in text


def test_figures_of_another_version_are_refused(tmp_path: Path) -> None:
    figures, page = tmp_path / "report.json", tmp_path / "page.html"
    old = {**LOAD, "runs": [{"target": "x", "path": "vip", "seconds": 1.0}]}
    without = {key: value for key, value in LOAD.items() if key != "megaflows"}
    for text in ("{", "[]", json.dumps(old), json.dumps(without)):
        figures.write_text(text)
        with pytest.raises(LabError, match=r"report\.json has no figures of this version's demo"):
            write_demo_page(figures, page)
    assert not page.exists()
    figures.write_text(json.dumps(LOAD))
    write_demo_page(figures, page)
    assert page.read_text() == demo_page(LOAD)
