# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of workers is made of: its server's answers, and its figures."""

from __future__ import annotations

import pytest
from bench import slow_server
from bench.workers import MEAN, SERVICES, WAYS, WORKERS, Seen, figures, spec_text, summary

from dnsteer.lab import whoami
from dnsteer.lab.zone import WHOAMI
from tests.unit.spec_text import load


def test_the_server_says_its_name() -> None:
    query = whoami.question(7, WHOAMI)
    assert whoami.text_of(slow_server.answer(query, "r1.3"), query) == "r1.3"


def test_ways_differ_in_what_the_switch_does() -> None:
    specs = [load(spec_text(way)).spec.pools["resolvers"] for way in WAYS]
    assert [len(pool.backends) for pool in specs] == [1, WORKERS, WORKERS, WORKERS]
    assert [pool.balance.by if pool.balance else "" for pool in specs] == ["", "", "slots", "metric"]


def seen(*queries: float, lost: int = 0, slower: int = 1) -> Seen:
    busy = [queries[0] * MEAN * slower, *(n * MEAN for n in queries[1:])]
    return Seen([0.005] * round(sum(queries)), lost, [*queries], busy, 0.2)


def test_the_figures_of_a_load_are_computed() -> None:
    even = figures(seen(100, 100, 100, 100))
    assert (even["cv_queries"], even["cv_busy"], even["p99_ms"], even["lost"]) == (0.0, 0.0, 5.0, 0.0)
    slow = figures(seen(50, 100, 100, 100, slower=2))
    assert slow["cv_busy"] == 0.0 < slow["cv_queries"] and slow["busy"] == [0.4] * 4
    lossy = figures(seen(90, 100, 100, 100, lost=10))
    assert (lossy["p99_ms"], lossy["lost"]) == (2000.0, 0.025)
    assert SERVICES["fixed"].capacity == pytest.approx(1000) and SERVICES["one half as fast"].capacity == pytest.approx(
        875
    )


def test_the_plot_has_all_ways() -> None:
    row = figures(seen(10, 20, 10, 10))
    rows = [
        {"service": service, "load": load, "way": way.name, **row}
        for service in SERVICES
        for load in (60, 80)
        for way in WAYS
    ]
    from bench.plots import workers_svg  # here, as matplotlib takes a second to load

    text = workers_svg(summary(rows))
    assert text.startswith("<?xml") and all(way.name.split(", ")[-1] in text for way in WAYS)
