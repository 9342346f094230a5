# SPDX-License-Identifier: Apache-2.0
"""Wrong tokens at the console: who shows a right one is let in whatever others do, and who guesses waits."""

from __future__ import annotations

import asyncio
import hmac
from pathlib import Path
from typing import Any

import httpx
import pytest

from dnsteer.console import rate_limits
from dnsteer.console.access import Access
from dnsteer.console.app import console_application
from dnsteer.console.rate_limits import MAX_DELAYED, MAX_DELAYED_OF_CALLER, DelayedAnswers
from dnsteer.console.tokens import TokenFile, append_token, new_token
from tests.unit.console_cases import HOST, Console, known

AT = f"http://{HOST}"
OWN = {"origin": AT, "sec-fetch-site": "same-origin", "accept": "text/html"}
WRONG = {"authorization": "Bearer wrong"}


class Guessed:
    """A console with one token, at which others guess. Late answers wait until *end* is set."""

    def __init__(self, folder: Path) -> None:
        self.secret, token = new_token("alice", "read")
        append_token(folder / "tokens", token)
        self.said: list[str] = []
        self.end = asyncio.Event()
        self.waits = 0
        self.access = Access(TokenFile(folder / "tokens", lambda _: None), self.said.append)
        console = Console(known())
        self.app = console_application(console.live, console._scraped, HOST, self.access)
        self.access._delayed = DelayedAnswers(self._sleep)

    async def _sleep(self, seconds: float) -> None:
        assert seconds == rate_limits.DELAY
        self.waits += 1
        await self.end.wait()

    def client(self, address: str = HOST) -> httpx.AsyncClient:
        """A program or browser at an address."""
        transport = httpx.ASGITransport(self.app, client=(address, 4711))  # type: ignore[arg-type]
        return httpx.AsyncClient(transport=transport, base_url=AT, headers=OWN)

    @property
    def right(self) -> dict[str, str]:
        """The header with the right token."""
        return {"authorization": f"Bearer {self.secret}"}


def run(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_right_token_is_accepted_despite_wrong_ones_from_its_address(tmp_path: Path) -> None:
    of = Guessed(tmp_path)

    async def test() -> None:
        of.end.set()
        async with of.client() as client:
            codes = [(await client.get("/metrics", headers=WRONG)).status_code for _ in range(90)]
            assert codes == [401] * 10 + [429] * 80
            for path in ("/", "/metrics"):
                assert (await client.get(path, headers=of.right)).status_code == 200, path
            refused = await client.post("/sign-in", data={"token": "wrong", "next": "/pools"})
            assert refused.status_code == 429 and int(refused.headers["retry-after"]) in range(1, 7)
            assert "This is not a token of this console" in refused.text and 'value="/pools"' in refused.text
            signed = await client.post("/sign-in", data={"token": of.secret})
            assert signed.status_code == 303
            assert (await client.get("/")).status_code == 200
        for n in range(9):
            async with of.client(f"192.0.2.{n}") as client:
                for _ in range(10):
                    await client.get("/metrics", headers=WRONG)
        async with of.client("192.0.2.200") as client:
            assert (await client.get("/metrics", headers=WRONG)).status_code == 429, "all together"
            assert (await client.get("/metrics", headers=of.right)).status_code == 200
            assert (await client.post("/sign-in", data={"token": of.secret})).status_code == 303

    run(test)


def test_wrong_tokens_above_the_limit_are_answered_late_in_bounded_numbers(tmp_path: Path) -> None:
    of = Guessed(tmp_path)

    async def test() -> None:
        async with of.client() as client:
            for _ in range(10):
                assert (await client.get("/metrics", headers=WRONG)).status_code == 401
            assert of.waits == 0
            late = [asyncio.create_task(client.get("/metrics", headers=WRONG)) for _ in range(MAX_DELAYED_OF_CALLER)]
            while of.waits < MAX_DELAYED_OF_CALLER:
                await asyncio.to_thread(int)
            at_once = await client.get("/metrics", headers=WRONG)
            assert (at_once.status_code, of.waits) == (429, MAX_DELAYED_OF_CALLER)
            assert at_once.headers["connection"] == "close"
            assert (await client.get("/metrics", headers=of.right)).status_code == 200
            assert not any(task.done() for task in late)
            of.end.set()
            assert {(await task).status_code for task in late} == {429}
        assert MAX_DELAYED < 128, "they take requests away from others"

    run(test)


def test_a_wrong_token_is_compared_as_a_right_one_above_the_limit_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = Guessed(tmp_path)
    for name in ("bob", "carol"):
        append_token(tmp_path / "tokens", new_token(name, "read")[1])
    of.access._tokens.read_again()  # type: ignore[union-attr]
    compared: list[str] = []

    def compare(one: str, other: str) -> bool:
        compared.append(one)
        return one == other

    async def test() -> None:
        of.end.set()
        async with of.client() as client:
            for _ in range(12):
                compared.clear()
                await client.get("/metrics", headers=WRONG)
                assert len(compared) == 3
            compared.clear()
            await client.get("/metrics", headers=of.right)
            assert len(compared) == 3

    monkeypatch.setattr(hmac, "compare_digest", compare)
    run(test)


def test_the_log_has_each_that_counts_and_how_many_more_there_were(tmp_path: Path) -> None:
    of = Guessed(tmp_path)

    async def test() -> None:
        of.end.set()
        async with of.client() as client:
            for _ in range(25):
                await client.get("/metrics", headers=WRONG)
        async with of.client("192.0.2.9") as client:
            await client.get("/metrics", headers=WRONG)

    run(test)
    assert of.said == [
        *["console: a wrong token from 127.0.0.1"] * 10,
        "console: a wrong token from 192.0.2.9; 15 more since the last one that was logged",
    ]
