# SPDX-License-Identifier: Apache-2.0
"""Which packets two flows have in common, by their matches."""

from __future__ import annotations

import pytest

from dnsteer.switch.flow_matches import covers, overlap, parse_match

UPLINK = "in_port=p0,vlan_tci=0x0000/0x0fff,dl_dst=02:00:00:00:00:53"
DNS = "udp,nw_dst=192.0.2.53,tp_dst=53"
DNS6 = "udp6,ipv6_dst=2001:db8::53,tp_dst=53"


@pytest.mark.parametrize(
    ("one", "other", "both", "whole"),
    [
        ("", DNS, True, True),
        ("ip", DNS, True, True),
        ("dl_type=0x0800", DNS, True, True),
        ("ip", UPLINK, True, False),
        ("ipv6", DNS, False, False),
        ("udp", DNS, True, True),
        ("tcp", DNS, False, False),
        ("udp6", DNS6, True, True),
        ("arp", DNS, False, False),
        ("ip,nw_dst=192.0.2.0/24", DNS, True, True),
        ("ip,nw_dst=192.0.2.0/255.255.255.0", DNS, True, True),
        ("ip,nw_dst=192.0.3.0/24", DNS, False, False),
        ("ip,nw_src=198.51.100.0/24", DNS, True, False),
        ("ipv6,ipv6_dst=2001:db8::/32", DNS6, True, True),
        ("ipv6,ipv6_dst=2001:db9::/32", DNS6, False, False),
        ("udp,tp_dst=0x35/0xfff", DNS, True, True),
        ("udp,tp_dst=54", DNS, False, False),
        ("udp,udp_dst=53", DNS, True, True),
        ("udp,tp_src=1024/0xfc00", DNS, True, False),
        ("in_port=p0", UPLINK, True, True),
        ("in_port=p1", UPLINK, False, False),
        ("dl_dst=02:00:00:00:00:53", UPLINK, True, True),
        ("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00", UPLINK, False, False),
        ("dl_dst=02:00:00:00:00:00/ff:ff:ff:00:00:00", UPLINK, True, True),
        ("dl_vlan=10", UPLINK, False, False),
        ("dl_vlan=65535", UPLINK, True, False),
        ("ip,nw_frag=later", "udp,nw_frag=no", False, False),
        ("ip,nw_frag=not_later", "udp,nw_frag=no", True, True),
        ("reg0=0x1", "reg0=0x4551,reg1=0", False, False),
        ("ct_state=+new-trk", "ct_state=+trk", True, False),
        ("ip,nw_tos=192", DNS, True, False),
    ],
)
def test_overlap_and_cover_of_two_matches(one: str, other: str, both: bool, whole: bool) -> None:
    a, b = parse_match(one), parse_match(other)
    assert (overlap(a, b), overlap(b, a), covers(a, b)) == (both, both, whole)
    assert covers(a, a) and overlap(a, a)
