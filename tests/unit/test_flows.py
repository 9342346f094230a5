# SPDX-License-Identifier: Apache-2.0
"""Datapath flows as typed data: dumps of every flavor, odd lines, and that nothing makes the reader raise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ovs.flow.kv import KVDecoders

from dnsteer.offload import datapath_flow
from dnsteer.offload.datapath_flow import MAX_LINE, DatapathFlow, Unreadable, read_flow, read_flows
from dnsteer.offload.judge import OffloadContext, judge
from dnsteer.offload.profile import profile
from dnsteer.switch.masks import mask_of_match
from dnsteer.switch.megaflows import masks, read_megaflow, read_megaflows

DUMPS = Path(__file__).parents[1] / "offload_dumps"
FLAVORS = {"doca.txt": "ovs-doca-2", "dpdk.txt": "ovs-dpdk", "tc.txt": "ovs-kernel", "userspace.txt": "ovs-netdev"}
LINES = [line for name in FLAVORS for line in (DUMPS / name).read_text().splitlines()]


def flow(line: str) -> DatapathFlow:
    found = read_flow(line)
    assert isinstance(found, DatapathFlow), found
    return found


def dump(name: str) -> list[DatapathFlow]:
    found = list(read_flows((DUMPS / name).read_text()))
    assert not [f for f in found if isinstance(f, Unreadable)]
    return [f for f in found if isinstance(f, DatapathFlow)]


@pytest.mark.parametrize("name", FLAVORS)
def test_dumps_say_what_the_profiles_predict(name: str) -> None:
    """Dumps in the formats of NVIDIA's and upstream tests; what they say of offload is what the judge says."""
    context = OffloadContext(port_kinds={"br-dns": "internal"})
    for found in dump(name):
        judgement = judge(found, profile(FLAVORS[name]), context)
        allowed = {"yes": ("yes",), "partial": ("partial", "no"), "no": ("no",), "": ("no",)}[found.offloaded]
        if found.ufid:  # without -m a dump says nothing of offload
            assert judgement.verdict in allowed, f"{found.text}: {judgement.why_software}"


def test_a_flow_of_the_userspace_datapath_in_full() -> None:
    found = flow(
        "ufid:c26ee931-cae3-4620-8269-47a097393d29, skb_priority(0/0),ct_state(0/0),recirc_id(0x2),dp_hash(0x3/0xf),"
        "in_port(p0),packet_type(ns=0,id=0),eth(src=02:00:00:00:00:fe/00:00:00:00:00:00,dst=02:00:00:00:00:53),eth_type(0x86dd),"
        "ipv6(src=2001:db8::1/::,dst=2001:db8::53,label=0/0,proto=17,tclass=0/0x3,hlimit=64/0,frag=no),"
        "udp(src=10360/0x7e,dst=53), packets:12, bytes:1008, used:0.480s, flags:S., dp:ovs, "
        "actions:set(eth(src=02:00:00:00:00:53,dst=02:00:00:00:01:04)),p0, dp-extra-info:miniflow_bits(5,4)"
    )
    assert [str(f) for f in found.match] == [
        "recirc_id=2",
        "dp_hash=3/0xf",
        "in_port=p0",
        "packet_type=(0,0x0)",
        "eth.dst=02:00:00:00:00:53",
        "eth_type=34525",
        "ipv6.dst=2001:db8::53",
        "ipv6.proto=17",
        "ipv6.tclass=0/0x3",
        "ipv6.frag=no",
        "udp.src=10360/0x7e",
        "udp.dst=53",
    ]
    assert [str(a) for a in found.actions] == [
        "set.eth.src=02:00:00:00:00:53",
        "set.eth.dst=02:00:00:00:01:04",
        "output:p0",
    ]
    assert (found.ufid, found.layer, found.offloaded) == ("c26ee931-cae3-4620-8269-47a097393d29", "ovs", "")
    assert (found.packets, found.bytes, found.used, found.extra) == (12, 1008, 0.48, "miniflow_bits(5,4)")
    assert (found.family, found.proto, found.recirculated) == ("ipv6", 17, True)
    source, port = found.get("udp.src"), found.get("ipv6.dst")
    assert source is not None and port is not None
    assert (source.value, source.mask, source.bits, source.exact, port.exact) == (10360, 0x7E, 16, False, True)


