# SPDX-License-Identifier: Apache-2.0
"""Lint warns where a QUIC connection changes servers with its client's source port."""

from __future__ import annotations

import pytest

from dnsteer.lint.run import run_finders
from dnsteer.offload.examine import examine
from dnsteer.offload.profile import profile
from tests.packet.linted_examples import changed

BY_PORT = ("    selection: source-address #", "    #")
HASHED = ("selection: source-address #", "selection: dp-hash #")
QUIC = ("services: [dns]", "services: [doq]")
CHECK = ("      - {check: quic, per: service, query: {name: example.org}, interval: 5s}\n", "")
NS2 = "      - {name: ns2, ipv4: 192.0.2.12, ipv6: 2001:db8::12, mac: 02:00:00:00:01:02}\n"


def found(example: str, *changes: tuple[str, str]) -> list[str]:
    report = run_finders(examine(changed(example, *changes), profile("ovs-netdev"), queries=1))
    return [f"{f.path[1]}: {f.text.partition(': a connection')[0]}" for f in report.findings if f.code.code == "DNS080"]


@pytest.mark.parametrize("how", [BY_PORT, HASHED], ids=["source-port", "dp-hash"])
def test_quic_by_source_ports_is_named(how: tuple[str, str]) -> None:
    (text,) = found("encrypted", how)
    assert text == (
        "encrypted: pool encrypted: the client's source port chooses the slot of QUIC to VIP encrypted (udp/853) and 1 more"
    )


def test_quic_by_a_hash_of_ports_is_named() -> None:
    (text,) = found("client-hash", QUIC, ("[src_ip]", "[src_ip, src_port]"))
    assert text.endswith("of QUIC to VIP resolver (udp/853)")


@pytest.mark.parametrize(
    ("example", "changes"),
    [
        ("encrypted", ()),
        ("client-hash", (QUIC,)),
        ("encrypted", (BY_PORT, CHECK, ("[dot, doh, doq, doh3]", "[dot, doh, {protocol: udp, port: 5353}]"))),
        ("encrypted", (BY_PORT, (NS2, ""))),
    ],
    ids=["source-address", "client", "no-quic", "one-server"],
)
def test_nothing_is_named_else(example: str, changes: tuple[tuple[str, str], ...]) -> None:
    assert found(example, *changes) == []
