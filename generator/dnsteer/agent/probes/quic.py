# SPDX-License-Identifier: Apache-2.0
"""DNS queries by QUIC (RFC 9250), by a socket of our own: aioquic does the protocol and no I/O."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived, StreamReset

from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.agent.probes.tcp import client_socket

_LARGEST = 65535
_LENGTH = 2


async def ask_quic(target: ProbeTarget, query: bytes) -> bytes:
    """Ask by QUIC. Raises OSError, EOFError, and ValueError for what is no proper answer."""
    loop = asyncio.get_running_loop()
    with client_socket(target, socket.SOCK_DGRAM) as made:
        made.connect((target.address, target.port))
        peer = made.getpeername()
        quic = QuicConnection(
            configuration=QuicConfiguration(
                alpn_protocols=["doq"], idle_timeout=target.timeout, verify_mode=ssl.CERT_NONE
            )
        )
        quic.connect(peer, loop.time())
        stream = quic.get_next_available_stream_id()
        quic.send_stream_data(stream, len(query).to_bytes(_LENGTH, "big") + query, end_stream=True)
        answer = bytearray()
        try:
            while not _complete(quic, stream, answer):
                _send(made, quic, loop.time())
                await asyncio.sleep(0)  # a backend that floods gets one datagram before others get their turn
                try:
                    data = await asyncio.wait_for(loop.sock_recv(made, _LARGEST), _pause(quic, loop.time()))
                except (TimeoutError, asyncio.TimeoutError):
                    quic.handle_timer(loop.time())
                else:
                    quic.receive_datagram(data, peer, loop.time())
        finally:
            quic.close()
            with suppress(OSError):
                _send(made, quic, loop.time())
        return bytes(answer[_LENGTH:])


def _pause(quic: QuicConnection, now: float) -> float | None:
    timer = quic.get_timer()
    return None if timer is None else max(0.0, timer - now)


def _send(made: socket.socket, quic: QuicConnection, now: float) -> None:
    for data, _ in quic.datagrams_to_send(now):
        made.send(data)


def _complete(quic: QuicConnection, stream: int, answer: bytearray) -> bool:
    """Take what came for the stream; return whether the answer is complete, without what may follow it."""
    while (event := quic.next_event()) is not None:
        if isinstance(event, StreamDataReceived) and event.stream_id == stream:
            answer += event.data
            end = _LENGTH + int.from_bytes(answer[:_LENGTH], "big")
            if len(answer) >= max(_LENGTH, end):
                del answer[end:]
                return True
            if event.end_stream:
                raise EOFError
        elif isinstance(event, StreamReset) and event.stream_id == stream:
            raise ValueError(f"reset the QUIC stream with error code {event.error_code}")
        elif isinstance(event, ConnectionTerminated):
            said = f": {event.reason_phrase}" if event.reason_phrase else ""
            raise ValueError(f"ended QUIC with error code {event.error_code}{said}")
    return False
