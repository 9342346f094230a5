# SPDX-License-Identifier: Apache-2.0
"""Where metrics come from: pages that are scraped, and what is pushed; good ones and all that is none."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.agent.balance import scraped_metric
from dnsteer.agent.balance.metric import MetricError
from dnsteer.agent.balance.pushed_metric import push_application
from dnsteer.agent.balance.scraped_metric import MAX_LABELS, MAX_LINE, Scraper, url_of, values_in
from dnsteer.spec.model.balance import MetricSource, parse_series
from dnsteer.spec.model.spec import Backend, Pool

PAGE = """\
# HELP node_load1 1m load average.
# TYPE node_load1 gauge
node_load1 0.21
# TYPE dns_busy gauge
dns_busy{server="a",kind="x"} 0.5
dns_busy{server="b",kind="y \\"z\\""} 0.75
dns_busy_total 99
# TYPE queries_total counter
queries_total 5 # {trace_id="x"} 1.0
bad_nan NaN
bad_text abc
"""


@pytest.mark.parametrize(
    ("series", "value"),
    [
        ("node_load1", 0.21),
        ('dns_busy{server="b"}', 0.75),
        ('dns_busy{kind="y \\"z\\""}', 0.75),
        ("dns_busy_total", 99.0),
        ('dns_busy{ server = "a" , kind="x",}', 0.5),
        ("queries_total", 5.0),
    ],
)
def test_a_series_is_read_from_a_page(series: str, value: float) -> None:
    assert values_in(PAGE.encode(), [series]) == [value]


@pytest.mark.parametrize(
    ("series", "why"),
    [
        ("dns_busy", "2 series of dns_busy; name labels"),
        ("node_load", "no node_load"),
        ('node_load1{a="b"}', "no node_load1{"),
        ("bad_text", "bad_text is not written as Prometheus"),
        ("one_line", "no one_line"),
        ("dns", "no dns"),
    ],
)
def test_a_missing_or_invalid_series_is_named(series: str, why: str) -> None:
    (found,) = values_in(PAGE.encode(), [series])
    assert isinstance(found, MetricError) and str(found).startswith(why)


def test_workers_share_a_page() -> None:
    page = "".join(f'busy{{cpu="{n}",mode="{mode}"}} {n}\n' for n in range(100) for mode in ("user", "idle"))
    wanted = [f'busy{{mode="user",cpu="{n}"}}' for n in range(40)]
    assert values_in(page.encode(), wanted) == list(range(40))


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ('m{a="x"} 5', True),
        ('m {a="x"} 5', False),
        ("m 5", True),
        ("m\t5 1700000000000", True),
        ("m{} 5", True),
        ("m{ } 5", True),
        ('m{a="x",} 5', True),
        ('m{a="\\\\\\"\\n}"} 5', True),
        ("m", False),
        ("m ", False),
        ('m{a="x"}', False),
        ('m{a="x" 5', False),
        ('m{a="x} 5', False),
        ("m{a=x} 5", False),
        ("m 1_0", False),
        ("m 0x10", False),
        ("m{" + 'a="x",' * 9, False),
        ('m 5 # {id="x"} 1', True),
        ('m{a="' + "x" * (MAX_LINE - 9) + '"} 5', True),
        ('m{a="' + "x" * MAX_LINE + '"} 5', False),
        ("m{" + ",".join(f'l{n}="x"' for n in range(MAX_LABELS)) + "} 5", True),
        ("m{" + ",".join(f'l{n}="x"' for n in range(MAX_LABELS + 1)) + "} 5", False),
        ("\xffm 5", False),
        ("m \xff", False),
    ],
)
def test_a_line_of_a_page(line: str, read: bool) -> None:
    """Wherever it stands; and what is no line of the metric is in no other's way."""
    for before, after in (("", ""), ("m2 7\n", "\nm2 7"), ("#\n", "\n")):
        (found,) = values_in(f"{before}{line}{after}".encode("latin-1"), ["m"])
        assert (found == 5) is read, found
        assert values_in(f"{line}\nother 3\n".encode("latin-1"), ["other"]) == [3]
    assert read or values_in(f"{line}\nm 5\n".encode("latin-1"), ["m"]) == [5]


