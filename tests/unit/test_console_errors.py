# SPDX-License-Identifier: Apache-2.0
"""Errors of the console: in the frame of its pages with the way back, and wrong input in the form that it was entered in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from dnsteer.console import app as app_module
from dnsteer.console import spec_pages
from dnsteer.deploy.verb_request import VerbOutcome
from tests.unit.console_cases import HOST, SCRIPT, SPEC, Console, known
from tests.unit.test_console_forms import AT, SignedIn

PAGE = {"accept": "text/html,*/*;q=0.8"}
CHANGED = SPEC.replace("uplinks:", "console: {allow_changes: true}, uplinks:")
NAV = '<nav aria-label="Pages">'


def back_of(page: str) -> str:
    """Where a page leads back to."""
    found = re.search(r'<a href="([^"]*)">Back to ', page)
    assert found is not None, page
    return unescape(found[1])


def wrong_field(page: str) -> tuple[str, str]:
    """The field that has the focus since it is wrong, and what is wrong with it."""
    (about,) = re.findall(r'name="(\w+)"[^>]* aria-invalid="true" aria-describedby="wrong-\1" autofocus>', page)
    (text,) = re.findall(rf'<p class="wrong" id="wrong-{about}">(.*?)</p>', page, re.DOTALL)
    return about, unescape(text)


@pytest.mark.parametrize(
    ("path", "status", "back"),
    [
        ("/none", 404, "/"),
        ("/pools/x", 404, "/pools"),
        ("/pools/%3Cscript%3Ealert(1)%3C%2Fscript%3E", 404, "/pools"),
        ("/pools/farm/none", 404, "/pools"),
        ("/changes/99", 503, "/changes"),
        ("/changes/x", 404, "/changes"),
        ("/sign-in", 404, "/"),
    ],
)
def test_an_unknown_page_leads_back(path: str, status: int, back: str) -> None:
    console = Console(known())
    answer = console.ask(path, **PAGE)
    assert (answer.status_code, back_of(answer.text)) == (status, back)
    assert NAV in answer.text and '<p class="notice critical" role="alert">' in answer.text and "br-dns" in answer.text
    assert SCRIPT not in answer.text
    for_program = console.ask(path)
    assert for_program.status_code == status and for_program.headers["content-type"].startswith("text/plain")
    assert for_program.text.count("\n") == 1, for_program.text


@pytest.mark.parametrize("path", ["/pools/farm", "/vips/dns", "/attention?pool=farm"])
def test_without_a_known_spec_pages_are_unavailable_not_missing(path: str) -> None:
    standby = Console(known())
    standby.recorder.claim_changed("br-dns", held=False)
    for console, why in ((standby, "This agent is on standby"), (Console(), "No spec is applied yet")):
        answer = console.ask(path, **PAGE)
        assert (answer.status_code, why in answer.text, "no pool" in answer.text.lower()) == (503, True, False)


@pytest.mark.parametrize("path", ["/events?page=none", "/assets/none", "/metrics/none"])
def test_programs_get_errors_in_one_line(path: str) -> None:
    answer = Console(known()).ask(path, **({} if path.startswith("/metrics") else PAGE))
    assert (answer.status_code, "<" in answer.text) == (404, False)


def test_an_unknown_method_is_refused_with_a_page() -> None:
    answer = Console(known()).ask("/pools/farm", "POST", **PAGE)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert NAV in answer.text and "Not possible here" in answer.text


def test_too_many_requests_get_a_page_with_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MAX_REQUESTS", 0)
    answer = Console(known()).ask("/", **PAGE)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert NAV in answer.text and "try again in some seconds" in answer.text


def test_a_defect_of_a_page_for_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(known())

    async def fails() -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(console.live, "_page_data", fails)
    transport = httpx.ASGITransport(console.app, raise_app_exceptions=False)  # type: ignore[arg-type]

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.get("/pools", headers=PAGE)

    answer = asyncio.run(asked())
    assert answer.status_code == 500 and "A defect of dnsteer" in answer.text and NAV in answer.text


class Changing(SignedIn):
    """A console at which alice may change, whose verbs end with *outcome*."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, alice="change", bob="read")
        self.console = Console(known(CHANGED))
        self.outcome = VerbOutcome(1, '{"ok": false, "error": "--for must be longer than --over"}')
        self.app = self.made()

    async def _run_verb(self, asked: Any) -> VerbOutcome:
        self.asked.append(asked)
        return self.outcome

    async def send(
        self, fields: Mapping[str, str], path: str = "/changes/preview", name: str = "alice"
    ) -> httpx.Response:
        """Send a form."""
        client, csrf = await self.browser(name)
        return await client.post(path, data={"csrf": csrf, **fields}, headers=PAGE)


GIVEN = {"verb": "drain", "about": "farm/ns2", "for": "2h", "over": "60s", "note": f"CHG-4711 {SCRIPT}"}


