# SPDX-License-Identifier: Apache-2.0
"""Selection by clients' addresses on a real switch: one megaflow a slot, and a client that stays."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from dnsteer.checks.load import check_document, load_spec
from dnsteer.proof.check import prove
from dnsteer.proof.explain import explain_query
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.read import parse_document
from tests.packet.command import on
from tests.packet.switches import EXAMPLES, Switch
from tests.packet.test_check import break_flows

EXAMPLE = EXAMPLES / "affinity.yaml"


def changed(*pairs: tuple[str, str]) -> Loaded:
    text = EXAMPLE.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return check_document(parse_document("spec.yaml", text))


def test_each_slot_is_a_megaflow_of_one_pass() -> None:
    report = prove(load_spec(EXAMPLE))
    assert report.ok, report.failures[:1]
    assert report.megaflows == 64 * 3 * 2, "of three services in two families"
    assert report.masks == 2
    assert report.recirculations == 0


@pytest.mark.parametrize(
    "pairs",
    [
        [("ipv4: 32 ", "ipv4: 24 "), ("ipv6: 64 ", "ipv6: 48 ")],
        [("slots: 64 ", "slots: 4096 "), ("services: [dns, dot]", "services: [dot]")],
        [("    client_prefix:\n      ipv4: 32 ", "    client_prefix:\n      ipv4: 27 ")],
        [("slots: 64 ", "passes: 2 ")],
        [
            ("    pool: resolvers", "    pool: resolvers\n    forwarding: nat"),
            ("  uplinks:", "  gateways: [192.0.2.1, '2001:db8::1']\n  uplinks:"),
        ],
    ],
    ids=["shorter prefixes", "most slots", "one prefix left out", "two passes", "nat"],
)
def test_other_settings_pass_the_proof(pairs: list[tuple[str, str]]) -> None:
    report = prove(changed(*pairs))
    assert report.ok, report.failures[:1]


def test_other_bits_of_the_address_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    old = "IP_SRC[0..5]"
    touched = break_flows(
        monkeypatch,
        lambda f: old in f.actions,
        lambda f: replace(f, actions=f.actions.replace(old, "IP_SRC[1..6]")),
    )
    report = prove(load_spec(EXAMPLE))
    assert touched
    assert not report.ok


def test_a_client_stays_with_its_backend_by_any_port_and_protocol() -> None:
    loaded, client, vip = load_spec(EXAMPLE), ip_address("198.51.100.7"), ip_address("192.0.2.53")
    asked = [(40001, 53, Protocol.UDP), (40002, 53, Protocol.UDP), (999, 53, Protocol.TCP), (5, 853, Protocol.TCP)]
    paths = [explain_query(loaded, client, sport, vip, port, protocol, "p0") for sport, port, protocol in asked]
    assert all(path.as_expected for path in paths)
    assert {(path.slot, path.backend) for path in paths} == {(7, paths[0].backend)}
    other = explain_query(loaded, ip_address("198.51.100.8"), 40001, vip, 53, Protocol.UDP, "p0")
    assert other.slot == 8


def test_another_prefix_of_clients_is_said_to_move_them(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("apply", EXAMPLE, "--yes").code == 0
    spec = tmp_path / "spec.yaml"
    spec.write_text(EXAMPLE.read_text().replace("ipv4: 32 ", "ipv4: 24 "))
    done = on(applied)("plan", spec)
    assert "its client_prefix changes" in done.out + done.err
    refused = on(applied)("apply", spec)
    assert refused.code != 0, "it asks, and nobody answers"
