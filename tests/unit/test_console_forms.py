# SPDX-License-Identifier: Apache-2.0
"""Forms of the console, from a browser that has signed in: their limits, plans of large specs, and their threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import Metric

from dnsteer.agent.control import Channel, Control
from dnsteer.agent.request import Request
from dnsteer.checks.load import check_document
from dnsteer.console import forms, sessions, spec_pages
from dnsteer.console.access import Access
from dnsteer.console.app import RequestGuard, console_application
from dnsteer.console.sessions import Sessions
from dnsteer.console.spec_pages import too_large
from dnsteer.console.tokens import Role, Token, TokenFile, append_token, new_token
from dnsteer.deploy.verb_request import VerbOutcome, VerbRequest
from dnsteer.metrics.server import MetricsPages as Metrics
from dnsteer.metrics.server import metrics_application as metrics_application
from dnsteer.plan.build import build_plan
from dnsteer.plan.spec_size import SpecSize, size_of_spec
from dnsteer.render.flows import flows_of
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.read import parse_document, parse_recorded
from tests.unit.console_cases import HOST, SPEC, Console, known

AT = f"http://{HOST}:9853"
OWN = {"origin": AT, "sec-fetch-site": "same-origin", "accept": "text/html"}
NAT = """\
apiVersion: dnsteer/v1
switch:
  name: dpu-1
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks: {p0: {next_hop: '02:00:00:00:00:01'}}
  gateways: [192.0.2.1]
pools:
  farm:
    slots: 64
    backends: [BACKENDS]
vips:
  dns: {addresses: [198.51.100.53], services: [dns, dot], pool: farm, forwarding: nat}
""".replace(
    "BACKENDS",
    ", ".join(f"{{name: b{n}, ipv4: 192.0.2.{n}, mac: '02:00:00:00:01:{n:02x}'}}" for n in range(10, 40)),
)


class SignedIn:
    """A console with tokens, and the verbs that it asks for."""

    def __init__(self, folder: Path, **roles: Role) -> None:
        self.secrets: dict[str, str] = {}
        for name, role in roles.items():
            self.secrets[name], token = new_token(name, role)
            append_token(folder / "tokens", token)
        self.asked: list[VerbRequest] = []
        self.console = Console(known())
        self.access = Access(TokenFile(folder / "tokens", lambda _: None), lambda _: None)
        self.app = self.made()

    def made(self) -> RequestGuard:
        """The application."""
        return console_application(self.console.live, self._scraped, HOST, self.access, run_verb=self._run_verb)

    async def _scraped(self, accept: str) -> tuple[bytes, str]:
        return b"", "text/plain"

    async def _run_verb(self, asked: VerbRequest) -> VerbOutcome:
        self.asked.append(asked)
        return VerbOutcome(2, "", "it would change 192.0.2.1\n")

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        """Run a test."""
        asyncio.run(asyncio.wait_for(test(), 30))  # type: ignore[arg-type]

    def client(self) -> httpx.AsyncClient:
        """A browser that has not signed in."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=AT, headers=OWN)  # type: ignore[arg-type]

    async def browser(self, name: str) -> tuple[httpx.AsyncClient, str]:
        """A browser that has signed in, and the word of its session."""
        client = self.client()
        assert (await client.post("/sign-in", data={"token": self.secrets[name]})).status_code == 303
        return client, list(self.access.sessions._sessions.values())[-1].csrf


def spec_of(pools: int, slots: int, backends: int = 1) -> str:
    """A small text with many slots."""
    head = SPEC.partition("pools:")[0]
    made = [head, "pools:"]
    for n in range(pools):
        of = ", ".join(
            f"{{name: b{m}, ipv4: 10.{n}.{m >> 8}.{m & 255}, mac: '02:00:00:{n:02x}:{m >> 8:02x}:{m & 255:02x}'}}"
            for m in range(1, backends + 1)
        )
        made.append(f"  p{n}: {{slots: {slots}, backends: [{of}]}}")
    made.append("vips:")
    made += [f"  v{n}: {{addresses: [192.0.2.{n + 1}], services: [dns], pool: p{n}}}" for n in range(pools)]
    return "\n".join(made) + "\n"


