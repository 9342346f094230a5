# SPDX-License-Identifier: Apache-2.0
"""Where captured packets go: a file in pcap format, or a line each."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from scapy.layers.dns import DNS, dnsqtypes
from scapy.layers.dns import dnsclasses as _classes
from scapy.layers.inet import TCP as TCP_HEADER
from scapy.layers.inet import UDP as UDP_HEADER

from dnsteer.capture.frames import TCP, UDP, CapturedPacket, read_frame
from dnsteer.capture.readers import LARGEST, CapturedFrame
from dnsteer.spec.errors import escape

_ETHERNET = 1
_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, LARGEST, _ETHERNET)
_RCODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
_ENCRYPTED = (443, 853)


class PacketSink(Protocol):
    """Takes captured packets: opened when all else of the input is known to be good, begun when the mirrors are there."""

    def open(self) -> None:
        """Open it. Raises OSError."""

    def begin(self) -> None:
        """Begin. Raises OSError."""

    def put(self, packet: CapturedFrame) -> None:
        """Take a packet. Raises OSError."""


class PcapFile:
    """A file that tcpdump and Wireshark read; - is standard output. Raises OSError, with the file's name.

    What was there is replaced only by `begin`. A disk that is full leaves whole packets.
    """

    _file = -1
    _regular = False
    _new = False

    def __init__(self, path: Path) -> None:
        self._name = "standard output" if str(path) == "-" else str(path)
        self._path = path if str(path) != "-" else None
        self._size = 0

    def open(self) -> None:
        """Open the file, and leave what is in it."""
        if self._path is None:
            self._file = os.dup(1)
            return
        self._new = not self._path.exists()
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._regular = stat.S_ISREG(os.fstat(self._file).st_mode)

    def __enter__(self) -> PcapFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
        if self._new and not self._size and self._path is not None:  # it did not come to a capture
            self._path.unlink(missing_ok=True)

    def begin(self) -> None:
        """Empty the file and write the header."""
        if self._regular:
            os.ftruncate(self._file, 0)
        self._write(_HEADER)

    def put(self, packet: CapturedFrame) -> None:
        """Write a packet."""
        seconds, rest = divmod(packet.time // 1000, 10**6)
        self._write(struct.pack("<IIII", seconds, rest, len(packet.data), packet.length) + packet.data)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as err:
            if self._regular:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._size)
            if isinstance(err, BrokenPipeError):
                raise
            raise OSError(err.errno, err.strerror, self._name) from None
        self._size += len(data)


class PacketLines:
    """A line for each packet, given to *show*."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    def open(self) -> None:
        """Nothing is to be done."""

    def begin(self) -> None:
        """Nothing is to be done."""

    def put(self, packet: CapturedFrame) -> None:
        """Show a packet."""
        self._show(line(packet))


def line(captured: CapturedFrame) -> str:
    """A packet in one line: time (UTC), direction, MAC addresses, addresses and ports, and what DNS says."""
    seconds, rest = divmod(captured.time, 10**9)
    clock = f"{time.strftime('%H:%M:%S', time.gmtime(seconds))}.{rest // 1000:06d}"
    packet = read_frame(captured.data)
    if packet is None:
        return f"{clock} {captured.direction:<3} no IP packet, {captured.length} bytes"
    macs = f"{packet.source_mac.hex(':')} > {packet.destination_mac.hex(':')}"
    return f"{clock} {captured.direction:<3} {macs} {_network(captured.data, packet)}, {captured.length} bytes"


def _network(frame: bytes, packet: CapturedPacket) -> str:
    ends = f"{_end(packet.source, packet.source_port)} > {_end(packet.destination, packet.destination_port)}"
    if packet.inner is not None:
        about = "ICMP error about" if packet.quoted else "tunnel with"
        return f"{ends} {about} {_network(frame, packet.inner)}"
    if packet.later:
        return f"{ends} later fragment"
    if packet.protocol == UDP:
        return f"{ends} udp{_dns(frame, packet, UDP_HEADER, packet.payload + 8)}"
    if packet.protocol == TCP and len(frame) >= packet.payload + 14:
        flags = str(TCP_HEADER(frame[packet.payload : packet.payload + 20]).flags)
        start = packet.payload + 4 * (frame[packet.payload + 12] >> 4)
        return f"{ends} tcp {flags}{_dns(frame, packet, TCP_HEADER, start + 2)}"
    return f"{ends} protocol {packet.protocol}"


def _end(address: bytes, port: int | None) -> str:
    from ipaddress import ip_address

    text = str(ip_address(address))
    return text if port is None else f"[{text}]:{port}" if ":" in text else f"{text}:{port}"


def _dns(frame: bytes, packet: CapturedPacket, header: type, at: int) -> str:
    """The question and, of an answer, its code; empty where it is no plain DNS."""
    if len(frame) < at + 12 or {packet.source_port, packet.destination_port} & set(_ENCRYPTED):
        return ""
    message = DNS(frame[at:])
    questions = message.qd
    question = questions[0] if isinstance(questions, list) and questions else questions
    if question is None or not hasattr(question, "qname") or question.qclass not in _classes:
        return ""
    name = escape(question.qname.decode(errors="backslashreplace"))
    asked = f"{name} {dnsqtypes.get(question.qtype, f'TYPE{question.qtype}')}"
    if not message.qr:
        return f", query {message.id} {asked}"
    cut = ", truncated" if message.tc else ""
    return f", answer {message.id} {asked} {_RCODES.get(message.rcode, message.rcode)} ({message.ancount} records{cut})"
