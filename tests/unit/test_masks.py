# SPDX-License-Identifier: Apache-2.0
"""The bound on masks: what it says of the examples, of any spec, and of small tables whose masks were measured."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings

from dnsteer.checks.load import load_spec
from dnsteer.lint.mask_count import explain_bound
from dnsteer.lint.masks.bound import MaskBound, bound_of, mask_bound
from dnsteer.lint.masks.fields import BitRange, UnknownError
from dnsteer.lint.masks.flow_syntax import (
    Conntrack,
    FieldBits,
    GotoTable,
    MoveBits,
    Output,
    SelectBucket,
    SetField,
    parse_actions,
    parse_match,
)
from dnsteer.lint.masks.mask_sets import EMPTY, contains, covers, masks_in, size, unwildcarded
from dnsteer.modes import MODES
from dnsteer.plan.build import build_plan
from dnsteer.render.flows import Flow, Group, flows_of, parse_flow
from dnsteer.spec.derived import copies_errors, keeps, slot_count
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.lint import MASKS
from dnsteer.spec.model.spec import Forwarding, Selection
from dnsteer.spec.networks import has_vlans
from dnsteer.switch.masks import mask_of, prefix, show_mask
from dnsteer.tables.order import PIPELINE
from tests.hostile_frames import HostileFrames
from tests.mask_attack import ObservedMasks, read_mask
from tests.strategies import loaded_from, specs

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
DROP = (0, 0, "", "drop")


def bound(*rows: tuple[int, int, str, str]) -> MaskBound:
    """The bound of a few flows: table, priority, match, actions."""
    return bound_of([Flow(table, priority, match, 0, actions) for table, priority, match, actions in rows])


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_examples_stay_within_the_budget(file: Path) -> None:
    loaded = load_spec(file)
    found = mask_bound(build_plan(loaded))
    assert found.total <= loaded.spec.lint.masks == MASKS
    assert not [str(part) for part in found.parts if part.many]


def of_three_ways(passes: int = 1) -> Loaded:
    """A spec with NAT behind a hash or in two passes, and beside it a VIP of each other way to forward."""
    ways = {"nat": "dp-hash" if passes == 1 else "source-port", "dsr": "source-port", "siit": "source-port"}
    switch = {
        "flavor": "ovs-netdev",
        "bridge": "br-dns",
        "mac": "02:00:00:00:00:53",
        "gateways": ["10.53.0.1", "2001:db8:53::1"],
        "uplinks": {"p0": {"next_hop": "02:00:00:00:00:f0"}},
        "extension": {
            "ingress": {"port": "ext-in"},
            "egress": {"port": "ext-out"},
            "ipv4": "10.53.9.4",
            "ipv6": "2001:db8:53:9::4",
        },
    }
    pools = {
        way: {
            "slots": 4,
            "selection": selection,
            **({"passes": passes} if selection == "source-port" and way != "siit" else {}),
            "backends": [
                {"name": "a", "ipv4": f"10.53.0.1{n}", "ipv6": f"2001:db8:53::1{n}", "mac": f"02:00:00:00:01:0{n}"}
            ],
        }
        for n, (way, selection) in enumerate(ways.items())
    }
    vips = {
        way: {
            "addresses": [f"198.51.100.5{n}", *([f"2001:db8:1::5{n}"] if way != "siit" else [])],
            "services": ["dns"],
            "pool": way,
            "forwarding": way,
        }
        for n, way in enumerate(ways)
    }
    return loaded_from({"apiVersion": "dnsteer/v1", "switch": switch, "pools": pools, "vips": vips})


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
@example(of_three_ways())
@example(of_three_ways(passes=2))
def test_random_specs_make_no_masks_for_prefix_lengths(loaded: Loaded) -> None:
    """Every packet's way through the tables makes one mask, whatever its values; with VLANs a priority may make another."""
    assume(not has_vlans(loaded.spec))
    found = mask_bound(build_plan(loaded))
    assert not [str(part) for part in found.parts if part.many]
    pools = loaded.spec.pools
    widths = {p.slots for p in pools.values() if p.selection is Selection.SOURCE_PORT}
    used = [(v.forwarding, pools[v.pool]) for v in loaded.spec.vips.values()]
    hashed = {(way, slot_count(loaded.spec, pool)) for way, pool in used if pool.selection is Selection.DP_HASH}
    # One more for each family and further number of slots, and one where hashed queries are forwarded in both ways.
    # Of a further width of the hash: one for the usual way, and for each family of translated addresses.
    more = 3 * max(0, len({slots for _, slots in hashed}) - 1) + (len({way for way, _ in hashed}) == 2)
    beyond = {way is Forwarding.SIIT for way, pool in used if MODES[way].uses_extension(pool)}
    # Beside a hash one for each family, and two for answers to translate; where none but NAT is behind a hash, one for these
    # if both other ways to forward are in use too: with the backend's address, and with that of the VIP.
    ways = {way for way, _ in used}
    three = ways >= {Forwarding.NAT, Forwarding.SIIT} and ways & {Forwarding.DSR, Forwarding.IPIP}
    more += 2 * len(beyond) if hashed else 0
    more += bool(three) and {way for way, _ in hashed} <= {Forwarding.NAT}
    # Where some queries take another pass and others do not, or all do behind their client's bucket, two for each family.
    more += 4 if any(p.passes != 1 or p.selection is not Selection.SOURCE_PORT for _, p in used) else 0
    more += 8 if loaded.spec.switch.probe is not None else 0  # for answers to probes (docs/agent.md)
    # Of backends' own traffic for each family three windows of ports to them, one more where the source MAC address is
    # written, and two of what leaves, whose last is that of answers; and eight of addresses.
    more += 20 if loaded.spec.switch.own_traffic is not None else 0
    limits = [vip.limits for vip in loaded.spec.vips.values() if vip.limits is not None]
    # Two for each family and number of buckets; and with flags of TCP one more for each family and way to a slot.
    more += 4 * len({limit.clients.buckets for limit in limits if limit.clients is not None})
    more += 4 * max(1, len(widths)) if any(limit.tcp_syn is not None for limit in limits) else 0
    # With kept connections two for each family and number of slots, by their mark and by their slot, and two that begin.
    kept = [pools[v.pool].slots for v in loaded.spec.vips.values() if keeps(v)]
    more += 4 * len(set(kept)) + 4 * bool(kept)
    # One for codes of ICMP errors, and two for each family for those that are copied.
    more += 5 if any(copies_errors(vip, pools[vip.pool]) for vip in loaded.spec.vips.values()) else 0
    assert found.total <= 29 + 2 * max(0, len(widths) - 1) + more


