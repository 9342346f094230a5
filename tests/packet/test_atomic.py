# SPDX-License-Identifier: Apache-2.0
"""Atomic IPv6 fragments on the real switch: what docs/forwarding.md says of them, looked at without the reference."""

from __future__ import annotations

import pytest
from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, in6_chksum
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from dnsteer.checks.load import load_spec
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.proof.traffic.vectors import vectors
from dnsteer.spec.loaded import Loaded
from tests.packet.switches import EXAMPLES

CLIENT, ROUTER = "2001:db8:99::7", "02:00:00:00:00:fe"
VIPS = {"quickstart": "2001:db8::53", "one-armed-nat": "2001:db8:1::53", "ipip": "2001:db8::53"}


def loaded(example: str) -> Loaded:
    return load_spec(EXAMPLES / f"{example}.yaml")


def query(vip: str, transport: Packet, **bits: int) -> Packet:
    head = Ether(dst="02:00:00:00:00:53", src=ROUTER) / IPv6(src=CLIENT, dst=vip)
    return Ether(bytes(head / IPv6ExtHdrFragment(id=7, **bits) / transport / Raw(b"x" * 20)))


def sent(example: str, packet: Packet) -> list[Packet]:
    with Harness(build_plan(loaded(example))) as harness:
        return [Ether(frame.data) for frame in harness.send([Frame("p0", bytes(packet))])]


KINDS = {"udp": UDP(sport=40001, dport=53), "tcp": TCP(sport=40001, dport=53, flags="PA")}


@pytest.mark.parametrize("kind", KINDS)
def test_dsr_changes_only_the_mac_addresses(kind: str) -> None:
    asked = query(VIPS["quickstart"], KINDS[kind])
    (left,) = sent("quickstart", asked)
    assert bytes(left)[12:] == bytes(asked)[12:]
    assert (left.src, left.dst.startswith("02:00:00:00:01:")) == ("02:00:00:00:00:53", True)


@pytest.mark.parametrize("kind", KINDS)
def test_nat_changes_the_address_and_may_keep_the_checksum(kind: str) -> None:
    asked = query(VIPS["one-armed-nat"], KINDS[kind])
    (left,) = sent("one-armed-nat", asked)
    names = {str(b.ipv6) for b in loaded("one-armed-nat").spec.pools["resolvers"].backends}
    assert (left[IPv6].dst in names, left[IPv6].src) == (True, CLIENT)
    layer = UDP if kind == "udp" else TCP
    segment = bytearray(bytes(left[layer]))
    at = 6 if kind == "udp" else 16
    segment[at : at + 2] = b"\0\0"
    right = in6_chksum(17 if kind == "udp" else 6, left[IPv6], bytes(segment))
    assert left[layer].chksum in (right, asked[layer].chksum)
    assert left[layer].dport == 53


@pytest.mark.parametrize("bits", [{"res2": 1}, {"res2": 2}, {"m": 1}], ids=str)
@pytest.mark.parametrize("example", ["quickstart", "one-armed-nat"])
def test_queries_with_a_reserved_bit_are_dropped_like_fragments(example: str, bits: dict[str, int]) -> None:
    assert sent(example, query(VIPS[example], KINDS["udp"], **bits)) == []


def test_the_extension_drops_atomic_fragments() -> None:
    assert sent("ipip", query(VIPS["ipip"], KINDS["udp"])) == []


@pytest.mark.parametrize("example", ["quickstart", "one-armed-nat", "own-ports", "two-uplinks"])
def test_check_sends_atomic_fragments(example: str) -> None:
    spec = loaded(example).spec
    names = [v.name for v in vectors(spec, Reference(spec)) if " as an atomic fragment" in v.name]
    what = ["query", "echo request", "solicitation", *(["answer"] if example != "quickstart" else [])]
    assert all(any(word in name for name in names) for word in what)
    assert any("with a reserved bit" in name for name in names)
