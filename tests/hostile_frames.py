# SPDX-License-Identifier: Apache-2.0
"""Hostile frames: built from values that the tables match, altered so that they just miss, and purely random ones."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.fields import ARP, ICMP, ICMPV6, IPV4, IPV6, TCP, UDP
from dnsteer.lint.masks.flow_syntax import Match
from dnsteer.proof.reference.wire import MalformedError, write_checksums

_ETHERTYPES = (ARP, IPV4, IPV6, 0x8035, 0x8847, 0x88CC, 0x8100, 0x88A8, 0x894F, 0x88B5, 0x0600, 0x0003)
_PROTOCOLS = (UDP, TCP, ICMP, ICMPV6, 2, 132, 47, 44, 136, 0, 255)
_EXTENSIONS = (0, 43, 60, 51)  # hop-by-hop options, routing, destination options, authentication
_ADDRESSES = {IPV4: ("nw_src", "nw_dst"), IPV6: ("ipv6_src", "ipv6_dst")}
_SYN, _ACK = 0x02, 0x10
_PADDING = bytes(8)
"""Appended to every frame. For a solicitation without an option, Open vSwitch writes the option's type past the end of the
packet; real devices have room there, dummy devices do not."""
_SNAP = 64
"""Maximum random bytes after the Ethernet header, for ethertypes other than ARP, IPv4 and IPv6."""

HeaderValues = dict[str, int]


class HostileFrames:
    """A source of frames, reproducible for the same tables and seed.

    Each starts as a frame that flows of several tables match. Then some fields are changed: one bit, one bit and random
    bits below it (to miss at every prefix length), the highest or lowest value, another flow's value, or a random value.
    """

    def __init__(self, matches: Iterable[Match], seed: int) -> None:
        self._draw = random.Random(seed)
        self._values: dict[str, list[int]] = defaultdict(list)
        known_values: set[tuple[str, int]] = set()
        aims = []
        for match in matches:
            known = {name: bits.value for name, bits in match.items() if isinstance(bits.value, int)}
            known = {name: value for name, value in known.items() if not name.startswith("reg")}
            for name, value in known.items():
                if (name, value) not in known_values:
                    known_values.add((name, value))
                    self._values[name].append(value)
            if known.keys() - {"dl_type", "nw_proto"}:
                aims.append(known)
        shapes = {tuple(sorted(k.items())): k for k in aims}
        self._shapes = list(shapes.values()) or [{}]
        self._kinds: dict[tuple[str, ...], list[HeaderValues]] = defaultdict(list)
        for shape in self._shapes:
            kind = (*sorted(shape), str(shape.get("dl_type")), str(shape.get("nw_proto")))
            self._kinds[kind].append(shape)

        self._services = [s for s in self._shapes if "tp_dst" in s and not s.keys().isdisjoint(("nw_dst", "ipv6_dst"))]
        self._stations = [s for s in self._shapes if "dl_dst" in s]
        tracked = "ct_mark" in self._values
        self._begins = [s for s in self._services if tracked and s.get("nw_proto") == TCP and "dl_type" in s]
        """Services whose connections may be remembered by the switch."""
        self._begun: HeaderValues = {}
        """The packet that has begun a connection last."""

    def frame(self) -> bytes:
        """Return the next frame's bytes."""
        draw = self._draw
        if draw.random() < 0.02:
            return draw.randbytes(draw.randint(14, 80))
        if self._begins and draw.random() < 0.1:
            return self._of_connection()
        packet = self._packet()
        changes = min(int(draw.expovariate(0.9)), 6)
        names = list(packet)
        aims = [name for name in names if name in self._values] or names
        destinations = [name for name in ("nw_dst", "ipv6_dst") if name in packet]
        for _ in range(changes):
            name = draw.choice(aims if draw.random() < 0.8 else names)
            if destinations and draw.random() < 0.3:  # most tables look at it, a few bits each
                name = draw.choice(destinations)
            packet[name] = self._changed(name, packet[name])
        return self._bytes(packet)

    def _of_connection(self) -> bytes:
        """Return a packet that begins a connection, or the next one of it; with checksums, which the tracker wants right."""
        draw, flags = self._draw, _ACK
        if not self._begun or draw.random() < 0.5:
            service, flags = draw.choice(self._begins), _SYN
            packet = {**self._packet(), **draw.choice(self._stations), **service, "nw_ttl": 64, "nw_frag": 0}
            packet |= {"ip_options": 0, "tags": int(packet.get("vlan_tci", 0) > 0)}
            for name in (*_ADDRESSES[packet["dl_type"]], "nw_tos"):
                packet.setdefault(name, self._some(name))
            self._begun = packet
        data = bytearray(self._bytes({**self._begun, "tcp_flags": flags}))
        with suppress(MalformedError):  # one that was cut off
            write_checksums(data)
        return bytes(data)

    def _packet(self) -> HeaderValues:
        """Return a packet's fields: values of up to three flows' matches, the other fields random."""
        draw = self._draw
        packet: HeaderValues = {}
        kinds = list(self._kinds.values())
        # Else few would be queries of a service but for one field, which alone get through the windows of its address.
        query = [self._services, self._stations] if draw.random() < 0.4 else []
        for shapes in [*query, *(draw.choice(kinds) for _ in range(3))]:
            for name, value in draw.choice(shapes or kinds[0]).items():
                packet.setdefault(name, value)
        ethertype = packet.setdefault("dl_type", draw.choice(_ETHERTYPES if draw.random() < 0.3 else (IPV4, IPV6)))
        for name in ("dl_dst", "dl_src"):
            packet.setdefault(name, self._some(name))
        if ethertype in _ADDRESSES:
            for name in (*_ADDRESSES[ethertype], "nw_tos", "nw_ttl"):
                packet.setdefault(name, self._some(name))
            packet.setdefault("nw_proto", self._some("nw_proto"))
            packet.setdefault("nw_frag", 0 if draw.random() < 0.8 else draw.choice((1, 3)))
            packet.setdefault("ip_options", int(draw.random() < 0.05))
            if packet["nw_proto"] == ICMPV6:
                packet.setdefault("nd_target", self._some("nd_target"))
        if ethertype == ARP:
            for name in ("nw_src", "nw_dst", "arp_sha", "arp_tha"):
                packet.setdefault(name, self._some(name))
            packet.setdefault("nw_proto", draw.choice((1, 1, 1, 2, 3)))
        for name in ("tp_src", "tp_dst", "tcp_flags"):
            packet.setdefault(name, self._some(name))
        packet.setdefault("tags", 0 if draw.random() < 0.9 else draw.randint(1, 2))
        if any(self._values.get("vlan_tci", ())):
            packet.setdefault("vlan_tci", draw.choice(self._values["vlan_tci"]))
            if packet["vlan_tci"]:
                packet["tags"] = max(packet["tags"], 1)
        return packet

    def _some(self, name: str) -> int:
        known = self._values.get(name)
        if known and self._draw.random() < 0.8:
            return self._draw.choice(known)
        return self._draw.getrandbits(fields.width(name))

    def _changed(self, name: str, value: int) -> int:
        draw = self._draw
        if name in ("tags", "ip_options"):
            return draw.randint(0, 2)
        if name == "nw_frag":
            return draw.choice((0, 1, 3))
        if name == "dl_type":
            return draw.choice(_ETHERTYPES) if draw.random() < 0.9 else draw.getrandbits(16)
        if name == "nw_proto" and draw.random() < 0.7:
            return draw.choice(_PROTOCOLS)
        width = fields.width(name)
        bit = draw.randrange(width)
        changes: tuple[Callable[[], int], ...] = (
            lambda: value ^ 1 << bit,
            lambda: value ^ 1 << bit,
            lambda: value ^ (1 << bit | draw.getrandbits(bit) if bit else 1),
            lambda: draw.choice((0, (1 << width) - 1)),
            lambda: draw.choice(self._values.get(name) or [value]),
            lambda: draw.getrandbits(width),
        )
        return draw.choice(changes)()

    def _bytes(self, packet: HeaderValues) -> bytes:
        draw = self._draw
        out = self._of(packet, "dl_dst", 6) + self._of(packet, "dl_src", 6)
        for nth in range(packet["tags"]):
            out += draw.choice((b"\x81\x00", b"\x81\x00", b"\x88\xa8"))
            vlan = 0 if nth else packet.get("vlan_tci", 0)
            out += (draw.getrandbits(3) << 13 | vlan & 0xFFF).to_bytes(2, "big") if vlan else draw.randbytes(2)
        ethertype = packet["dl_type"]
        out += self._of(packet, "dl_type", 2)
        if ethertype == ARP:
            out += self._arp(packet)
        elif ethertype == IPV4:
            out += self._ipv4(packet)
        elif ethertype == IPV6:
            out += self._ipv6(packet)
        else:
            out += draw.randbytes(draw.randint(20, _SNAP))
        if draw.random() < 0.01:
            out = out[: draw.randint(14, len(out))]
        return out + _PADDING

    def _arp(self, packet: HeaderValues) -> bytes:
        kind = b"\x00\x01\x08\x00\x06\x04" if self._draw.random() < 0.97 else b"\x00\x06\x86\xdd\x08\x10"
        high = b"\x00" if self._draw.random() < 0.97 else b"\x01"
        return (
            kind
            + high
            + self._of(packet, "nw_proto", 1)
            + self._of(packet, "arp_sha", 6)
            + self._of(packet, "nw_src", 4)
            + self._of(packet, "arp_tha", 6)
            + self._of(packet, "nw_dst", 4)
            + bytes(18)
        )

    def _ipv4(self, packet: HeaderValues) -> bytes:
        payload = self._transport(packet)
        options = b"\x94\x04\x00\x00" * packet.get("ip_options", 0)
        length = 20 + len(options) + len(payload)
        place = {0: 0, 1: 0x2000, 3: 0x2000 | self._draw.randint(1, 0x1FFF)}[packet.get("nw_frag", 0)]
        return (
            bytes([0x45 + packet.get("ip_options", 0), packet.get("nw_tos", 0) & 0xFF])
            + length.to_bytes(2, "big")
            + b"\x00\x01"
            + place.to_bytes(2, "big")
            + self._of(packet, "nw_ttl", 1)
            + self._of(packet, "nw_proto", 1)
            + b"\x00\x00"
            + self._of(packet, "nw_src", 4)
            + self._of(packet, "nw_dst", 4)
            + options
            + payload
        )

    def _ipv6(self, packet: HeaderValues) -> bytes:
        chain: list[tuple[int, bytes]] = []
        draw = self._draw
        for _ in range(packet.get("ip_options", 0)):
            chain.append((draw.choice(_EXTENSIONS), b"\x00" + bytes(6)))
        if packet.get("nw_frag", 0):
            place = 1 if packet.get("nw_frag", 0) == 1 else draw.randint(1, 0x1FFF) << 3 | draw.randint(0, 1)
            chain.append((44, b"\x00" + place.to_bytes(2, "big") + b"\x00\x00\x00\x01"))
        kinds = [kind for kind, _ in chain] + [self._of(packet, "nw_proto", 1)[0]]
        headers = b"".join(bytes([kinds[i + 1]]) + rest for i, (_, rest) in enumerate(chain))
        payload = headers + self._transport(packet)
        label = 0x60000000 | (packet.get("nw_tos", 0) & 0xFF) << 20 | draw.choice((0, draw.getrandbits(20)))
        return (
            label.to_bytes(4, "big")
            + len(payload).to_bytes(2, "big")
            + bytes([kinds[0]])
            + self._of(packet, "nw_ttl", 1)
            + self._of(packet, "ipv6_src", 16)
            + self._of(packet, "ipv6_dst", 16)
            + payload
        )

    def _transport(self, packet: HeaderValues) -> bytes:
        protocol = packet.get("nw_proto", 0)
        ends = self._of(packet, "tp_src", 2) + self._of(packet, "tp_dst", 2)
        if protocol == UDP:
            return ends + b"\x00\x10\x00\x00" + bytes(8)
        if protocol == TCP:
            return ends + bytes(8) + bytes([0x50, packet.get("tcp_flags", 2) & 0xFF]) + bytes(6)
        if protocol == ICMP:
            return bytes([packet["tp_src"] & 0xFF, packet["tp_dst"] & 0xFF]) + bytes(10)
        if protocol == ICMPV6:
            return self._icmp6(packet)
        return ends + bytes(12)

    def _icmp6(self, packet: HeaderValues) -> bytes:
        draw = self._draw
        head = (
            bytes([packet["tp_src"] & 0xFF, packet["tp_dst"] & 0xFF])
            + b"\x00\x00"
            + draw.choice((bytes(4), draw.randbytes(4)))
        )
        options = b""
        if draw.random() < 0.7:
            options = bytes([draw.choice((1, 1, 2, 14)), 1]) + draw.randbytes(6)
        return head + self._of(packet, "nd_target", 16) + options if "nd_target" in packet else head

    def _of(self, packet: HeaderValues, name: str, length: int) -> bytes:
        """Return a field's bytes; random if the packet lacks it because its ethertype or protocol was changed."""
        value = packet.get(name)
        if value is None:
            value = self._some(name)
        return (value & (1 << 8 * length) - 1).to_bytes(length, "big")
