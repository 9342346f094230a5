# SPDX-License-Identifier: Apache-2.0
"""Tokens, sessions, limits and forms of the console, by themselves."""

from __future__ import annotations

import hmac
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dnsteer.console import rate_limits, sessions, tokens
from dnsteer.console.access import Visitor, local_path
from dnsteer.console.change_pages import (
    ChangePreview,
    ChangeRequest,
    VerbRun,
    WrongRequestError,
    plain_answer,
    preview_of,
    request_of,
)
from dnsteer.console.forms import is_same_origin
from dnsteer.console.page_content import ConsolePages
from dnsteer.console.rate_limits import AllowedRate, RateLimit, caller_of
from dnsteer.console.sessions import IDLE, LONGEST, ConsoleSession, Sessions
from dnsteer.console.spec_pages import state_view
from dnsteer.console.tokens import Token, TokenFile, append_token, digest_of, new_token, read_tokens
from dnsteer.deploy.agreement import hash_of_record
from dnsteer.deploy.verb_request import VerbOutcome
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.state import PENDING_KEY, Pending
from dnsteer.switch.tools import SwitchError
from dnsteer.view.masking import masked
from tests.unit.commands import in_process
from tests.unit.console_cases import SCRIPT, START, Console, entry, known, record

HASH = "a" * 64


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def file_of(folder: Path, text: str | bytes) -> Path:
    file = folder / "tokens"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    file.chmod(0o600)
    return file


def test_a_token_file_is_read(tmp_path: Path) -> None:
    file = file_of(tmp_path, f"# for people\n\nalice change {HASH}  # on call\nprometheus\tread {'b' * 64}\n")
    assert read_tokens(file) == (Token("alice", "change", HASH), Token("prometheus", "read", "b" * 64))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "found no token, so that nobody could sign in"),
        ("# nothing\n", "found no token"),
        (f"alice {HASH}", ":1: found 2 words; expected NAME ROLE SHA256"),
        (f"\nal/ice read {HASH}", ":2: found the name 'al/ice'; expected letters"),
        (f"{'x' * 65} read {HASH}", "at most 64"),
        (f"alice admin {HASH}", "found the role 'admin'; expected read or change"),
        ("alice read dnsteer-secret", "found no SHA-256 after the role; expected 64 digits"),
        (f"alice read {HASH.upper()}", "found no SHA-256"),
        (f"alice read {HASH}\nalice change {HASH}", ":2: found the name alice a second time"),
        (b"alice read \xff", "found what is not UTF-8"),
        ("#" * ((1 << 20) + 1), "found more than 1 MiB"),
    ],
)
def test_a_malformed_token_file_is_named_by_line(tmp_path: Path, text: str | bytes, why: str) -> None:
    with pytest.raises(SwitchError) as caught:
        read_tokens(file_of(tmp_path, text))
    assert why in str(caught.value) and str(tmp_path) in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610])
def test_a_file_of_tokens_is_for_its_owner_alone(tmp_path: Path, mode: int) -> None:
    file = file_of(tmp_path, f"alice read {HASH}")
    file.chmod(mode)
    with pytest.raises(SwitchError, match=rf"others than its owner may use it \(mode {mode:04o}\): chmod 600"):
        read_tokens(file)
    with pytest.raises(SwitchError, match="expected a file of tokens, found something that is no file"):
        read_tokens(Path("/dev/zero"))


def test_a_token_is_found_by_its_secret_alone_and_all_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, token = new_token("alice", "change")
    assert len(secret) >= 43 + len("dnsteer-") and token.digest == digest_of(secret) and secret not in token.line
    held = TokenFile(file_of(tmp_path, f"{token.line}\nbob read {HASH}\ncarol read {'c' * 64}"), lambda _: None)
    compared: list[bytes | str] = []

    def compare(one: str, other: str) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert held.find(secret) == token and len(compared) == 3
    for wrong in ("", "alice", token.digest, secret[:-1], secret + "x", secret.upper()):
        compared.clear()
        assert held.find(wrong) is None and len(compared) == 3