def several_slot_counts(counts: list[int]) -> Loaded:
    """A spec with a pool and a VIP for each of so many slots."""
    return loaded_from(
        {
            "apiVersion": "dnsteer/v1",
            "switch": {"flavor": "ovs-netdev", "bridge": "br-dns", "mac": "02:00:00:00:00:53", "uplinks": {"p0": None}},
            "pools": {
                f"p{n}": {
                    "slots": n,
                    "backends": [{"name": "a", "ipv4": f"10.0.{i}.1", "mac": f"02:00:00:00:01:0{i}"}],
                }
                for i, n in enumerate(counts)
            },
            "vips": {f"v{n}": {"addresses": [f"198.51.100.{n}"], "services": ["dns"], "pool": f"p{n}"} for n in counts},
        }
    )


def test_each_number_of_slots_is_a_mask() -> None:
    totals = [mask_bound(build_plan(several_slot_counts([4, 8, 16, 32][:n]))).total for n in (1, 2, 4)]
    assert totals[1:] == [totals[0] + 1, totals[0] + 3]


def test_the_spec_keys_that_multiply_masks_are_named() -> None:
    loaded = several_slot_counts([4, 8, 16])
    found = mask_bound(build_plan(loaded))
    one = mask_bound(build_plan(several_slot_counts([16]))).total
    said = (
        f"source-port pools have 3 different numbers of slots (4, 8, 16): with one number for all it is at most {one}"
    )
    assert explain_bound(loaded, found) == [said]


def test_several_reasons_for_many_masks_are_named_together() -> None:
    """Pools of both selections with several numbers of slots, and both ways of forwarding for the hash."""
    base = load_spec(ROOT / "examples" / "own-ports.yaml")
    pools, vips = dict(base.spec.pools), dict(base.spec.vips)
    hashed = next(n for n, pool in pools.items() if pool.selection is Selection.DP_HASH)
    vip = next(vip for vip in vips.values() if vip.pool == hashed)
    other = Forwarding.DSR if vip.forwarding is Forwarding.NAT else Forwarding.NAT
    pools["less"] = pools[hashed].model_copy(update={"slots": 4})
    vips["less"] = vip.model_copy(update={"addresses": [ip_address("198.51.100.99")], "pool": "less"})
    vips["other"] = vip.model_copy(update={"addresses": [ip_address("198.51.100.98")], "forwarding": other})
    loaded = replace(base, spec=base.spec.model_copy(update={"pools": pools, "vips": vips}))
    total = mask_bound(build_plan(loaded)).total
    *single, together = explain_bound(loaded, mask_bound(build_plan(loaded)))
    assert any(text.startswith("dp-hash pools have 2 different numbers of slots (4, 16)") for text in single)
    assert any(text.startswith("VIPs of dp-hash pools forward by dsr and nat: with one") for text in single)
    most = [int(text.rsplit(" ", 1)[1]) for text in single]
    assert int(together.rsplit(" ", 1)[1]) < min(most) <= max(most) < total


