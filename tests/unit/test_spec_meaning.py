# SPDX-License-Identifier: Apache-2.0
"""What a spec means: warnings, what is left unsaid, the JSON Schema, and the effort of checking."""

from __future__ import annotations

import sys
from pathlib import Path

import jsonschema
import pytest

from dnsteer.checks.load import check_document, load_spec
from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.errors import SpecError
from dnsteer.spec.model.families import FAMILIES
from dnsteer.spec.model.spec import Flavor, Forwarding, Protocol, Selection, Spec
from dnsteer.spec.read import parse_document, read_document
from tests.unit.spec_text import SPEC, changed, load

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize(
    ("pairs", "texts"),
    [
        ((), ()),
        ((("p0:", "p0:\n  ports: {vf0: }"),), ("10: $.switch.ports.vf0: found a port that no backend uses",)),
        (
            (("vips:", "  spare:\n    backends: [{name: c, ipv4: 192.0.2.13, mac: 02:00:00:00:01:03}]\nvips:"),),
            ("17: $.pools.spare: found a pool that no VIP uses",),
        ),
        ((("01:01}", "01:01, state: down}"),), ()),
        (
            (("01:01}", "01:01, state: down}"), ("01:02", "01:02\n        state: down")),
            ("12: $.pools.ns.backends: found every backend for IPv4 down",),
        ),
        (
            (
                ("192.0.2.11,", "192.0.2.11, ipv6: '2001:db8::1', state: down,"),
                ("- 192.0.2.53", "[192.0.2.53, 2001:db8::53]"),
            ),
            ("12: $.pools.ns.backends: found every backend for IPv6 down",),
        ),
        (
            (("pool: ns", "pool: ns\n    fragments: drop"),),
            ('23: $.vips.dns.fragments: found "drop" with forwarding dsr',),
        ),
        (
            (("pool: ns", "pool: ns\n  dot: {addresses: [192.0.2.53], services: [dot], pool: ns, echo: false}"),),
            ("23: $.vips.dot.echo: found false, while VIP dns with the same address says true",),
        ),
        (
            (("p0:", "p0: {type: netmap}"),),
            ('9: $.switch.uplinks.p0.type: found "netmap", which no known release of Open vSwitch has',),
        ),
        (
            (("  uplinks:", "  gateways: [192.0.2.1, '2001:db8::1']\n  uplinks:"),),
            (
                "8: $.switch.gateways[0]: found 192.0.2.1, a gateway that no answers need",
                "8: $.switch.gateways[1]: found 2001:db8::1, a gateway that no answers need",
            ),
        ),
        (
            (
                ("192.0.2.11,", "192.0.2.11, ipv6: '2001:db8:1::',"),
                ("192.0.2.12", "192.0.2.12\n        ipv6: 2001:db8::12"),
                ("- 192.0.2.53", "[192.0.2.53, '2001:db8::']"),
            ),
            (
                "21: $.vips.dns.addresses[1]: found 2001:db8::, the anycast address of the routers of 2001:db8::/64",
                "13: $.pools.ns.backends[0].ipv6: found 2001:db8:1::, the anycast address of the routers of 2001:db8:1::/64",
            ),
        ),
        (
            (("backends:", "slow_start: 30s\n    panic: 40%\n    hold_max: 1m\n    backends:"),),
            (
                "13: $.pools.ns.panic: found panic, and no health",
                "12: $.pools.ns.slow_start: found slow_start, and no health",
                "14: $.pools.ns.hold_max: found hold_max, and no health",
            ),
        ),
        ((("backends:", "slow_start: 30s\n    health: {query: {name: example.org}}\n    backends:"),), ()),
        (
            (("backends:", "health: [{}, {check: tcp, interval: 5s}]\n    backends:"),),
            ("12: $.pools.ns.health: found checks that test only that something answers",),
        ),
        (
            (("backends:", "health: [{}, {on_failure: warn, query: {name: example.org}}]\n    backends:"),),
            ("12: $.pools.ns.health: found checks that test only that something answers",),
        ),
        *(
            (
                (("backends:", f"serves: authoritative\n    health: {health}\n    backends:"),),
                ("13: $.pools.ns.health: found checks that test only that something answers",),
            )
            for health in (
                "{query: {class: CH}}",
                "[{query: {class: CH, name: version.bind}}, {check: tcp, query: {class: CH}, interval: 5s}]",
                "{query: {name: example.org, expect: {rcode: [NOERROR, NXDOMAIN, REFUSED]}}}",
                "{query: {name: example.org, expect: {rcode: [NOERROR, SERVFAIL]}}}",
            )
        ),
        *(
            ((("backends:", f"serves: authoritative\n    health: {health}\n    backends:"),), ())
            for health in (
                "[{query: {class: CH}}, {query: {name: example.org}}]",
                "{query: {name: none.example.org, expect: {rcode: [NOERROR, NXDOMAIN], answers: 0}}}",
                "{check: command, command: [/usr/lib/check-dns]}",
            )
        ),
        ((("backends:", "serves: resolver\n    health: {}\n    backends:"),), ()),
        ((("backends:", "health: [{}, {check: tcp, query: {type: NS}}]\n    backends:"),), ()),
        (
            (
                (
                    "vips:",
                    "lint: {accept: [{code: DNS999, reason: it is old}, {code: DNS010, reason: seen, at: vips.dsn}]}\nvips:",
                ),
            ),
            (
                '17: $.lint.accept[0].code: found "DNS999", which is no code of lint',
                '17: $.lint.accept[1].at: found "vips.dsn", which is nowhere in the spec',
            ),
        ),
        (
            (
                (
                    "vips:",
                    "lint:\n  accept:\n  - {code: DNS010, reason: a, at: vips.dns}\n"
                    "  - {code: DNS010, reason: b, at: $.pools.ns.slots}\n"
                    "  - {code: DNS010, reason: c, at: 'pools.ns.backends[1]'}\n"
                    "  - {code: DNS010, reason: d, at: switch}\n"
                    "  - {code: DNS010, reason: e, at: 'pools.ns.health[0].query.class'}\nvips:",
                ),
                ("backends:", "health: {query: {name: example.org}}\n    backends:"),
            ),
            (),
        ),
    ],
)
def test_specs_have_their_warnings(pairs: tuple[tuple[str, str], ...], texts: tuple[str, ...]) -> None:
    found = [w.text("spec.yaml") for w in load(changed(*pairs)).warnings]
    assert [w.split("; expected")[0] for w in found] == [f"spec.yaml:{t}" for t in texts]


