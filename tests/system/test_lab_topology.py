# SPDX-License-Identifier: Apache-2.0
"""The lab's plan of a network. Pure functions: these tests need no root."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.lab import TopologyError, names, topology, traffic
from dnsteer.lab.shares import ExpectedQueries, queries_needed
from dnsteer.lab.state import fingerprint
from dnsteer.lab.targets import targets_of
from dnsteer.lab.topology import Host, Topology
from tests.system.lab_specs import EVERYTHING, spec_of

EXAMPLES = Path(__file__).parents[2] / "examples"


def host(plan: Topology, namespace: str) -> Host:
    return next(h for h in plan.hosts if h.namespace == namespace)


def test_one_armed_servers_own_the_vip_and_answer_straight() -> None:
    plan = topology.plan_network(load_spec(EXAMPLES / "quickstart.yaml").spec)
    assert plan.namespaces() == [
        "dnst-sw",
        "dnst-net-p0",
        "dnst-c-p0",
        "dnst-b-ns1",
        "dnst-b-ns2",
        "dnst-b-ns3",
        "dnst-b-ns4",
    ]
    ns1 = host(plan, "dnst-b-ns1")
    assert (ns1.queries_by, ns1.passes, ns1.gateways) == (["p0"], False, [])
    assert ns1.vips == ns1.straight == [ip_address("192.0.2.53"), ip_address("2001:db8::53")]
    assert (ip_address("192.0.2.53"), 53) in ns1.servers[0].listen
    assert (ip_address("192.0.2.11"), 53) in ns1.servers[0].listen


def test_a_port_of_its_own_is_a_wire() -> None:
    plan = topology.plan_network(load_spec(EXAMPLES / "own-ports.yaml").spec)
    assert list(plan.fabrics) == ["p0"]
    a = host(plan, "dnst-b-a")
    assert a.passes and a.straight == []
    assert a.servers[0].listen[:2] == [(ip_address("10.53.0.11"), 5353), (ip_address("2001:db8:53::11"), 5353)]
    assert plan.server_of["hashed", "a"] == plan.server_of["direct", "a"] == "a"


def test_the_topology_of_a_spec_with_every_feature() -> None:
    plan = topology.plan_network(spec_of(EVERYTHING))
    assert [c.uplink for c in plan.clients] == ["p0", "p1"]
    assert sorted(plan.fabrics) == ["p0", "p1", "p2", "spare", "vf0"]
    assert {s.name for _, s in plan.servers()} == {"m", "f", "nat.s1", "s2", "r1", "r2", "other.s1"}
    mixed = host(plan, "dnst-b-m")
    assert mixed.passes and mixed.straight and mixed.segments == ["p0", "p1"]
    far = host(plan, "dnst-b-f")
    assert (far.queries_by, far.answers_by) == (["p2"], ["p0", "p1"])
    router = host(plan, "dnst-b-r1")
    assert [s.name for s in router.servers] == ["r1", "r2"]
    assert any("udp/853" in note for note in plan.notes)


def test_servers_in_tunnels_own_vips_of_both_families_and_take_tunnels_off() -> None:
    plan = topology.plan_network(load_spec(EXAMPLES / "ipip.yaml").spec)
    assert (
        plan.extension == {"ext-in": "ext-in", "ext-out": "ext-out"} and names.EXTENSION_NAMESPACE in plan.namespaces()
    )
    assert plan.mtu == 1600
    ns3 = host(plan, "dnst-b-ns3")  # it has an IPv6 address only
    assert ns3.tunneled and not ns3.passes
    assert ns3.vips == ns3.straight == [ip_address("198.51.100.53"), ip_address("2001:db8:1::53")]
    assert (ip_address("198.51.100.53"), 53) in ns3.servers[0].listen


def test_servers_of_translated_vips_own_none_and_route_by_the_gateway() -> None:
    plan = topology.plan_network(load_spec(EXAMPLES / "siit.yaml").spec)
    s1 = host(plan, "dnst-b-s1")
    assert s1.passes and not s1.vips and s1.gateways == [ip_address("2001:db8:53::1")]
    assert s1.servers[0].small and s1.servers[0].listen == [(ip_address("2001:db8:53::11"), 53)]


def test_clients_have_many_addresses_where_they_are_told_apart() -> None:
    by_client, by_port = (
        topology.plan_network(load_spec(EXAMPLES / f"{n}.yaml").spec) for n in ("client-hash", "spray")
    )
    assert [network.num_addresses for network in by_client.clients[0].many] == [65536, 65536]
    assert by_port.clients[0].many == ()


def test_the_direct_path_to_a_server_without_the_vips_family_is_in_the_other() -> None:
    spec = load_spec(EXAMPLES / "siit.yaml").spec
    translated = next(targets_of(spec, topology.plan_network(spec)))
    assert (translated.address.version, translated.direct_address.version) == (4, 6)
    spec = load_spec(EXAMPLES / "ipip.yaml").spec
    assert {(t.address.version, t.direct_address.version) for t in targets_of(spec, topology.plan_network(spec))} == {
        (4, 4),
        (6, 6),
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{port: ext-in}", "{port: ext-in, device: a-name-too-long1}", "'a-name-too-long1': Linux takes 15 characters"),
        (
            "02:00:00:00:01:02",
            "02:00:00:00:01:01",
            "backends ns1 and ns2 are behind one router, and get queries in tunnels",
        ),
    ],
)
def test_unsupported_extension_specs_are_refused(old: str, new: str, said: str) -> None:
    text = (EXAMPLES / "ipip.yaml").read_text().replace(old, new)
    with pytest.raises(TopologyError, match=said):
        topology.plan_network(spec_of(text))


def test_links_that_tunnels_come_in_by_are_no_longer_than_a_page() -> None:
    text = (EXAMPLES / "ipip.yaml").read_text().replace("mtu: 1600", "mtu: 9000")
    plan = topology.plan_network(spec_of(text))
    assert plan.mtu == 3000 and any("not 9000" in note for note in plan.notes)


def test_weights_do_not_change_the_fingerprint_and_addresses_do() -> None:
    before = fingerprint(topology.plan_network(spec_of(EVERYTHING)))
    heavier = EVERYTHING.replace("mac: 02:00:00:00:05:02,", "mac: 02:00:00:00:05:02, weight: 7,")
    assert fingerprint(topology.plan_network(spec_of(heavier))) == before
    assert fingerprint(topology.plan_network(spec_of(EVERYTHING.replace("10.53.0.12", "10.53.0.13")))) != before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("02:00:00:00:05:01", "02:00:00:00:00:fe", "backend m and the next hop of p0 share the MAC address"),
        ("10.53.0.12", "198.18.1.3", "198.18.1.3 of the spec is the address of a client of the lab"),
        ("spare:", "lo:", "the lab cannot name an interface 'lo'"),
    ],
)
def test_unsupported_specs_are_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        topology.plan_network(spec_of(EVERYTHING.replace(old, new)))


def test_tunnels_of_the_switch_are_refused() -> None:
    with pytest.raises(TopologyError, match="do not take Ethernet out of tunnels, and the spec has forwarding vxlan"):
        topology.plan_network(load_spec(EXAMPLES / "vxlan.yaml").spec)


def test_every_socket_of_dnsperf_sends_the_same_number_of_queries() -> None:
    assert traffic.queries_in_file() % traffic.MAX_CLIENTS == 0


def test_shares_expect_what_the_slots_say() -> None:
    spec = load_spec(EXAMPLES / "own-ports.yaml").spec
    expected = ExpectedQueries(spec, topology.plan_network(spec).server_of)
    expected.add("direct", "ipv4", 1000, 128)
    expected.add("hashed", "ipv4", 1000, 256)
    assert sum(expected.queries.values()) == pytest.approx(2000)
    assert expected.queries["a"] == pytest.approx(1000)
    assert expected.allowed("c") == 0.02  # chosen by the source port: exact
    assert 0.1 < expected.allowed("a") < 0.15  # half of it is chosen by the hash of 256 tuples
    assert expected.deviation("c", 510) == pytest.approx(0.02)


def test_sprayed_shares_settle_with_many_queries() -> None:
    spec = load_spec(EXAMPLES / "spray.yaml").spec
    expected = ExpectedQueries(spec, topology.plan_network(spec).server_of)
    enough = queries_needed(expected.shares("sprayed", "ipv4"))
    assert enough > 100_000
    expected.add("sprayed", "ipv4", enough - 100, 1)
    assert not expected.has_enough_sprayed() and expected.allowed("ns1") == pytest.approx(0.02, rel=0.001)
    expected.add("sprayed", "ipv6", 100, 1)
    assert expected.has_enough_sprayed() and expected.allowed("ns1") == 0.02


def test_shares_of_a_few_clients_are_known_roughly() -> None:
    spec = load_spec(EXAMPLES / "client-hash.yaml").spec
    expected = ExpectedQueries(spec, topology.plan_network(spec).server_of)
    for _ in range(2):  # the same client again: its queries go where they went
        expected.add("resolvers", "ipv4", 1000, 256, ("198.18.0.64",))
    one = expected.allowed("r3")
    assert one == pytest.approx(4.0)
    expected.add("resolvers", "ipv4", 2000, 256, ("198.18.0.65",))
    assert expected.allowed("r3") == pytest.approx(one / 2**0.5)