def test_tables_are_named_where_no_spec_key_multiplies_masks() -> None:
    loaded = load_spec(ROOT / "examples" / "quickstart.yaml")
    found = mask_bound(build_plan(loaded))
    said = explain_bound(loaded, found)
    assert len(said) == 4 and "ending in table" in said[0]
    assert said[-1] == f"and {len(found.why) - 3} more"


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_every_random_spec_has_a_reason_for_its_masks(loaded: Loaded) -> None:
    assert explain_bound(loaded, mask_bound(build_plan(loaded)))


# What Open vSwitch 3.1 was seen to make of such tables, and the bound: seen, most.
MEASURED = {
    "by port alone": ([(0, 100, "in_port=p0", "output:p1"), DROP], 1, 2),
    "low bits of a port": ([(0, 100, f"tcp,tp_src=0x{i:x}/0xf", "output:p1") for i in range(16)], 1, 8),
    "one port and a drop": ([(0, 100, "tcp,tp_dst=443", "output:p1"), DROP], 16, 20),
    "address and port in one flow: a sum": (
        [(0, 100, "tcp,nw_src=10.0.0.1,tp_dst=443", "output:p1"), DROP],
        48,
        52,
    ),
    "two ports in two flows: a product": (
        [(0, 100, "tcp,tp_dst=443", "output:p1"), (0, 90, "tcp,tp_src=80", "output:p1"), DROP],
        249,
        264,
    ),
    "two lists one after the other: a product": (
        [
            (0, 100, "ip,nw_dst=10.0.0.1", "goto_table:1"),
            (0, 0, "", "goto_table:1"),
            (1, 100, "ip,nw_src=10.0.0.1", "output:p1"),
            (1, 0, "", "drop"),
        ],
        935,
        1030,
    ),
    "an address and two ports": (
        [
            (0, 100, "ip,nw_src=10.0.0.1", "output:p1"),
            (0, 100, "tcp,tp_dst=443", "output:p1"),
            (0, 90, "tcp,tp_src=80", "output:p1"),
            DROP,
        ],
        3100,
        8300,
    ),
}


@pytest.mark.parametrize("what", MEASURED)
def test_the_bound_of_small_tables(what: str) -> None:
    rows, seen, most = MEASURED[what]
    assert seen <= bound(*rows).total <= most


def test_only_prefixes_use_prefix_trees() -> None:
    """An address mask with a gap is looked at as a whole."""
    gap = (0, 100, "ipv6,ipv6_dst=a000::/a000::", "output:p1")
    masks = {
        show_mask(m)
        for mask_set in bound(gap, (0, 90, "ipv6,ipv6_dst=::/1", "output:p2"), DROP).mask_sets
        for m in masks_in(mask_set)
    }
    assert masks == {"nothing else", f"ipv6_dst/0x{0xA000 << 112:x} nw_frag", "nw_frag"}


def test_the_reasons_name_the_fields_that_multiply() -> None:
    found = bound((0, 100, "tcp,tp_dst=443", "output:p1"), (0, 90, "tcp,tp_src=80", "output:p1"), DROP)
    assert found.why[0].startswith("IPv4, ending in table ingress: 258 masks (16 of tp_src times 16 of tp_dst)")
    assert found.by_kind["IPv4"] > 256 > found.by_kind["IPv6"]


def test_a_miss_flow_matching_the_field_leaves_one_mask() -> None:
    look = "move:NXM_OF_UDP_DST[]->NXM_NX_XXREG3[0..15]"
    rows = [(0, 100, "udp,nw_frag=no,tp_dst=53", "output:p1"), (0, 10, "udp,nw_frag=no", look), DROP]
    masks = {show_mask(m) for mask_set in bound(*rows).mask_sets for m in masks_in(mask_set)}
    assert masks == {"nw_frag nw_proto tp_dst", "nw_frag nw_proto", "nw_frag", "nothing else"}


