# SPDX-License-Identifier: Apache-2.0
"""A metric that is scraped from a page of each backend in Prometheus's format: only the wanted series are read, each once.

The page is a server's, which may be broken or hostile: what is read of it is bounded, and takes time in proportion to it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import httpx

from dnsteer.agent.balance.metric import MetricError
from dnsteer.spec.model.balance import MetricSource, parse_series
from dnsteer.spec.model.spec import Backend

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


MAX_PAGE_BYTES = 1 << 20
"""Bytes of a page: a node exporter's has some 100,000."""
_AT_ONCE = 32
_HEADERS = {"accept": "text/plain; version=0.0.4", "accept-encoding": "identity"}


def url_of(source: MetricSource, pool: str, backend: Backend) -> str:
    """The URL of a backend's page. An IPv6 address stands in brackets."""
    address = str(backend.ipv4 or f"[{backend.ipv6}]")
    assert source.prometheus is not None
    return source.prometheus.format(address=address, pool=pool, backend=backend.name, worker=backend.port_offset)


def series_of(source: MetricSource, backend: Backend) -> str:
    """The series of a backend on its page, which its host's other workers may share."""
    series = source.metric or ""
    return series.replace("{backend}", backend.name).replace("{worker}", str(backend.port_offset))


async def scrape(client: httpx.AsyncClient, url: str, timeout: float) -> bytes:
    """Return a page. Raises MetricError if it does not come whole within *timeout* seconds, or is none."""
    try:
        return await asyncio.wait_for(_page(client, url), timeout)
    except asyncio.TimeoutError:
        raise MetricError(f"no whole page within {timeout:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as err:
        raise MetricError(str(err) or type(err).__name__) from None


async def _page(client: httpx.AsyncClient, url: str) -> bytes:
    async with client.stream("GET", url, headers=_HEADERS) as response:
        if response.status_code != httpx.codes.OK:
            raise MetricError(f"status {response.status_code}")
        body = bytearray()
        async for part in response.aiter_raw():  # not decompressed: few bytes may become many
            body += part
            if len(body) > MAX_PAGE_BYTES:
                raise MetricError(f"the page has more than {MAX_PAGE_BYTES} bytes")
    return bytes(body)


class Scraper:
    """Scrapes all backends of a pool at a time. Connections are kept from one time to the next.

    Pages are read in *thread*, so that health checks do not wait for it; None: in one of the event loop's.
    """

    def __init__(self, thread: Executor | None = None) -> None:
        self._thread = thread
        self._client: httpx.AsyncClient | None = None

    async def scrape(
        self, source: MetricSource, pool: str, backends: list[Backend]
    ) -> Mapping[str, float | MetricError]:
        """Return the value of each backend, or why there is none."""
        # Neither the environment's proxy, which a server beside this machine does not need, nor another site's page.
        client = self._client = self._client or httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(url: str) -> bytes | MetricError:
            async with turns:
                try:
                    return await scrape(client, url, source.timeout)
                except MetricError as err:
                    return err

        of_page: dict[str, list[Backend]] = {}  # workers of one host may have one page
        for backend in backends:
            of_page.setdefault(url_of(source, pool, backend), []).append(backend)
        pages = await asyncio.gather(*map(one, of_page))
        loop, found = asyncio.get_running_loop(), dict[str, float | MetricError]()
        for page, those in zip(pages, of_page.values(), strict=True):
            series = [series_of(source, backend) for backend in those]
            values = (
                [page] * len(those)
                if isinstance(page, MetricError)
                else await loop.run_in_executor(self._thread, values_in, page, series)
            )
            found.update(zip((backend.name for backend in those), values, strict=True))
        return found

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
