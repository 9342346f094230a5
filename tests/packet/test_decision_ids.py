# SPDX-License-Identifier: Apache-2.0
"""One fault of a real agent is found by one id in its log, the record, status, metrics and console; and lines stay lines."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dnsteer.events.event import COMMON, KINDS
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import SLOW, fresh, on, spec_file
from tests.packet.maintenance_specs import make_overdue
from tests.packet.scraping import OPENMETRICS, get
from tests.packet.switches import BRIDGE, LARGE, VIP_TABLE, Switch
from tests.unit.test_events import read_journal, read_logfmt

EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]
SERVED = ("--console", "127.0.0.1:0", "--log", "json")
HOSTILE = 'late\x1b[31m "quoted" a=b \\'
FIELDS = {kind.name: {*COMMON, *kind.fields} for kind in KINDS}
Line = dict[str, Any]


def hostile_spec(folder: Path) -> str:
    """LARGE with a check of the pool `direct` that says HOSTILE where there is no file of the backend's name."""
    (folder / "hostile").write_text(
        f"#!/bin/sh\ntest -e {folder}/$1 && exit 0\nprintf '%b' '{_printf(HOSTILE)}'\nexit 1\n"
    )
    (folder / "hostile").chmod(0o755)
    for name in "ac":
        (folder / name).touch()
    command = f"[{folder}/hostile, '{{backend}}']"
    check = f"{{check: command, command: {command}, interval: 1s, timeout: 990ms, fall: 1, rise: 1}}"
    return LARGE.replace(
        "  direct:\n    slots: 32\n", f"  direct:\n    slots: 32\n    health: {check}\n    hold_max: 1s\n"
    )


def _printf(text: str) -> str:
    return text.replace("\\", "\\\\\\\\").replace("\x1b", "\\033")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def served(shared: Switch, folder: Path) -> Iterator[Agent]:
    """An agent that logs JSON and serves metrics and the console. At its end all of its lines are looked at."""
    fresh(shared)
    assert on(shared)("apply", spec_file(folder, hostile_spec(folder)), "--yes").code == 0
    with agent(shared, folder, "pools with health checks", "agent", *SERVED) as running:
        running.waits_for("console at http")
        yield running
    lines = events(running)
    assert lines[-1]["event"] == "ends"
    for line in lines:
        assert set(line) <= FIELDS[line["event"]], line
        assert set(COMMON) - {"bridge"} <= set(line)


def events(running: Agent, name: str = "", **fields: object) -> list[Line]:
    """What it has said: every line is an object."""
    text = running.said()
    whole = text[: text.rfind("\n") + 1].splitlines()
    found: list[Line] = [json.loads(line) for line in whole]
    return [line for line in found if name in ("", line["event"]) and all(line.get(k) == v for k, v in fields.items())]


def wait_for(running: Agent, name: str, n: int = 1, **fields: object) -> Line:
    """Wait for the event number *n* of a kind, from 1."""
    wait(lambda: len(events(running, name, **fields)) >= n, lambda: f"no {name} {fields}: {running.said()}")
    return events(running, name, **fields)[n - 1]


def page(running: Agent, path: str, accept: str = "") -> str:
    """A page of its console, or /metrics."""
    (at,) = re.findall(r"console at (http://\S+)/\"", running.said())
    return get(f"{at}{path}", accept)[0]


def exemplars(running: Agent) -> dict[str, set[str]]:
    """The names of the histograms that have each decision as an exemplar."""
    found: dict[str, set[str]] = {}
    for name, decision in re.findall(
        r"^(\w+)_bucket\{.* # \{decision=\"(\w+)\"\}", page(running, "/metrics", OPENMETRICS), re.M
    ):
        found.setdefault(decision, set()).add(name)
    return found