def test_a_table_without_a_needed_match_is_named() -> None:
    """The templates' own flows, with one look left out: the bound shows which table it is."""
    flows = flows_of(build_plan(load_spec(ROOT / "examples" / "quickstart.yaml")))
    looks = [PIPELINE.tables[name].number for name in ("address1", "vip")]
    broken = [f for f in flows if not (f.table in looks and f.priority == 10 and f.match in ("ip", "udp"))]
    found = bound_of(broken)
    assert found.total > 40
    assert "IPv4, ending in table vip" in found.why[0]


def test_groups_and_the_connection_tracker_begin_a_new_pass() -> None:
    rows = [
        (0, 100, "udp,in_port=p0", "set_field:0x1->reg0,group:7"),
        (0, 90, "udp,in_port=p1", "ct(commit,table=2,zone=1,nat(src=10.0.0.1))"),
        (0, 0, "", "drop"),
        (1, 0, "", "set_field:02:00:00:00:00:01->eth_dst,output:p1"),
        (2, 100, "ct_state=+inv+trk", "drop"),
        (2, 0, "", "output:p0"),
    ]
    group = Group(
        7, "group_id=7,type=select,bucket=bucket_id:0,actions=resubmit(,1),bucket=bucket_id:1,actions=resubmit(,1)"
    )
    found = bound_of([Flow(t, p, m, 0, a) for t, p, m, a in rows], [group])
    masks = {show_mask(m) for mask_set in found.mask_sets for m in masks_in(mask_set)}
    assert {"dp_hash/0xf dl_dst nw_frag", "ct_state/0x30 nw_frag"} <= masks


def test_release_differences_of_the_hash_count_the_worse() -> None:
    """In newer releases a group of 5 buckets has another width than one of 4; in older ones both have 16 slots."""
    flows = [Flow(0, 100, f"udp,in_port=p{n}", 0, f"group:{n}") for n in (4, 5)]
    groups = [
        Group(n, f"group_id={n},type=select," + ",".join(f"bucket=bucket_id:{b},actions=output:p9" for b in range(n)))
        for n in (4, 5)
    ]
    assert bound_of(flows, groups).total == bound_of(flows, [groups[0], Group(5, groups[0].text)]).total + 1


@pytest.mark.parametrize(
    ("match", "actions"),
    [
        ("vlan_tci=0x1000/0x1000", "drop"),
        ("udp,conj_id=3", "drop"),
        ("udp", "learn(table=1)"),
        ("udp", "NORMAL"),
        ("udp", "clone(output:p1)"),
        ("udp", "multipath(symmetric_l4,0,hrw,4,0,NXM_NX_REG0[])"),
        ("udp", "ct(commit,zone=1,nat(src=192.0.2.1))"),
        ("udp", "ct(table=1),output:p1"),
        ("udp", "goto_table:0"),
    ],
)
def test_unsupported_matches_and_actions_are_refused(match: str, actions: str) -> None:
    with pytest.raises(UnknownError):
        bound((0, 1, match, actions))


def test_matches_are_parsed() -> None:
    assert parse_match('udp6,in_port="p 0",ipv6_dst=2001:db8::/32,nw_frag=not_later,tp_src=0x2/0xe,reg0=0x5') == {
        "dl_type": FieldBits(0x86DD, 0xFFFF),
        "nw_proto": FieldBits(17, 0xFF),
        "in_port": FieldBits("p 0", 0xFFFFFFFF),
        "ipv6_dst": FieldBits(0x20010DB8 << 96, prefix(128, 32)),
        "nw_frag": FieldBits(0, 2),
        "tp_src": FieldBits(2, 0xE),
        "reg0": FieldBits(5, 0xFFFFFFFF),
    }
    assert parse_match("ct_state=+inv-new")["ct_state"] == FieldBits(0x10, 0x11)
    assert parse_match("arp,arp_tpa=10.0.0.1,arp_op=1")["nw_dst"] == FieldBits(0x0A000001, 0xFFFFFFFF)
    assert parse_match("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00")["dl_dst"] == FieldBits(1 << 40, 1 << 40)


def test_actions_are_parsed() -> None:
    assert parse_actions("set_field:0x1/0xf->reg6,move:NXM_OF_TCP_SRC[1..6]->NXM_NX_REG1[0..5],resubmit(,40)") == (
        SetField("reg6", 0xF, 1),
        MoveBits(BitRange("tp_src", 1, 6), BitRange("reg1", 0, 6)),
        GotoTable(40),
    )
    assert parse_actions("ct(commit,table=55,zone=1,nat(src=10.0.0.1:53)),IN_PORT") == (Conntrack(55, True), Output())
    assert parse_actions("group:5,output:p1") == (SelectBucket(5), Output())
    assert parse_actions("drop") == ()


