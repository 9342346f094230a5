# SPDX-License-Identifier: Apache-2.0
"""Which pools have two passes, and how many slots a pool gets that many services share: by the spec alone."""

from __future__ import annotations

import pytest

from dnsteer.checks.load import check_document
from dnsteer.modes import MODES
from dnsteer.offload.packet_path import PacketPath
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from dnsteer.tables.passes import passes_of, query_rules, with_chosen

_HEAD = "apiVersion: dnsteer/v1\nswitch:\n  flavor: {flavor}\n  bridge: br-dns\n  mac: 02:00:00:00:00:53\n"


def spec(
    pools: dict[str, tuple[str, int]], rules: int | None = None, flavor: str = "ovs-netdev", backends: int = 2
) -> Loaded:
    """A spec with pools: of each the lines of its own keys, and the number of its VIPs of one address and one service."""
    budget = f"  rules: {rules}\n" if rules else ""
    lines = [f"{_HEAD.format(flavor=flavor)}{budget}  uplinks: {{p0: {{type: system}}}}\npools:\n"]
    for p, (name, (keys, _)) in enumerate(pools.items()):
        lines.append(f"  {name}:\n{keys}    backends:\n")
        lines += [
            f"      - {{name: b{n}, ipv4: 10.{p}.0.{n + 1}, mac: '02:00:00:{p + 1:02x}:00:{n:02x}'}}\n"
            for n in range(backends)
        ]
    lines.append("vips:\n")
    for p, (name, (_, vips)) in enumerate(pools.items()):
        lines += [
            f"  {name}{v}: {{addresses: [172.16.{4 * p + v // 250}.{v % 250 + 1}], services: [doq], pool: {name}}}\n"
            for v in range(vips)
        ]
    return check_document(parse_document("spec.yaml", "".join(lines)))


def chosen(loaded: Loaded) -> dict[str, int]:
    return passes_of(loaded.spec, MODES)


FEW, MANY, MORE = ("    slots: 16\n", 4), ("    slots: 16\n", 40), ("    slots: 16\n", 80)


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        (None, {"few": 1, "many": 1, "more": 1}),
        (1984, {"few": 1, "many": 1, "more": 1}),  # 124 services times 16
        (1983, {"few": 1, "many": 1, "more": 2}),
        (800, {"few": 1, "many": 1, "more": 2}),  # 64 + 640 + 96
        (799, {"few": 1, "many": 2, "more": 2}),
        (216, {"few": 1, "many": 2, "more": 2}),  # 64 + 56 + 96
        (215, {"few": 2, "many": 2, "more": 2}),
        (1, {"few": 2, "many": 2, "more": 2}),
    ],
)
def test_pools_with_most_rules_go_to_two_passes_until_it_is_enough(rules: int | None, wanted: dict[str, int]) -> None:
    loaded = spec({"few": FEW, "many": MANY, "more": MORE}, rules)
    assert chosen(loaded) == wanted
    counted = query_rules(loaded.spec, MODES)
    total = sum(r.in_two_passes if wanted[name] == 2 else r.in_one_pass for name, r in counted.items())
    assert sizes_of(loaded.spec, build_plan(loaded)).total == total, "as many as the plan makes"


def test_what_the_spec_says_stays() -> None:
    one, two = ("    slots: 16\n    passes: 1\n", 80), ("    slots: 16\n    passes: 2\n", 2)
    assert chosen(spec({"one": one, "two": two, "free": FEW}, 1)) == {"one": 1, "two": 2, "free": 2}
    assert chosen(spec({"one": one, "two": two, "free": FEW})) == {"one": 1, "two": 2, "free": 1}


def test_two_passes_that_save_nothing_are_not_taken() -> None:
    assert chosen(spec({"one": ("    slots: 16\n", 1)}, 1)) == {"one": 1}


def test_auto_is_one_pass_where_the_second_would_be_the_processors() -> None:
    assert chosen(spec({"more": MORE}, 1, flavor="ovs-dpdk")) == {"more": 1}
    assert chosen(spec({"more": MORE}, 1, flavor="ovs-doca")) == {"more": 2}


def test_the_hash_has_its_own_second_pass() -> None:
    hashed = ("    selection: dp-hash\n    slots: 16\n", 80)
    assert chosen(spec({"hashed": hashed}, 1)) == {"hashed": 1}


