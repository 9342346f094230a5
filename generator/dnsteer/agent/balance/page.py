"""Values of series on a page in Prometheus's format: only lines of the metrics that are wanted are read, each once.

The page is a server's, which may be broken or hostile: what is read of it is bounded, and takes time in proportion to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dnsteer.agent.balance.metric import MetricError
from dnsteer.spec.model.balance import parse_series

MAX_LINE = 8192
"""Bytes of a line."""
MAX_LABELS = 64
"""Labels of a series."""
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*(,|\})')
_END = re.compile(r"\s*\}")
_ESCAPED = re.compile(r"\\(.)")


@dataclass
class _Wanted:
    """The series of one metric that are chosen by the same labels: how many there are of each choice, and a value."""

    labels: tuple[str, ...]
    found: dict[tuple[str | None, ...], tuple[int, float]] = field(default_factory=dict)

    def add(self, labels: Mapping[str, str], value: float) -> None:
        key = tuple(labels.get(name) for name in self.labels)
        self.found[key] = self.found.get(key, (0, 0.0))[0] + 1, value


def values_in(page: bytes, series: Sequence[str]) -> list[float | MetricError]:
    """Return the value of each series on a page; a MetricError for one that is not there, or there several times."""
    parsed = [parse_series(one) for one in series]
    metrics: dict[str, dict[tuple[str, ...], _Wanted]] = {}
    for name, labels in parsed:
        keys = tuple(sorted(labels))
        metrics.setdefault(name, {})[keys] = _Wanted(keys)
    lines = b"\n" + page
    malformed = {name for name, wanted in metrics.items() if not _read(lines, name, list(wanted.values()))}
    out: list[float | MetricError] = []
    for one, (name, labels) in zip(series, parsed, strict=True):
        keys = tuple(sorted(labels))
        number, value = metrics[name][keys].found.get(tuple(labels[key] for key in keys), (0, 0.0))
        if number == 1:
            out.append(value)
        elif number:
            out.append(MetricError(f"{number} series of {one}; name labels that one alone has"))
        elif name in malformed:
            why = f"or has a line of more than {MAX_LINE} bytes or {MAX_LABELS} labels"
            out.append(MetricError(f"{name} is not written as Prometheus reads it, {why}"))
        else:
            out.append(MetricError(f"no {one}"))
    return out


def _read(page: bytes, name: str, wanted: Sequence[_Wanted]) -> bool:
    """Read all lines of a metric; return whether each was one."""
    good = True
    for line in _lines_of(page, name.encode()):
        sample = _sample(line.decode(errors="replace"), len(name)) if len(line) <= MAX_LINE else None
        if sample is None:
            good = False
            continue
        for one in wanted:
            one.add(*sample)
    return good


def _lines_of(page: bytes, name: bytes) -> Iterator[bytes]:
    """The lines of a page, which begins with a line's end, that begin with a name; at most one byte more than is read."""
    at = page.find(b"\n" + name) + 1
    while at:
        end = page.find(b"\n", at)
        end = len(page) if end < 0 else end
        if page[at + len(name) : at + len(name) + 1] in (b"{", b" ", b"\t"):
            yield page[at : min(end, at + MAX_LINE + 1)]
        at = page.find(b"\n" + name, end) + 1


def _sample(line: str, at: int) -> tuple[Mapping[str, str], float] | None:
    """The labels and the value of a line whose name ends *at*; None for what is no sample."""
    labels: dict[str, str] = {}
    if line[at] == "{":
        at += 1
        closed = False
        while not closed:
            end = _END.match(line, at)
            label = None if end is not None else _LABEL.match(line, at)
            if label is not None and len(labels) < MAX_LABELS:
                text = label[2]
                labels[label[1]] = _ESCAPED.sub(_unescaped, text) if "\\" in text else text
                at, closed = label.end(), label[3] == "}"
            elif end is not None:
                at, closed = end.end(), True
            else:
                return None
    rest = line[at:].split(None, 1)
    try:
        return (labels, float(rest[0])) if "_" not in rest[0] else None
    except (ValueError, IndexError):
        return None


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]
