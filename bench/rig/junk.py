# SPDX-License-Identifier: Apache-2.0
"""Junk: datagrams of kinds that differ in which bits are random. Sent by sender.c over AF_PACKET.

Those that reach a server hold a DNS answer, which servers and dnsdist pass over: what is measured is what balances, not
the servers' own overload. Of one kind they are queries: a flood, which limits hold back.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from bench.hosts import space
from bench.rig.network import FAMILIES
from dnsteer.checks.load import check_document
from dnsteer.lab.command import netns_exec, program_environment, run
from dnsteer.proof.dns_frames import query_frame
from dnsteer.proof.reference import wire
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.read import parse_document
from dnsteer.switch.signals import ends_with_parent

SOURCE = Path(__file__).with_name("sender.c")
DENIED_24 = "10.200.7.0/24"
"""Where the junk of one network comes from: the last prefix of every list."""
_ANSWER = 0x80
"""The bit of a DNS message that makes it an answer, in its third byte (RFC 1035, 4.1.1)."""
_DNS, _CLOSED = 53, 9


@dataclass(frozen=True)
class Kind:
    """A kind of junk: a datagram, and how many of the low bits of its fields are random."""

    says: str
    version: int = 4
    client: str = "198.18.0.1"
    port: int = _DNS
    source: int = 0
    destination: int = 0
    sport: int = 0
    dport: int = 0
    asks: bool = False
    """Whether it is a query, which servers answer: a flood that a limit is for."""


KINDS = {
    "destinations": Kind("IPv6 destinations of the routed /64 at port 53", 6, "2001:2::1", destination=64),
    "ports": Kind("destination ports of the VIP", dport=16),
    "sources": Kind("sources in 198.18.0.0/15 (RFC 2544) and source ports, to the VIP at port 53", source=17, sport=16),
    "one-flow": Kind("one datagram again and again, to a closed port of the VIP", port=_CLOSED),
    "one-24": Kind(
        f"sources in {DENIED_24} and source ports, to the VIP at port 53", client="10.200.7.0", source=8, sport=16
    ),
    "flood": Kind(
        f"queries from sources in {DENIED_24} and source ports", client="10.200.7.0", source=8, sport=16, asks=True
    ),
}


def frame_and_mask(kind: Kind, spec: str) -> tuple[bytes, bytes]:
    """A frame of this kind to the VIP of *spec*, and which of its bits are random."""
    loaded = check_document(parse_document("rig.yaml", spec))
    vip = ip_address(FAMILIES[kind.version].vip)
    frame = bytearray(query_frame(loaded, ip_address(kind.client), 5353, vip, kind.port, Protocol.UDP))
    packet = wire.parse(bytes(frame))
    if not kind.asks:
        frame[packet.l4 + 8 + 2] |= _ANSWER
    mask = bytearray(len(frame))
    size = len(packet.source)
    ends = packet.l3 + (20 if size == 4 else 40)  # addresses are the last of the header, destination after source
    for end, width, bits in (
        (ends - size, size, kind.source),
        (ends, size, kind.destination),
        (packet.l4 + 2, 2, kind.sport),
        (packet.l4 + 4, 2, kind.dport),
    ):
        mask[end - width : end] = ((1 << bits) - 1).to_bytes(width, "big")
    return bytes(frame), bytes(mask)


def built(folder: Path) -> Path:
    """Compile the sender. Raises LabCommandError."""
    program = folder / "sender"
    run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE)], timeout=60)
    return program


def printed(program: Path, kind: Kind, spec: str, count: int, seed: int) -> list[bytes]:
    """So many frames of a kind."""
    text = run([str(program), "-", str(count), "0", str(seed)], stdin=_words(kind, spec))
    return [bytes.fromhex(line) for line in text.splitlines()]


def _words(kind: Kind, spec: str) -> str:
    return " ".join(part.hex() for part in frame_and_mask(kind, spec))


class Sender:
    """Sends junk from the client's link for so many seconds, *pps* packets a second (0: as many as it can).

    It begins at once. As a context manager it ends with the block.
    """

    def __init__(self, program: Path, kind: Kind, spec: str, pps: int, seconds: float, seed: int) -> None:
        argv: Sequence[str] = [str(program), "eth0", str(pps), f"{seconds:g}", str(seed)]
        self._process = subprocess.Popen(
            netns_exec(space("client"), argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=program_environment(),
            preexec_fn=ends_with_parent(signal.SIGKILL),
        )
        assert self._process.stdin is not None
        self._process.stdin.write(_words(kind, spec))
        self._process.stdin.close()
        self._process.stdin = None

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def counted(self) -> dict[str, Any]:
        """Wait for the end; packets `sent` and `refused` by the link, and `pps`. Raises RuntimeError where it failed."""
        said, _ = self._process.communicate(timeout=120)
        if self._process.returncode != 0:
            raise RuntimeError(f"the sender of junk ended with {self._process.returncode}: {said}")
        found = json.loads(said)
        return {"sent": found["sent"], "refused": found["refused"], "pps": round(found["sent"] / found["seconds"])}
