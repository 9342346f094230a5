# SPDX-License-Identifier: Apache-2.0
"""What the rig of comparisons is made of: its junk, its lists, the peers' rules, and its figures."""

from __future__ import annotations

import argparse
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from bench.rig.__main__ import installed, lengths, parser, words
from bench.rig.campaign import NONE, changes, summary
from bench.rig.junk import DENIED_24, KINDS, built, frame_and_mask, printed
from bench.rig.limited import PREFIX_RATE, VIP_RATE, DnsteerClients, DnsteerQueries, NftablesLimited
from bench.rig.network import FAMILIES, SERVERS
from bench.rig.peers import PEERS, Iptables, Nftables, NftablesDnat, denied_prefixes, spec_text
from bench.rig.tracked import KEEP, slab_bytes, tracked_summary
from bench.rig.tracked import VARIANTS as TRACKED
from bench.rig.vips import VARIANTS, computed, vips_spec, vips_summary

from dnsteer.proof.reference import wire
from tests.unit.spec_text import load

COUNT = 300


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("sender"))


@pytest.mark.parametrize("name", KINDS)
def test_junk_varies_in_what_its_kind_says_and_is_whole(sender: Path, name: str) -> None:
    kind = KINDS[name]
    frames = printed(sender, kind, spec_text(), COUNT, seed=7)
    packets = [wire.parse(frame) for frame in frames]
    fixed, mask = frame_and_mask(kind, spec_text())
    assert len(packets) == COUNT
    for packet in packets:
        sealed = bytearray(packet.data)
        wire.write_checksums(sealed)
        assert sealed == packet.data, "its checksums are not right"
        assert packet.protocol == wire.UDP and bool(packet.payload[2] & 0x80) is not kind.asks, (
            "servers would answer it"
        )
        here = wire.parse(fixed)
        for value, of_frame, at in (
            (packet.source, here.source, mask[here.l3 + (12 if kind.version == 4 else 8) :]),
            (packet.destination, here.destination, mask[here.l3 + (16 if kind.version == 4 else 24) :]),
        ):
            assert all((a ^ b) & ~bit == 0 for a, b, bit in zip(value, of_frame, at, strict=False))
    drawn = {
        "source": {p.source for p in packets},
        "destination": {p.destination for p in packets},
        "sport": {p.sport for p in packets},
        "dport": {p.dport for p in packets},
    }
    for field, values in drawn.items():
        bits = getattr(kind, field)
        assert len(values) == 1 if not bits else len(values) > min(COUNT, 1 << bits) * 0.6, field


def test_junk_goes_where_it_says(sender: Path) -> None:
    def packets(name: str) -> list[wire.Packet]:
        return [wire.parse(frame) for frame in printed(sender, KINDS[name], spec_text(), 50, seed=1)]

    routed, denied = ip_network(FAMILIES[6].routed), ip_network(DENIED_24)
    assert all(ip_address(p.destination) in routed and p.dport == 53 for p in packets("destinations"))
    assert all(ip_address(p.source) in denied and p.dport == 53 for p in packets("one-24"))
    assert all(ip_address(p.source) in ip_network("198.18.0.0/15") for p in packets("sources"))
    assert {p.dport for p in packets("one-flow")}.isdisjoint({53})
    assert {ip_address(p.destination) for p in packets("ports")} == {ip_address(FAMILIES[4].vip)}


def test_seeds_make_other_junk_and_the_same_again(sender: Path) -> None:
    one, again, other = (printed(sender, KINDS["sources"], spec_text(), 20, seed) for seed in (1, 1, 2))
    assert one == again and not set(one) & set(other)