def test_nested_actions_are_read() -> None:
    found = flow(
        "recirc_id(0),in_port(1),eth_type(0x0800),ipv4(frag=no), packets:0, bytes:0, used:never, actions:"
        "clone(push_vlan(vid=5,pcp=0),2),check_pkt_len(size=1500,gt(clone(trunc(9),3)),le(drop)),"
        "sample(sample=50.0%,actions(userspace(pid=0,sFlow(vid=0,pcp=0,output=0),actions))),"
        "ct(commit,zone=4,nat(src=192.0.2.1)),set(ipv4(src=192.0.2.1,ttl=63)),pop_mpls(eth_type=0x800),tnl_pop(vxlan_sys)"
    )
    assert [a.name for a in found.actions] == [
        "clone",
        "check_pkt_len",
        "sample",
        "ct",
        "set.ipv4.src",
        "set.ipv4.ttl",
        "pop_mpls",
        "tnl_pop",
    ]
    assert [a.name for a in found.every_action()][:7] == [
        "clone",
        "push_vlan",
        "output",
        "check_pkt_len",
        "clone",
        "trunc",
        "output",
    ]
    check, ct = found.actions[1], found.actions[3]
    assert [[a.name for a in branch] for branch in check.branches] == [["clone"], ["drop"]]
    assert check.args == {"size": 1500}
    assert (ct.args["zone"], ct.args["nat"]["type"]) == (4, "src")
    assert [a.continues for a in found.actions[4:6]] == [False, True]  # one set() of two fields


@pytest.mark.parametrize(
    ("printed", "key", "value", "mask"),
    [
        ("ct_state(+est-new)", "ct_state", 0x02, 0x03),
        ("ct_state(0x21/0x21)", "ct_state", 0x21, 0x21),
        ("ct_state(new|trk)", "ct_state", 0x21, 0xFF),
        ("ct_state(+trk-0x40)", "ct_state", 0x20, 0x60),
        ("tcp_flags(+syn-ack)", "tcp_flags", 0x02, 0x12),
        ("tunnel(tun_id=0x5,flags(-df-csum+key))", "tunnel.flags", 0x08, 0x0E),
        ("eth(src=01:00:00:00:00:00/01:00:00:00:00:00)", "eth.src", 1 << 40, 1 << 40),
        ("ipv4(src=192.0.2.0/255.255.255.0)", "ipv4.src", 0xC0000200, 0xFFFFFF00),
        ("ipv4(src=0.0.0.1/0.0.0.255)", "ipv4.src", 1, 255),
        ("ipv6(src=::1/::ffff)", "ipv6.src", 1, 0xFFFF),
        ("ipv6(src=2001:db8::1/ffff::ffff)", "ipv6.src", 0x20010DB8 << 96 | 1, 0xFFFF << 112 | 0xFFFF),
        ("ipv4(src=192.0.2.0/24)", "ipv4.src", 0xC0000200, 0xFFFFFF00),
        ("ct_label(0x100000000/0x100000000)", "ct_label", 1 << 32, 1 << 32),
        ("packet_type(ns=1,id=0x800)", "packet_type", 0x10800, 2**32 - 1),
        ("brand_new(0x1)", "brand_new", 1, 2**32 - 1),  # a key of a switch that is newer than the library
        ("brand_new(0x1/0xff)", "brand_new", 1, 0xFF),
        ("brand_new(12/0xf)", "brand_new", 12, 0xF),
    ],
)
def test_values_and_masks_are_read(printed: str, key: str, value: int, mask: int) -> None:
    found = flow(f"in_port(1),{printed}, packets:0, bytes:0, used:never, actions:2").get(key)
    assert found is not None
    assert (found.value, found.mask) == (value, mask)


def test_unknown_fields_that_are_wildcarded_are_not_matched() -> None:
    """OVS-DOCA prints three of its own in every line; taken for matched, they would make each flow one of software."""
    found = flow(
        "in_port(p0),nv_mp_pid(0/0),nv_mp_strict(0/0),eth_type(0x0800), packets:0, bytes:0, used:never, actions:p1"
    )
    assert [f.key for f in found.match] == ["in_port", "eth_type"]


