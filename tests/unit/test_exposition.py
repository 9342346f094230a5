# SPDX-License-Identifier: Apache-2.0
"""Pages of metrics are what the library makes of them alone, whatever stayed the same since the last page."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.samples import Sample

from dnsteer.metrics.exposition import Exposition
from tests.packet.scraping import OPENMETRICS

LABELS = [{"vip": "a"}, {"vip": 'b "c" \\ \n} 1.0'}, {"vip": "d", "pool": "ü 漢 # {"}, {}]
"""Labels that are the same objects in each page."""
VALUES = st.one_of(st.floats(), st.integers(0, 10**18).map(float), st.just(math.inf))


class Held:
    def __init__(self, metrics: list[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> list[Metric]:
        return self.metrics


@st.composite
def readings(draw: st.DrawFn) -> list[list[Metric]]:
    """Some pages, each with some of the series, in any order, a part of them with labels of their own."""
    pages = []
    for _ in range(draw(st.integers(1, 4))):
        page: list[Metric] = []
        for name, kind in (("dnsteer_gauge", GaugeMetricFamily), ("dnsteer_counter", CounterMetricFamily)):
            metric = kind(name, draw(st.sampled_from(["An example.", "Another\nhelp."])))
            series = f"{name}_total" if kind is CounterMetricFamily else name
            for labels in draw(st.permutations(LABELS))[: draw(st.integers(0, 4))]:
                kept = draw(st.booleans())
                time = draw(st.sampled_from([None, None, None, 12.0]))
                metric.samples.append(Sample(series, labels if kept else dict(labels), draw(VALUES), time))
            page.append(metric)
        if pages and draw(st.booleans()):
            page[0] = pages[-1][0]  # the same object again
        pages.append(page)
    return pages


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
@given(readings())
def test_a_page_equals_that_of_the_library(accept: str, pages: list[list[Metric]]) -> None:
    encode, kind = choose_encoder(accept)
    exposition = Exposition(kind)
    for page in pages:
        assert exposition.page(encode, page) == encode(Held(page))


def test_exemplars_and_buckets_are_kept() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("dnsteer_took_seconds", "How long.", registry=registry)
    encode, kind = choose_encoder(OPENMETRICS)
    exposition = Exposition(kind)
    for decision in ("one", "two"):
        histogram.observe(0.3, {"decision": decision})
        page = list(registry.collect())
        made = exposition.page(encode, page)
        assert made == encode(Held(page)) and decision.encode() in made
