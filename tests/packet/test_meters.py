# SPDX-License-Identifier: Apache-2.0
"""Meters beside the bundle: there before it, gone after it, taken back where it is refused; those of others stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import preview
from dnsteer.deploy.summary import details
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.plan.build import build_plan
from dnsteer.render.meters import Meter, meters_of, parse_meters
from dnsteer.status.verify import find_drift
from dnsteer.switch import meters
from dnsteer.switch.meter_messages import MeterChange, MeterCommand
from dnsteer.switch.openflow import OpenFlow, RejectedError
from dnsteer.switch.tools import SwitchError
from tests.packet.apply_spec import apply
from tests.packet.command import on, spec_file
from tests.packet.switches import BRIDGE, SMALL, Switch, spec_of

LIMITED = SMALL.replace("pool: farm}", "pool: farm, limits: {queries: 5k/s}}")
FASTER = LIMITED.replace("5k/s", "7k/s")
FOREIGN = "meter=5,kbps,bands=type=drop,rate=77"


@pytest.fixture
def switch() -> Iterator[Switch]:
    with Switch() as private:
        private.expected = ["connection dropped", "Connection reset by peer", "Broken pipe"]
        yield private


def texts(switch: Switch) -> set[str]:
    return {meter.text for meter in parse_meters(switch.ofctl("dump-meters")).values()}


def planned(text: str) -> set[str]:
    return {meter.text for meter in meters_of(build_plan(spec_of(text)))}


def test_meters_are_added_changed_and_removed_with_the_tables(switch: Switch) -> None:
    apply(spec_of(SMALL), switch.database)
    switch.ofctl("add-meter", FOREIGN)
    assert texts(switch) == planned(SMALL) | {FOREIGN}
    summary = preview(FileSource(spec_of(LIMITED)), TargetSwitch(switch.database))
    assert [line for line in details(summary) if "meter=" in line] == [
        f"+ meter {text}" for text in planned(LIMITED) - planned(SMALL)
    ]
    for text in (LIMITED, FASTER, SMALL):
        done = apply(spec_of(text), switch.database)
        assert done.changed
        assert texts(switch) == planned(text) | {FOREIGN}
        assert [d for d in find_drift(spec_of(text), switch.database) if not d.of_others] == []
    assert apply(spec_of(SMALL), switch.database).changed is False


def test_a_meter_that_was_changed_by_hand_is_found_and_put_right(switch: Switch) -> None:
    loaded = spec_of(LIMITED)
    apply(loaded, switch.database)
    own = next(text for text in planned(LIMITED) - planned(SMALL))
    switch.ofctl("mod-meter", own.replace("rate=5000", "rate=1"))
    switch.ofctl("add-meter", "meter=2147483649,pktps,bands=type=drop,rate=9")
    found = [(d.kind, d.about) for d in find_drift(loaded, switch.database)]
    assert found == [("meter changed", "limit of VIP dns"), ("meter added", "an object that is not in the spec")]
    done = apply(loaded, switch.database)
    assert (done.flows.meters, len(done.flows)) == (2, 2)
    assert texts(switch) == planned(LIMITED)


def test_a_meter_that_was_deleted_took_its_flows_with_it(switch: Switch) -> None:
    loaded = spec_of(LIMITED)
    apply(loaded, switch.database)
    before = switch.flows()
    switch.ofctl("del-meters")
    assert {d.kind for d in find_drift(loaded, switch.database)} == {"flow missing", "meter missing"}
    apply(loaded, switch.database)
    assert (texts(switch), switch.flows()) == (planned(LIMITED), before)


def test_meters_of_a_bundle_that_is_refused_are_taken_back(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(spec_of(LIMITED), switch.database)
    before = switch.tables(), texts(switch)
    seen: list[set[str]] = []

    def refused(*_: object) -> None:
        seen.append(texts(switch))
        raise RejectedError("OFPFMFC_TABLE_FULL", "")

    two = "  two: {addresses: [192.0.2.54], services: [dns], pool: farm, limits: {queries: 9/s}}\n"
    more = FASTER.replace("vips:\n", f"vips:\n{two}")
    with monkeypatch.context() as patch:
        patch.setattr(OpenFlow, "bundle", refused)
        with pytest.raises(SwitchError, match="OFPFMFC_TABLE_FULL"):
            apply(spec_of(more), switch.database)
    assert seen == [planned(more)]  # they were there before the bundle
    assert (switch.tables(), texts(switch)) == before


def test_the_second_of_two_meters_is_refused_and_nothing_changes(
    switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(spec_of(SMALL), switch.database)
    before = switch.tables(), texts(switch)
    real = meters.change_meters

    def changed(client: OpenFlow, changes: list[MeterChange], timeout: float) -> dict[int, str]:
        if len(changes) > 1 and changes[1].command is MeterCommand.ADD:
            wrong = changes[1].meter.text.replace("type=drop", "type=dscp_remark,prec_level=1")
            changes = [changes[0], MeterChange(MeterCommand.ADD, Meter(changes[1].meter.number, wrong)), *changes[2:]]
        return real(client, changes, timeout)

    monkeypatch.setattr(meters, "change_meters", changed)
    two = LIMITED.replace("limits: {queries: 5k/s}", "limits: {queries: 5k/s, per: service}")
    with pytest.raises(SwitchError, match=r"the switch refused meter \d+: BAD_BAND.*; nothing was changed"):
        apply(spec_of(two), switch.database)
    assert (switch.tables(), texts(switch)) == before


def test_more_refusals_than_a_connection_holds_are_all_read(switch: Switch) -> None:
    """Neither side may wait for the other to read: a switch without meters refuses those of many limits of clients."""
    apply(spec_of(SMALL), switch.database)
    client = OpenFlow(f"unix:{switch.dir}/{BRIDGE}.mgmt", timeout=10)
    many = [MeterChange(MeterCommand.ADD, Meter(5, FOREIGN))] * 20_000
    refused = meters.change_meters(client, many, client.timeout)
    assert refused == dict.fromkeys(range(1, len(many)), "METER_EXISTS")


@pytest.mark.parametrize("when", ["before the bundle", "after the bundle"])
def test_what_a_killed_apply_left_is_settled(switch: Switch, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    apply(spec_of(LIMITED), switch.database)
    real = OpenFlow.bundle

    class Killed(BaseException):
        pass

    def killed(self: OpenFlow, lines: list[str]) -> None:
        if when == "after the bundle":
            real(self, lines)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(OpenFlow, "bundle", killed)
        patch.setattr("dnsteer.deploy.journal.Attempt._undo", lambda *_: None)
        with pytest.raises(Killed):
            apply(spec_of(FASTER), switch.database)
    assert texts(switch) == planned(FASTER)
    assert on(switch)("drain", "farm/ns1", "--yes").code == 0  # settles it first
    kept = LIMITED if when == "before the bundle" else FASTER
    assert texts(switch) == planned(kept)
    assert {d.kind for d in find_drift(spec_of(kept), switch.database)} <= {"record"}


def test_a_switch_that_was_started_again_gets_its_meters(switch: Switch) -> None:
    apply(spec_of(LIMITED), switch.database)
    switch.kill_switch()
    switch.start_switch()
    assert texts(switch) == set()
    assert on(switch)("restore").code == 0
    assert texts(switch) == planned(LIMITED)
    assert find_drift(spec_of(LIMITED), switch.database) == []


def test_rollback_brings_the_meters_of_the_state_before(switch: Switch, tmp_path: Path) -> None:
    for text in (SMALL, LIMITED):
        assert on(switch)("apply", spec_file(tmp_path, text), "--yes").code == 0
    assert on(switch)("rollback", "--yes").code == 0
    assert texts(switch) == planned(SMALL)
