"""The zones of the lab's name servers: what health checks ask for is among them."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import dns.rdatatype
import dns.zone
import pytest

from dnsteer.checks.load import load_spec
from dnsteer.lab.checked_zones import checked_zones
from dnsteer.lab.nameserver import configuration
from dnsteer.lab.topology import Server
from tests.unit.spec_text import changed, load

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_zones_that_checks_ask_for() -> None:
    zones = checked_zones(load_spec(EXAMPLES / "authoritative.yaml").spec)
    assert list(zones) == ["example.org.", "example.net."]
    for name, text in zones.items():
        zone = dns.zone.from_text(text, origin=name, relativize=False)  # which wants SOA and NS
        assert zone.get_soa().serial == 1
    lines = configuration(0, Server("ns1", [ip_address("192.0.2.11")]), zones)
    assert 'name: "example.net."\n    zonefile: "checked1"' in lines


@pytest.mark.parametrize(
    "checks",
    ["{}", '{query: {name: "*.check.example.org", type: A}}', "{query: {name: www.example.org, type: A}}",
     "{query: {name: dnsteer.test}}", "{query: {name: id.server, type: TXT, class: CH}}"],
)  # fmt: skip
def test_what_is_no_zone_of_its_own(checks: str) -> None:
    assert checked_zones(load(changed(("  ns:\n", f"  ns:\n    health: {checks}\n"))).spec) == {}


def test_the_serial_that_a_check_wants() -> None:
    check = "{query: {name: example.org, expect: {serial_at_least: 2026010100}}}"
    (text,) = checked_zones(load(changed(("  ns:\n", f"  ns:\n    health: {check}\n"))).spec).values()
    zone = dns.zone.from_text(text, origin="example.org.", relativize=False)
    assert zone.get_rdataset("example.org.", dns.rdatatype.SOA)[0].serial == 2026010100
