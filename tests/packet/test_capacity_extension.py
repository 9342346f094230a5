# SPDX-License-Identifier: Apache-2.0
"""`capacity` of the extension's examples, and what if a VIP went through the extension."""

from __future__ import annotations

import json

import pytest

from tests.unit.commands import ROOT, in_process

ON_CARD = ("--hardware", "bluefield-3", "--set", "switch.flavor=ovs-doca", "--frame", "query", "--json")


def asked(example: str, *more: str) -> dict[str, object]:
    done = in_process("capacity", str(ROOT / "examples" / f"{example}.yaml"), *ON_CARD, *more)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("example", "vip", "depths", "longer"),
    [
        ("client-hash", "resolver", {(1, 3, 1), (2, 3, 1)}, {0.0}),
        ("spray", "dns-udp", {(1, 3, 1), (2, 3, 1)}, {0.0}),
        ("ipip", "dns", {(1, 5, 1), (2, 5, 1)}, {25.0, 32.5}),
        ("siit", "dns4", {(1, 5, 1), (2, 3, 1)}, {20.0}),
    ],
)
def test_paths_of_extension_examples_have_their_tables_and_tunnel_bytes(
    example: str, vip: str, depths: set[tuple[int, ...]], longer: set[float]
) -> None:
    paths = [p for p in asked(example)["paths"] if p["vip"] == vip]  # type: ignore[attr-defined]
    assert {tuple(hop["tables"] for hop in path["hops"]) for path in paths} == depths
    assert {path["bytes_longer"] for path in paths} == longer
    for path in paths:
        (frame,) = path["frames"]
        assert frame["limit"] == "passes"
        assert 20 < frame["mpps"]["value"] < 40 and frame["mpps"]["low"] == 0
        assert 15 < path["latency_us"]["low_load"]["value"] < 18


def test_what_if_a_vip_went_through_the_extension() -> None:
    """With the extension in the same question, where the spec has none."""
    port = "switch.extension={ingress: {port: ext-in}, egress: {port: ext-out}, ipv4: 192.0.2.2, ipv6: '2001:db8::2'}"
    for setting in ("vips.dns.forwarding=ipip", "pools.authoritative.selection=client"):
        found = asked("quickstart", "--set", port, "--set", setting)
        before, after = found["before"], found
        assert {p["passes"] for p in before["paths"]} == {1}  # type: ignore[index]
        assert {p["passes"] for p in after["paths"]} == {2}  # type: ignore[attr-defined]
    sprayed = asked(
        "spray",
        "--set",
        "vips.dns-udp.forwarding=ipip",
        "--set",
        "switch.extension.ipv4=192.0.2.2",
        "--set",
        "switch.extension.ipv6=2001:db8::2",
    )
    assert {p["bytes_longer"] for p in sprayed["paths"] if p["hops"]} == {20.0, 40.0}  # type: ignore[attr-defined]


def test_a_missing_extension_is_named() -> None:
    example = str(ROOT / "examples" / "quickstart.yaml")
    done = in_process("capacity", example, "--hardware", "bluefield-3", "--set", "vips.dns.forwarding=ipip")
    assert done.returncode == 1
    assert "$.vips.dns: found forwarding ipip without switch.extension" in done.stderr
    assert "give switch.extension its ingress and egress port" in done.stderr