def test_one_fault_has_one_id_everywhere(served: Agent, shared: Switch, folder: Path) -> None:
    (folder / "c").unlink()
    try:
        out = wait_for(served, "decision", action="out", backend="c")
        id = out["decision"]
        effect = wait_for(served, "effect", decision=id)
        check = wait_for(served, "check", decision=id, to="unhealthy")
        assert (check["pool"], check["backend"], check["check"]) == ("direct", "c", "command")
        assert out["reason"] in {line["reason"] for line in events(served, "check", decision=id)}
        assert "late" in out["reason"]
        assert 0 < effect["duration_s"] < 10 and effect["moved"] == 16
        assert check["time"] <= out["time"] <= effect["time"]
        assert [line["moved"] for line in events(served, "moved", decision=id)] == [16]
        assert id in shared.vsctl("get", "Bridge", BRIDGE, "external_ids:dnsteer-decisions")
        status = on(shared)("status", "--json", "--no-rates").json
        assert [a["decision"] for a in status["overlay"]] == [id]
        assert [b["decision"] for p in status["pools"] for b in p["backends"] if b["state"] == "unhealthy"] == [id]
        with pytest.MonkeyPatch().context() as patch:
            patch.setenv("COLUMNS", "200")  # the column is there where there is room
            assert id in on(shared)("status", "--no-rates").out
        effect_of = "dnsteer_agent_effect_duration_seconds"
        wait(lambda: effect_of in exemplars(served).get(id, set()), lambda: str(exemplars(served)))
        # A backend has a target for each address. One that turns later is told by an id of its own, and changes nothing.
        turned = {line["decision"] for line in events(served, "check", backend="c", to="unhealthy")}
        found = {name for decision, names in exemplars(served).items() if decision in turned for name in names}
        assert found == {effect_of, "dnsteer_check_duration_seconds", "dnsteer_agent_decision_wait_seconds"}
        assert "decision=" not in page(served, "/metrics")  # the classic format has none
        wait(lambda: id in page(served, "/"), lambda: page(served, "/"))
        assert page(served, "/changes").count(id) == 2  # in force, and as a change
    finally:
        (folder / "c").touch()
    back = wait_for(served, "decision", action="back", backend="c")
    assert back["decision"] > id  # they sort by time
    assert events(served, "check", decision=back["decision"], to="healthy")
    wait(lambda: back["decision"] in page(served, "/changes"), lambda: page(served, "/changes"))
    assert shared.vsctl("--if-exists", "get", "Bridge", BRIDGE, "external_ids:dnsteer-decisions").strip() == ""


def test_a_panic_and_a_repair_have_ids(served: Agent, shared: Switch, folder: Path) -> None:
    for name in "ac":
        (folder / name).unlink()
    try:
        panic = wait_for(served, "panic")
        assert panic["level"] == "error" and set(panic["backends"]) == {"a", "c"}
        wait(lambda: panic["decision"] in page(served, "/"), lambda: page(served, "/"))
    finally:
        for name in "ac":
            (folder / name).touch()
    over = wait_for(served, "panic_over")
    assert over["decision"] > panic["decision"]
    shared.ofctl("del-flows", f"{VIP_TABLE},udp,nw_dst=198.51.100.54")
    repaired = wait_for(served, "repaired")
    assert "198.51.100.54" in repaired["difference"]
    wait(
        lambda: "dnsteer_agent_look_duration_seconds" in exemplars(served).get(repaired["decision"], set()),
        lambda: str(exemplars(served)),
    )


def nobody_is_out(switch: Switch) -> None:
    """Wait until the backends that failed before are back."""
    wait(lambda: on(switch)("status", "--json", "--no-rates").json["overlay"] == [], lambda: on(switch)("status").out)


def test_a_drain_by_a_person_is_found_too(served: Agent, shared: Switch) -> None:
    nobody_is_out(shared)
    assert on(shared)("drain", "hashed/a", "--note", "a disk", "--yes").code == 0
    asked = wait_for(served, "verb", verb="drain")
    assert asked["by"].endswith(f"@{socket.gethostname()}") and "hashed/a" in asked["arguments"]
    (entry,) = on(shared)("status", "--json", "--no-rates").json["overlay"]
    assert entry["decision"] == asked["decision"]
    ended = wait_for(served, "verb_ended", decision=asked["decision"])
    assert ended["exit"] == 0 and ended["duration_s"] > 0
    tables = shared.tables()
    assert on(shared)("drain", "hashed/a", "--yes").code == 0  # nothing to do, so it keeps the first one
    (again,) = on(shared)("status", "--json", "--no-rates").json["overlay"]
    assert again["decision"] == entry["decision"]
    assert shared.tables() == tables
    assert on(shared)("undrain", "hashed/a").code == 0
    undrained = wait_for(served, "verb", verb="undrain")["decision"]
    wait(lambda: undrained in page(served, "/changes"), lambda: page(served, "/changes"))