def _example(name: str) -> str:
    return next(file for file in EXAMPLES if file.stem == name).read_text(encoding="utf-8")


def test_what_tunnels_and_own_traffic_lack_is_said() -> None:
    """Links of the usual MTU; no gateway for own traffic of a family. One that only own traffic needs is no warning."""
    text = changed(("  bringup:\n    mtu: 1600 ", "  # "), text=_example("vxlan"))
    assert ["vxlan, and links of 1500 bytes" in w.found for w in load(text).warnings] == [True]
    own = changed((", 2001:db8:1::53]", "]"), text=_example("resolvers-nat"))
    assert not load(own).warnings
    own = changed((", 2001:db8:53::1, 198.51.100.2, 2001:db8:1::2]", ", 198.51.100.2]"), text=own)
    assert [w.found for w in load(own).warnings] == ["no IPv6 gateway, and backends with IPv6 addresses"]


def test_endpoints_have_vip_protocol_and_ports() -> None:
    text = changed(
        ("[dns]", "[dns, {protocol: tcp, port: 5353, target_port: 53}, doq]"),
        ("pool: ns", "pool: ns\n    forwarding: nat"),
    )
    text = changed(
        ("p0:", "p0: {next_hop: 02:00:00:00:00:fe}"), ("  uplinks", "  gateways: [192.0.2.1]\n  uplinks"), text=text
    )
    with pytest.raises(SpecError, match="answers of backend"):
        load(text)
    vip = load(text.replace("target_port: 53", "target_port: 54")).spec.vips["dns"]
    assert [(e.protocol, e.port, e.target_port, e.index) for e in derived.endpoints(vip)] == [
        (Protocol.UDP, 53, 53, 0),
        (Protocol.TCP, 53, 53, 0),
        (Protocol.TCP, 5353, 54, 1),
        (Protocol.UDP, 853, 853, 2),
    ]