@pytest.mark.parametrize(
    ("changed", "field", "why"),
    [
        ({"for": "soon"}, "for", "For: found 'soon'; expected a time such as 90s"),
        ({"over": "1 hour"}, "over", "Over: found '1 hour'"),
        ({"for": "soon", "over": "1 hour", "note": "x" * 501}, "for", "For: found 'soon'"),
        ({"note": "x" * 501}, "note", "Note: found 501 characters; expected at most 500"),
        ({"note": "a\u202eb"}, "note", r"found the character '\u202e'; expected one line of text without control"),
        ({"about": "farm/gone"}, "about", "found 'farm/gone'; expected a backend of the applied spec"),
    ],
)
def test_wrong_input_gives_the_form_again(tmp_path: Path, changed: dict[str, str], field: str, why: str) -> None:
    of, given = Changing(tmp_path), {**GIVEN, **changed}

    async def test() -> None:
        answer = await of.send(given)
        assert (answer.status_code, of.asked) == (400, [])
        assert wrong_field(answer.text)[0] == field and why in wrong_field(answer.text)[1]
        assert NAV in answer.text and back_of(answer.text) == "/pools/farm" and "Error: Pool farm" in answer.text
        for name in ("for", "over", "note"):
            (kept,) = re.findall(rf'name="{name}"[^>]* value="([^"]*)"', answer.text)
            assert unescape(kept) == given[name]
        # What is gone is not replaced by another backend, for which a button would then be pressed.
        assert ('<option value="">choose one</option>' in answer.text) == (field == "about")
        chosen = re.findall(r'<option value="([^"]*)" selected>', answer.text)
        assert chosen == ([given["about"]] if field != "about" else [])
        assert SCRIPT not in answer.text

    of.run(test)


def test_wrong_input_for_a_rollback_gives_the_form_again(tmp_path: Path) -> None:
    of = Changing(tmp_path)

    async def test() -> None:
        answer = await of.send({"verb": "rollback", "about": "3", "note": "two\nlines"})
        assert answer.status_code == 400 and wrong_field(answer.text)[0] == "note"
        assert 'value="rollback"' in answer.text and back_of(answer.text) == "/changes/3"
        assert "Roll back to state 3" in answer.text and 'name="over"' not in answer.text

    of.run(test)


def test_a_refused_change_has_its_form_below(tmp_path: Path) -> None:
    of = Changing(tmp_path)

    async def test() -> None:
        answer = await of.send({**GIVEN, "for": "1m", "over": "2m"})
        assert answer.status_code == 200 and "This is refused:" in answer.text
        assert wrong_field(answer.text) == ("for", "--for must be longer than --over")
        assert 'value="1m"' in answer.text and 'value="2m"' in answer.text
        of.outcome = VerbOutcome(1, '{"ok": false, "error": "the switch is busy"}')
        answer = await of.send(GIVEN)
        assert "</strong> the switch is busy" in answer.text and "aria-invalid" not in answer.text
        assert 'name="over"' in answer.text and 'value="60s"' in answer.text

    of.run(test)


def test_a_form_that_no_page_has_leads_back(tmp_path: Path) -> None:
    of = Changing(tmp_path)

    async def test() -> None:
        for fields in ({"verb": "apply", "about": "farm/ns1"}, {"verb": "drain", "about": "none/ns1"}):
            answer = await of.send(fields)
            assert answer.status_code == 400 and NAV in answer.text and "nothing was changed" in answer.text
            assert back_of(answer.text) == "/pools"
        client, _ = await of.browser("alice")
        for sent_from, leads in (
            (f"{AT}/pools/farm", "/pools/farm"),
            (f"{AT}/changes/preview", "/pools"),
            ("http://elsewhere.example/pools/farm", "/pools"),
            (f"{AT}//elsewhere.example/", "/pools"),
        ):
            headers = {**PAGE, "referer": sent_from}
            answer = await client.post("/changes/preview", data={"csrf": "x"}, headers=headers)
            assert (answer.status_code, back_of(answer.text)) == (403, leads)
        answer = await client.get("/changes/preview", headers=PAGE)
        assert (answer.status_code, back_of(answer.text)) == (405, "/pools")

    of.run(test)


def test_a_spec_that_is_not_planned_stays_in_its_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = Changing(tmp_path)

    async def test() -> None:
        monkeypatch.setattr(spec_pages, "MAX_SPEC_BYTES", 100)
        answer = await of.send({"spec": SPEC, "file": "mine.yaml"}, "/plan", "bob")
        assert answer.status_code == 413 and "expected a spec of at most" in answer.text
        assert SPEC.splitlines()[1] in unescape(answer.text) and 'value="mine.yaml"' in answer.text
        assert 'aria-invalid="true" aria-describedby="wrong-spec h-plan"' in answer.text and of.asked == []

    of.run(test)


def test_a_wrong_token_gives_the_form_again(tmp_path: Path) -> None:
    of = Changing(tmp_path)

    async def test() -> None:
        async with of.client() as client:
            answer = await client.post("/sign-in", data={"token": "wrong", "next": "/pools"})
            assert answer.status_code == 403 and 'aria-invalid="true" aria-describedby="wrong-token"' in answer.text
            assert 'id="wrong-token"' in answer.text and 'value="/pools"' in answer.text
            evil = await client.post("/sign-in", data={"token": "x"}, headers={"origin": "http://evil.example"})
            assert evil.status_code == 403 and "another site has sent this form" in evil.text
            assert 'name="token"' in evil.text
            assert "br-dns" not in (await client.post("/pools", headers=PAGE)).text, "who has not signed in"

    of.run(test)


def test_a_path_that_cannot_be_followed_gives_its_form_again() -> None:
    console = Console(known())
    for query, field, kept in (
        ("client=x&port=1&vip=dns", "client", 'value="x"'),
        ("client=192.0.2.9&port=0&vip=dns", "port", 'value="0"'),
        ("client=192.0.2.9&port=1&vip=gone", "vip", "<option selected>gone</option>"),
        ("client=192.0.2.9&port=1&vip=dns&service=x", "service", "<option selected>x</option>"),
        ("client=192.0.2.9&port=1&vip=dns&uplink=p9", "uplink", "<option selected>p9</option>"),
    ):
        answer = console.ask(f"/path?{query}", **PAGE)
        assert (answer.status_code, wrong_field(answer.text)[0]) == (400, field), query
        assert kept in answer.text, query
