# SPDX-License-Identifier: Apache-2.0
"""What the plan has for the extension: exits, targets, slots and the program; and the doubts about such specs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dnsteer.checks.load import check_document, load_spec
from dnsteer.plan.build import build_plan
from dnsteer.plan.extension.program import ExtensionPlan
from dnsteer.plan.pool_slots import slots_of
from dnsteer.render.flows import flows_of
from dnsteer.render.program import program_of, program_text
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.families import Reach
from dnsteer.spec.read import parse_document
from dnsteer.tables.egress import EgressRow
from dnsteer.tables.extension import ExitRow
from dnsteer.tables.slot import SlotTable, probe_numbers
from tests.unit.extension_cases import SPEC

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "datapath_ext" / "program.schema.json").read_text())
EXAMPLES = ("ipip", "spray", "client-hash", "siit")


def load(text: str) -> Loaded:
    return check_document(parse_document("spec.yaml", text))


def example(name: str) -> Loaded:
    return load_spec(ROOT / "examples" / f"{name}.yaml")


def extension_of(loaded: Loaded) -> ExtensionPlan:
    extension = build_plan(loaded).extension
    assert extension is not None
    return extension


def exits_of(loaded: Loaded) -> list[ExitRow]:
    return build_plan(loaded).rows.of(ExitRow)


EVERYTHING = load(SPEC)
PLAN = build_plan(EVERYTHING)
ALL = extension_of(EVERYTHING)
EXITS = PLAN.rows.of(ExitRow)
SERVICES = {service.name: service for service in ALL.services}


def ends(service: str) -> set[str]:
    return {ALL.targets[name].address for name in SERVICES[service].slots}


def test_exits_are_by_mac_where_there_are_several_places() -> None:
    found = {row.mac: row.port for row in EXITS if row.came_by == "ext-out"}
    backends = [
        (p, b) for p in ("far", "six", "near", "ported", "sprayed", "gone") for b in EVERYTHING.spec.pools[p].backends
    ]
    assert found == {backend.mac: backend.port for _, backend in backends}
    assert len({row.subject.cookie for row in EXITS}) == len({row.mac for row in EXITS})
    assert {row.subject.line for row in EXITS if row.mac} <= set(range(1, SPEC.count("\n")))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_single_place_has_a_single_exit(name: str) -> None:
    exits = [(row.came_by, row.mac, row.port) for row in exits_of(example(name))]
    assert exits == [("ext-out", "", "p0")] + ([("ext-in", "", "p0")] if name == "siit" else [])


PROBE = "  probe: {addresses: ['2001:db8:a::9/64', 10.0.0.9/24, 10.0.1.9/24]}\n  extension:\n"
PROBED = SPEC.replace("  extension:\n", PROBE)


def test_every_backend_is_probed_with_or_without_slots() -> None:
    extension = extension_of(load(PROBED))
    jsonschema.validate(program_of(extension), SCHEMA)
    plain, probed = program_of(ALL), program_of(extension)
    assert probed["probe"] == {"mac": "02:00:00:00:00:51", "ipv4": "10.0.0.9"}
    by_name = {vip["name"]: vip for vip in probed["vips"]}
    assert {name for name in by_name if not by_name[name]["slots"]} == by_name.keys() - {
        v["name"] for v in plain["vips"]
    }
    assert {name.split("/")[0] for name in by_name.keys() - {v["name"] for v in plain["vips"]}} == {"gone", "lost"}
    for name, service in {s.name: s for s in extension.services}.items():
        pool = EVERYTHING.spec.pools[EVERYTHING.spec.vips[name.split("/")[0]].pool]
        numbers = probe_numbers(pool)
        found = {target.split("/")[1]: number for target, number in by_name[name]["probes"].items()}
        assert found.items() <= numbers.items()
        assert {target.split("/")[1] for target in service.slots} <= found.keys()
    assert {n.split("/")[1] for n in by_name["tunnels/192.0.2.1/udp/53"]["probes"]} == {"four", "six", "both", "away"}
    assert {n.split("/")[1] for n in by_name["translated/192.0.2.3/udp/53"]["probes"]} == {"s1", "s2", "s3"}


def test_without_a_port_for_probes_the_program_is_as_before() -> None:
    with_probes, plain = program_of(extension_of(load(PROBED))), program_of(ALL)
    stripped = [{k: v for k, v in vip.items() if k != "probes"} for vip in with_probes["vips"] if vip["slots"]]
    assert stripped == plain["vips"]
    assert {k: v for k, v in with_probes.items() if k not in ("probe", "vips")} == {
        k: v for k, v in plain.items() if k != "vips"
    }
    assert "probe" not in program_text(ALL, "x")


def test_probes_that_could_get_no_answer_are_left_out() -> None:
    program = program_of(extension_of(load(PROBED.replace(", 10.0.0.9/24, 10.0.1.9/24", ""))))
    assert program["probe"] == {"mac": "02:00:00:00:00:51"}
    assert {v["forward"] for v in program["vips"] if "probes" not in v} == {"siit"}
    assert {v["forward"] for v in program["vips"] if "probes" in v} == {"l2", "ipip"}


def test_translated_answers_to_probes_leave_by_their_port() -> None:
    found = [(e.mac, e.port, e.priority) for e in exits_of(load(PROBED)) if e.came_by == "ext-in"]
    assert found == [("", "p1", 100), ("02:00:00:00:00:51", "probe0", 105)]


def test_translated_answers_leave_by_the_first_next_hop() -> None:
    assert [(row.port, row.mac) for row in EXITS if row.came_by == "ext-in"] == [("p1", "")]
    assert ALL.answers_to == "02:00:00:00:01:fe"
    rows = [row for row in PLAN.rows.of(EgressRow) if row.name == "ext-out"]
    assert [(row.next_hop, row.set_source) for row in rows] == [("02:00:00:00:01:fe", True)]


def test_answers_of_every_backend_over_ipv6_are_translated() -> None:
    found = {(row.backend, row.protocol, row.port) for row in ALL.translated}
    six = {("udp", 53), ("tcp", 53)}
    wanted = {(f"2001:db8:a::2{n}", *service) for n in (1, 2, 3) for service in six}
    assert found == wanted | {("2001:db8:a::41", "udp", 853)}


def test_a_tunnel_ends_at_the_address_in_the_vips_family_or_else_at_the_other() -> None:
    assert ends("tunnels/192.0.2.1/udp/53") == {"10.0.0.11", "2001:db8:a::12", "10.0.0.13"}
    assert ends("tunnels/2001:db8::1/udp/53") == {"10.0.0.11", "2001:db8:a::12", "2001:db8:a::13"}


@pytest.mark.parametrize(
    ("service", "pool", "reached"),
    [
        ("tunnels/192.0.2.1/udp/53", "far", "any"),
        ("tunnels/2001:db8::1/tcp/53", "far", "any"),
        ("translated/192.0.2.3/udp/53", "six", "ipv6"),
        ("near/192.0.2.4/udp/53", "near", "ipv4"),
        ("sprayed/192.0.2.6/udp/53", "sprayed", "ipv4"),
        ("sprayed/2001:db8::6/udp/53", "sprayed", "ipv6"),
        ("spread/192.0.2.8/udp/5353", "sprayed", "any"),
    ],
)
def test_slots_are_assigned_as_everywhere(service: str, pool: str, reached: Reach) -> None:
    slots = slots_of(EVERYTHING.spec, EVERYTHING.spec.pools[pool], reached)
    assert [name.split("/")[1] for name in SERVICES[service].slots] == list(slots)


def test_a_pool_of_an_extension_vip_and_a_plain_one() -> None:
    """It has its slots in the switch for the one and in the program for the other; both are assigned alike."""
    pool = EVERYTHING.spec.pools["far"]
    tables = {table.members.title: [table.owners[slot] for slot in range(16)] for table in PLAN.rows.of(SlotTable)}
    here = {title: owners for title, owners in tables.items() if title.startswith("pool far")}
    assert set(here) == {"pool far IPv4", "pool far IPv6"}
    assert here["pool far IPv4"] == list(slots_of(EVERYTHING.spec, pool, "ipv4"))
    assert set(slots_of(EVERYTHING.spec, pool, "any")) == {"four", "six", "both"}
    assert not any("pool near" in title or "pool sprayed" in title for title in tables)


def test_a_server_in_several_pools_is_one_target() -> None:
    assert max(Counter(t.address for t in ALL.targets.values() if t.address).values()) == 1
    assert "near/n1/10.0.0.31" in SERVICES["spread/192.0.2.8/udp/5353"].slots


def test_services_of_an_empty_pool_are_not_in_the_program() -> None:
    assert SERVICES["gone/192.0.2.9/udp/53"].slots == ()
    names = {vip["name"] for vip in program_of(ALL)["vips"]}
    assert names == {name for name in SERVICES if not name.startswith(("gone/", "lost/"))}
    kept = extension_of(load(SPEC.replace("on_all_down: drop", "on_all_down: keep")))
    assert {service.slots for service in kept.services if service.name.startswith("gone/")} == {
        ("gone/g/10.0.0.41",) * 2,
        ("gone/g/2001:db8:a::41",) * 2,
    }


def programs() -> list[Any]:
    return [
        pytest.param(loaded, id=name)
        for name, loaded in {**{n: example(n) for n in EXAMPLES}, "all": EVERYTHING}.items()
    ]


@pytest.mark.parametrize("loaded", programs())
def test_the_program_fits_its_schema(loaded: Loaded) -> None:
    extension = extension_of(loaded)
    program = program_of(extension)
    jsonschema.validate(program, SCHEMA)
    assert json.loads(program_text(extension, "of a test")) == {"about": "of a test", **program}
    named = {slot for vip in program["vips"] for slot in vip["slots"]}
    assert named <= {backend["name"] for backend in program["backends"]}
    assert len({vip["name"] for vip in program["vips"]}) == len(program["vips"])


def test_the_program_says_what_the_spec_says() -> None:
    program = program_of(ALL)
    assert program["ports"] == {"in": "sf-in", "out": "sf-out"}
    assert program["tunnel"] == {"mac": "02:00:00:00:00:53", "ipv4": "10.0.9.4", "ipv6": "2001:db8:a::9:4"}
    assert program["budgets"] == {"vips": 40, "slots": 4096, "backends": 64, "counters": 4112}
    ways = {
        (v["name"].split("/")[0], v["select"], v["forward"], tuple(v.get("hash_fields", ()))) for v in program["vips"]
    }
    assert ways == {
        ("tunnels", "slots", "ipip", ()),
        ("translated", "slots", "siit", ()),
        ("near", "client", "l2", ("src_ip",)),
        ("ported", "client", "l2", ("src_ip", "src_port", "dst_port")),
        ("sprayed", "spray", "l2", ()),
        ("in-tunnels", "client", "ipip", ("src_ip",)),
        ("spread", "spray", "ipip", ()),
    }


@pytest.mark.parametrize("loaded", programs())
def test_cookies_name_their_subject(loaded: Loaded) -> None:
    plan = build_plan(loaded)
    named = {flow.cookie: plan.subject(flow.cookie) for flow in flows_of(plan)}
    assert all(subject is not None and subject.cookie == cookie for cookie, subject in named.items())


def test_numbers_of_exits_stay_when_others_come() -> None:
    before = {row.mac: row.subject.cookie for row in EXITS}
    more = "      - {name: late, ipv4: 10.0.0.15, mac: 02:00:00:00:0b:05, port: vf0}\n      - {name: away"
    after = {row.mac: row.subject.cookie for row in exits_of(load(SPEC.replace("      - {name: away", more)))}
    assert after.keys() - before.keys() == {"02:00:00:00:0b:05"}
    assert before.items() <= after.items()


PLAIN = (ROOT / "examples" / "client-hash.yaml").read_text()
IPIP = (ROOT / "examples" / "ipip.yaml").read_text()
SIIT = (ROOT / "examples" / "siit.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        pytest.param(PLAIN, [], id="nothing"),
        pytest.param(IPIP, [], id="a tunnel, and room for it"),
        pytest.param(
            PLAIN.replace("    selection: client\n    hash_fields: [src_ip]\n", ""),
            ["$.switch.extension: found an extension that no VIP needs"],
            id="no VIP for it",
        ),
        pytest.param(
            IPIP.replace("mtu: 1600", "mtu: 1530"),
            [
                "dns.forwarding: found ipip, and links of 1530 bytes (switch.bringup.mtu); expected links of at least 1540"
            ],
            id="no room for IPv6",
        ),
        pytest.param(
            IPIP.replace("  bringup:\n    mtu: 1600", "  # "),
            ["$.vips.dns.forwarding: found ipip, and links of 1500 bytes (as usual: switch.bringup.mtu is left out)"],
            id="room is not said",
        ),
        pytest.param(
            "\n".join(line for line in IPIP.splitlines() if "name: ns3" not in line)
            .replace(", ipv6: 2001:db8::14", "")
            .replace(", 2001:db8:1::53", "")
            .replace("mtu: 1600", "mtu: 1520"),
            [],
            id="room for IPv4",
        ),
        pytest.param(SIIT, [], id="a translation, whose servers ask for shorter segments"),
        pytest.param(
            SIIT.replace("forwarding: siit", "forwarding: siit\n    fragments: drop"),
            ['$.vips.dns4.fragments: found "drop" with forwarding siit; expected no fragments key with siit'],
            id="fragments of translations",
        ),
        pytest.param(
            SPEC.replace("on_all_down: drop", "on_all_down: keep"),
            ["$.pools.gone.backends: found every backend down"],
            id="nobody is left",
        ),
    ],
)
def test_extension_specs_have_their_warnings(text: str, warnings: list[str]) -> None:
    found = [w.text("x") for w in load(text).warnings if "slots, which give" not in w.text("x")]
    assert len(found) == len(warnings)
    assert [given for given, text in zip(warnings, found, strict=True) if given not in text] == []


def test_the_hint_about_an_empty_pool_says_what_happens() -> None:
    (drop,) = [w for w in EVERYTHING.warnings if "every backend down" in w.text("x")]
    assert "queries are dropped" in str(drop.hint)