def test_mask_sets_are_counted_and_contain_masks() -> None:
    mask_set = unwildcarded(unwildcarded(EMPTY, {"nw_dst": [prefix(32, n) for n in (1, 2)]}), {"dl_dst": 1, "reg0": 7})
    assert size(mask_set) == 2
    assert contains(mask_set, mask_of({"nw_dst": prefix(32, 2), "dl_dst": 1}))
    assert not contains(mask_set, mask_of({"nw_dst": prefix(32, 3), "dl_dst": 1}))
    assert covers(mask_set, unwildcarded(EMPTY, {"nw_dst": prefix(32, 1), "dl_dst": 1}))
    assert not covers(unwildcarded(EMPTY, {"dl_dst": 1}), mask_set)


HEAD = (
    "skb_priority(0/0),ct_state(0/0),recirc_id(0x3),dp_hash(0x5/0xf),in_port(p0),packet_type(ns=0,id=0),"
    "eth(src=02:00:00:00:00:01/00:00:00:00:00:00,dst=02:00:00:00:00:02),"
)
NO_MAC = "00:00:00:00:00:00/00:00:00:00:00:00"
DUMPED = [
    (
        "eth_type(0x0800),ipv4(src=1.2.3.4/128.0.0.0,dst=5.6.7.8,proto=17,tos=0/0,ttl=64/0,frag=no),udp(src=5/0xfe,dst=53)",
        "dp_hash/0xf dl_dst nw_src/1 nw_dst nw_frag nw_proto tp_src/0xfe tp_dst",
    ),
    (
        "eth_type(0x8100),vlan(vid=5,pcp=0/0x0),encap(eth_type(0x0806),"
        f"arp(sip=1.2.3.4/0.0.0.0,tip=5.6.7.8,op=1,sha=02:00:00:00:00:01,tha={NO_MAC}))",
        "dp_hash/0xf dl_dst nw_dst nw_proto arp_sha",
    ),
    (
        "eth_type(0x86dd),ipv6(src=::/::,dst=::1,label=0/0,proto=58,tclass=0/0,hlimit=255,frag=no),icmpv6(type=135,code=0),"
        f"nd(target=::1,sll={NO_MAC},tll=00:00:00:00:00:00)",
        "dp_hash/0xf dl_dst ipv6_dst nw_frag nw_ttl nw_proto nd_target arp_tha tp_src/0xff tp_dst/0xff",
    ),
    ("eth_type(0x8847),mpls((bad: Failed to find", "dp_hash/0xf dl_dst"),
    ("eth_type(0x8100),vlan(vid=5,pcp=2/0x0),encap(eth_type(0x894f),nsh(c1=0x0,c2=0x0))", "dp_hash/0xf dl_dst"),
]


@pytest.mark.parametrize(("match", "mask"), DUMPED)
def test_masks_of_a_dump_are_counted(match: str, mask: str) -> None:
    seen = ObservedMasks()
    lines = [f"ufid:{n}, {HEAD}{match}, packets:0, bytes:0, used:never, actions:drop" for n in (1, 2)]
    assert seen.add(["flow-dump from the main thread:", *lines]) == 2
    assert {show_mask(m): n for m, n in seen.flows.items()} == {mask: 2}


def test_a_field_that_no_table_matches_is_in_no_bound() -> None:
    mask = read_mask("recirc_id(0),tunnel(tun_id=0x1,src=1.2.3.4,dst=5.6.7.8),in_port(p0)")
    assert "tunnel.tun_id" in show_mask(mask)
    assert not mask_bound(build_plan(load_spec(EXAMPLES[0]))).allows(mask)


def test_frames_are_the_same_for_a_seed_and_aim_at_the_tables() -> None:
    flows = [
        parse_flow(
            "cookie=0x0, table=0, priority=1,udp,dl_dst=02:00:00:00:00:53,nw_dst=192.0.2.53,tp_dst=53 actions=drop"
        )
    ]
    matches = [parse_match(f.match) for f in flows]
    one, two, other = (HostileFrames(matches, seed) for seed in (1, 1, 2))
    frames = [one.frame() for _ in range(1000)]
    assert frames == [two.frame() for _ in range(1000)]
    assert frames != [other.frame() for _ in range(1000)]
    target = bytes.fromhex("020000000053")
    aimed = [f for f in frames if f[:6] == target and f[12:14] == b"\x08\x00" and f[30:34] == bytes([192, 0, 2, 53])]
    near = [
        f
        for f in frames
        if f[:6] != target and (int.from_bytes(f[:6], "big") ^ int.from_bytes(target, "big")).bit_count() == 1
    ]
    assert len(aimed) > 100
    assert len(near) > 5