@given(st.binary(max_size=300), st.sampled_from(["m", 'm{a="b"}', 'm{a="\\"",b="c"}']))
def test_random_pages_are_read_or_refused(noise: bytes, series: str) -> None:
    for page in (noise, b"m" + noise, b"m{" + noise, b'm{a="' + noise, b"m " + noise):
        (found,) = values_in(page, [series])
        assert isinstance(found, float | MetricError)


def test_a_large_page_is_read_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a line of escaped quotes no more than a bound, of other metrics nothing; and each line of several series once."""
    read: list[int] = []
    sample = scraped_metric._sample

    def counted(line: str, at: int) -> Any:
        read.append(len(line))
        return sample(line, at)

    monkeypatch.setattr(scraped_metric, "_sample", counted)
    quotes = 'load{x="' + '\\"' * (1 << 19) + '"} 1\n'
    others = "".join(f'cpu{{n="{n}"}} {n}\n' for n in range(10_000))
    assert values_in(f"{quotes}{others}load 0.5\n".encode(), ["load"]) == [0.5]
    assert read == [len("load 0.5")]
    read.clear()
    assert values_in(f"{quotes}{others}".encode(), [f'cpu{{n="{n}"}}' for n in range(40)]) == list(range(40))
    assert len(read) == 10_000


def test_pages_are_read_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    at: list[str] = []

    def read(page: bytes, series: list[str]) -> list[float | MetricError]:
        at.append(threading.current_thread().name)
        return values_in(page, series)

    monkeypatch.setattr(scraped_metric, "values_in", read)
    assert scraped(page(PAGE)) == 0.21
    assert at and threading.main_thread().name not in at


@pytest.mark.parametrize("text", ["", "1a", "rate(x[1m])", "a{b}", "a{b=c}", 'a{b="c" d="e"}', 'a{b="c"'])
def test_a_malformed_series_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        parse_series(text)


def backend(name: str, address: str) -> Backend:
    return Backend.model_validate(
        {"name": name, f"ipv{ip_address(address).version}": address, "mac": "02:00:00:00:01:01"}
    )


def test_urls_are_filled_in_for_each_backend() -> None:
    source = MetricSource.model_validate({"prometheus": "http://{address}:9/{pool}/{backend}", "metric": "m"})
    assert url_of(source, "p", backend("a", "192.0.2.1")) == "http://192.0.2.1:9/p/a"
    assert url_of(source, "p", backend("a", "2001:db8::1")) == "http://[2001:db8::1]:9/p/a"


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[int]:
    """A server that answers each request so."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def page(text: str, status: str = "200 OK", header: str = "") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        body = text.encode()
        writer.write(
            f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{header}connection: close\r\n\r\n".encode() + body
        )

    return answer


async def slow(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(50):  # a byte now and then keeps no more than the whole time
        writer.write(b"#")
        await writer.drain()
        await asyncio.sleep(0.05)


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(160):
        writer.write(b"# " + b"x" * 65533 + b"\n")
        await writer.drain()


async def nothing(writer: asyncio.StreamWriter) -> None:
    writer.close()


def scraped(answer: Answer, timeout: str = "300ms") -> float | MetricError:
    async def run() -> float | MetricError:
        async with served(answer) as port:
            source = MetricSource.model_validate(
                {"prometheus": f"http://127.0.0.1:{port}/{{backend}}", "metric": "node_load1", "timeout": timeout}
            )
            scraper = Scraper()
            found = await scraper.scrape(source, "p", [backend("a", "192.0.2.1")])
            await scraper.close()
            return found["a"]

    return asyncio.run(run())


def test_a_page_is_scraped() -> None:
    assert scraped(page(PAGE)) == 0.21


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (page("It works!"), "no node_load1"),
        (page(""), "no node_load1"),
        (page("node_load1 much\n"), "is not written"),
        (page(PAGE, "503 Service Unavailable"), "status 503"),
        (page("", "302 Found", "location: /other\r\n"), "status 302"),
        (slow, "no whole page within 0.3 s"),
        (endless, "the page has more than 1048576 bytes"),
        (nothing, "disconnected"),
    ],
)
def test_a_bad_or_slow_page_fails_in_time(answer: Answer, why: str) -> None:
    began = time.monotonic()
    found = scraped(answer, "300ms" if answer is slow else "5s")
    assert isinstance(found, MetricError) and why in str(found), found
    assert time.monotonic() - began < 4