def test_a_file_of_tokens_is_read_again(tmp_path: Path) -> None:
    clock, said = Clock(), list[str]()
    (first, alice), (second, bob) = new_token("alice", "read"), new_token("bob", "change")
    file = file_of(tmp_path, alice.line)
    held = TokenFile(file, said.append, clock)
    append_token(file, bob)
    assert held.find(second) is None, "it looks once a second"
    clock.time += 1
    assert held.find(second) == bob and held.has(alice) and said == ["console: tokens read again: 2"]
    file.unlink()
    clock.time += 1
    assert held.find(first) is None and not held.has(alice)
    assert said[1:] == [f"console: no token is valid until this is put right: {file}: No such file or directory"]
    clock.time += 1
    held.tokens()
    assert len(said) == 2, "it is said once"
    append_token(file, alice)
    clock.time += 1
    assert held.find(first) == alice


def test_a_token_is_appended_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "new"
    append_token(file, Token("alice", "read", HASH))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text(file.read_text().rstrip("\n") + "  # no end of line")
    append_token(file, Token("bob", "read", HASH))
    assert [token.name for token in read_tokens(file)] == ["alice", "bob"]
    before = file.read_text()
    with pytest.raises(SwitchError, match="has a token bob already"):
        append_token(file, Token("bob", "change", HASH))
    file.write_text("what is this\n" + before)
    with pytest.raises(SwitchError, match=":1: found the role"):
        append_token(file, Token("dave", "read", HASH))
    assert file.read_text() == "what is this\n" + before
    assert list(tmp_path.iterdir()) == [file]


def test_console_token_makes_a_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    done = in_process("console-token", "alice", "--role", "change", "--append", str(file))
    assert done.returncode == 0, done.stderr
    secret = done.stdout.split()[1]
    assert read_tokens(file) == (Token("alice", "change", digest_of(secret)),) and secret not in file.read_text()
    assert "shown only once" in done.stdout and f"added  to {file}" in done.stdout
    alone = in_process("console-token", "bob")
    assert f"bob read {digest_of(alone.stdout.split()[1])}" in alone.stdout and "mode 0600" in alone.stdout
    for argv, code, why in (
        (["a b"], 64, "found 'a b'; expected letters, digits"),
        (["alice", "--role", "admin"], 64, "'admin' is not one of"),
        (["alice", "--append", str(file)], 1, "has a token alice already"),
        (["alice", "--append", str(tmp_path / "none" / "tokens")], 1, "No such file or directory"),
    ):
        done = in_process("console-token", *argv)
        assert (done.returncode, why in " ".join((done.stderr + done.stdout).replace("│", "").split())) == (code, True)


def test_sessions_expire_and_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, token = Clock(), Token("alice", "change", HASH)
    held = Sessions(clock)
    name = held.begin(token)
    session = held.find(name)
    assert session is not None and name not in str(held._sessions) and held.find(name + "x") is None
    assert held.find("") is None
    other = held.find(held.begin(token))
    assert other is not None and other.csrf != session.csrf and len(session.csrf) >= 43
    clock.time += IDLE - 1
    assert held.find(name) is session
    clock.time += 1
    assert not held.is_open(other) and held.is_open(session), "an hour without a use"
    for _ in range(int(LONGEST / IDLE) + 1):
        clock.time += IDLE - 1
        held.is_open(session)
    assert held.find(name) is None, "12 hours, used or not"
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    names = []
    for _ in range(4):
        clock.time += 1
        names.append(held.begin(token))
    assert [held.find(name) is not None for name in names] == [False, True, True, True]
    last = held.find(names[-1])
    assert last is not None
    held.end(last)
    assert held.find(names[-1]) is None


def test_rates_are_limited_per_caller_and_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    limit = RateLimit(AllowedRate(2, 6), AllowedRate(5, 60), clock)
    for _ in range(2):
        assert limit.wait("a") == 0
        limit.count("a")
    assert limit.wait("a") == 10 and limit.wait("b") == 0
    clock.time += 10
    assert limit.wait("a") == 0
    for n in range(5):
        limit.count(f"many-{n}")
    assert limit.wait("b") == 1, "all together"
    clock.time += 1000
    assert limit.wait("b") == 0
    monkeypatch.setattr(rate_limits, "MAX_KEYS", 3)
    for n in range(9):
        limit.count(f"more-{n}")
    assert len(limit._callers) == 3