def test_expired_maintenance_ends_by_a_decision(served: Agent, shared: Switch) -> None:
    nobody_is_out(shared)
    assert on(shared)("drain", "hashed/b", "--for", "2h", "--yes").code == 0
    make_overdue(shared)
    ended = wait_for(served, "decision", action="ended", backend="b")
    assert ended["kind"] == "drain"
    assert wait_for(served, "effect", decision=ended["decision"])["moved"] == 8
    wait(lambda: ended["decision"] in page(served, "/changes"), lambda: page(served, "/changes"))


def test_an_apply_has_a_decision_id_in_the_history(served: Agent, shared: Switch, folder: Path) -> None:
    other = folder / "other.yaml"
    other.write_text(hostile_spec(folder).replace("interval: 1s", "interval: 1010ms"))
    for spec in (other, other):  # the second one changes nothing
        assert on(shared)("apply", spec, "--yes").code == 0
    states = on(shared)("history", "--json").json["states"]
    applied = events(served, "verb", verb="apply")
    assert len(applied) == 2
    # A verb that reads files passes on the arguments of this process; the id is the agent's all the same.
    assert states[0]["decision"] == applied[0]["decision"]
    assert applied[0]["decision"] in on(shared)("history").out


def test_requests_cannot_forge_log_lines(served: Agent, shared: Switch) -> None:
    by, word = 'eve"}\n{"event": "effect"}\r\x1b[2J', 'x\n{"event": "ends"}'
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(shared.dir / "dnsteer" / f"{BRIDGE}.sock"))
        client.sendall(json.dumps({"v": 1, "argv": ["drain", word], "by": by}).encode() + b"\n")
        while client.recv(1 << 16):
            pass
    asked = wait_for(served, "verb", by=by)
    assert word in asked["arguments"]
    assert wait_for(served, "verb_ended", decision=asked["decision"])["exit"] != 0


def test_events_are_written_as_logfmt_and_to_the_journal(
    switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The life of an agent whose standard error is the journal: fields by the native protocol, no line on the stream."""
    assert on(switch)("apply", spec_file(tmp_path, hostile_spec(tmp_path)), "--yes").code == 0
    log = tmp_path / "logfmt.log"
    log.touch()
    monkeypatch.setenv("JOURNAL_STREAM", f"{log.stat().st_dev}:{log.stat().st_ino}")
    monkeypatch.setenv("DNSTEER_JOURNAL", str(tmp_path / "journal"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        journal.settimeout(15)
        running = Agent(switch, log, "--log", "logfmt")
        found: list[dict[str, bytes]] = []

        def until(kind: bytes) -> dict[str, bytes]:
            while not found or found[-1]["DNSTEER_EVENT"] != kind:
                found.append(read_journal(journal.recv(1 << 17)))
            return found[-1]

        try:
            until(b"listens")
            (tmp_path / "a").unlink()
            check = until(b"check")
            assert check["PRIORITY"] == b"4" and b"late?[31m" in check["DNSTEER_REASON"]
            assert until(b"effect")["DNSTEER_DECISION"] == check["DNSTEER_DECISION"]
            read = read_logfmt(check["MESSAGE"].decode())
            assert (read["event"], read["backend"]) == ("check", "a")
            assert read["decision"] == check["DNSTEER_DECISION"].decode()
            assert HOSTILE.replace("\x1b", "?") in read["reason"]  # the probe has done that already
            assert running.end() == 0
            until(b"ends")
        finally:
            (tmp_path / "a").touch()
            running.end()
    assert running.said() == ""