def test_a_refused_connection_is_named() -> None:
    source = MetricSource.model_validate({"prometheus": "http://127.0.0.1:1/metrics", "metric": "m"})
    found = asyncio.run(Scraper().scrape(source, "p", [backend("a", "192.0.2.1"), backend("b", "192.0.2.2")]))
    assert all(isinstance(value, MetricError) for value in found.values()) and set(found) == {"a", "b"}
    assert scraped_metric.MAX_PAGE_BYTES == 1 << 20


def pool(source: dict[str, object]) -> Pool:
    return Pool.model_validate(
        {
            "balance": {"by": "metric", "source": source},
            "backends": [
                {"name": "a", "ipv4": "192.0.2.1", "mac": "02:00:00:00:01:01"},
                {"name": "b", "ipv6": "2001:db8::2", "mac": "02:00:00:00:01:02"},
            ],
        }
    )


def pushed(
    path: str, body: str, sender: str, source: dict[str, object]
) -> tuple[int, list[tuple[str, str, float]], list[str]]:
    """The status, what was taken in, and what was refused."""
    took: list[tuple[str, str, float]] = []
    refused: list[str] = []

    def add(name: str, backend: str, value: float) -> None:
        if value < 0:
            raise MetricError(f"{value:g} is below 0")
        took.append((name, backend, value))

    async def run() -> int:
        app = push_application(lambda: {"farm": pool(source)}, add, refused.append)
        transport = httpx.ASGITransport(app, client=(sender, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            return (await client.post(path, content=body)).status_code

    return asyncio.run(run()), took, refused


PUSH: dict[str, object] = {"push": True}
OTHERS: dict[str, object] = {"push": True, "allow": ["198.51.100.0/24"], "full": 4}


@pytest.mark.parametrize(
    ("path", "sender", "source", "value"),
    [
        ("/load/farm/a", "192.0.2.1", PUSH, 0.5),
        ("/load/farm/a", "::ffff:192.0.2.1", PUSH, 0.5),
        ("/load/farm/b", "2001:db8::2", PUSH, 0.5),
        ("/load/farm/a", "198.51.100.7", OTHERS, 0.5),
    ],
)
def test_allowed_senders_may_push(path: str, sender: str, source: dict[str, object], value: float) -> None:
    assert pushed(path, "0.5\n", sender, source) == (204, [("farm", path[-1], value)], [])


@pytest.mark.parametrize(
    ("path", "sender", "source"),
    [
        ("/load/farm/a", "192.0.2.2", PUSH),
        ("/load/farm/b", "192.0.2.1", PUSH),
        ("/load/farm/a", "192.0.2.1", OTHERS),
        ("/load/farm/c", "192.0.2.1", PUSH),
        ("/load/other/a", "192.0.2.1", PUSH),
        ("/load/farm/a", "192.0.2.1", {"probe": "latency"}),
    ],
)
def test_other_senders_are_refused(path: str, sender: str, source: dict[str, object]) -> None:
    status, took, refused = pushed(path, "0.5", sender, source)
    assert (status, took) == (403, []) and len(refused) == 1 and refused[0].endswith(f"from {sender} was refused")


@pytest.mark.parametrize(
    ("body", "status"),
    [("much", 400), ("", 400), ("-1", 400), ("1" * 65, 413), ("0x10", 400), ("1_000", 400)],
)
def test_a_pushed_text_that_is_no_number_is_refused(body: str, status: int) -> None:
    assert pushed("/load/farm/a", body, "192.0.2.1", PUSH) == (status, [], [])
