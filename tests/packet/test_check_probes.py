# SPDX-License-Identifier: Apache-2.0
"""Probes of every service, as `check` proves them: both families, by DSR and by NAT, to the backend that the port names."""

from __future__ import annotations

from pathlib import Path

import pytest

from dnsteer.proof.check import prove
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.wire import parse
from dnsteer.proof.traffic.vectors import vectors
from dnsteer.spec.loaded import Loaded
from tests.unit.spec_text import changed, load

EXAMPLES = Path(__file__).parents[2] / "examples"
HEALTH, SIIT = EXAMPLES / "authoritative.yaml", EXAMPLES / "siit.yaml"


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    text = changed(
        ("    backends:", "    slots: 8\n    backends:"),
        ("    slow_start: 10s\n  secondaries:\n", "    slow_start: 10s\n  secondaries:\n    slots: 8\n"),
        text=HEALTH.read_text(),
    )
    return load(text.replace("services: [dns]", "services: [dns, dot, doq, doh, doh3]"))


def test_every_service_has_a_probe_packet(loaded: Loaded) -> None:
    """Each address, protocol and port gets a probe that must reach a backend, and the backend's answer must come back."""
    reference = Reference(loaded.spec)
    made = [(v, reference.expect(v.port, v.data)) for v in vectors(loaded.spec, reference) if v.kind == "probe"]
    asked = {
        (packet.destination, packet.protocol, packet.dport)
        for vector, expectation in made
        if vector.name.startswith("probe of ") and expectation.options and (packet := parse(vector.data)).sport >= 32784
    }
    assert asked == set(reference.services)
    assert len(asked) == 2 * 2 * 6  # two VIPs, two families; udp/53, tcp/53, tcp/853, udp/853, tcp/443, udp/443
    answers = [
        v.name
        for v, e in made
        if v.name.startswith("answer to probe of ")
        and " from an" not in v.name
        and " to another" not in v.name
        and e.options
    ]
    assert len(answers) >= len(asked)


def test_the_switch_forwards_probes_to_their_backends(loaded: Loaded) -> None:
    report = prove(loaded)
    assert report.ok, report.failures[:1]


def test_probes_without_an_ipv4_address_go_as_client_queries() -> None:
    """Answers by siit go to an IPv4 address of the port for probes: without one, such probes go as queries of clients do."""
    text = SIIT.read_text()
    probe = "  probe:\n    addresses: ['2001:db8:53::9/64']\n"
    report = prove(load(text.replace("  uplinks:\n", f"{probe}  uplinks:\n", 1)))
    assert report.ok, report.failures[:1]
    assert report.packets["probe"]
