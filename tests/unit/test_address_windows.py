# SPDX-License-Identifier: Apache-2.0
"""Windows of the VIPs' addresses: which bits each table looks at, and what routers leave to choose."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.spec.derived import routed_bits, routed_prefixes
from dnsteer.spec.loaded import Loaded
from dnsteer.tables.address import FAMILY_BITS, TABLES, WINDOW_BITS, WINDOWS, prefixes_of, windows_of
from tests.strategies import loaded_from


def spec(addresses: list[str], announced: bool = False, **switch: Any) -> Loaded:
    pool = {
        "backends": [{"name": "a", "ipv4": "10.53.0.11", "ipv6": "2001:db8:53::11", "mac": "02:00:00:00:01:01"}],
    }
    if announced:
        switch["announce"] = {"via": "bird"}
    return loaded_from(
        {
            "apiVersion": "dnsteer/v1",
            "switch": {
                "flavor": "ovs-netdev",
                "bridge": "br-dns",
                "mac": "02:00:00:00:00:53",
                "uplinks": {"p0": None},
                **switch,
            },
            "pools": {"farm": pool},
            "vips": {"dns": {"addresses": addresses, "services": ["dns"], "pool": "farm"}},
        }
    )


@given(st.sampled_from(["ipv4", "ipv6"]), st.data())
def test_windows_end_with_the_whole_address_and_are_as_narrow_as_tables_allow(family: Any, data: st.DataObject) -> None:
    routed = data.draw(st.integers(0, FAMILY_BITS[family]))
    lengths = windows_of(family, routed)
    assert 1 <= len(lengths) <= WINDOWS
    assert lengths[-1] == FAMILY_BITS[family]
    widths = [b - a for a, b in zip((routed, *lengths), lengths, strict=False)]
    assert sum(widths) == FAMILY_BITS[family] - routed
    assert max(widths) - min(widths) <= 1
    assert max(widths) <= WINDOW_BITS or len(lengths) == WINDOWS


def test_a_64_has_seven_windows() -> None:
    assert windows_of("ipv6", 64) == (74, 83, 92, 101, 110, 119, 128)
    assert windows_of("ipv4", 24) == (32,)


@pytest.mark.parametrize(
    ("loaded", "prefixes"),
    [
        (spec(["192.0.2.53", "192.0.2.54", "2001:db8::53"]), ["192.0.2.0/24", "2001:db8::/64"]),
        (spec(["192.0.2.53", "2001:db8::53"], announced=True), ["192.0.2.53/32", "2001:db8::53/128"]),
        (
            spec(["192.0.2.53", "2001:db8::53"], routed=["192.0.0.0/20", "2001:db8::/48"]),
            ["192.0.0.0/20", "2001:db8::/48"],
        ),
    ],
    ids=["left out", "announced", "as written"],
)
def test_what_routers_send_here(loaded: Loaded, prefixes: list[str]) -> None:
    assert list(map(str, routed_prefixes(loaded.spec))) == prefixes
    shortest = {f"ipv{n.version}": n.prefixlen for n in map(ip_network, prefixes)}
    assert routed_bits(loaded.spec) == shortest


def test_each_window_has_the_prefix_of_each_vip_once() -> None:
    addresses = [f"2001:db8::{n}" for n in ("1", "2", "3", "1:1")] + ["2001:db8:0:1::1"]
    found = list(prefixes_of(spec(addresses).spec))
    assert [(table, length) for table, _, length, _ in found] == [
        (table.name, length) for table, length in zip(TABLES, (74, 83, 92, 101, 110, 119, 128), strict=True)
    ]
    for _, _, length, prefixes in found:
        assert prefixes == sorted({int(ip_address(a)) >> 128 - length for a in addresses})