LIMITED = spec_of(2, 16).replace("pool: p0}", "pool: p0, limits: {clients: {rate: 9/s}, tcp_syn: 9/s}}")


@pytest.mark.parametrize("text", [SPEC, NAT, spec_of(3, 128), SPEC.replace(", ipv6: '2001:db8::12'", ""), LIMITED])
def test_the_size_of_a_spec_is_that_of_its_plan_or_somewhat_more(text: str) -> None:
    loaded = check_document(parse_document("farm.yaml", text))
    flows = len(flows_of(build_plan(loaded)))
    assert flows - 71 <= size_of_spec(loaded.spec).flows <= 1.5 * flows, "some flows are the same for all specs"


def test_the_size_of_a_spec_that_was_not_checked() -> None:
    """It names pools that are not there, and counts what nobody could make."""
    text = spec_of(2, 2).replace("pool: p1", "pool: none")
    spec = Spec.model_validate(parse_document("x", text).value)
    assert 0 < size_of_spec(spec).flows < 20
    many = {f"a{n}": {**vars_of(spec)["vips"]["v0"], "addresses": ["192.0.2.1"] * 3000} for n in range(5)}
    assert size_of_spec(Spec.model_validate({**vars_of(spec), "vips": many})).flows > 15_000
    pools = {f"p{n}": {**vars_of(spec)["pools"]["p0"], "backup": {"pool": "big"}} for n in range(100)}
    big = [{**pools["p0"]["backends"][0], "name": f"b{n}"} for n in range(1000)]
    unused = Spec.model_validate({**vars_of(spec), "pools": {**pools, "big": {"backends": big}}})
    assert size_of_spec(unused).flows > 100_000, "each pool gets a copy of its backup's backends"


def vars_of(spec: Spec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude_unset=True)


def test_a_spec_too_large_to_plan_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = spec_of(100, 4096)
    why = too_large("farm.yaml", text, None)
    assert len(text) < 20_000 and why.startswith("farm.yaml: found about 41") and "at most 200,000" in why, why
    assert "dnsteer plan farm.yaml" in why
    assert too_large("farm.yaml", text, Spec.model_validate(parse_document("x", spec_of(51, 4096)).value)) == ""
    assert "choices of slots" in too_large("x", spec_of(1, 4096, 1000), None)
    assert too_large("x", SPEC, None) == too_large("x", "a: [", None) == too_large("x", "[1]", None) == ""
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{f'*a{n}, ' * 9}]\n" for n in range(9))
    assert too_large("x", bomb, None) == "", "aliases are refused before anything is made of them, as the plan says"
    monkeypatch.setattr(spec_pages, "MAX_PLANNED", SpecSize(10, 10))
    assert "expected at most 10 for a plan" in too_large("x", SPEC, None)
    assert too_large("x", SPEC, Spec.model_validate(parse_document("x", SPEC).value)) == ""


def test_a_spec_that_is_too_large_is_not_planned(tmp_path: Path) -> None:
    of = SignedIn(tmp_path, bob="read")

    async def test() -> None:
        client, csrf = await of.browser("bob")
        done = await client.post("/plan", data={"csrf": csrf, "spec": spec_of(100, 4096)})
        assert "found about 41" in done.text and "There is no plan" in done.text and of.asked == []
        done = await client.post("/plan", data={"csrf": csrf, "spec": SPEC})
        assert "it would change (address)" in done.text and [asked.argv[0] for asked in of.asked] == ["plan"]

    of.run(test)


def test_a_spec_with_variables_and_defaults_is_planned_in_one_piece(tmp_path: Path) -> None:
    """As a client sends it; one that includes files is refused before that, and a copy of a state has its own lines."""
    of = SignedIn(tmp_path, bob="read")

    async def test() -> None:
        client, csrf = await of.browser("bob")
        await client.post("/plan", data={"csrf": csrf, "spec": SPEC + "defaults: {backends: {weight: 3}}\n"})
        sent = parse_recorded("x", of.asked[0].files["spec.yaml"].decode())
        assert "defaults" not in sent.value and "weight: 3  # line " in sent.text
        await client.post("/plan", data={"csrf": csrf, "spec": sent.text})
        copy = parse_recorded("x", of.asked[1].files["spec.yaml"].decode())
        assert copy.value == sent.value and sent.text.splitlines()[copy.line(("pools",)) - 1].startswith("pools:")
        done = await client.post("/plan", data={"csrf": csrf, "spec": SPEC + "include: [more.yaml]\n"})
        assert "found includes in a text that is no file" in done.text and "There is no plan" in done.text
        assert len(of.asked) == 2

    of.run(test)


