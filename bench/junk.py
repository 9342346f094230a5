# SPDX-License-Identifier: Apache-2.0
"""Kinds of junk: packets of which a few fields vary, drawn at random or by somebody who knows the spec, and their sender.

The sender of a kind (`lint/masks/attackers.py`) can send what the kind draws and nothing else, so that the megaflows that it
makes can be compared with those computed for it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from tests.mask_attack import inject

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.attackers import Attacker, FieldChoice, Sender
from dnsteer.lint.masks.fields import ARP, ICMP, ICMPV6, IPV4, IPV6, SOLICITATION, TCP, UDP
from dnsteer.lint.masks.traversal import LATER
from dnsteer.proof.harness.switch import Harness
from dnsteer.spec.bonds import uplink_ports
from dnsteer.spec.derived import gateway_mac
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.networks import own_vlan

_CLIENT_MAC = 0x0200000000FE
_CLIENTS = {IPV4: 0xC6120001, IPV6: 0x20010002 << 96 | 1}
_TAGS = (0x8100, 0x88A8)
_HEADERS = (*_TAGS, ARP, IPV4, IPV6, 0x8847, 0x8848, 0x894F)
"""Ethertypes that Open vSwitch reads on behind: VLAN tags, ARP, IP, MPLS, NSH."""
_BATCH = 100  # a dummy device queues 100 packets and drops any more
_NEAR = 10
"""Bits side by side that somebody changes who knows the spec: no more than a window of the tables looks at."""
_PROTOCOLS = tuple(n for n in range(256) if n not in (0, 43, 44, 51, 60))
"""Protocols but for the extension headers of IPv6, which say themselves what follows."""


@dataclass(frozen=True)
class Free:
    """A field whose bits *mask* can have any value; the others are those of *base*."""

    base: int
    mask: int


Values = tuple[int, ...] | Free


@dataclass(frozen=True)
class JunkKind:
    """One kind of junk: the ethertype and what each field can be. *tags*: frames may have a VLAN tag of any value.

    Otherwise they are in *vlan*, with a tag of any priority, or have none for 0."""

    name: str
    ethertypes: tuple[int, ...]
    values: Mapping[str, Values]
    fragments: tuple[int, ...] = (0,)
    tags: bool = False
    ports: tuple[str, ...] = field(default=())
    vlan: int = 0

    def attacker(self) -> Attacker:
        """Somebody who sends just this."""
        sent = dict(self.values)
        if self.ethertypes == (IPV6,) and LATER in self.fragments:  # Open vSwitch sees only the header of these
            sent["nw_proto"] = (*protocols, 44) if isinstance(protocols := sent["nw_proto"], tuple) else protocols
        choices = {name: _choice(name, values) for name, values in sent.items()}
        sender = Sender(
            self.ports,
            frozenset(self.ethertypes),
            self.fragments,
            None if self.tags else frozenset((self.vlan,)),
            choices,
        )
        return Attacker(self.name, (sender,))

    def frames(self, draw: random.Random, *, knowing: bool) -> Iterator[tuple[str, bytes]]:
        """Yield frames without end, each with its port. *knowing*: values differ from those of the spec by few bits."""
        while True:
            headers = {name: _drawn(draw, values, knowing=knowing) for name, values in self.values.items()}
            headers |= {"dl_type": draw.choice(self.ethertypes), "nw_frag": draw.choice(self.fragments)}
            if self.tags and draw.random() < 0.97:
                headers |= {"tag": draw.choice(_TAGS), "tci": draw.getrandbits(16)}
            elif self.vlan:
                headers |= {"tag": _TAGS[0], "tci": draw.getrandbits(3) << 13 | self.vlan}
            yield draw.choice(self.ports), frame_of(headers)


def _choice(name: str, values: Values) -> FieldChoice:
    if isinstance(values, Free):
        mask = fields.full_mask(name) & ~values.mask
        return FieldChoice(mask, frozenset((values.base & mask,)), 1)
    return FieldChoice.of(name, *values)


def _drawn(draw: random.Random, values: Values, *, knowing: bool) -> int:
    if not isinstance(values, Free):
        return draw.choice(values)
    width = max(values.mask.bit_length(), 1)
    change = draw.getrandbits(_NEAR) << draw.randrange(width) if knowing else draw.getrandbits(width)
    return values.base ^ change & values.mask


def frame_of(headers: Mapping[str, int]) -> bytes:
    """Build a frame from values by field; those that are left out are 0."""
    out = _bytes(headers, "dl_dst", 6) + _bytes(headers, "dl_src", 6)
    if "tag" in headers:
        out += _bytes(headers, "tag", 2) + _bytes(headers, "tci", 2)
    ethertype = headers["dl_type"]
    out += ethertype.to_bytes(2, "big")
    if ethertype == ARP:
        out += b"\x00\x01\x08\x00\x06\x04\x00" + _bytes(headers, "nw_proto", 1)
        out += b"".join(
            _bytes(headers, *part) for part in (("arp_sha", 6), ("nw_src", 4), ("arp_tha", 6), ("nw_dst", 4))
        )
        return out + bytes(18)
    if ethertype == IPV4:
        payload = _payload(headers)
        place = {0: 0, 1: 0x2000, 3: 0x2001}[headers.get("nw_frag", 0)]
        out += b"\x45" + _bytes(headers, "nw_tos", 1) + (20 + len(payload)).to_bytes(2, "big") + b"\x00\x01"
        out += place.to_bytes(2, "big") + _bytes(headers, "nw_ttl", 1) + _bytes(headers, "nw_proto", 1) + b"\x00\x00"
        return out + _bytes(headers, "nw_src", 4) + _bytes(headers, "nw_dst", 4) + payload + bytes(8)
    if ethertype == IPV6:
        payload, protocol = _payload(headers), _bytes(headers, "nw_proto", 1)
        if headers.get("nw_frag", 0):
            place = {1: 1, 3: 9}[headers["nw_frag"]]
            payload = protocol + b"\x00" + place.to_bytes(2, "big") + b"\x00\x00\x00\x01" + payload
            protocol = b"\x2c"
        out += b"\x60\x00\x00\x00" + len(payload).to_bytes(2, "big") + protocol + _bytes(headers, "nw_ttl", 1)
        return out + _bytes(headers, "ipv6_src", 16) + _bytes(headers, "ipv6_dst", 16) + payload + bytes(8)
    return out + bytes(46)


def _payload(headers: Mapping[str, int]) -> bytes:
    protocol, ends = headers["nw_proto"], _bytes(headers, "tp_src", 2) + _bytes(headers, "tp_dst", 2)
    if protocol == UDP:
        return ends + b"\x00\x10\x00\x00" + bytes(8)
    if protocol == TCP:
        return ends + bytes(8) + b"\x50\x02" + bytes(6)
    if protocol in (ICMP, ICMPV6):
        head = _bytes(headers, "tp_src", 1) + _bytes(headers, "tp_dst", 1) + b"\x00\x00"
        if protocol == ICMPV6 and "nd_target" in headers:
            option = b"\x01\x01" + _bytes(headers, "arp_sha", 6)
            return head + _bytes(headers, "igmp_group_ip4", 4) + _bytes(headers, "nd_target", 16) + option
        return head + bytes(8)
    return ends + bytes(12)


def _bytes(headers: Mapping[str, int], name: str, length: int) -> bytes:
    return (headers.get(name, 0) & (1 << 8 * length) - 1).to_bytes(length, "big")


def _bits(width: int) -> int:
    return (1 << width) - 1


def junk_kinds(loaded: Loaded) -> list[JunkKind]:
    """Return the kinds of junk for a spec."""
    ports = tuple(uplink_ports(loaded.spec.switch))
    mac = int(loaded.spec.switch.mac.replace(":", ""), 16)
    gateway = int(gateway_mac(loaded.spec.switch).replace(":", ""), 16)
    addresses = [a for vip in loaded.spec.vips.values() for a in vip.addresses]
    vips = {
        kind: int(next(a for a in addresses if a.version == v))
        for kind, v in ((IPV4, 4), (IPV6, 6))
        if any(a.version == v for a in addresses)
    }
    macs: dict[str, Values] = {"dl_dst": (mac,), "dl_src": (_CLIENT_MAC,)}
    found = [
        JunkKind("ethertypes", tuple(e for e in range(0x600, 0x10000) if e not in _HEADERS), macs, ports=ports),
        JunkKind("VLAN tags", (0x88B5,), macs, tags=True, ports=ports),
    ]
    for kind, vip in vips.items():
        name, source, target, low = (
            ("IPv4", "nw_src", "nw_dst", 8) if kind == IPV4 else ("IPv6", "ipv6_src", "ipv6_dst", 64)
        )
        base: dict[str, Values] = {**macs, source: (_CLIENTS[kind],), target: (vip,), "nw_ttl": (64,), "nw_tos": (0,)}
        base |= {"nw_proto": (UDP,), "tp_src": (142,), "tp_dst": (53,)}
        icmp = {
            **base,
            "nw_proto": (ICMP if kind == IPV4 else ICMPV6,),
            "tp_src": (8 if kind == IPV4 else 128,),
            "tp_dst": (0,),
        }
        error: dict[str, Values] = {
            **icmp,
            "tp_src": (3 if kind == IPV4 else 2,),
            "tp_dst": Free(4 if kind == IPV4 else 0, 0xFF),
            target: Free(vip, _bits(low)),
        }
        few = (vip, vip ^ 1 << low // 2)
        mixed: dict[str, Values] = {
            **base,
            "dl_dst": (mac, gateway, mac ^ 4),
            "dl_src": (_CLIENT_MAC,),
            target: few,
            source: (_CLIENTS[kind], *_backends(loaded, kind)),
            "nw_proto": (UDP, TCP, ICMP if kind == IPV4 else ICMPV6, 132),
            "tp_src": (53, 135, 53 + 256),
            "tp_dst": (53, 53 + 4096, 0),
            "nw_ttl": (64, 255),
            "nd_target": few,
            "arp_sha": (_CLIENT_MAC,),
            "arp_tha": (0,),
            "tcp_flags": (1,),
            "igmp_group_ip4": (0,),
        }
        changes: dict[str, Mapping[str, Values]] = {
            "destinations": {target: Free(vip, _bits(low))},
            "destinations, ports and slots": {
                target: Free(vip, _bits(low)),
                "tp_dst": Free(53, 0xFFFF),
                "tp_src": Free(0, 0xFFFF),
            },
            "ports": {"tp_dst": Free(53, 0xFFFF), "nw_proto": (UDP, TCP)},
            "source ports": {"tp_src": Free(0, 0xFFFF)},
            "sources": {source: Free(_CLIENTS[kind], _bits(2 * low))},
            "protocols": {"nw_proto": _PROTOCOLS},
            "TTLs": {"nw_ttl": Free(64, 0xFF), "nw_tos": Free(0, 0xFF)},
            "destination MACs": {"dl_dst": Free(mac, _bits(48))},
            "source MACs": {"dl_src": Free(_CLIENT_MAC, _bits(48))},
        }
        found += [
            JunkKind(f"{name} {what}", (kind,), {**base, **change}, ports=ports) for what, change in changes.items()
        ]
        found += [
            JunkKind(
                f"{name} ICMP types", (kind,), {**icmp, "tp_src": Free(8, 0x7F), "tp_dst": Free(0, 0xFF)}, ports=ports
            ),
            JunkKind(
                f"{name} echo requests", (kind,), {**icmp, source: Free(_CLIENTS[kind], _bits(2 * low))}, ports=ports
            ),
            JunkKind(f"{name} ICMP errors", (kind,), error, ports=ports),
            JunkKind(f"{name} fragments", (kind,), {**base, "nw_proto": _PROTOCOLS}, (1, 3), ports=ports),
            JunkKind(f"{name}, a few values of all fields", (kind,), mixed, (0, 1, 3), ports=ports),
        ]
        if kind == IPV4:
            arp: dict[str, Values] = {
                **macs,
                "nw_proto": (1,),
                "nw_src": Free(0, _bits(32)),
                "nw_dst": Free(vip, 0xFF),
                "arp_sha": (_CLIENT_MAC,),
                "arp_tha": (0,),
            }
            found.append(JunkKind("ARP", (ARP,), arp, ports=ports))
        else:
            nd = {
                **icmp,
                "nw_ttl": (255,),
                "tp_src": (SOLICITATION,),
                "nd_target": Free(vip, _bits(64)),
                "arp_sha": (_CLIENT_MAC,),
                "arp_tha": (0,),
                "tcp_flags": (1,),
                "igmp_group_ip4": (0,),
            }
            found.append(JunkKind("neighbour solicitations", (IPV6,), nd, ports=ports))
    vlan = own_vlan(loaded.spec.switch, ports[0])
    return [kind if kind.tags else replace(kind, vlan=vlan) for kind in found]


def _backends(loaded: Loaded, kind: int) -> tuple[int, ...]:
    """Return the addresses of the first two backends."""
    backends = [backend for pool in loaded.spec.pools.values() for backend in pool.backends]
    found = [backend.ipv4 if kind == IPV4 else backend.ipv6 for backend in backends]
    return tuple(int(address) for address in found if address is not None)[:2]


def send_junk(harness: Harness, kind: JunkKind, packets: int, seed: int) -> int:
    """Send packets of a kind, half of them drawn by somebody who knows the spec; return the megaflows that they made.

    Megaflows that were there before are removed. Raises SwitchError if the switch does not keep up.
    """
    harness.switch.appctl("upcall/set-flow-limit", "1000000")
    harness.forget_megaflows()
    for knowing in (False, True):
        frames = kind.frames(random.Random(seed), knowing=knowing)
        left = packets // 2
        while left > 0:
            batch: dict[str, list[str]] = defaultdict(list)
            for port, frame in islice(frames, min(left, _BATCH)):
                batch[port].append(frame.hex())
            left -= inject(harness, batch)
    return sum("recirc_id(" in line for line in harness.switch.dump("dpctl/dump-flows", "-m").splitlines())
