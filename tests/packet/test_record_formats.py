# SPDX-License-Identifier: Apache-2.0
"""A record in a format that this version does not know: every verb that changes refuses it, and those that show go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from dnsteer import __version__
from tests.packet.command import FARM, nothing_changes, on, spec_file, state_rows
from tests.packet.switches import BRIDGE, Switch

_NEWER = "2 0.2.0"
_ADVICE = {
    _NEWER: "upgrade dnsteer on this machine and restart its agent, or use dnsteer 0.2.0.",
    "0 0.0.9": "use dnsteer 0.0.9 for this switch, or upgrade first to a version that knows both formats.",
}
_CHANGING: list[tuple[str, ...]] = [
    ("apply", "SPEC", "--yes"),
    ("apply", "CHANGED", "--yes"),
    ("plan", "CHANGED"),
    ("drain", "farm/ns3", "--yes"),
    ("drain", "farm/ns3", "--dry-run"),
    ("undrain", "farm/ns1"),
    ("down", "farm/ns2", "--yes"),
    ("weight", "farm/ns2", "3", "--yes"),
    ("rollback", "--yes"),
    ("rollback", "1", "--yes"),
    ("restore",),
    ("reconcile",),
]


def _set_format(switch: Switch, text: str) -> None:
    switch.vsctl("set", "Bridge", BRIDGE, f'external_ids:dnsteer-format="{text}"')


def _format(switch: Switch) -> str:
    return switch.vsctl("--if-exists", "get", "Bridge", BRIDGE, "external_ids:dnsteer-format").strip().strip('"')


def _said(text: str) -> str:
    number, version = text.split()
    return (
        f"the record of bridge br-dns has format {number}, written by dnsteer {version}, and this is dnsteer {__version__}, "
        f"which knows format 1: {_ADVICE[text]}"
    )


@pytest.mark.parametrize("text", _ADVICE)
def test_verbs_that_change_refuse_a_record_of_another_format(drained: Switch, tmp_path: Path, text: str) -> None:
    spec, changed = spec_file(tmp_path), tmp_path / "changed.yaml"
    changed.write_text(FARM.replace("weight: 2", "weight: 5"))
    _set_format(drained, text)
    words = {"SPEC": spec, "CHANGED": changed}
    with nothing_changes(drained):
        for verb in _CHANGING:
            done = on(drained)(*(words.get(word, word) for word in verb))
            assert (done.code, done.out) == (1, ""), verb
            assert _said(text) in done.err, verb


def test_a_plan_file_is_refused_where_the_record_has_another_format_since(drained: Switch, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert on(drained)("plan", spec_file(tmp_path), "-o", plan).code == 0
    _set_format(drained, _NEWER)
    with nothing_changes(drained):
        done = on(drained)("apply", "--plan", plan, "--yes")
    assert (done.code, _said(_NEWER) in done.err) == (1, True)


@pytest.mark.parametrize("text", _ADVICE)
def test_status_shows_what_can_be_read_and_says_why_not_the_rest(drained: Switch, text: str) -> None:
    _set_format(drained, text)
    found = on(drained)("status", "--no-rates", "--json")
    assert (found.code, found.json["errors"]) == (1, [f"{_said(text)} Until then forwarding stays as it is; dnsteer status "
                                                      "and history show what can be read"])  # fmt: skip
    assert (found.json["state"]["state"], len(found.json["vips"]), found.json["tables"]) == (2, 2, None)
    assert not [one for one in found.json["warnings"] if "format" in one]
    people = on(drained)("status", "--no-rates")
    assert people.out.count("has format") == 1
    assert on(drained)("history", "--json").json["current"] == 2
    assert on(drained)("show", "current").out == FARM


def test_a_state_of_another_format_is_named_and_the_others_are_shown(drained: Switch, tmp_path: Path) -> None:
    row = state_rows(drained)["2"]
    drained.vsctl("set", "Flow_Table", row, "external_ids:format=2", "external_ids:dnsteer-version=0.2.0")
    people = on(drained)("history")
    assert (
        f"not readable: state 2 in the record (Flow_Table {row} in OVSDB) has format 2, written by dnsteer 0.2.0"
        in people.out
    )
    assert [one.get("state") for one in on(drained)("history", "--json").json["states"]] == [None, 1]
    assert on(drained)("show", "1").code == 0
    assert "state    2, applied with dnsteer" in on(drained)("status", "--no-rates").out
    with nothing_changes(drained):
        for verb in (("apply", spec_file(tmp_path), "--yes"), ("drain", "farm/ns3", "--yes"), ("rollback", "--yes")):
            done = on(drained)(*verb)
            assert (done.code, "state 2 in the record" in done.err) == (1, True), verb


def test_a_record_without_a_format_is_read_and_gets_one(drained: Switch) -> None:
    """As a switch has it that was applied to before there was a format: rows of states and the bridge say none."""
    assert _format(drained) == f"1 {__version__}"
    drained.vsctl("remove", "Bridge", BRIDGE, "external_ids", "dnsteer-format")
    assert on(drained)("status", "--no-rates", "--json").json["errors"] == []
    assert _format(drained) == ""
    assert on(drained)("undrain", "farm/ns1").code == 0
    assert _format(drained) == f"1 {__version__}"


def test_what_another_version_captures_is_left_alone(drained: Switch) -> None:
    """Its note may be another one: what this version cannot read it would take for a capture that has hung."""
    _set_format(drained, _NEWER)
    drained.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-capture=another-note")
    with nothing_changes(drained):
        done = on(drained)("reconcile")
    assert (done.code, done.err.count(_said(_NEWER))) == (1, 1)


def test_the_role_changes_whatever_the_format_is(drained: Switch) -> None:
    """A standby must be able to take over while dnsteer is upgraded."""
    _set_format(drained, _NEWER)
    assert on(drained)("role", "standby").code == 0
    assert on(drained)("role").out.startswith("br-dns: standby")
    done = on(drained)("role", "active")
    assert done.code == 0, done.err
    assert on(drained)("role").out.startswith("br-dns: active")
    assert _format(drained) == _NEWER
    on(drained)("role", "none")


def test_a_switch_that_could_not_be_restored_does_not_wait_for_it(drained: Switch) -> None:
    _set_format(drained, _NEWER)
    with nothing_changes(drained):
        done = on(drained)("restore", "--arm")
    assert (done.code, done.out.startswith(f"br-dns: skipped: {_said(_NEWER)}")) == (0, True)
    drained.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
    assert on(drained)("restore").code == 1
    assert "flow-restore-wait" not in drained.vsctl("get", "Open_vSwitch", ".", "other_config")
