# SPDX-License-Identifier: Apache-2.0
"""The console over HTTP: headers, hosts, methods, limits; events: what is sent, to whom, and when not."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dnsteer.console import live as live_module
from dnsteer.console.app import POLICY
from dnsteer.console.change_pages import MAX_RUNS, ChangeRequest, ChangeRuns
from dnsteer.console.live import LivePages, TooManyStreamsError
from dnsteer.console.page_content import NoPageError
from dnsteer.console.page_data import PageData
from dnsteer.console.rates import POINTS, Series
from dnsteer.deploy.verb_request import VerbOutcome, VerbRequest
from dnsteer.view.wording import number, ranges, rounded
from tests.unit.commands import in_process
from tests.unit.console_cases import SCRIPT, SPEC, Console, entry, known, record

PATHS = (
    "/",
    "/pools",
    "/pools/farm",
    "/changes",
    "/metrics",
    "/assets/console.css",
    "/assets/console.js",
    "/none",
    "/pools/x",
)


def test_every_answer_has_the_headers() -> None:
    console = Console(known())
    for path in PATHS:
        answer = console.ask(path)
        headers = answer.headers
        assert headers["content-security-policy"] == POLICY, path
        assert "unsafe" not in POLICY and POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == ("no-cache" if "assets" in path else "no-store"), path
        assert "server" not in headers and "access-control-allow-origin" not in headers
        assert answer.status_code == (404 if path in ("/none", "/pools/x") else 200), path


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "[::1]", "localhost:8080", "127.0.0.1:9853", "[::1]:1", "LocalHost"]
)
def test_names_of_this_machine_are_served(host: str) -> None:
    assert Console(known()).ask("/", host=host).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9853",
        "127.0.0.1.evil.example",
        "localhost.",
        "",
        "127.0.0.2",
        "[::2]",
        "a@localhost",
    ],
)
def test_other_names_are_refused(host: str) -> None:
    console = Console(known())
    for path in ("/", "/events?page=overview", "/metrics", "/assets/console.js"):
        assert console.ask(path, host=host).status_code == 421


def test_the_bound_address_is_a_name_too() -> None:
    assert Console(known(), host="127.0.0.2").ask("/", host="127.0.0.2:9853").status_code == 200
    assert Console(known(), host="::1").ask("/", host="[::1]:9853").status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(method: str) -> None:
    console = Console(known())
    for path in ("/", "/pools/farm", "/events", "/metrics", "/none"):
        answer = console.ask(path, method)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD"), path
    for path in ("/", "/events?page=overview", "/metrics"):
        assert console.ask(path, "HEAD").status_code == 200


def test_assets_are_cached_and_unknown_ones_not_found() -> None:
    console = Console(known())
    first = console.ask("/assets/console.css")
    again = console.ask("/assets/console.css", **{"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in ("/assets/", "/assets/..%2fapp.py", "/assets/%2e%2e/app.py", "/assets/console.css/"):
        assert console.ask(path).status_code == 404, path


class Events:
    """What one browser is sent."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream

    async def next(self, wanted: str = "") -> tuple[str, Any, str]:
        """Kind, data and id of the next one, or of the next of a kind."""
        while True:
            fields = dict(line.split(": ", 1) for line in (await anext(self._stream)).decode().splitlines() if line)
            if fields.get("event", "") and wanted in ("", fields["event"]):
                return fields["event"], json.loads(fields["data"]), fields.get("id", "")

    async def end(self) -> None:
        """The browser goes away."""
        await self._stream.aclose()  # type: ignore[attr-defined]


def live(console: Console, test: Callable[[LivePages], Any]) -> None:
    """Run a test while the console works."""

    async def run_() -> None:
        running = asyncio.create_task(console.live.run())
        try:
            await asyncio.wait_for(test(console.live), 20)
        finally:
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled(), running.exception()

    asyncio.run(run_())


def since(page: str) -> str:
    """The version of a page."""
    return page.split('data-since="')[1].split('"')[0]