def test_large_forms_are_for_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing, masking and rendering a megabyte take tenths of a second, in which no health check would be answered."""
    of, threads = SignedIn(tmp_path, bob="read"), dict[str, set[str]]()

    def noted(module: Any, name: str) -> None:
        do = getattr(module, name)

        def noting(*args: Any, **more: Any) -> Any:
            threads.setdefault(name, set()).add(threading.current_thread().name)
            return do(*args, **more)

        monkeypatch.setattr(module, name, noting)

    async def test() -> None:
        client, csrf = await of.browser("bob")
        for module, name in (
            (forms, "parse_qsl"),
            (spec_pages, "too_large"),
            (spec_pages, "masked"),
            (of.console.live.pages, "render"),
        ):
            noted(module, name)
        of.app = of.made()
        client._transport = httpx.ASGITransport(of.app)  # type: ignore[arg-type]
        assert (await client.post("/plan", data={"csrf": csrf, "spec": SPEC})).status_code == 200
        assert threads == {name: {"console-specs_0"} for name in ("parse_qsl", "too_large", "masked", "render")}

    of.run(test)


def test_the_thread_ends_with_the_console(tmp_path: Path) -> None:
    of, before = SignedIn(tmp_path, bob="read"), threading.enumerate()

    async def test() -> None:
        client, _ = await of.browser("bob")
        assert (await client.get("/plan")).status_code == 200
        mine = next(each for each in threading.enumerate() if each.name == "console-specs_0" and each not in before)
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for kind in ("startup", "shutdown"):
            messages.put_nowait({"type": f"lifespan.{kind}"})

        async def send(_: Any) -> None:
            pass

        await of.app({"type": "lifespan", "state": {}}, messages.get, send)
        await asyncio.to_thread(mine.join, 10)
        assert not mine.is_alive()

    of.run(test)


def test_read_tokens_do_not_use_the_limits_of_changes(tmp_path: Path) -> None:
    of = SignedIn(tmp_path, bob="read", carol="read", dave="read", alice="change", adam="change")

    async def test() -> None:
        async def codes(name: str, forms_: int) -> list[int]:
            client, csrf = await of.browser(name)
            answers = [await client.post("/changes/preview", data={"csrf": csrf}) for _ in range(forms_)]
            return [answer.status_code for answer in answers]

        for _ in range(2):  # another session is no way out
            last = await codes("bob", 62)
        assert set(last) <= {403, 429} and last.count(403) <= 5
        for name in ("carol", "dave"):
            last = await codes(name, 62)
        assert last.count(429) > 50, "all of a role together"
        assert 429 not in await codes("alice", 30)
        await codes("alice", 40)
        assert 429 not in await codes("adam", 30)

    of.run(test)


def test_a_token_ends_sessions_of_its_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    held = Sessions(lambda: now)
    alice, bob = Token("alice", "change", "a" * 64), Token("bob", "read", "b" * 64)
    operator = held.begin(alice)
    names = []
    for _ in range(300):
        now += 1
        names.append(held.begin(bob))
    assert held.find(operator) is not None
    kept = [held.find(name) is not None for name in names]
    assert kept == [False] * (300 - sessions.MAX_OF_TOKEN) + [True] * sessions.MAX_OF_TOKEN
    monkeypatch.setattr(sessions, "MAX_SESSIONS", sessions.MAX_OF_TOKEN + 1)
    held.begin(Token("carol", "read", "c" * 64))
    assert held.find(operator) is not None, "who has most makes room"


def test_sign_in_leads_on_to_the_whole_address(tmp_path: Path) -> None:
    of = SignedIn(tmp_path, bob="read")
    shared = "/path?vip=dns&source=192.0.2.9%3A5353&note=a%26b"

    async def test() -> None:
        async with of.client() as client:
            for wanted, leads in (
                (shared, shared),
                ("/pools/a%3Fb", "/pools/a%3Fb"),
                ("/path?next=//evil.example", "/path?next=//evil.example"),
                ("//evil.example/?x", "/"),
                ("/path?" + "x" * 500, "/"),
            ):
                led = await client.get(f"{AT}{wanted}")
                assert led.status_code == 303
                page = await client.get(led.headers["location"])
                back = page.text.partition('name="next" value="')[2].partition('"')[0].replace("&amp;", "&")
                done = await client.post("/sign-in", data={"token": of.secrets["bob"], "next": back})
                assert done.headers["location"] == leads
                client.cookies.clear()

    of.run(test)


def test_a_state_while_the_database_cannot_be_read(tmp_path: Path) -> None:
    of = SignedIn(tmp_path, bob="read")

    async def test() -> None:
        client, _ = await of.browser("bob")
        done = await client.get("/changes/1")
        assert (done.status_code, "The recorded states cannot be read: " in done.text) == (503, True), done.text
        of.console = Console(None)
        of.app = of.made()
        client._transport = httpx.ASGITransport(of.app)  # type: ignore[arg-type]
        done = await client.get("/changes/1")
        assert (done.status_code, "hey were not read yet" in done.text) == (503, True), done.text

    of.run(test)


class Nothing:
    """No metrics."""

    def collect(self) -> list[Metric]:
        """None."""
        return []


def test_scrapers_with_a_token_use_any_name(tmp_path: Path) -> None:
    secret, token = new_token("prometheus", "read")
    append_token(tmp_path / "tokens", token)
    tokens, pages = TokenFile(tmp_path / "tokens", lambda _: None), Metrics(Nothing())

    def guard(tokens: TokenFile | None, *, browsers: bool = False) -> RequestGuard:
        access = Access(tokens, lambda _: None, browsers=browsers)
        return RequestGuard(metrics_application(pages), "0.0.0.0", access, frozenset)

    async def status(app: RequestGuard, host: str, given: str = secret) -> int:
        headers = {"host": host, "authorization": f"Bearer {given}"}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=AT) as client:  # type: ignore[arg-type]
            return (await client.get("/metrics", headers=headers)).status_code

    async def test() -> None:
        app = guard(tokens)
        for host in ("dpu-1:9853", "192.0.2.1:9853", "127.0.0.1:9853"):
            assert await status(app, host) == 200
            assert await status(app, host, "wrong") == 401
        for other in (guard(tokens, browsers=True), guard(None)):
            assert await status(other, "dpu-1:9853") == 421, "where browsers are, or nothing but the name tells"

    try:
        asyncio.run(test())
    finally:
        pages.close()


@pytest.fixture
def verbs(tmp_path: Path) -> Iterator[tuple[Control, threading.Event]]:
    """A control whose gradual verbs end with an event."""
    ends = threading.Event()

    def run(request: Request, channel: Channel) -> int:
        if "--over=1h" in request.argv and "--dry-run" not in request.argv:
            assert ends.wait(20)
        return 0

    yield Control("unix:/nowhere", "br0", run, lambda *_, **__: None), ends  # type: ignore[arg-type]
    ends.set()


def test_gradual_changes_leave_room_for_others(verbs: tuple[Control, threading.Event]) -> None:
    control, ends = verbs

    async def test() -> None:
        def ask(*argv: str) -> asyncio.Task[VerbOutcome]:
            return asyncio.create_task(control.run_verb(VerbRequest(argv, "alice"), ()))

        under_way = [ask("drain", "--over=1h", "--yes", "--", f"farm/ns{n}") for n in range(8)]
        await asyncio.sleep(0)
        refused = await ask("drain", "--over=1h", "--yes", "--", "farm/ns9")
        assert refused.code == 1 and "8 gradual changes are under way; undrain one" in refused.said
        for argv in (("drain", "--over=1h", "--dry-run"), ("undrain",), ("down",), ("plan",)):
            assert (await ask(*argv, "--", "farm/ns1")).code == 0
        assert not any(each.done() for each in under_way)
        ends.set()
        assert [each.code for each in await asyncio.gather(*under_way)] == [0] * 8
        assert (await ask("drain", "--over=1h", "--yes", "--", "farm/ns9")).code == 0
        await control.stop()

    asyncio.run(asyncio.wait_for(test(), 30))
