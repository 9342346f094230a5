# SPDX-License-Identifier: Apache-2.0
"""Pages of metrics: shared readings, formats, names with odd characters, and a source that fails."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from dnsteer.metrics import server
from dnsteer.metrics.families import metric_family
from dnsteer.metrics.server import LONGEST, MetricsPages
from tests.packet.scraping import OPENMETRICS

ODD = 'a "b" \\ c\n<script> ü 漢'


class Source:
    """Counts its readings. *clock* is what the pages have; a reading takes *takes* seconds of it."""

    def __init__(self, takes: float = 0.0) -> None:
        self.readings, self.now, self.takes = 0, 0.0, takes
        self.fails = False
        self.goes = threading.Event()
        self.goes.set()

    def clock(self) -> float:
        return self.now

    def collect(self) -> list[Metric]:
        assert self.goes.wait(10)
        self.readings += 1
        self.now += self.takes
        if self.fails:
            raise RuntimeError("a defect")
        metric = GaugeMetricFamily("dnsteer_example", "An example.", labels=["vip"])
        metric.add_metric([ODD], self.readings)
        return [metric]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


async def number(pages: MetricsPages, accept: str = "") -> float:
    body, _ = await pages.page(accept)
    read = read_openmetrics if accept == OPENMETRICS else text_string_to_metric_families
    (sample,) = [sample for family in read(body.decode()) for sample in family.samples]
    assert sample.labels == {"vip": ODD}
    return float(sample.value)


@pytest.mark.parametrize(("takes", "kept"), [(0.0, 1.0), (0.02, 1.0), (0.2, 4.0), (3.0, LONGEST)])
def test_a_reading_is_shared_while_it_is_fresh(takes: float, kept: float) -> None:
    async def work() -> None:
        source = Source(takes)
        pages = MetricsPages(source, source.clock)
        assert await asyncio.gather(*(number(pages) for _ in range(10))) == [1.0] * 10
        read = source.now
        source.now = read + kept - 0.01
        assert await number(pages, OPENMETRICS) == 1
        source.now = read + kept
        assert await number(pages, OPENMETRICS) == 2
        pages.close()

    run(work())


def test_concurrent_requests_share_a_reading_that_a_leaving_client_does_not_end() -> None:
    async def work() -> None:
        source = Source()
        source.goes.clear()
        pages = MetricsPages(source, source.clock)
        first, second = (asyncio.create_task(number(pages)) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        source.now = 100
        third = asyncio.create_task(number(pages))
        await asyncio.sleep(0.01)
        began = time.monotonic()
        source.goes.set()
        assert (await second, await third) == (1, 1)
        assert time.monotonic() - began < 5
        pages.close()

    run(work())


def test_a_series_without_a_family_is_reported_to_the_client() -> None:
    class Misspelt(Source):
        def collect(self) -> list[Metric]:
            metric_family("dnsteer_backend_slot")
            raise AssertionError

    async def work() -> None:
        pages, sent = MetricsPages(Misspelt()), list[Any]()

        async def receive() -> Any:
            raise AssertionError("a GET has no body")

        async def send(message: Any) -> None:
            sent.append(message)

        asked = {
            "type": "http",
            "method": "GET",
            "path": "/metrics",
            "root_path": "",
            "query_string": b"",
            "headers": [],
        }
        await server.metrics_application(pages)(asked, receive, send)
        pages.close()
        assert sent[0]["status"] == 500 and b'did you mean "dnsteer_backend_slots"?' in sent[1]["body"]

    run(work())


def test_a_reading_that_fails_is_tried_again_later() -> None:
    async def work() -> None:
        source = Source()
        source.fails = True
        pages = MetricsPages(source, source.clock)
        with pytest.raises(RuntimeError):
            await number(pages)
        source.fails, source.now = False, 1.0
        assert await number(pages) == 2
        pages.close()

    run(work())


def test_a_listener_has_so_many_connections_and_can_end_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    with server.listen_at("127.0.0.1", 0) as listener, ExitStack() as stack:

        def connect() -> socket.socket:
            found = stack.enter_context(socket.create_connection(listener.getsockname()[:2], 20))
            found.settimeout(20)
            return found

        clients, accepted = [connect(), connect()], [listener.accept()[0] for _ in range(2)]
        third = connect()
        with pytest.raises(ConnectionAbortedError):
            listener.accept()
        assert third.recv(1) == b"", "it was closed"
        accepted.pop(0).close()
        fourth = connect()
        accepted.append(listener.accept()[0])
        accepted[-1].sendall(b"x")
        assert fourth.recv(1) == b"x"
        listener.cut_off()
        assert clients[1].recv(1) == fourth.recv(1) == b""
        for connection in accepted:
            connection.close()


def test_connections_end_with_their_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them, one after the other, than there may be at once: a scraper need not keep one."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)

    async def work() -> None:
        at: asyncio.Queue[str] = asyncio.Queue()
        pages = MetricsPages(Source())
        serving = asyncio.create_task(server.serve_metrics("127.0.0.1", 0, pages, at.put_nowait))
        port = int((await at.get()).rpartition(":")[2].partition("/")[0])
        for number in range(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200"), number
            writer.close()
            await writer.wait_closed()
        serving.cancel()
        await asyncio.wait([serving])
        pages.close()

    run(work())


def test_few_pages_are_cached_for_any_requested_version() -> None:
    async def work() -> None:
        source = Source()
        pages = MetricsPages(source, source.clock)
        kinds = set()
        for n in range(30):
            for kind in ("application/openmetrics-text", "text/plain"):
                accept = f"{kind};version=1.0.{n};escaping=allow-utf-8"
                body, made = await pages.page(accept)
                assert made.startswith(kind) and b"dnsteer_example" in body
                kinds.add(made)
        await pages.page("")
        assert len(kinds) == 2 and len(pages._expositions) == 3
        assert pages._reading is not None and len(pages._reading.pages) == 3
        pages.close()

    run(work())