NEARLY_WILDCARDED = (
    "recirc_id(0),skb_mark(0/0x1),in_port(p0),eth(src=00:00:00:00:00:00/00:00:00:00:00:01,dst=02:00:00:00:00:53),"
    "eth_type(0x0800),ipv4(src=0.0.0.0/0.0.0.1,dst=0.0.0.0/128.0.0.0,tos=0/0x3,ttl=64/0,proto=17,frag=no),"
    "udp(src=0/0x7e,dst=53), packets:0, bytes:0, used:never, actions:set(ipv4(ttl=0/0)),1",
    "recirc_id(0),in_port(p0),eth_type(0x86dd),ipv6(src=::/::1,dst=::/8000::,label=0/0xf,proto=17,frag=no), "
    "packets:0, bytes:0, used:never, actions:drop",
    "recirc_id(0),in_port(p0),eth_type(0x8100),vlan(vid=0/0x1,pcp=0/0),encap(eth_type(0x0800),ipv4(proto=6,frag=no),"
    "tcp(src=0/0,dst=0/0),tcp_flags(0/0)), packets:0, bytes:0, used:never, actions:drop",
)


@pytest.mark.parametrize(
    "text",
    [
        *(pytest.param(file.read_text(), id=file.name) for file in sorted(DUMPS.rglob("*.txt"))),
        *(pytest.param(line, id=f"nearly {number}") for number, line in enumerate(NEARLY_WILDCARDED)),
    ],
)
def test_wildcarded_fields_may_be_skipped(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is: a flow is the same as when the library reads all of it."""
    found = list(read_flows(text))
    assert found and not [f for f in found if isinstance(f, Unreadable)]
    monkeypatch.setattr(datapath_flow, "_WILDCARDED", re.compile("(?!)"))
    assert list(read_flows(text)) == found


@pytest.mark.parametrize(
    "tail",
    [
        "dp:ovs, actions:ct(zone=5),p1, dp-offload-info: 'match unsupported: unmatched fields are ct_state=+new-est+trk'",
        "dp:ovs, actions:ct(zone=5),p1, dp-extra-info:miniflow_bits(4,1), dp-offload-info: 'br-x: no port id (of it'",
        "dp:ovs, actions:ct(zone=5),p1, dp-offload-info: 'br-x: no port id', dp-extra-info:miniflow_bits(4,1)",
        "dp:ovs, dp-offload-info: 'br-x: no port id', actions:ct(zone=5),p1",
        "dp:ovs, dp-offload-info:none, actions:ct(zone=5),p1",
    ],
)
def test_why_a_flow_is_not_offloaded_is_no_action(tail: str) -> None:
    found = flow(f"in_port(p0),eth_type(0x0800), packets:1, bytes:74, used:1.0s, {tail}")
    assert [str(a) for a in found.actions] == ["ct", "output:p1"]
    assert (found.layer, found.offloaded) == ("ovs", "")
    assert found.extra == ("miniflow_bits(4,1)" if "extra" in tail else "")


def test_the_heading_names_the_thread() -> None:
    line = "in_port(1), packets:0, bytes:0, used:never, actions:drop"
    text = f"{line}\nflow-dump from the main thread:\n{line}\nflow-dump from pmd on cpu core: 11\n{line}\n"
    assert [f.thread for f in read_flows(text) if isinstance(f, DatapathFlow)] == [
        "",
        "main thread",
        "pmd on cpu core: 11",
    ]


def test_tags_do_not_hide_the_packet_behind_them() -> None:
    found = flow(
        "in_port(1),eth(),eth_type(0x88a8),vlan(vid=5,pcp=1),encap(eth_type(0x8100),vlan(vid=6,pcp=0/0),"
        "encap(eth_type(0x0800),ipv4(proto=17,frag=no),udp(dst=53))), packets:0, bytes:0, used:never, actions:2"
    )
    assert {f.key: f.value for f in found.match} == {
        "in_port": 1,
        "vlan.tpid": 0x88A8,
        "vlan.vid": 5,
        "vlan.pcp": 1,
        "vlan2.tpid": 0x8100,
        "vlan2.vid": 6,
        "eth_type": 0x0800,
        "ipv4.proto": 17,
        "ipv4.frag": "no",
        "udp.dst": 53,
    }
    assert found.family == "ipv4"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "malformed odp flow"),
        ("no flow at all", "malformed odp flow"),
        ("actions:drop", "without a match"),
        ("recirc_id(0),in_port(1, packets:0, bytes:0, used:never, actions:2", "matching ')'"),
        ("in_port(1),eth_type(0xzz), packets:0, bytes:0, used:never, actions:2", "invalid literal"),
        ("in_port(1),ipv4(src=300.0.0.1), packets:0, bytes:0, used:never, actions:2", "300.0.0.1"),
        ("in_port(1),tcp(dst=99999), packets:0, bytes:0, used:never, actions:2", "bigger than size 16"),
        ("in_port(1)," + "x" * MAX_LINE, "characters"),
    ],
)
def test_an_unreadable_line_has_its_reason(line: str, problem: str) -> None:
    found = read_flow(line)
    assert isinstance(found, Unreadable)
    assert problem in found.problem and "\n" not in found.problem


def test_nesting_without_end_is_unreadable() -> None:
    start = "in_port(1), packets:0, bytes:0, used:never, actions:"
    found = read_flow(start + "clone(" * 9000 + "1" + ")" * 9000)
    assert isinstance(found, Unreadable) and "nested" in found.problem
    assert len(list(flow(start + "clone(" * 60 + "1" + ")" * 60).every_action())) == 61


def test_headings_are_no_flows() -> None:
    assert list(read_flows("flow-dump from pmd on cpu core: 3\n\nflow-dump from the main thread:\n")) == []


def test_reading_leaves_the_library_as_strict_as_it_was() -> None:
    flow(LINES[1])
    read_flow("broken(")
    assert KVDecoders.strict is True


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
@example("ufid:,actions:")
@example("in_port(1), actions:()")
def test_random_text_is_read_or_refused(text: str) -> None:
    assert isinstance(read_flow(text), DatapathFlow | Unreadable)
    assert all(isinstance(found, DatapathFlow | Unreadable) for found in read_flows(text))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(LINES), st.integers(0, 400), st.integers(0, 40), st.text("()/,:=0x1-+ab{}|", max_size=8))
def test_damaged_lines_are_read_or_refused(line: str, at: int, gone: int, instead: str) -> None:
    found = read_flow(line[:at] + instead + line[at + gone :])
    assert judge(found, profile("ovs-doca")).verdict in ("yes", "no", "partial", "unknown")


def test_masks_are_counted_the_same_in_both_forms() -> None:
    text = "".join(f"{line}\n" for line in LINES if "recirc_id(" in line)
    flows = [found for found in read_flows(text) if isinstance(found, DatapathFlow)]
    assert len({mask_of_match(found.match) for found in flows}) == masks(read_megaflows(text)) > 5
    udp, tcp, low = (
        mask_of_match(flow(f"in_port(1),{match}, packets:0, bytes:0, used:never, actions:2").match)
        for match in ("udp(dst=53)", "tcp(dst=53)", "udp(dst=53/0xff)")
    )
    assert udp == tcp != low


def test_megaflows_that_match_the_same_have_the_same_key() -> None:
    """Bits that do not count are printed as the first packet had them."""
    line = (
        "ufid:{}, recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth(src={},dst=02:00:00:00:00:53),eth_type(0x0800),"
        "ipv4(src={}/255.0.255.0,dst=192.0.2.53,proto=17/0,tos=0x3/0,frag=no),udp(src={}/0x7e,dst=53), packets:{}, "
        "bytes:9, used:1.0s, actions:1"
    )
    eth = "02:00:00:00:00:01/ff:00:00:00:00:00"
    one = line.format("5f0c4d10-0000-4000-8000-000000000001", eth, "198.51.100.7", 40001, 5)
    same = line.format("5f0c4d10-0000-4000-8000-000000000002", eth.replace("1/", "9/"), "198.52.100.9", 40000, 6)
    other = line.format("5f0c4d10-0000-4000-8000-000000000003", eth, "198.51.100.7", 40003, 5)
    keys = [read_megaflow(text).key for text in (one, same, other)]
    assert keys[0] == keys[1] != keys[2]
    assert [read_megaflow(text).recirculated for text in (one, one.replace("recirc_id(0)", "recirc_id(0x2)"))] == [
        False,
        True,
    ]