def test_a_host_is_one_caller() -> None:
    assert caller_of("2001:db8::1") == caller_of("2001:db8::ffff:1") == "2001:db8::"
    assert caller_of("::ffff:192.0.2.1") == caller_of("192.0.2.1") == "192.0.2.1"
    assert caller_of("fe80::1%eth0") == "fe80::" and caller_of("an unknown address") == "an unknown address"


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"sec-fetch-site": "same-origin", "origin": "https://dpu-1:9853"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"origin": "https://dpu-1:9853"}, True),
        ({"origin": "https://DPU-1:9853"}, True),
        ({}, False),
        ({"origin": "null"}, False),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, False),
        ({"origin": "https://dpu-1"}, False),
        ({"origin": "http://dpu-1:9853"}, False),
        ({"origin": "https://dpu-1:9853.evil.example"}, False),
        ({"sec-fetch-site": "none", "origin": "https://dpu-1:9853"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "https://dpu-1:9853"}, False),
    ],
)
def test_only_forms_of_the_same_origin_are_accepted(headers: dict[str, str], own: bool) -> None:
    raw = [(name.encode(), value.encode()) for name, value in {"host": "dpu-1:9853", **headers}.items()]
    assert is_same_origin({"scheme": "https", "headers": raw}) is own
    assert not is_same_origin({"scheme": "https", "headers": [*raw, (b"origin", b"https://dpu-1:9853")] * 2})


@pytest.mark.parametrize(
    "path", ["", "x", "//evil", "/\\evil", "/a\nb", "/sign-in?next=/", "/" + "a" * 500, "http://evil"]
)
def test_return_addresses_stay_on_the_console(path: str) -> None:
    assert local_path(path) == "/" and local_path("/pools/farm") == "/pools/farm"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("addresses [192.0.2.53, '2001:db8::53']", "addresses [(address), '(address)']"),
        ("+192.0.2.1/24 -2001:db8::/32", "+(address)/24 -(address)/32"),
        ("mac: 02:00:00:00:01:0a, ::ffff:192.0.2.1", "mac: (address), (address)"),
        ("tcp:192.0.2.1:6640 x192.0.2.1y", "tcp:(address):6640 x(address)y"),
        ("fe80::1%eth0 2001:db8:0:1:2:3:4:5.", "(address)%eth0 (address)."),
        ("farm.yaml:12: $.pools: 3 of 32, at 12:30:45, version 3.1.0", None),
        ("digest 665786329e83, 9.38 %, a::b", "digest 665786329e83, 9.38 %, (address)"),
    ],
)
def test_addresses_are_left_out(text: str, left: str | None) -> None:
    assert masked(text) == (text if left is None else left)


def test_requests_become_verbs() -> None:
    fields = {
        "verb": "drain",
        "about": "farm/ns1",
        "over": " 60s ",
        "for": "",
        "note": "--yes",
        "csrf": "x",
        "weight": "3",
    }
    request = request_of(fields, ["farm/ns1"])
    assert request.asked("alice@x", "br0").argv == (
        "drain",
        "--bridge=br0",
        "--over=60s",
        "--note=--yes",
        "--dry-run",
        "--json",
        "--",
        "farm/ns1",
    )
    assert request.asked("alice@x", "br0", "f").argv[-3:] == ("--yes", "--", "farm/ns1")
    assert (request.title, request.back) == ("Drain farm/ns1", "/pools/farm")
    assert request_of({"verb": "up", "about": "farm/ns1", "note": "x"}, ["farm/ns1"]).options == {}
    with pytest.raises(WrongRequestError, match="expected a backend of the applied spec"):
        request_of({**fields, "about": "farm/ns2"}, ["farm/ns1"])


def test_previews_show_the_result_or_error_of_a_verb() -> None:
    assert preview_of(VerbOutcome(1, "", "dnsteer: no\n")).error == "dnsteer: no"
    assert preview_of(VerbOutcome(1, '{"ok": false, "error": "it is down"}')).error == "it is down"
    assert (
        plain_answer("Usage: x\nTry 'y'\n╭─ Error ─╮\n│ a wrong thing  │\n╰──╯\n  indented\n")
        == "a wrong thing\n  indented"
    )
    assert plain_answer("Usage: x\nError: Invalid value: it is wrong\n") == "it is wrong"


