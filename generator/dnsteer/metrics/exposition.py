# SPDX-License-Identifier: Apache-2.0
"""Metrics as text. The library takes longer to write them than it takes to read them, so the last page is used again.

Most of a page are series that are there each time: of these only the value is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

Encode = Callable[[Any], bytes]
"""Encodes what has `collect()`, as `prometheus_client.exposition.choose_encoder` gives it."""
_SIMPLE = ("counter", "gauge")


@dataclass(frozen=True)
class _Held:
    """A metric that was read, as the library wants it."""

    metric: Metric

    def collect(self) -> Iterator[Metric]:
        """The metric alone."""
        yield self.metric


@dataclass(frozen=True)
class _Known:
    """A metric of the last page: its text, the lines before its series, and each series by the identity of its labels."""

    metric: Metric
    text: str
    head: str = ""
    series: dict[int, tuple[Sample, str]] | None = None


class Exposition:
    """Pages in one format, of the content type *kind*. Series are known again by labels that are the same object."""

    def __init__(self, kind: str) -> None:
        self._end = "# EOF\n" if kind.startswith("application/openmetrics-text") else ""
        self._last: dict[str, _Known] = {}

    def page(self, encode: Encode, metrics: list[Metric]) -> bytes:
        """The page of these metrics, each of another name."""
        last, self._last = self._last, {}
        for metric in metrics:
            known = last.get(metric.name)
            if known is None or known.metric is not metric:
                known = _with_new_values(known, metric) or self._encoded(encode, metric)
            self._last[metric.name] = known
        return "".join([known.text for known in self._last.values()] + [self._end]).encode()

    def _encoded(self, encode: Encode, metric: Metric) -> _Known:
        text = encode(_Held(metric)).decode().removesuffix(self._end)
        lines, samples = text.splitlines(keepends=True), metric.samples
        first = len(lines) - len(samples)
        named = [line.rpartition(" ")[0] for line in lines[first:]]
        made = [_line(name, sample) for name, sample in zip(named, samples, strict=False)]
        if not _is_simple(metric) or first < 0 or made != lines[first:]:
            return _Known(metric, text)
        series = {id(s.labels): (s, name) for s, name in zip(samples, named, strict=True)}
        return _Known(metric, text, "".join(lines[:first]), series)


def _is_simple(metric: Metric) -> bool:
    """Whether its series have a value each and nothing else."""
    return metric.type in _SIMPLE and all(s.timestamp is None and s.exemplar is None for s in metric.samples)


def _with_new_values(known: _Known | None, metric: Metric) -> _Known | None:
    """The metric with the series of before, in any order; None where one is new or has more than a value."""
    if (
        known is None
        or known.series is None
        or known.metric.documentation != metric.documentation
        or not _is_simple(metric)
    ):
        return None
    lines = [known.head]
    for sample in metric.samples:
        before = known.series.get(id(sample.labels))
        if before is None or before[0].labels is not sample.labels or before[0].name != sample.name:
            return None
        lines.append(_line(before[1], sample))
    return _Known(metric, "".join(lines), known.head, known.series)


def _line(name: str, sample: Sample) -> str:
    return f"{name} {floatToGoString(sample.value)}\n"  # type: ignore[no-untyped-call]