def test_only_what_changed_is_sent() -> None:
    console = Console(known())

    async def test(of: LivePages) -> None:
        page = (await of.page("overview")).text
        events = Events(await of.stream("overview", since(page)))
        waits = asyncio.create_task(events.next("update"))
        await asyncio.sleep(0.3)
        console.recorder.followed(record(1, entry("ns1", note=SCRIPT)))
        _, data, version = await waits
        while "vip-0" not in data["parts"]:  # the first reading came before it
            _, data, version = await events.next("update")
        assert "attention" in data["parts"]
        assert "vip-1" not in data["parts"], "its pool is as it was"
        assert SCRIPT not in str(data) and "&lt;script&gt;" in data["parts"]["vip-0"]
        console.packets["dns", "53/udp"] = 1.0
        again = Events(await of.stream("overview", version))
        late = Events(await of.stream("overview", since(page)))
        kind, data, _ = await late.next("update")
        assert kind == "update" and "vip-0" in data["parts"], "one that was away gets all that it missed"
        for each in (events, again, late):
            await each.end()
        assert of.watchers == 0

    live(console, test)


def test_a_page_of_another_agent_or_of_another_spec_is_read_again() -> None:
    console = Console(known())

    async def test(of: LivePages) -> None:
        page = (await of.page("overview")).text
        for version in ("", "1.1", "x", f"{of.epoch}.-1", f"{of.epoch}.{'9' * 30}"):
            events = Events(await of.stream("overview", version))
            assert (await events.next("reload"))[0] == "reload", version
            await events.end()
        events = Events(await of.stream("overview", since(page)))
        console.recorder.adopted(known(number=2), [])
        console.recorder.followed(record(2))
        assert (await events.next("reload"))[0] == "reload"
        await events.end()

    live(console, test)


def test_the_overview_is_made_before_anybody_asks() -> None:
    console = Console(known())

    async def test(of: LivePages) -> None:
        while "overview" not in of._state.topics or "vip-0" not in of._state.topics["overview"].parts:
            await asyncio.sleep(0.01)
        console.recorder.followed(record(1, entry("ns1", "health", note="late")))
        while "late" not in of._state.topics["overview"].parts["vip-0"][1]:
            await asyncio.sleep(0.01)
        assert of.watchers == 0
        assert "late" in (await of.page("overview")).text

    live(console, test)


@pytest.mark.parametrize("maker", ["the console itself", "a visitor who leaves"])
def test_a_page_waits_for_the_picture_that_is_being_made(monkeypatch: pytest.MonkeyPatch, maker: str) -> None:
    console, begun, go = Console(known()), threading.Event(), threading.Event()
    make = console.live._history.page_data

    def slowly(*args: Any) -> PageData:
        begun.set()
        assert go.wait(10)
        return make(*args)

    async def test(of: LivePages) -> None:
        with pytest.raises(NoPageError):
            await of.page("pool/yard")
        monkeypatch.setattr(of._history, "page_data", slowly)
        console.recorder.adopted(known(SPEC.replace("farm", "yard"), number=2), [])
        console.recorder.followed(record(2))
        of.changed()
        visitor = asyncio.create_task(of.page("pools")) if "visitor" in maker else None
        while not begun.is_set():
            await asyncio.sleep(0.01)
        if visitor is not None:
            visitor.cancel()
        page = asyncio.create_task(of.page("pool/yard"))
        await asyncio.sleep(0.1)
        assert not page.done()
        go.set()
        assert "ns1" in (await page).text

    if "visitor" in maker:
        asyncio.run(test(console.live))
    else:
        live(console, test)


def test_a_panic_is_sent_though_nothing_moves() -> None:
    console = Console(known())

    async def test(of: LivePages) -> None:
        events = Events(await of.stream("overview", since((await of.page("overview")).text)))
        console.recorder.panicked("farm", ("",))
        data: Any = {"parts": {}}
        while "vip-0" not in data["parts"]:
            _, data, _ = await events.next("update")
        assert "panic" in data["parts"]["vip-0"]
        await events.end()

    live(console, test)


def test_a_silent_stream_says_that_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "HEARTBEAT", 0.05)
    console = Console(known())

    async def test(of: LivePages) -> None:
        events = Events(await of.stream("changes", since((await of.page("changes")).text)))
        assert (await events.next("beat"))[0] == "beat"
        await events.end()

    live(console, test)


def test_connected_browsers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "MAX_STREAMS", 2)
    console = Console(known())

    async def test(of: LivePages) -> None:
        streams = [Events(await of.stream("overview", "")) for _ in range(2)]
        for each in streams:
            await each.next("reload")
        assert of.watchers == 2
        with pytest.raises(TooManyStreamsError):
            await of.stream("overview", "")
        await streams[0].end()
        third = Events(await of.stream("overview", ""))
        for each in (streams[1], third):
            await each.end()

    live(console, test)
    assert Console(known()).ask("/events?page=none").status_code == 404