def test_forms_escape_all_text() -> None:
    pages, began = ConsolePages(), START
    token = Token("alice", "change", HASH)
    visitor = Visitor(token, ConsoleSession(token, 0, 0, SCRIPT))
    seen = Console(known(), entry("ns1", note=SCRIPT)).recorder.snapshot()
    request = ChangeRequest("drain", f"farm/{SCRIPT}", {"note": SCRIPT})
    preview = ChangePreview(SCRIPT, (SCRIPT,), (SCRIPT,), (SCRIPT,), changed=True)
    as_recorded = known().state
    states = [replace(as_recorded, note=SCRIPT, number=n, file=SCRIPT, by=SCRIPT, text=f"{SCRIPT} {n}") for n in (2, 1)]
    view = state_view(states, 2)
    assert "not compared in words" in view.words[0] and f"+{SCRIPT} 2" in view.lines
    run = VerbRun(request, SCRIPT, began, None, VerbOutcome(1, SCRIPT, SCRIPT, outdated=True))  # type: ignore[arg-type]
    common = {"snapshot": seen, "visitor": visitor, "page": "changes"}
    given = dict.fromkeys(("about", "for", "over", "note"), SCRIPT)
    wrong = WrongRequestError(SCRIPT, "note")
    forms = {"given": given, "wrong": wrong, "backends": [(SCRIPT, [SCRIPT])]}
    made = [
        pages.render("preview.html", asked=request, preview=preview, outdated=True, **forms, **common),
        pages.render(
            "preview.html", asked=request, preview=ChangePreview(error=SCRIPT), outdated=False, **forms, **common
        ),
        pages.render("change.html", title=SCRIPT, back=SCRIPT, backends=[], given=given, error=wrong, **common),
        pages.render("error.html", title=SCRIPT, back=SCRIPT, back_title=SCRIPT, why=SCRIPT, **common),
        pages.render("run.html", run=run, said=run.said, **common),
        pages.render("state.html", view=view, current=1, may_roll_back=True, text=str, **common),
        pages.render("plan.html", spec=SCRIPT, file=SCRIPT, ended=SCRIPT, said=SCRIPT, code=2, **common),
        pages.render("sign-in.html", wrong=SCRIPT, next=SCRIPT),
        pages.fragment("change_backend", visitor, [(SCRIPT, [SCRIPT])]),
        pages.fragment("no_changes", SCRIPT),
    ]
    for page in made:
        assert SCRIPT not in page and "&lt;script&gt;" in page


def test_steps_of_gradual_changes_are_the_same_record() -> None:
    def of(*entries: Any) -> str:
        return hash_of_record(record(3, *entries))

    half = entry("ns1", gone=500, over=60.0)
    assert of(half) == of(replace(half, gone=700)) == of(replace(half, gone=1000))
    returning = entry("ns2", "health", gone=400, over=60.0, returns="2026-01-02T03:04:05+00:00")
    assert of(half, returning) == of(half, replace(returning, gone=100)) == of(half)
    step = Pending(3, "", Overlay((replace(half, gone=600),))).to_json()
    other = Pending(4, "d", Overlay((half,))).to_json()

    def begun(pending: str) -> str:
        found = record(3, half)
        return hash_of_record(replace(found, ids={**found.ids, PENDING_KEY: pending}))

    assert begun(step) == of(half), "a step that is being made is a step"
    different = {of(), of(half), of(replace(half, note="x")), of(replace(half, until="2026-01-02T03:04:05+00:00"))}
    different |= {of(entry("ns2")), of(entry("ns2", "down")), hash_of_record(record(4)), begun(other)}
    assert len(different) == 8
    with pytest.raises(SwitchError, match="is damaged"):
        begun("{}")


def test_tokens_begin_as_documented() -> None:
    assert tokens.PREFIX == "dnsteer-" and new_token("a", "read")[0].startswith("dnsteer-")