@pytest.mark.parametrize(
    ("keys", "services", "backends", "slots"),
    [
        ("", 1, 2, 256),
        ("", 64, 2, 256),
        ("", 65, 2, 128),
        ("", 128, 2, 128),
        ("", 129, 2, 64),
        ("    slots: auto\n", 129, 2, 64),
        ("", 129, 16, 64),
        ("", 129, 17, 128),
        ("", 129, 100, 256),
        ("    passes: 2\n", 129, 2, 256),
        ("    passes: 1\n", 129, 2, 64),
        ("    slots: 512\n", 129, 2, 512),
        ("    selection: dp-hash\n", 129, 2, 256),
    ],
)
def test_slots_follow_how_many_services_share_the_pool(keys: str, services: int, backends: int, slots: int) -> None:
    loaded = spec({"pool": (keys, services)}, backends=backends)
    assert derived.slot_count(loaded.spec, loaded.spec.pools["pool"]) == slots
    assert build_plan(loaded).members[0].slots == slots


def test_the_number_stays_where_vips_are_left_out() -> None:
    loaded = spec({"pool": ("", 200), "other": ("", 1)}, 1000)
    whole = with_chosen(loaded.spec, MODES)
    kept = {name: vip for name, vip in whole.vips.items() if name in ("pool0", "other0")}
    left = whole.model_copy(update={"vips": kept})
    assert [derived.slot_count(left, pool) for pool in left.pools.values()] == [64, 256]
    assert passes_of(left, MODES) == chosen(loaded) == {"pool": 2, "other": 1}


def test_what_is_left_out_does_not_change_the_digest() -> None:
    """So that a state that was applied before the keys were there is known."""
    plain = spec({"pool": ("", 4)})
    assert spec({"pool": ("    slots: auto\n    passes: auto\n", 4)}).digest == plain.digest
    assert spec({"pool": ("    passes: 2\n", 4)}).digest != plain.digest
    assert spec({"pool": ("", 4)}, 1).digest != plain.digest


def test_a_pool_of_another_spec_is_not_counted() -> None:
    one, other = spec({"pool": ("", 200)}), spec({"pool": ("", 1)})
    with pytest.raises(KeyError):
        derived.slot_count(one.spec, other.spec.pools["pool"])


def test_rules_of_the_second_pass_count_once_for_the_services_that_share_them() -> None:
    pytest.importorskip("scipy")
    from dnsteer.capacity.paths import rules_together

    loaded = spec({"pool": ("    passes: 2\n    slots: 16\n", 3), "other": ("    slots: 16\n", 1)})

    def path(vip: str, rules: int, shared: int) -> PacketPath:
        return PacketPath(
            vip, "udp/853", "ipv4", "query", "dsr", "source-port", 16, rules, 2, 1, 20, 2, 1, True, "yes", shared=shared
        )

    paths = [path("pool0", 17, 16), path("pool1", 17, 16), path("pool2", 17, 16), path("other0", 16, 0)]
    assert rules_together(loaded.spec, paths) == 3 + 16 + 16


def test_the_rules_of_workers_and_of_services_with_their_own_slots_are_those_of_the_plan() -> None:
    text = """apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.0.0.254]
  uplinks: {p0: {next_hop: '02:00:00:00:00:fe'}, p1: }
pools:
  workers:
    passes: 2
    slots: 16
    backends: [{name: a, ipv4: 10.0.0.1, mac: '02:00:00:00:01:01', workers: 2}]
  checked:
    passes: 2
    slots: 16
    health: [{check: dns}, {check: tls, per: service}]
    backends: [{name: b, ipv4: 10.0.0.2, ipv6: '2001:db8::2', mac: '02:00:00:00:01:02'}]
vips:
  w:
    addresses: [198.51.100.1]
    services: [{protocol: udp, port: 53, target_port: 5500}, {protocol: udp, port: 853, target_port: 5600}]
    pool: workers
    forwarding: nat
    fragments: drop
  c: {addresses: [198.51.100.2, '2001:db8:1::2'], services: [dns, dot], pool: checked}
"""
    loaded = check_document(parse_document("spec.yaml", text))
    counted = {name: (r.services, len(r.kinds)) for name, r in query_rules(loaded.spec, MODES).items()}
    assert counted == {"workers": (2, 2), "checked": (6, 6)}
    made = sum(
        n for (what, _), n in sizes_of(loaded.spec, build_plan(loaded)).rules.items() if what.startswith("queries")
    )
    assert made == sum(r.in_two_passes for r in query_rules(loaded.spec, MODES).values())
