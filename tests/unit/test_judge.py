# SPDX-License-Identifier: Apache-2.0
"""Verdicts: every row of the matrix on every flavor, splits of wide matches, and that more trouble never helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.offload.datapath_flow import DatapathFlow, Unreadable, read_flow
from dnsteer.offload.judge import Judgement, OffloadContext, judge
from dnsteer.offload.profile import profile, profile_names
from dnsteer.offload.split import match_bytes, shared_rules
from dnsteer.slots import dp_hash
from dnsteer.spec.read import read_document

ROWS: list[dict[str, Any]] = read_document(Path(__file__).parents[1] / "offload_dumps" / "rows.yaml").value
FLAVORS = ("ovs-doca-2", "ovs-doca-3", "ovs-dpdk", "ovs-kernel")
QUERY = "eth_type(0x0800),ipv4(proto=17,frag=no),udp(dst=53)"
IPV6_QUERY = (
    "eth(src=02:00:00:00:00:fe,dst=02:00:00:00:00:53),eth_type(0x86dd),"
    "ipv6(dst=2001:db8::53,proto=17,frag=no),udp(src=40000/0x7e,dst=53)"
)
WORST_FIRST = ("no", "partial", "unknown", "yes")


def line(flavor: str, match: str = QUERY, actions: str = "p1", recirc: str | int = 0) -> str:
    """A line of dpctl/dump-flows -m, as the flavor prints it."""
    layer = profile(flavor).layer
    extra = ", dp-extra-info:miniflow_bits(4,1)" if layer == "ovs" else ""
    return (
        f"ufid:2c5b1a3e-0000-4000-8000-000000000001, recirc_id({recirc}),in_port(p0),{match}, packets:3, bytes:252, "
        f"used:0.420s, {'' if layer == 'ovs' else 'offloaded:yes, '}dp:{layer}, actions:{actions}{extra}"
    )


def judged(flavor: str, match: str = QUERY, actions: str = "p1", recirc: str | int = 0, **context: Any) -> Judgement:
    flow = read_flow(line(flavor, match, actions, recirc))
    assert isinstance(flow, DatapathFlow), flow
    return judge(flow, profile(flavor), OffloadContext(**context))


@pytest.mark.parametrize("row", ROWS, ids=[row["row"] for row in ROWS])
def test_every_case_of_the_matrix_has_its_verdict(row: dict[str, Any]) -> None:
    given = {key: value for key, value in row.items() if key in ("match", "actions", "recirc")}
    found = {f: judged(f, **given, **row.get("context", {})) for f in (*FLAVORS, "ovs-netdev")}
    assert {f: j.verdict for f, j in found.items()} == {
        **dict(zip(FLAVORS, row["of"].split(), strict=True)),
        "ovs-netdev": "no",
    }
    for flavor, judgement in found.items():
        assert (judgement.verdict == "yes") == (not judgement.reasons) == (not judgement.why_software)
        assert all(reason.text and reason.source in profile(flavor).sources for reason in judgement.reasons)
        assert (judgement.rules > 0) == (judgement.verdict in ("yes", "unknown")) == (judgement.tables > 0)


def test_every_entry_and_case_of_the_profiles_is_met_by_a_row() -> None:
    """So that no statement of the data goes untested."""
    for flavor in FLAVORS:
        met: set[tuple[str, str]] = set()
        for row in ROWS:
            given = {key: value for key, value in row.items() if key in ("match", "actions", "recirc")}
            judgement = judged(flavor, **given, **row.get("context", {}))
            for reason in (*judgement.reasons, *judgement.remarks):
                met.add((reason.name.partition("=")[0].partition(":")[0], reason.text.removeprefix(f"{reason.name}: ")))
        for (*_, name), entry in profile(flavor).entries():
            if name == "slow_path" or str(name).startswith("other_"):
                continue  # by the rows of userspace, and of what nobody knows
            start = str(name).removesuffix("*")
            for note in filter(None, [entry.note, *(case.note for case in entry.cases)]):
                found = [
                    at for at, text in met if text == note and (at == name or (name != start and at.startswith(start)))
                ]
                assert found, f"no row meets {name} of {flavor}: {note}"


def test_reasons_name_the_worst_first_with_its_source() -> None:
    judgement = judged("ovs-doca", "eth_type(0x0800),ipv4(proto=17,frag=later)", "trunc(100),p1")
    assert [(r.kind, r.name, r.verdict, r.certainty) for r in judgement.reasons] == [
        ("match", "ipv4.frag=later", "no", "test-suite"),
        ("action", "trunc", "partial", "source-code"),
    ]
    assert judgement.certainty == "test-suite"
    assert judgement.why_software == (
        "ipv4.frag=later: no fragment is forwarded in hardware; trunc: cutting packets off is not offloaded"
    )
    assert "test-ovs-dpdk-frag.sh" in profile("ovs-doca").sources[judgement.reasons[0].source].place


def test_reasons_of_several_fields_are_joined_slow_path_first() -> None:
    judgement = judged(
        "ovs-doca", "eth_type(0x0806),arp(sip=192.0.2.1,tip=192.0.2.2,op=1)", "userspace(pid=0,slow_path(action))"
    )
    assert judgement.why_software == (
        "userspace: ovs-vswitchd itself does this, on every flavor; arp.sip, arp.tip, arp.op: fields of ARP are not matched"
    )


def test_a_yes_is_as_sure_as_its_weakest_part() -> None:
    assert judged("ovs-doca-2").certainty == "source-code"
    assert judged("ovs-doca-2", actions="p0").certainty == "test-suite"
    assert judged("ovs-doca-2", "eth_type(0x86dd),ipv6(tclass=0xb8,frag=no)").certainty == "inferred"
    assert [r.text for r in judged("ovs-doca-2", actions="p0").remarks] == [
        "output:p0: hairpin, out of the port that the packet came in by; tested by NVIDIA since 2023"
    ]


@pytest.mark.parametrize(
    ("flavor", "bits", "verdict"),
    [
        ("ovs-doca-2", (4, 4), "yes"),
        ("ovs-doca-2", (4, 6), "unknown"),  # of which release it is nobody has published
        ("ovs-doca-2", (5, 7), "no"),
        ("ovs-doca-3", (4, 4), "yes"),
        ("ovs-doca-3", (4, 6), "unknown"),
        ("ovs-doca-3", (5, 7), "unknown"),  # whether it has more than four
        ("ovs-doca-2", (), "yes"),  # as the flow has it
    ],
)
def test_a_hash_is_as_wide_as_any_release_makes_it(flavor: str, bits: tuple[int, ...], verdict: str) -> None:
    found = judged(flavor, f"dp_hash(0x3/0xf),{QUERY}", recirc=2, hash_bits=bits)
    assert found.verdict == verdict
    assert all(str(width) in found.why_software for width in bits if found.reasons)


@pytest.mark.parametrize(
    ("buckets", "bits"),
    [
        (1, (4, 4)),
        (4, (4, 4)),
        (5, (4, 5)),
        (8, (4, 5)),
        (16, (4, 6)),
        (17, (5, 7)),
        (64, (6, 8)),
        (128, (7, 8)),
        (256, (8, 8)),
    ],
)
def test_widths_of_the_hash_of_a_group(buckets: int, bits: tuple[int, int]) -> None:
    assert dp_hash.hash_bits(buckets) == bits
    assert (buckets <= dp_hash.SAME_IN_ALL_RELEASES) == (bits == (4, 4))


@pytest.mark.parametrize(
    ("flavor", "verdict"), [("ovs-doca", "no"), ("ovs-dpdk", "unknown"), ("ovs-kernel", "unknown")]
)
def test_ports_of_two_eswitches(flavor: str, verdict: str) -> None:
    assert judged(flavor, eswitches={"p0": "a", "p1": "b"}).verdict == verdict
    assert judged(flavor, eswitches={"p0": "a", "p1": "a"}).verdict == "yes"
    assert judged(flavor, eswitches={"p0": "a"}).verdict == "yes"  # the other one is not known


def test_a_line_that_cannot_be_read_is_unknown() -> None:
    judgement = judge(read_flow("this is no flow"), profile("ovs-doca"))
    assert (judgement.verdict, judgement.rules) == ("unknown", 0)
    assert "could not be read" in judgement.why_software


@pytest.mark.parametrize(
    ("match", "recirc", "size", "rules"),
    [
        (QUERY, 0, 4 + 2 + 1 + 2, 1),  # the port always counts
        ("eth(),eth_type(0x0800),ipv4(src=0.0.0.1/0.0.0.1,frag=no)", 0, 4 + 2 + 4, 1),  # a mask makes nothing smaller
        (IPV6_QUERY.replace("src=02:00:00:00:00:fe,", ""), 0, 4 + 6 + 2 + 16 + 1 + 2 + 2, 2),
        (IPV6_QUERY.replace("src=02:00:00:00:00:fe,", "").replace("proto=17,", ""), 0, 32, 1),
        (IPV6_QUERY, 0, 39, 2),
        (IPV6_QUERY, 2, 43, 2),  # a further pass is a register
        (f"dp_hash(0x3/0xf),{QUERY}", 2, 4 + 4 + 4 + 5, 1),
        (f"ct_state(+est+trk),ct_zone(0x1),{QUERY}", 2, 4 + 4 + 4 + 5, 1),  # state and zone share one
        ("eth_type(0x86dd),ipv6(src=2001:db8::1,dst=2001:db8::2,frag=no)", 0, 38, 2),
        ("tunnel(tun_id=0x5,src=192.0.2.1,dst=192.0.2.2),eth_type(0x0800),ipv4(frag=no)", 0, 4 + 8 + 4 + 4 + 2, 2),
    ],
)
def test_the_size_of_a_match_decides_its_rules(match: str, recirc: int, size: int, rules: int) -> None:
    judgement = judged("ovs-doca", match, recirc=recirc)
    assert (judgement.match_bytes, judgement.rules, judgement.tables) == (size, rules, rules)
    assert all(part.size <= 32 for part in judgement.parts)
    assert judged("ovs-dpdk", match).rules <= 1  # nobody has published a width


def test_the_first_rule_of_a_split_has_the_shared_fields() -> None:
    from_network = judged("ovs-doca", IPV6_QUERY).parts
    assert [f.key for f in from_network[0].fields] == [
        "recirc_id",
        "in_port",
        "ipv6.frag",
        "eth.dst",
        "eth_type",
        "ipv6.dst",
        "ipv6.proto",
        "udp.dst",
    ]
    assert [f.key for f in from_network[1].fields] == ["eth.src", "udp.src"]
    from_host = judged("ovs-doca", IPV6_QUERY, local_ports=frozenset(["p0"])).parts
    assert "eth.dst" not in {f.key for f in from_host[0].fields}
    assert {"eth.src", "udp.src"} <= {f.key for f in from_host[0].fields}


def test_wide_entries_hold_matches_that_others_split() -> None:
    assert judged("ovs-doca", IPV6_QUERY, wide_entries=True).rules == 1
    both = IPV6_QUERY.replace("dst=2001:db8::53", "src=2001:db8::1,dst=2001:db8::53")
    assert judged("ovs-doca", both, wide_entries=True).rules == 2


def test_first_rules_are_shared_by_the_slots_of_a_service() -> None:
    parts = [judged("ovs-doca", IPV6_QUERY.replace("40000", str(slot))).parts for slot in range(0, 128, 2)]
    assert sum(map(len, parts)) == 128
    assert shared_rules(parts) == 65


@pytest.mark.parametrize(
    ("actions", "match", "rules", "tables"),
    [
        ("meter(0),p1", QUERY, 3, 2),
        ("meter(0),meter(1),p1", QUERY, 5, 3),
        ("hash(sym_l4(0)),recirc(0x3)", QUERY, 2, 3),
        ("hash(sym_l4(0)),recirc(0x3)", "eth_type(0x86dd),ipv6(proto=17,frag=no)", 2, 4),
        ("ct(zone=5),recirc(0x3)", QUERY, 2, 4),
    ],
)
def test_rules_and_tables_of_actions(actions: str, match: str, rules: int, tables: int) -> None:
    judgement = judged("ovs-doca", match, actions)
    assert (judgement.rules, judgement.tables) == (rules, tables)


def test_more_rules_than_the_depth_allows_is_a_no() -> None:
    shallow = profile("ovs-doca")
    one = shallow.limits["split_depth"].model_copy(update={"value": 1})
    shallow = shallow.model_copy(update={"limits": {**shallow.limits, "split_depth": one}})
    flow = read_flow(line("ovs-doca-3", IPV6_QUERY))
    found = judge(flow, shallow)
    assert (found.verdict, found.why_software) == ("no", "2 rules for one flow; at most 1")


FIELDS = st.lists(
    st.sampled_from(
        [
            "eth(src=02:00:00:00:00:01)",
            "eth_type(0x0800)",
            "eth_type(0x86dd)",
            "ipv4(proto=17,frag=no)",
            "ipv4(frag=first)",
            "ipv6(proto=58,frag=no)",
            "udp(dst=53)",
            "tcp_flags(+syn)",
            "ct_state(+new+trk)",
            "dp_hash(0x3/0xff)",
            "arp(op=1)",
            "tunnel(tun_id=0x5)",
            "skb_mark(0)",
        ]
    ),
    unique_by=lambda text: text.partition("(")[0],
)
ACTIONS = st.lists(
    st.sampled_from(
        [
            "p1",
            "p0",
            "drop",
            "meter(1)",
            "recirc(0x3)",
            "hash(l4(0))",
            "ct(zone=1)",
            "trunc(9)",
            "clone(p2)",
            "pop_vlan",
            "set(ipv4(ttl=63))",
            "set(ipv6(dst=2001:db8::1))",
            "set(arp(op=2))",
            "userspace(pid=0,slow_path(action))",
        ]
    ),
    min_size=1,
)
REFUSED = ("skb_priority(0x1)", "nsh(spi=0x1)", "ipv6(label=0x1)", "nd(target=2001:db8::1)", "brand_new(0x1)")


@settings(max_examples=150, deadline=None)
@given(FIELDS, ACTIONS, st.sampled_from([0, 2]), st.sampled_from(REFUSED), st.sampled_from(profile_names()))
def test_a_match_that_is_refused_never_helps(
    fields: list[str], actions: list[str], recirc: int, refused: str, flavor: str
) -> None:
    fields = [field for field in fields if not field.startswith(refused.partition("(")[0])]
    before = judged(flavor, ",".join([*fields, "packet_type(ns=0,id=0)"]), ",".join(actions), recirc)
    after = judged(flavor, ",".join([*fields, refused]), ",".join(actions), recirc)
    assert after.verdict == "no"
    assert WORST_FIRST.index(after.verdict) <= WORST_FIRST.index(before.verdict)
    assert {r for r in before.reasons if r.verdict == "no"} <= set(after.reasons)


@settings(max_examples=100, deadline=None)
@given(
    FIELDS, ACTIONS, st.sampled_from(["trunc(9)", "push_nsh(spi=1)", "brand_new(1)"]), st.sampled_from(profile_names())
)
def test_an_action_that_is_not_offloaded_never_helps(
    fields: list[str], actions: list[str], refused: str, flavor: str
) -> None:
    match = ",".join([*fields, "packet_type(ns=0,id=0)"])
    before = judged(flavor, match, ",".join(actions))
    after = judged(flavor, match, ",".join([refused, *actions]))
    assert WORST_FIRST.index(after.verdict) <= min(WORST_FIRST.index(before.verdict), WORST_FIRST.index("partial"))


def test_the_same_flow_is_judged_the_same_again() -> None:
    for name in profile_names():
        flow = read_flow(line(name, IPV6_QUERY))
        assert judge(flow, profile(name)) == judge(flow, profile(name))
        assert judge(flow, profile(name)).as_json() == judge(flow, profile(name)).as_json()
        assert not isinstance(flow, Unreadable)
        assert match_bytes(flow) == 39
