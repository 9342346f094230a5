"""Scrape a metric of each backend from a page in Prometheus's format."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor

import httpx

from dnsteer.agent.balance.metric import MetricError
from dnsteer.agent.balance.page import values_in
from dnsteer.spec.model.balance import MetricSource
from dnsteer.spec.model.spec import Backend

MAX_BYTES = 1 << 20
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
            if len(body) > MAX_BYTES:
                raise MetricError(f"the page has more than {MAX_BYTES} bytes")
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
