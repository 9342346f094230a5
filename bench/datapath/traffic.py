# SPDX-License-Identifier: Apache-2.0
"""Queries of many clients as pcap files, laid out by scapy, every client with a random address and source port."""

from __future__ import annotations

import random
import struct
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from scapy.utils import RawPcapWriter

from bench.datapath.cases import MAC, ROUTER, VIP
from dnsteer.proof.reference import wire
from dnsteer.proof.traffic.craft import Headers, query

_IPV4_CLIENTS, _IPV6_CLIENTS = int(ip_address("198.18.0.0")), int(ip_address("2001:2::"))
_FIRST_PORT, _PORTS = 1024, 65536 - 1024
_FRESH_CLIENTS = 4096
_CHUNK = 10_000


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _query(family: int, draw: random.Random, serial: int) -> bytes:
    """A DNS query from a random client, as the router hands it on."""
    if family == 4:
        source = (_IPV4_CLIENTS + draw.getrandbits(17)).to_bytes(4, "big")
    else:
        source = (_IPV6_CLIENTS + draw.getrandbits(64)).to_bytes(16, "big")
    sport = _FIRST_PORT + draw.randrange(_PORTS)
    headers = Headers(_mac(MAC), _mac(ROUTER), source, ip_address(VIP[family]).packed, sport, 53, serial)
    return query(headers, wire.UDP)


def write_queries(file: Path, clients: int, family: int, seed: int) -> None:
    """One query of each client."""
    draw = random.Random(seed)
    with RawPcapWriter(str(file), linktype=1) as writer:
        writer.write_header(None)
        for serial in range(clients):
            writer.write_packet(_query(family, draw, serial))


def write_fresh(file: Path, packets: int, family: int, seed: int) -> None:
    """Queries of which hardly two have the same address and source port, as resolvers send them (RFC 5452).

    The identifier of a query makes up for its port, so that the checksums are right.
    """
    draw = random.Random(seed)
    l4 = 34 if family == 4 else 54
    clients = []
    for serial in range(_FRESH_CLIENTS):
        frame = _query(family, draw, serial)
        sport, ident = (int.from_bytes(frame[at : at + 2], "big") for at in (l4, l4 + 8))
        clients.append((frame[:l4], frame[l4 + 2 : l4 + 8], frame[l4 + 10 :], sport + ident))
    length = len(frame)
    head, short = struct.pack("<IIII", 0, 0, length, length), partial(int.to_bytes, length=2, byteorder="big")
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for start in range(0, packets, _CHUNK):
            chunk = []
            for _ in range(min(_CHUNK, packets - start)):
                before, between, after, both = clients[int(draw.random() * _FRESH_CLIENTS)]
                sport = _FIRST_PORT + int(draw.random() * _PORTS)
                ident = (both - sport) % 0xFFFF  # in ones' complement, as the checksum is
                chunk.append(head + before + short(sport) + between + short(ident) + after)
            out.write(b"".join(chunk))
