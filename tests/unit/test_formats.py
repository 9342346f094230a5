# SPDX-License-Identifier: Apache-2.0
"""Records, the control socket and plan files of another format: newer or older, each is refused with what to do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dnsteer import __version__
from dnsteer.agent.request import MalformedRequestError, Request
from dnsteer.deploy import plan_file
from dnsteer.slots.maintenance import NO_OVERLAY
from dnsteer.switch import control_socket, state
from dnsteer.switch.agent_answer import ask_knowledge
from dnsteer.switch.control_socket import refusal_of_agent, refusal_of_client
from dnsteer.switch.other_versions import program_of
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState, BridgeRecord, DamagedError, RecordFormatError
from dnsteer.switch.tools import SwitchError
from dnsteer.switch.withdrawals import withdrawal_warnings, withdrawals_of

_REST = "Until then forwarding stays as it is; dnsteer status and history show what can be read"
_NEWER = (
    f"has format 2, written by dnsteer 0.2.0, and this is dnsteer {__version__}, which knows format 1: upgrade dnsteer "
    f"on this machine and restart its agent, or use dnsteer 0.2.0. {_REST}"
)
_OLDER = (
    f"has format 0, written by dnsteer 0.0.9, and this is dnsteer {__version__}, which knows format 1: use dnsteer 0.0.9 "
    f"for this switch, or upgrade first to a version that knows both formats. {_REST}"
)


def _record(**ids: str) -> BridgeRecord:
    keys = {"dnsteer": "bridge", "dnsteer-state": "7", **{f"dnsteer-{key}": value for key, value in ids.items()}}
    return BridgeRecord("u", "v", "br-dns", keys, {}, "s", "", False)


def _applied() -> AppliedState:
    return AppliedState("a.yaml", "x: 1\n", "d" * 64, "0.0.9", "2026-01-01T00:00:00+00:00", "me", (), {}, number=7)


# --- the record


@pytest.mark.parametrize(("text", "said"), [("2 0.2.0", _NEWER), ("0 0.0.9", _OLDER)])
def test_a_record_of_another_format_is_not_read(text: str, said: str) -> None:
    record = _record(format=text, overlay="[1]", pending="{")  # which would be damage in this format
    for read in (lambda: record.overlay, lambda: record.pending, lambda: record.marker, lambda: withdrawals_of(record)):
        with pytest.raises(RecordFormatError) as caught:
            read()
        assert str(caught.value) == f"the record of bridge br-dns {said}"
    assert (record.number, withdrawal_warnings(record, None)) == (7, [])  # type: ignore[arg-type]


def test_a_record_that_says_no_format_is_of_the_first() -> None:
    assert _record().overlay == NO_OVERLAY
    assert _record(format="1 0.1.7").pending is None


def test_a_record_without_a_format_is_too_old_for_a_version_that_knows_the_second_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "RECORD_FORMAT", 2)
    with pytest.raises(
        RecordFormatError, match=r"has format 1, written by another dnsteer, .* which knows format 2: use"
    ):
        _ = _record().overlay
    ids = {key: value for key, value in _applied().to_ids().items() if key != "format"}
    with pytest.raises(RecordFormatError, match=r"has format 1, written by dnsteer 0\.0\.9"):
        AppliedState.from_ids(ids, "state 7")


@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", "1" * 20, "two 0.2.0"])
def test_a_format_that_is_no_number_is_damage(text: str) -> None:
    with pytest.raises(
        DamagedError, match="external_ids:dnsteer-format of bridge br-dns in OVSDB is damaged"
    ) as caught:
        _ = _record(format=text).overlay
    assert not isinstance(caught.value, RecordFormatError)


@pytest.mark.parametrize(("format_", "said"), [("2", _NEWER.replace("0.2.0", "0.0.9")), ("0", _OLDER)])
def test_a_state_of_another_format_is_not_read(format_: str, said: str) -> None:
    ids = {**_applied().to_ids(), "format": format_, "members": "packed otherwise"}  # nor is its checksum
    with pytest.raises(RecordFormatError) as caught:
        AppliedState.from_ids(ids, "state 7 in the record")
    assert (str(caught.value), caught.value.number) == (f"state 7 in the record {said}", 7)


def test_a_state_that_was_recorded_before_there_was_a_format_is_read() -> None:
    ids = _applied().to_ids()
    assert ids["format"] == "1"
    before = {key: value for key, value in ids.items() if key not in ("format", "sum")}
    before["sum"] = state._sum(before)
    assert AppliedState.from_ids(before, "state 7") == AppliedState.from_ids(ids, "state 7") == _applied()


def test_nothing_is_written_into_a_record_of_another_format() -> None:
    session = Session.__new__(Session)  # one that would fail where it wrote
    for write in (
        lambda record: session.begin(record, _applied(), NO_OVERLAY),
        lambda record: session.commit(record, state.Pending(7, "d", NO_OVERLAY)),
        lambda record: session.put_overlay(record, NO_OVERLAY),
        lambda record: session.take_back(record),
    ):
        with pytest.raises(RecordFormatError):
            write(_record(format="2 0.2.0"))


def test_a_program_is_named_only_by_what_is_a_version() -> None:
    assert program_of("0.2.0rc1") == "dnsteer 0.2.0rc1"
    assert {program_of(value) for value in ("", None, 2, "\x1b[31m", "1; rm -rf /", "x" * 50)} == {"another dnsteer"}


# --- the control socket

_RESTART = "restart the agent, so that it is the version that is installed: systemctl restart dnsteer-agent"


def test_an_agent_that_speaks_another_version_is_not_asked() -> None:
    assert refusal_of_agent({"v": 2, "version": "0.2.0"}) == (
        "the agent is dnsteer 0.2.0 and speaks version 2 at its control socket, and the client is "
        f"dnsteer {__version__} and speaks version 1: use dnsteer 0.2.0 here, or upgrade to it"
    )
    assert refusal_of_agent({"v": 0, "version": "0.0.9"}) == (
        "the agent is dnsteer 0.0.9 and speaks version 0 at its control socket, and the client is "
        f"dnsteer {__version__} and speaks version 1: {_RESTART}"
    )
    assert refusal_of_agent({"v": 1, "version": "99"}) == refusal_of_client({"v": 1}) == ""
    assert refusal_of_agent({}) == "found an agent that speaks version 'None'; expected 1"


@pytest.mark.parametrize(
    ("spoken", "program", "advice"),
    [(2, "0.2.0", _RESTART), (0, "0.0.9", f"use dnsteer {__version__} here, or upgrade to it")],
)
def test_a_client_that_speaks_another_version_gets_no_verb_done(spoken: int, program: str, advice: str) -> None:
    line = json.dumps({"v": spoken, "version": program, "argv": ["drain", "a/b"]}).encode()
    with pytest.raises(MalformedRequestError) as caught:
        Request.parse(line)
    assert str(caught.value) == (
        f"the agent is dnsteer {__version__} and speaks version 1 at its control socket, and the client is "
        f"dnsteer {program} and speaks version {spoken}: {advice}"
    )


@contextmanager
def _agent_that_greets(folder: Path, greeting: dict[str, object]) -> Iterator[list[bytes]]:
    """An agent at the socket of br-dns, and what it is asked."""
    asked: list[bytes] = []
    path = control_socket.socket_of(f"unix:{folder}/db.sock", "br-dns")
    assert path is not None
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(json.dumps(greeting).encode() + b"\n")
                asked.append(client.recv(1 << 16))
                if asked[0]:
                    client.sendall(b'{"knows": {"state": 3}}\n')

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()


@pytest.mark.parametrize("spoken", [0, 2])
def test_what_an_agent_of_another_version_knows_is_not_asked(tmp_path: Path, spoken: int) -> None:
    with _agent_that_greets(tmp_path, {"v": spoken, "version": "0.2.0"}) as asked:
        answer = ask_knowledge(f"unix:{tmp_path}/db.sock", "br-dns")
    assert (answer.value, answer.connected, asked) == (None, False, [b""])
    assert answer.why == refusal_of_agent({"v": spoken, "version": "0.2.0"})


def test_an_agent_of_another_version_that_speaks_the_same_is_asked(tmp_path: Path) -> None:
    with _agent_that_greets(tmp_path, {"v": 1, "version": "0.2.0"}) as asked:
        answer = ask_knowledge(f"unix:{tmp_path}/db.sock", "br-dns")
    assert answer.value == {"state": 3}
    assert json.loads(asked[0]) == {"v": 1, "version": __version__, "tell": "knowledge"}


# --- plan files


@pytest.mark.parametrize(
    ("format_", "version", "said"),
    [
        (
            2,
            "0.2.0",
            "made by dnsteer 0.2.0, {this}: nothing was changed; upgrade dnsteer on this machine, and apply it then",
        ),
        (0, "0.0.9", "made by dnsteer 0.0.9, {this}: nothing was changed; apply it with dnsteer 0.0.9"),
        (
            2,
            "\x1b[2J",
            "made by another dnsteer, {this}: nothing was changed; upgrade dnsteer on this machine, and apply it",
        ),
    ],
)
def test_a_plan_file_of_another_format_is_refused(tmp_path: Path, format_: int, version: str, said: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"format": f"dnsteer plan {format_}", "version": version}))
    with pytest.raises(SwitchError) as caught:
        plan_file.read(file)
    this = f"and this is dnsteer {__version__}, which knows format 1"
    assert str(caught.value).startswith(f"{file}: has format {format_}, {said.format(this=this)}")
    assert str(caught.value).endswith(", or make a new plan with: dnsteer plan")


@pytest.mark.parametrize("value", ["dnsteer plan", "dnsteer plan x", "dnsteer plan -1", "other plan 1", 1, None, []])
def test_what_names_no_format_is_no_plan_file(tmp_path: Path, value: object) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"format": value}))
    with pytest.raises(
        SwitchError, match=r"found format .*, expected 'dnsteer plan 1'; make one with: dnsteer plan SPEC"
    ):
        plan_file.read(file)