def test_lists_deny_no_client_and_no_server() -> None:
    for count in (0, 1, 2, 20_000):
        found = [ip_network(prefix) for prefix in denied_prefixes(count)]
        assert len(set(found)) == count and {net.prefixlen for net in found} <= {24}
        assert [str(net) for net in found[-1:]] == ([DENIED_24] if count else [])
    wanted = [ip_address(a) for f in FAMILIES.values() for a in (f.client, *f.direct, *f.servers, f.vip)]
    wanted += [ip_address(a) for a in FAMILIES[4].clients(200)]
    assert not any(address in net for net in found for address in wanted if address.version == 4)


@pytest.mark.parametrize(("version", "length"), [(4, 24), (6, 56)])
def test_clients_have_a_prefix_each(version: int, length: int) -> None:
    clients = FAMILIES[version].clients(200)
    assert len({ip_network(f"{client}/{length}", strict=False) for client in clients}) == 200
    assert all(ip_address(client) in ip_network(FAMILIES[version].others) for client in clients)


def test_limits_stand_in_rules_and_spec() -> None:
    limits = load(DnsteerQueries(Path()).spec()).spec.vips["dns"].limits
    assert limits is not None and limits.queries == VIP_RATE
    limits = load(DnsteerClients(Path()).spec()).spec.vips["dns"].limits
    assert limits is not None and limits.clients is not None and limits.clients.rate == PREFIX_RATE
    rules = NftablesLimited(Path()).ruleset([])
    assert rules.count(f"limit rate over {PREFIX_RATE}/second") == 2 and "limit rate" not in Nftables(Path()).ruleset(
        []
    )


def test_specs_of_many_vips_say_of_the_pool_what_their_variant_does() -> None:
    found = {name: computed(vips_spec(variant, 300)) for name, variant in VARIANTS.items()}
    assert found == {  # 300 VIPs of two families, UDP and TCP
        "single": {"slots": 256, "datapath_flows": 4 * 256},
        "auto": {"slots": 64, "datapath_flows": 1200 * 64},
        "two": {"slots": 256, "datapath_flows": 1200 + 4 * 256},
        "one": {"slots": 64, "datapath_flows": 1200 * 64},
        "one-256": {"slots": 256, "datapath_flows": 1200 * 256},
    }


def test_runs_of_vips_become_spreads_beside_their_controls() -> None:
    keys = (
        "asked",
        "qps",
        "lost",
        "latency_ms",
        "latency_p99_ms",
        "latency_p50_ms",
        "latency_p999_ms",
        "silent",
        "least",
        "most",
        "megaflows",
        "flow_limit",
    )
    keys += ("revalidation_ms", "upcalls", "upcalls_of_second_half", "upcalls_lost", "unread", "cpu_share", "machine")
    runs = [
        {"variant": name, **dict.fromkeys(keys, n), "control": dict.fromkeys(keys, 2 * n)}
        for n, name in enumerate(("one", "two", "one"), 1)
    ]
    one, two = vips_summary(runs)
    assert (one["variant"], one["lost"], one["control"]["qps"]["max"]) == (
        "one",
        {"min": 1, "median": 2.0, "max": 3},
        6,
    )
    assert two["megaflows"] == {"min": 2, "median": 2, "max": 2}


def test_the_spec_serves_both_families_by_nat() -> None:
    spec = load(spec_text()).spec
    assert {str(a) for a in spec.vips["dns"].addresses} == {f.vip for f in FAMILIES.values()}
    assert len(spec.pools["servers"].backends) == SERVERS
    assert "deny_file: denied.txt" in spec_text("denied.txt")


def test_rules_have_every_server_and_every_denied_prefix() -> None:
    denied = denied_prefixes(100)
    texts = {
        "stateless": Nftables(Path()).ruleset(denied),
        "dnat": NftablesDnat(Path()).ruleset(denied),
        "iptables": Iptables(Path()).rules(4, denied),
    }
    for text in texts.values():
        assert all(text.count(word) >= 1 for word in (*denied, *FAMILIES[4].servers))
    assert "dnat" in texts["dnat"] and "dnat" not in texts["stateless"]
    assert texts["iptables"].count("-j DROP") == 100 and texts["iptables"].count("-j DNAT") == 2 * SERVERS
    assert "denied" not in Nftables(Path()).ruleset([]) and "DROP" not in Iptables(Path()).rules(4, [])