@pytest.mark.parametrize(
    ("mac", "gateway"),
    [
        ("02:00:00:00:00:53", "02:00:00:00:00:52"),
        ("02:00:00:00:00:52", "02:00:00:00:00:53"),
        ("02:00:00:00:00:FF", "02:00:00:00:00:fe"),
    ],
)
def test_the_default_gateway_mac_is_derived(mac: str, gateway: str) -> None:
    assert derived.gateway_mac(load(changed(("02:00:00:00:00:53", mac))).spec.switch) == gateway


def test_a_given_gateway_mac_is_normalised() -> None:
    text = changed(("  uplinks", "  gateway_mac: 02:00:00:00:00:AA\n  uplinks"))
    assert derived.gateway_mac(load(text).spec.switch) == "02:00:00:00:00:aa"


ANSWERS = """
    p0:
    p1: {next_hop: 02:00:00:00:01:fe}
    p2: {next_hop: 02:00:00:00:02:fe}
    p3: {answers: p2}
    p4: {next_hop: 02:00:00:00:04:fe, answers: p1}
  ports: {vf0: , vf1: {answers: p4}}
"""


@pytest.mark.parametrize(
    ("ingress", "leaves"),
    [("p0", "p1"), ("p1", "p1"), ("p2", "p2"), ("p3", "p2"), ("p4", "p1"), ("vf0", "p1"), ("vf1", "p4")],
)
def test_answers_leave_by_the_uplink_of_the_spec(ingress: str, leaves: str) -> None:
    switch = load(changed(("\n    p0:\n", ANSWERS))).spec.switch
    assert derived.answers_leave_by(switch, ingress) == leaves
    assert derived.answers_leave_by(load(SPEC).spec.switch, "p0") is None


def test_answers_pass() -> None:
    text = changed(("p0:", "p0: {next_hop: 02:00:00:00:00:fe}\n  ports: {vf0: }\n  gateways: [192.0.2.1]"))
    spec = load(
        changed(
            ("01:01}", "01:01, port: vf0}"),
            ("mac: 02:00:00:00:01:02", "mac: 02:00:00:00:01:02\n        port: p0"),
            text=text,
        )
    ).spec
    backends = spec.pools["ns"].backends
    assert [MODES[spec.vips["dns"].forwarding].answers_pass(spec.switch, b) for b in backends] == [True, False]
    nat = spec.vips["dns"].model_copy(update={"forwarding": Forwarding.NAT})
    assert [MODES[nat.forwarding].answers_pass(spec.switch, b) for b in backends] == [True, True]


def test_pools_have_members_and_slot_counts() -> None:
    spec = load(changed(("192.0.2.11", "192.0.2.11, ipv6: 2001:db8::b"))).spec
    pool = spec.pools["ns"]
    assert [[b.name for b in derived.members(pool, family)] for family in FAMILIES] == [["a", "b"], ["a"]]
    assert derived.slot_count(spec, pool) == 256
    hashed = pool.model_copy(update={"selection": Selection.DP_HASH})
    assert derived.slot_count(spec, hashed) == 256
    doca = spec.model_copy(update={"switch": spec.switch.model_copy(update={"flavor": Flavor.OVS_DOCA})})
    assert derived.slot_count(doca, hashed) == 16


# --- examples, JSON Schema, effort


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda p: p.stem)
def test_examples_are_valid_without_warnings(file: Path) -> None:
    assert load_spec(file).warnings == ()
    SCHEMA.validate(read_document(file).value)


SCHEMA = jsonschema.Draft202012Validator(Spec.model_json_schema(), format_checker=jsonschema.FormatChecker())


