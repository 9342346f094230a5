# SPDX-License-Identifier: Apache-2.0
"""Gratuitous ARP and unsolicited neighbour advertisements, as scapy reads them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6NDOptDstLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether

from dnsteer.agent.gratuitous import announcement_frame, packet_out_lines
from dnsteer.checks.load import check_document
from dnsteer.spec.read import parse_document

MACS = st.binary(min_size=6, max_size=6).map(lambda b: ":".join(f"{octet:02x}" for octet in b))


@given(st.integers(0, 2**32 - 1).map(IPv4Address), MACS)
def test_an_ipv4_address_is_announced_by_arp(address: IPv4Address, mac: str) -> None:
    data = announcement_frame(address, mac, router=False)
    frame = Ether(data)
    assert (len(data), frame.dst, frame.src) == (60, "ff:ff:ff:ff:ff:ff", mac)
    arp = frame[ARP]
    assert (arp.op, arp.hwsrc, arp.psrc, arp.pdst) == (1, mac, str(address), str(address))
    assert arp.hwdst == "00:00:00:00:00:00"


@given(st.integers(0, 2**128 - 1).map(IPv6Address), MACS, st.booleans())
def test_an_ipv6_address_is_announced_by_neighbor_advertisement(address: IPv6Address, mac: str, router: bool) -> None:
    data = announcement_frame(address, mac, router=router)
    frame = Ether(data)
    assert (frame.dst, frame.src) == ("33:33:00:00:00:01", mac)
    ip, told = frame[IPv6], frame[ICMPv6ND_NA]
    assert (IPv6Address(ip.src), ip.dst, ip.hlim, IPv6Address(told.tgt)) == (address, "ff02::1", 255, address)
    assert (told.R, told.S, told.O, frame[ICMPv6NDOptDstLLAddr].lladdr) == (router, 0, 1, mac)
    written = told.cksum
    del told.cksum
    assert Ether(bytes(frame))[ICMPv6ND_NA].cksum == written, "as scapy computes it"


SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [192.0.2.1]
  gratuitous:
  uplinks: {p0: {next_hop: 02:00:00:00:00:fe}, p1: {next_hop: 02:00:00:00:00:fd}}
  ports: {vf0: }
pools:
  farm:
    backends: [{name: a, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01, port: vf0}]
vips:
  one: {addresses: [198.51.100.53, '2001:db8::53'], services: [dns], pool: farm}
  two: {addresses: [198.51.100.53], services: [dot], pool: farm}
"""


def test_vips_by_uplinks_and_gateways_by_all_ports() -> None:
    spec = check_document(parse_document("spec.yaml", SPEC.replace(", '2001:db8::53'", ""))).spec
    assert spec.switch.gratuitous is not None and spec.switch.gratuitous.repeat == 3
    gateway, vip = packet_out_lines(spec, ["p0", "p1", "vf0"])
    assert gateway.endswith(",actions=output:p0,output:p1,output:vf0") and "c0000201" in gateway
    assert "020000000052" in gateway, "the gateways' MAC"
    assert vip.endswith(",actions=output:p0,output:p1") and "020000000053" in vip
    (gateway,) = packet_out_lines(spec, ["vf0"])
    assert gateway.endswith(",actions=output:vf0"), "a bundle with a port that is not there is refused whole"


def test_each_network_is_told_with_its_tag() -> None:
    text = SPEC.replace("p0: {next_hop", "p0: {vlan: 100, next_hop").replace("port: vf0}", "vlan: 200}")
    text = text.replace(", p1: {next_hop: 02:00:00:00:00:fd}", "").replace(", '2001:db8::53'", "")
    spec = check_document(parse_document("spec.yaml", text)).spec
    in_backends, at_port, vip = packet_out_lines(spec, ["p0", "vf0"])
    assert "810000c80806" in in_backends and in_backends.endswith("actions=output:p0") and "c0000201" in in_backends
    assert "8100" not in at_port and at_port.endswith("actions=output:vf0")
    assert "810000640806" in vip and vip.endswith("actions=output:p0")