def run(qps: float, of: float, junk: str = NONE, **more: Any) -> dict[str, Any]:
    figures = {"lost": 0.0, "latency_ms": 0.1, "machine": 0.5}
    return {
        "peer": "dnsteer",
        "list": 0,
        "junk": junk,
        "qps": qps,
        **figures,
        **more,
        "control": {"qps": of, **figures},
    }


def test_rounds_become_spreads_beside_their_controls() -> None:
    sent = {"junk_sent": {"pps": 9}, "megaflows": 3}
    rows = summary([run(10, 20), run(30, 40), run(50, 50), run(1, 1, "ports", **sent)])
    assert [(row["junk"], row["qps"]["median"]) for row in rows] == [(NONE, 30), ("ports", 1)]
    assert rows[0]["qps"] == {"min": 10, "median": 30, "max": 50}
    assert rows[0]["of_control"] == {"min": 0.5, "median": 0.75, "max": 1.0} and "megaflows" not in rows[0]
    assert (rows[1]["junk_pps"]["max"], rows[1]["megaflows"]["max"]) == (9, 3)
    took = [{"peer": "nftables", "list": 100, "load_s": n, "change_s": n / 2} for n in (1, 2, 6)]
    assert changes(took)[0]["change_s"] == {"min": 0.5, "median": 1.0, "max": 3.0}


def test_options_name_what_there_is() -> None:
    options = parser().parse_args(["--peers", "dnsteer,nftables", "--junk", "all", "--lists", "0,1000"])
    assert options.peers == ["dnsteer", "nftables"] and options.junk == [NONE, *KINDS] and options.lists == [0, 1000]
    with pytest.raises(argparse.ArgumentTypeError, match="found haproxy; expected all, or some of dnsteer, nftables"):
        words("dnsteer,haproxy", PEERS)
    for bad in ("", "-1", "60001", "1,x"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected numbers from 0 to 60000"):
            lengths(bad)


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.rig.__main__.missing", lambda programs: [p for p in programs if p == "dnsdist"])
    peers, left_out = installed(["dnsteer", "dnsdist"], tmp_path)
    assert list(peers) == ["dnsteer"] and left_out == ["dnsdist: missing dnsdist: scripts/packages.sh peers"]


def test_specs_of_tracked_connections_are_in_the_mode_of_their_variant() -> None:
    for name, mode in TRACKED.items():
        if mode is None:
            continue
        forwarding, more = mode
        vip = load(spec_text("", more, forwarding)).spec.vips["dns"]
        assert vip.forwarding.value == forwarding and (vip.keep is not None) == (more == KEEP), name
    assert [name for name, mode in TRACKED.items() if mode is None] == ["nftables-dnat"]


def test_memory_of_the_kernels_connections_is_read_of_its_slabs() -> None:
    slabs = "slabinfo\nnf_conntrack_expect 3 4 208 19 1\nnf_conntrack  96  160  256  16  1 : tunables\n"
    assert slab_bytes(slabs) == 96 * 256 and slab_bytes("") == 0


def test_runs_of_tracked_connections_become_spreads_beside_their_controls() -> None:
    runs = [
        {
            "variant": "nat",
            **dict.fromkeys(("lost", "reset", "mean_ms", "p99_ms", "machine"), 0),
            "per_second": rate,
            "held": {"bytes_each": rate // 10},
            "control": {"per_second": 4000, "lost": 0},
        }
        for rate in (1000, 3000, 2000)
    ]
    (row,) = tracked_summary(runs)
    assert row["per_second"] == {"median": 2000, "min": 1000, "max": 3000}
    assert row["of_control"] == {"median": 0.5, "min": 0.25, "max": 0.75}
    assert row["held"]["bytes_each"]["median"] == 200 and "cpu_share" not in row