def test_the_schema_is_a_valid_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA.schema)
    SCHEMA.validate(parse_document("x", SPEC).value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dnsteer/v1", "dnsteer/v2"),
        ("switch:", "swtich:"),
        ("ovs-netdev", "ovs"),
        ("br-dns", "1"),
        ("p0:", "p0: up"),
        ("p0:", "0p:"),
        ("    p0:\n", "    {}\n"),
        ("name: b", "name: b b"),
        ("name: b", "name: true"),
        ("name: b", "name: b\n        slots: 5"),
        ("01:01}", "01:01, weight: -1}"),
        ("01:01}", "01:01, weight: '1'}"),
        ("01:01}", "01:01, weight: 65536}"),
        ("01:01}", "01, state: off}"),
        ("192.0.2.11", "192.0.2.311"),
        ("    backends", "    slots: 100\n    backends"),
        ("    backends", "    slots: 8192\n    backends"),
        ("  ns:", "  n s:"),
        ("[dns]", "[]"),
        ("[dns]", "[ntp]"),
        ("[dns]", "[{protocol: udp}]"),
        ("[dns]", "[{protocol: udp, port: 0}]"),
        ("[dns]", "dns"),
        ("pool: ns", "pool: ns\n    echo: yes"),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(old: str, new: str) -> None:
    value = parse_document("x", changed((old, new))).value
    assert not SCHEMA.is_valid(value)
    with pytest.raises(SpecError):
        load(changed((old, new)))


def many(n: int, nat: bool) -> str:
    pools = "".join(
        f"  p{i}:\n    backends:\n"
        + "".join(
            f"      - {{name: b{k}, ipv4: 10.{i >> 8}.{i & 255}.{k}, mac: 02:00:00:{i >> 8:02x}:{i & 255:02x}:{k:02x}}}\n"
            for k in range(1, 5)
        )
        for i in range(n)
    )
    how = "forwarding: nat, fragments: drop" if nat else "forwarding: dsr"
    vips = "".join(
        f"  v{i}: {{addresses: [172.16.{i >> 8}.{i & 255}], services: [dns, dot, doq, doh], pool: p{i}, {how}}}\n"
        for i in range(n)
    )
    text = changed(
        ("    p0:", "    p0: {next_hop: 02:00:00:00:ff:fe}"), ("  uplinks", "  gateways: [192.0.2.1]\n  uplinks")
    )
    return text[: text.index("pools:")] + f"pools:\n{pools}vips:\n{vips}"


def calls(text: str) -> int:
    """How many functions checking calls, C functions included."""
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    doc = parse_document("x", text)
    sys.setprofile(note)
    try:
        check_document(doc)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("nat", [False, True], ids=["dsr", "nat"])
def test_effort_grows_with_the_spec_and_not_faster(nat: bool) -> None:
    once, twice = calls(many(100, nat)), calls(many(200, nat))
    assert once * 1.5 < twice < once * 2.1


TWO_BY_NAT = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1]
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
pools:
  ns:
    backends:
      - {name: a, ipv4: 10.53.0.11, mac: 02:00:00:00:01:01}
      - {name: b, ipv4: 10.53.0.12, mac: 02:00:00:00:01:02}
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: ns, forwarding: nat}
  two: {addresses: [192.0.2.54], services: [dns], pool: ns, forwarding: nat}
"""
SECOND = """\
  second:
    backends:
      - {name: a, ipv4: 10.53.0.21, mac: 02:00:00:00:01:01}
      - {name: b, ipv4: 10.53.0.22, mac: 02:00:00:00:01:02}
vips:
"""
ON_ANOTHER_PORT = (
    "services: [{protocol: udp, port: 53, target_port: 5353}, {protocol: tcp, port: 53, target_port: 5353}]"
)


def test_two_vips_by_nat_work_by_each_way_out_that_the_error_names() -> None:
    with pytest.raises(
        SpecError, match=r"a second address of each server, or another target_port.*fragments: drop in both"
    ):
        load(TWO_BY_NAT)
    first, _, second = TWO_BY_NAT.rpartition("\n  two:")
    load(f"{first}\n  two:{second.replace('pool: ns', 'pool: second')}".replace("vips:\n", SECOND))
    other_port = second.replace("services: [dns]", ON_ANOTHER_PORT)
    load(f"{first}\n  two:{other_port}".replace("forwarding: nat", "forwarding: nat, fragments: drop"))
