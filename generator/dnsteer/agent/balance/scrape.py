"""Scrape a metric of each backend from a page in Prometheus's format."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families

from dnsteer.agent.balance.metric import MetricError
from dnsteer.spec.model.metric_source import MetricSource, parse_series
from dnsteer.spec.model.spec import Backend

MAX_BYTES = 1 << 20
"""Bytes of a page: a node exporter's has some 100,000."""
_AT_ONCE = 32
_HEADERS = {"accept": "text/plain; version=0.0.4", "accept-encoding": "identity"}
_EXEMPLAR = re.compile(r"\s#\s.*")


def url_of(source: MetricSource, pool: str, backend: Backend) -> str:
    """The URL of a backend's page. An IPv6 address stands in brackets."""
    address = str(backend.ipv4 or f"[{backend.ipv6}]")
    assert source.prometheus is not None
    return source.prometheus.format(address=address, pool=pool, backend=backend.name, worker=backend.port_offset)


def series_of(source: MetricSource, backend: Backend) -> str:
    """The series of a backend on its page, which its host's other workers may share."""
    series = source.metric or ""
    return series.replace("{backend}", backend.name).replace("{worker}", str(backend.port_offset))


def value_in(page: str, series: str) -> float:
    """Return the value of a series on a page. Raises MetricError if there is none, or several."""
    name, labels = parse_series(series)
    lines = [_EXEMPLAR.sub("", line) for line in page.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    try:
        families = list(text_string_to_metric_families("\n".join(lines) + "\n"))
    except (ValueError, IndexError, KeyError):
        raise MetricError(f"{name} is not written as Prometheus reads it") from None
    found = [
        sample.value for family in families for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]  # fmt: skip
    if len(found) != 1:
        raise MetricError(
            f"{len(found)} series of {series}; name labels that one alone has" if found else f"no {series}"
        )
    return float(found[0])


async def scrape(client: httpx.AsyncClient, url: str, timeout: float) -> str:
    """Return a page. Raises MetricError if it does not come whole within *timeout* seconds, or is none."""
    try:
        return await asyncio.wait_for(_page(client, url), timeout)
    except asyncio.TimeoutError:
        raise MetricError(f"no whole page within {timeout:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as err:
        raise MetricError(str(err) or type(err).__name__) from None


async def _page(client: httpx.AsyncClient, url: str) -> str:
    async with client.stream("GET", url, headers=_HEADERS) as response:
        if response.status_code != httpx.codes.OK:
            raise MetricError(f"status {response.status_code}")
        body = bytearray()
        async for part in response.aiter_raw():  # not decompressed: few bytes may become many
            body += part
            if len(body) > MAX_BYTES:
                raise MetricError(f"the page has more than {MAX_BYTES} bytes")
    return body.decode(errors="replace")


def _value(page: str | MetricError, series: str) -> float | MetricError:
    try:
        return page if isinstance(page, MetricError) else value_in(page, series)
    except MetricError as err:
        return err


class Scraper:
    """Scrapes all backends of a pool at a time. Connections are kept from one time to the next."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    async def scrape(
        self, source: MetricSource, pool: str, backends: list[Backend]
    ) -> Mapping[str, float | MetricError]:
        """Return the value of each backend, or why there is none."""
        # Neither the environment's proxy, which a server beside this machine does not need, nor another site's page.
        client = self._client = self._client or httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(url: str) -> str | MetricError:
            async with turns:
                try:
                    return await scrape(client, url, source.timeout)
                except MetricError as err:
                    return err

        urls = {backend.name: url_of(source, pool, backend) for backend in backends}
        asked = list(dict.fromkeys(urls.values()))  # workers of one host may have one page
        pages = dict(zip(asked, await asyncio.gather(*map(one, asked)), strict=True))
        return {b.name: _value(pages[urls[b.name]], series_of(source, b)) for b in backends}

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
