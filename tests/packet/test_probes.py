# SPDX-License-Identifier: Apache-2.0
"""The verb `probes`: what it names for pools of every kind, on a private switch. That backends answer: tests/system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packet.command import FARM, on, run, spec_file
from tests.packet.switches import LARGE, Switch, unexpected

MIXED = (
    LARGE.replace("services: [dns]", "services: [dns, dot, doq, doh, doh3]")
    .replace(
        "    pool: direct\n",
        "    pool: direct\n  empty: {addresses: [198.51.100.55], services: [dns], pool: off}\n",
    )
    .replace(
        "vips:\n",
        "  off:\n    slots: 16\n    on_all_down: drop\n    backends:\n"
        "      - {name: z, ipv4: 10.53.0.14, mac: '02:00:00:00:03:04', port: vf2, state: down}\nvips:\n",
    )
)


@pytest.fixture
def switch() -> Iterator[Switch]:
    with Switch() as private:
        yield private
        found = unexpected(private)
    assert found == []


def test_probes_cover_each_kind_of_pool_and_service(switch: Switch, tmp_path: Path) -> None:
    dnsteer = on(switch)
    assert dnsteer("apply", spec_file(tmp_path, MIXED), "--yes").code == 0
    found = dnsteer("probes", "--json", "--ports", "4").json
    direct, hashed = ("a", "c"), ("", "")  # with dp-hash nobody knows who will answer: as often as there are backends
    want = Counter(
        (address, transport, port, backend)
        for addresses, backends, services in (
            (("198.51.100.53", "2001:db8:1::53"), hashed, (("udp", 53), ("tcp", 53))),
            (("198.51.100.54", "2001:db8:1::54"), direct, (("udp", 53), ("tcp", 53), ("tls", 853))),
        )
        for address in addresses
        for backend in backends
        for transport, port in services
    )
    assert Counter((q["address"], q["transport"], q["port"], q["backend"]) for q in found["questions"]) == want
    assert {len(q["source_ports"]) for q in found["questions"] if q["backend"]} == {4}
    assert [q["source_ports"] for q in found["questions"] if not q["backend"]] == [[]] * 8
    unasked = [
        f"VIP straight {a} {s} is not asked"
        for a in ("198.51.100.54", "2001:db8:1::54")
        for s in ("udp/853: DoQ", "tcp/443: DoH", "udp/443: DoH by HTTP/3")
    ]
    unasked += [f"VIP empty 198.51.100.55 {p}/53: no backend of pool off is left to answer" for p in ("udp", "tcp")]
    assert found["unasked"] == unasked

    itself = dnsteer("probes", "--json", "--backend", "hashed/a").json["questions"]
    assert [(q["address"], q["transport"], q["port"]) for q in itself] == [
        (address, transport, 5353) for address in ("10.53.0.11", "2001:db8:53::11") for transport in ("udp", "tcp")
    ]


def test_out_of_service_backends_get_no_probe_and_ports_follow_the_slots(switch: Switch, tmp_path: Path) -> None:
    dnsteer = on(switch)
    spec = spec_file(tmp_path, FARM)
    assert dnsteer("apply", spec, "--yes").code == 0
    assert dnsteer("down", "farm/ns2", "--yes").code == 0
    found = dnsteer("probes", "--json", "--address", "192.0.2.53", "--ports", "100", "--skip", "tcp/53").json
    assert [q["backend"] for q in found["questions"]] == ["ns1", "ns3"]  # ns4 is down in the spec
    ports = [set(q["source_ports"]) for q in found["questions"]]
    assert all(len(each) == 100 and min(each) >= 1024 and max(each) <= 65535 for each in ports)
    slots = [{(port >> 1) % 32 for port in each} for each in ports]
    held = [b["slots"] for b in dnsteer("status", "--json", "--no-rates").json["pools"][0]["backends"]]
    assert [len(each) for each in slots] == [held[0], held[2]] and not slots[0] & slots[1]
    said = dnsteer("probes", "--address", "192.0.2.53").out.splitlines()
    assert (
        len(said) == 5 and said[0].startswith("192.0.2.53 udp/53 . SOA from port ") and said[0].endswith(": farm/ns1")
    )
    assert said[4] == "note: pool farm: no health check names a query, so only that something answers is tested"


def test_an_address_that_is_no_vip_is_asked_by_udp(switch: Switch, tmp_path: Path) -> None:
    dnsteer = on(switch)
    assert dnsteer("apply", spec_file(tmp_path, FARM), "--yes").code == 0
    found = dnsteer("probes", "--json", "--address", "203.0.113.1").json
    (question,) = found["questions"]
    assert found["notes"] == ["203.0.113.1: no VIP has it, so only that something answers is tested"]
    assert (question["address"], question["transport"], question["port"], question["source_ports"]) == (
        "203.0.113.1",
        "udp",
        53,
        [],
    )


CHECKED = FARM.replace(
    "  farm:\n",
    "  farm:\n    health:\n      - {check: command, command: ['true']}\n"
    "      - check: tcp\n        interval: 5s\n        timeout: 2500ms\n"
    "        query: {name: example.org, type: MX, expect: {aa: true, answer: 10 mail.example.org.}}\n"
    "      - {query: {name: example.net}}\n",
).replace("  spare:\n", "  spare:\n    health: {}\n")
LIVENESS = {
    "rcode": ["NOERROR", "NXDOMAIN", "REFUSED"],
    "aa": None,
    "aa_rcodes": [],
    "ra": None,
    "ra_rcodes": [],
    "answers": 0,
    "answer": [],
    "serial_at_least": None,
}
PLAIN = {"recursion": False, "rdclass": "IN", "cd": False, "do": False, "edns_size": 0, "timeout": 0.5}


def test_probes_ask_the_first_dns_check(switch: Switch, tmp_path: Path) -> None:
    dnsteer = on(switch)
    assert dnsteer("apply", spec_file(tmp_path, CHECKED), "--yes").code == 0
    for found in (dnsteer("probes", "--json").json, dnsteer("probes", "--json", "--backend", "farm/ns1").json):
        asked = [(q["query"], q["expect"]) for q in found["questions"] if q["pool"] == "farm"]
        query = {"name": "example.org.", "type": "MX", **PLAIN, "timeout": 2.5}
        wanted = {
            **LIVENESS,
            "rcode": ["NOERROR"],
            "aa": True,
            "aa_rcodes": ["NOERROR"],
            "answers": 1,
            "answer": ["10 mail.example.org."],
        }
        assert asked and all(each == (query, wanted) for each in asked)
    found = dnsteer("probes", "--json").json
    alive = [(q["query"], q["expect"]) for q in found["questions"] if q["pool"] == "spare"]
    assert alive and all(each == ({"name": ".", "type": "SOA", **PLAIN}, LIVENESS) for each in alive)
    assert found["notes"] == ["pool spare: no health check names a query, so only that something answers is tested"]


def test_probes_of_a_new_spec_ask_only_existing_services(switch: Switch, tmp_path: Path) -> None:
    dnsteer = on(switch)
    assert dnsteer("apply", spec_file(tmp_path, FARM), "--yes").code == 0
    coming = CHECKED.replace("192.0.2.53", "192.0.2.53, 192.0.2.99").replace("services: [dns, dot]", "services: [dns]")
    coming = coming.replace("mac: '02:00:00:00:01:01'}", "mac: '02:00:00:00:01:01', state: down}")
    coming = coming.replace("name: sp1", "name: sp9").replace(", '2001:db8::53'", "")
    options = ("--spec", spec_file(tmp_path, coming), "--json")
    asked = dnsteer("probes", *options).json["questions"]
    assert [(q["address"], q["transport"], q["backend"], q["query"]["name"]) for q in asked] == [
        (address, transport, backend, name)
        for address, backends, name in (("192.0.2.53", ("ns2", "ns3"), "example.org."), ("192.0.2.54", ("sp2",), "."))
        for transport in ("udp", "tcp")
        for backend in backends
    ]
    assert dnsteer("probes", *options, "--address", "192.0.2.99").json["questions"] == []
    wrong = dnsteer("probes", "--spec", spec_file(tmp_path), "--backend", "farm/ns1")
    assert wrong.code == 64 and "--spec is about queries through the VIPs" in wrong.err


def test_wrong_usage_of_probes_is_named(switch: Switch, tmp_path: Path) -> None:
    for options, said in (
        (("--address", "here"), "found 'here'; expected an IPv4 or IPv6 address"),
        (("--skip", "853"), "found '853'; expected a protocol and port such as tcp/853"),
        (("--skip", "tcp/0"), "found 'tcp/0'; expected a protocol and port"),
        (("--backend", "ns1"), "found 'ns1'; expected POOL/BACKEND"),
    ):
        found = run("probes", *options, "--db", switch.database)
        assert found.code == 64 and said in " ".join(found.err.replace("│", " ").split()), found
    nothing = run("probes", "--db", switch.database)
    assert nothing.code == 1 and nothing.err.startswith("dnsteer: ")
    dnsteer = on(switch)
    assert dnsteer("apply", spec_file(tmp_path, FARM), "--yes").code == 0
    wrong = dnsteer("probes", "--backend", "farm/ns9")
    assert wrong.code == 1
    assert "found farm/ns9; expected a backend of the spec that is applied: farm/ns1, farm/ns2" in wrong.err