def test_unwatched_pages_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "_MAX_TOPICS", 3)
    console = Console(known())

    async def test(of: LivePages) -> None:
        for key in ("pools", "changes", "pool/farm", "pool/spare"):
            await of.page(key)
        assert list(of._state.topics) == [live_module.FIRST, "pool/farm", "pool/spare"]

    live(console, test)


def test_the_last_changes_that_were_begun_are_kept() -> None:
    async def test() -> None:
        async def run_verb(asked: VerbRequest) -> VerbOutcome:
            return VerbOutcome(0)

        runs, names = ChangeRuns(run_verb), []
        for _ in range(MAX_RUNS + 3):
            names.append(runs.begin(ChangeRequest("undrain", "farm/ns1", {}), VerbRequest((), "ann")))
            await runs.wait(names[-1], 5)
        assert [name for name in names if runs.find(name)] == names[-MAX_RUNS:]

    asyncio.run(test())


def test_series_keep_rates_and_lines() -> None:
    series = Series()
    series.add(0, {"a": 0.0})
    assert series.rates() == {"a": None}
    for n in range(1, 400):
        series.add(n, {"a": 10.0 * n, "b": 5.0 * n} if n >= 200 else {"a": 10.0 * n})
    assert series.rates() == {"a": 10.0, "b": 5.0}
    lines = series.lines(["a", "b", "c"])
    assert lines["a"] == [10.0] * POINTS
    assert lines["b"][:19] == [None] * 19 and lines["b"][-30:] == [5.0] * 30 and lines["c"] == [None] * POINTS
    assert len(series._samples) <= 302, "the past is bounded"
    series.add(400, {"b": 0.0})
    assert series.rates() == {"b": 0.0}, "a total that is smaller is no rate below 0"


@pytest.mark.parametrize("seed", range(3))
def test_series_are_equal_whatever_the_order_of_names(seed: int) -> None:
    names, ordered, shuffled = [f"v{n}" for n in range(50)], Series(), Series()
    draw = random.Random(seed)
    for n in range(10):
        totals = {name: float(n * place) for place, name in enumerate(names)}
        ordered.add(n, totals)
        shuffled.add(n, dict(draw.sample(list(totals.items()), len(totals))))
    assert ordered.rates() == shuffled.rates() == {name: float(place) for place, name in enumerate(names)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.04, "0"),
        (7.25, "7.25"),
        (41.23, "41.2"),
        (412.4, "412"),
        (999.4, "999"),
        (999.7, "1.00 k"),
        (9870, "9.87 k"),
        (120_400, "120 k"),
        (1_200_000, "1.20 M"),
        (None, "\N{EN DASH}"),
    ],
)
def test_numbers_are_rounded_for_display(value: float | None, text: str) -> None:
    assert number(value) == text
    assert number(rounded(value)) == text


def test_slot_numbers_are_shown_as_ranges() -> None:
    assert ranges([5, 0, 1, 2, 7, 8]) == "0-2, 5, 7-8"
    assert ranges([]) == ""


@pytest.mark.parametrize("wrong", ["0.0.0.0:9853", "192.0.2.1:9853", "[::]:9853"])
def test_without_tls_and_tokens_only_loopback_addresses_are_served(wrong: str) -> None:
    done = in_process("agent", "--console", wrong, "--db", "unix:/nowhere")
    text = " ".join((done.stderr + done.stdout).replace("│", "").split())
    assert done.returncode == 64, text
    assert f"found '{wrong}'; expected a loopback address" in text
    assert "TLS (--console-tls-cert, --console-tls-key) and tokens (--console-tokens)" in text


@pytest.mark.parametrize("name", ["the readings of counters", "the making of pages"])
def test_a_page_task_that_ends_is_reported_to_its_runner(name: str) -> None:
    """The agent starts the console again then. Its streams end, so that browsers come back."""

    async def test(of: LivePages) -> None:
        running = asyncio.ensure_future(of.run())
        found = list[asyncio.Task[Any]]()
        while not found:
            await asyncio.sleep(0.001)
            found = [task for task in asyncio.all_tasks() if task.get_name() == name]
        stream = await of.stream("overview", f"{of.epoch}.0")
        await anext(stream)
        found[0].cancel()
        with pytest.raises(RuntimeError, match=f"{name} has ended by itself"):
            await running
        async for _ in stream:  # what was to be sent is, and then it ends
            pass

    asyncio.run(asyncio.wait_for(test(Console(known()).live), 20))
