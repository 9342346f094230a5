# SPDX-License-Identifier: Apache-2.0
"""The zones of the lab's name servers: what health checks ask for is among them."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import dns.zone
import pytest

from dnsteer.checks.load import load_spec
from dnsteer.lab.nameserver import checked_zones, configuration
from dnsteer.lab.topology import Server
from dnsteer.spec.model.spec import Spec
from tests.unit.spec_text import changed, load

EXAMPLES = Path(__file__).parents[2] / "examples"


def serial(name: str, text: str) -> int:
    return int(dns.zone.from_text(text, origin=name, relativize=False).get_soa().serial)  # a zone has SOA and NS


def with_health(health: str) -> Spec:
    return load(changed(("  ns:\n", f"  ns:\n    health: {health}\n"))).spec


def test_zones_that_checks_ask_for() -> None:
    zones = checked_zones(load_spec(EXAMPLES / "authoritative.yaml").spec)
    assert list(zones) == ["example.org.", "example.net."]
    assert {name: serial(name, text) for name, text in zones.items()} == {"example.org.": 2026010100, "example.net.": 1}
    lines = configuration(0, Server("ns1", [ip_address("192.0.2.11")]), zones)
    assert 'name: "example.net."\n    zonefile: "checked1"' in lines


@pytest.mark.parametrize(
    "checks",
    [
        "{}",
        '{query: {name: "*.check.example.org", type: A}}',
        "{query: {name: www.example.org, type: A}}",
        "{query: {name: dnsteer.test}}",
        "{query: {name: Dnsteer.test}}",
        "{query: {name: id.server, type: TXT, class: CH}}",
    ],
)
def test_names_without_a_zone_of_their_own_make_none(checks: str) -> None:
    assert checked_zones(with_health(checks)) == {}


@pytest.mark.parametrize(
    ("wanted", "served"),
    [
        ((2026010100, None), 2026010100),
        ((None, 2026010100), 2026010100),
        ((2026010100, 2026010101, 2026010099), 2026010101),
        ((4294967290, 3), 3),  # RFC 1982: after it
        ((4294967290, None), 4294967290),
        ((None, None), 1),
        ((0,), 0),
    ],
)
def test_a_zone_has_the_highest_serial_that_checks_want(wanted: Sequence[int | None], served: int) -> None:
    names = ("example.org", "Example.ORG")
    checks = [
        f"{{query: {{name: {names[n % 2]}" + (f", expect: {{serial_at_least: {low}}}" if low is not None else "") + "}}"
        for n, low in enumerate(wanted)
    ]
    ((name, text),) = checked_zones(with_health(f"[{', '.join(checks)}]")).items()
    assert (name, serial(name, text)) == ("example.org.", served)
