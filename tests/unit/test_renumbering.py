# SPDX-License-Identifier: Apache-2.0
"""Tables with the numbers of another version of dnsteer, by the names that OVSDB has for them."""

from __future__ import annotations

from uuid import uuid4

from dnsteer.render.flows import Group, parse_flow
from dnsteer.switch.database import Bridge, FlowTable
from dnsteer.switch.openflow import Tables
from dnsteer.switch.table_changes import other_numbers, uses_numbers, with_own_numbers
from dnsteer.tables.order import PIPELINE

VIP, SLOT, FRAGMENT, EGRESS = (PIPELINE.tables[name].number for name in ("vip", "slot", "fragment", "egress"))


def bridge(names: dict[int, str]) -> Bridge:
    tables = {number: FlowTable(uuid4(), name) for number, name in names.items()}
    return Bridge("br-dns", {}, "", "secure", (), {}, tables)


def test_numbers_are_others_by_the_names_of_the_tables() -> None:
    there = bridge({VIP: "vip", 77: "slot", SLOT: "egress", 241: "", 78: "of somebody else"})
    assert other_numbers(there) == {77: SLOT, SLOT: EGRESS}
    assert other_numbers(bridge({VIP: "vip", SLOT: "slot"})) == {}


def test_flows_and_groups_get_the_numbers_of_this_version() -> None:
    to_slot = parse_flow(
        f"cookie=0xd453000000000001, table={VIP}, priority=1,udp actions=set_field:77->tp_dst,goto_table:77"
    )
    slot = parse_flow("cookie=0xd453000000000001, table=77, priority=1,udp actions=ct(commit,table=78,zone=1)")
    standby = parse_flow("cookie=0xd454000000000000, table=0, priority=1,arp actions=goto_table:77")
    group = Group(7, "group_id=7,type=select,bucket=bucket_id:0,actions=resubmit(,77)")
    line = f"cookie=0xd453000000000002, table={VIP}, priority=0 actions=drop"
    there = Tables(
        {line}, {flow.key: flow for flow in (to_slot, slot)}, {7: group}, {standby.key: standby}, flags={slot.key: "x"}
    )
    numbers = {77: SLOT, 78: FRAGMENT}
    assert uses_numbers(there.flows.values(), numbers) and not uses_numbers([to_slot], numbers)
    here = with_own_numbers(there, numbers)
    assert sorted(flow.line() for flow in here.all_flows().values()) == sorted(
        [
            f"cookie=0xd453000000000001, table={VIP}, priority=1,udp actions=set_field:77->tp_dst,goto_table:{SLOT}",
            f"cookie=0xd453000000000001, table={SLOT}, priority=1,udp actions=ct(commit,table={FRAGMENT},zone=1)",
            line,
        ]
    )
    assert [flow.actions for flow in here.standby.values()] == [f"goto_table:{SLOT}"]
    assert here.groups[7].text.endswith(f"resubmit(,{SLOT})")
    assert here.flags == {(SLOT, 1, "udp"): "x"}
