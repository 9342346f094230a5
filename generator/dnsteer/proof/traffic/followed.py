# SPDX-License-Identifier: Apache-2.0
"""What tells the MAC addresses of neighbours that are followed: requests, replies, announcements, and what looks alike."""

from __future__ import annotations

from collections.abc import Iterator

from scapy.layers.inet6 import ICMPv6ND_NA
from scapy.layers.l2 import Dot1Q

from dnsteer.proof.traffic.craft import address_text
from dnsteer.proof.traffic.neighbor_requests import BROADCAST, arp, mac_text, solicitation
from dnsteer.proof.traffic.senders import Senders, Vector


def frames(senders: Senders) -> Iterator[Vector]:
    """Yield them for each neighbour at each of its ports; nothing where none is followed."""
    topology, kind = senders.reference.topology, "probe"
    probe = topology.probe_port
    if probe is None:
        return
    for (port, address), vlan in senders.reference.asked.items():
        others = [other for other in (*senders.uplinks, *senders.ports) if other != port]
        beside = address[:-1] + bytes((address[-1] ^ 1,))
        for name, asked in (("", address), ("the neighbour of ", beside)):
            about = f"{name}{address_text(address)}"
            made = _arp if len(address) == 4 else _advertisements
            yield senders.vector(f"request for {about}", probe, _request(senders, probe, asked), kind)
            for told, data in made(senders, port, asked, vlan):
                yield senders.vector(f"{told} {about} by {port}", port, data, kind)
            for other in others[:1]:
                for told, data in made(senders, other, asked, vlan):
                    yield senders.vector(f"{told} {about} by {other}", other, data, kind)


def _request(senders: Senders, probe: str, address: bytes) -> bytes:
    """What the kernel asks by the port for probes: with another sender each time, so that no two are alike."""
    mac = mac_text(senders.reference.topology.probe_mac)
    if len(address) == 4:
        return arp(senders, probe, address, hwsrc=mac)
    return solicitation(senders, probe, address)


def _other_tag(vlan: int) -> Dot1Q:
    """A tag of another VLAN than a neighbour's."""
    return Dot1Q(vlan=100 if vlan != 100 else 101)


def _arp(senders: Senders, port: str, address: bytes, vlan: int) -> Iterator[tuple[str, bytes]]:
    own, probe = address_text(address), mac_text(senders.reference.topology.probe_mac)
    tag = _other_tag(vlan)
    for name, to, fields in (
        ("ARP reply of", probe, {"op": 2, "pdst": "192.0.2.9", "hwdst": probe}),
        ("gratuitous ARP request of", BROADCAST, {"op": 1, "pdst": own}),
        ("gratuitous ARP reply of", BROADCAST, {"op": 2, "pdst": own}),
        ("ARP request for an unknown address of", BROADCAST, {"op": 1, "pdst": "192.0.2.254"}),
        ("tagged ARP reply of", probe, {"op": 2, "tag": tag}),
    ):
        serial, _ = senders.clients.next(4)
        mac = f"02:fc:fe:{serial >> 16 & 255:02x}:{serial >> 8 & 255:02x}:{serial & 255:02x}"
        yield name, arp(senders, port, address, to=to, vlan=vlan, psrc=own, hwsrc=mac, **fields)


def _advertisements(senders: Senders, port: str, address: bytes, vlan: int) -> Iterator[tuple[str, bytes]]:
    probe = mac_text(senders.reference.topology.probe_mac)
    for name, to, fields in (
        ("advertisement of", probe, {}),
        ("unsolicited advertisement of", "33:33:00:00:00:01", {"dst": "ff02::1"}),
        ("advertisement from afar of", probe, {"hlim": 254}),
        ("tagged advertisement of", probe, {"tag": _other_tag(vlan)}),
    ):
        message = ICMPv6ND_NA(tgt=address_text(address), R=1, S=int(to == probe), O=1)
        yield name, solicitation(senders, port, address, to=to, vlan=vlan, message=message, **fields)
