# SPDX-License-Identifier: Apache-2.0
"""Records damaged by hand: never a traceback, always a word on what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli.output import Exit
from dnsteer.switch.rpc import Rpc
from tests.packet.command import fresh, on, spec_file, state_rows
from tests.packet.switches import BRIDGE, Switch

EXPECTED = ["Broken pipe", "Connection reset", "flow_limit", "table is full", "OFPFMFC_TABLE_FULL", "OFPBFC"]


GOOD = {"pool": "farm", "backend": "ns1", "kind": "drain", "since": "2030-01-01T00:00:00+00:00", "by": "x"}
GARBAGE = ["garbage", "{}", "[]", "[1]", "null", "-1", "0", "\u00b2", "1" * 30, "{", " ", "x" * 70000]
EVERY = {
    "dnsteer-state": [*GARBAGE, "99", "1e3"],
    "dnsteer-spec": GARBAGE[:4],
    "dnsteer-version": GARBAGE[:4],
    "dnsteer-applied": GARBAGE[:4],
    "dnsteer-overlay": [
        *GARBAGE,
        json.dumps([GOOD, GOOD]),
        json.dumps([{**GOOD, "backend": "none"}]),
        json.dumps([{**GOOD, "gone": 5}]),
        json.dumps([{**GOOD, "until": "0001-01-01T00:00:00+14:00"}]),
    ],
    "dnsteer-pending": [
        *GARBAGE,
        '{"state": 1}',
        '{"state": 7, "digest": "x", "overlay": []}',
        '{"state": -3, "digest": "x", "overlay": []}',
        '{"state": 2, "digest": "x", "overlay": [1]}',
        '{"state": true, "digest": "x", "overlay": []}',
    ],
    "dnsteer": ["garbage", "port"],
}
VERBS: list[tuple[str, ...]] = [
    ("history",),
    ("history", "--json"),
    ("show", "current"),
    ("plan", "SPEC"),
    ("reconcile",),
    ("status", "--interval", "0.5s"),
    ("report", "-o", "-", "--interval", "0.5s"),
    ("verify", "SPEC"),
    ("drain", "farm/ns3", "--dry-run"),
    ("rollback", "--yes", "--dry-run"),
    ("restore", "--dry-run"),
]
CHANGING: list[tuple[str, ...]] = [
    ("drain", "farm/ns3", "--yes"),
    ("undrain", "farm/ns1"),
    ("rollback", "--yes"),
    ("restore",),
]


class Ids:
    """external_ids of a row, to be damaged and put back as they were."""

    def __init__(self, switch: Switch, table: str, row: str) -> None:
        self.switch, self.table, self.row = switch, table, row
        self.value = self._now()

    def _transact(self, op: dict[str, Any]) -> Any:
        with closing(Rpc(self.switch.database, "the database", 10)) as database:
            sent = ["Open_vSwitch", {"where": self._where(), "table": self.table, **op}]
            (result,) = database.call("transact", sent, 10)
        assert "error" not in result, result
        return result

    def _where(self) -> list[Any]:
        return [["_uuid", "==", ["uuid", self.row]]] if self.table == "Flow_Table" else [["name", "==", self.row]]

    def _now(self) -> dict[str, str]:
        result = self._transact({"op": "select", "columns": ["external_ids"]})
        return dict(result["rows"][0]["external_ids"][1])

    def write(self, ids: dict[str, str]) -> None:
        result = self._transact({"op": "update", "row": {"external_ids": ["map", [[k, v] for k, v in ids.items()]]}})
        assert result == {"count": 1}

    @contextmanager
    def damaged(self, key: str, value: str | None) -> Iterator[None]:
        """With the key damaged, or taken away; then all as it was, if the row is still there."""
        self.write({k: v for k, v in {**self.value, key: value}.items() if v is not None})
        yield


def check(switch: Switch, verb: tuple[str, ...], spec: Path, what: str) -> None:
    """A verb works, or says clearly what is wrong."""
    try:
        done = on(switch)(*(str(spec) if word == "SPEC" else word for word in verb))
    except Exception as err:
        raise AssertionError(f"{what}: {verb}: {type(err).__name__}: {str(err)[:200]}") from err
    assert done.code in (0, Exit.ERROR, Exit.DIFFERENT), (what, verb, done)
    if done.code == Exit.ERROR:
        assert "dnsteer: " in done.err or "error" in done.err + done.out, (what, verb, done)


def mended(switch: Switch, spec: Path, what: str) -> None:
    """`apply SPEC` makes all well."""
    try:
        done = on(switch)("apply", spec, "--yes")
    except Exception as err:
        raise AssertionError(f"{what}: apply: {type(err).__name__}: {str(err)[:200]}") from err
    assert done.code == 0, (what, done.err[:300])
    assert on(switch)("verify", spec).code == 0, what
    assert on(switch)("history", "--json").json["current"] > 0, what


def snapshot(switch: Switch) -> Ids:
    return Ids(switch, "Bridge", BRIDGE)


@pytest.mark.parametrize("key", EVERY)
def test_a_bridge_record_that_is_damaged_never_makes_a_traceback(drained: Switch, tmp_path: Path, key: str) -> None:
    """All verbs that read, with each damage; then one of those that change."""
    ids, spec = snapshot(drained), spec_file(tmp_path)
    failed = []
    for n, value in enumerate([None, *EVERY[key]]):
        what = f"{key}={str(value)[:40]!r}"
        for verb in (VERBS[n % len(VERBS)], CHANGING[n % len(CHANGING)]):
            with ids.damaged(key, value):
                try:
                    check(drained, verb, spec, what)
                except AssertionError as err:
                    failed.append(str(err).splitlines()[0])
    ids.write(ids.value)
    assert failed == []


LONG, DEEP = "9" * 5000, "[" * 100_000


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dnsteer-state", LONG),
        ("dnsteer-state", DEEP),
        ("dnsteer-overlay", LONG),
        ("dnsteer-overlay", DEEP),
        ("dnsteer-pending", LONG),
        ("dnsteer-pending", DEEP),
    ],
    ids=lambda value: value[:15],
)
def test_records_that_break_parsers_are_named(drained: Switch, tmp_path: Path, key: str, value: str) -> None:
    ids, spec = snapshot(drained), spec_file(tmp_path)
    failed = []
    for verb in (("history",), ("plan", "SPEC"), ("drain", "farm/ns3", "--yes"), ("restore",)):
        with ids.damaged(key, value):
            try:
                check(drained, verb, spec, f"{key}={value[:20]}")
            except AssertionError as err:
                failed.append(str(err).splitlines()[0])
    assert failed == []


# What is out is never guessed: a damaged overlay, pending change or number is taken away by hand, as the message says.
@pytest.mark.parametrize("key", ["dnsteer-spec", "dnsteer-version", "dnsteer-applied"])
def test_apply_mends_a_damaged_bridge_record(drained: Switch, tmp_path: Path, key: str) -> None:
    spec = spec_file(tmp_path)
    failed = []
    for value in (None, "garbage", "[1]"):
        with snapshot(drained).damaged(key, value):
            try:
                mended(drained, spec, f"{key}={str(value)[:40]!r}")
            except AssertionError as err:
                failed.append(str(err).splitlines()[0])
                fresh(drained)
                assert on(drained)("apply", spec, "--yes").code == 0
    assert failed == []


def test_the_advice_about_a_damaged_overlay_works(drained: Switch, tmp_path: Path) -> None:
    for key in ("dnsteer-overlay", "dnsteer-pending", "dnsteer-state"):
        with snapshot(drained).damaged(key, "garbage"):
            done = on(drained)("drain", "farm/ns3")
            assert done.code == Exit.ERROR
            advice = f"ovs-vsctl remove bridge {BRIDGE} external_ids {key}"
            assert advice in done.err
            drained.vsctl(*advice.split()[1:])
            mended(drained, spec_file(tmp_path), key)


def test_damaged_states_never_make_a_traceback_and_apply_mends_them(drained: Switch, tmp_path: Path) -> None:
    spec, failed = spec_file(tmp_path), []
    ids = Ids(drained, "Flow_Table", state_rows(drained)["2"])
    assert len(ids.value) >= 9
    for n, key in enumerate(ids.value):
        values = [None, "", "garbage", ids.value[key][:-3], "x" + ids.value[key]]
        for m, value in enumerate(values):
            what = f"{key}={str(value)[:40]!r}"
            for verb in (VERBS[(n + m) % len(VERBS)], CHANGING[(n + m) % 2], ("history", "--json")):
                with ids.damaged(key, value):
                    try:
                        check(drained, verb, spec, what)
                    except AssertionError as err:
                        failed.append(str(err).splitlines()[0])
    assert failed == []
    with ids.damaged("spec", "garbage"):
        done = on(drained)("drain", "farm/ns3", "--yes")
        assert done.code == Exit.ERROR
        assert "damaged" in done.err
        mended(drained, spec, "spec")
        assert "damaged" in on(drained)("history").out
        assert [s["state"] for s in on(drained)("history", "--json").json["states"] if "state" in s] == [3, 1]
        assert on(drained)("drain", "farm/ns3", "--yes").code == 0


@pytest.mark.parametrize(
    "value",
    [
        "\u00b2",
        "-2",
        "2.0",
        "  2",
    ],
)
def test_damaged_state_numbers_are_named(drained: Switch, tmp_path: Path, value: str) -> None:
    ids = Ids(drained, "Flow_Table", state_rows(drained)["1"])
    with ids.damaged("dnsteer-state", value):
        for verb in (("history",), ("rollback", "--yes", "--dry-run"), ("status", "--interval", "0.5s")):
            check(drained, verb, spec_file(tmp_path), value)
        mended(drained, spec_file(tmp_path), value)


def test_missing_states_are_named(drained: Switch, tmp_path: Path) -> None:
    spec = spec_file(tmp_path)
    drained.vsctl("clear", "Bridge", BRIDGE, "flow_tables")
    for verb in (*VERBS, *CHANGING):
        check(drained, verb, spec, "no flow_tables")
    mended(drained, spec, "no flow_tables")
    assert on(drained)("drain", "farm/ns3", "--yes").code == 0
