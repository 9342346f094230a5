# SPDX-License-Identifier: Apache-2.0
"""Connections to a target by TCP and TLS, and DNS queries by them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.agent.probes.udp import bind_to_port

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def unverified_context(*protocols: str) -> ssl.SSLContext:
    """A backend is asked by its address: its certificate, which is for the service's name, is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


def client_socket(target: ProbeTarget, kind: socket.SocketKind) -> socket.socket:
    """A socket of that kind for the target, by one of its source ports. Raises OSError."""
    made = socket.socket(socket.AF_INET6 if ":" in target.address else socket.AF_INET, kind)
    try:
        made.setblocking(False)
        bind_to_port(made, target.source)
    except BaseException:
        made.close()
        raise
    return made


class _StreamProtocol(asyncio.StreamReaderProtocol):
    def eof_received(self) -> bool:
        """Close with the peer: the query has been sent by then, and TLS cannot be half closed."""
        super().eof_received()
        return False


@asynccontextmanager
async def open_connection(target: ProbeTarget, tls: ssl.SSLContext | None) -> AsyncIterator[Connection]:
    """Connect. The connection is reset in the end, so that its port can be used again at once. Raises OSError."""
    loop = asyncio.get_running_loop()
    made = client_socket(target, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await loop.sock_connect(made, (target.address, target.port))
        protocol = _StreamProtocol(reader := asyncio.StreamReader())
        transport, _ = await loop.create_connection(lambda: protocol, sock=made)
    except BaseException:
        made.close()
        raise
    try:
        # TLS is a second step: create_connection with `ssl`, cancelled when its handshake has just ended, waits for a
        # close_notify, and meanwhile the event loop refuses another socket of the closed one's number (CPython 3.11).
        secured = transport if tls is None else await loop.start_tls(transport, protocol, tls)
        assert secured is not None
        yield reader, asyncio.StreamWriter(secured, protocol, reader, loop)
    finally:
        transport.abort()


_TLS = unverified_context()


async def ask_tcp(target: ProbeTarget, query: bytes) -> bytes:
    """Ask by TCP (RFC 1035, 4.2.2). Raises OSError, EOFError."""
    async with open_connection(target, None) as connection:
        return await _framed(connection, query)


async def ask_tls(target: ProbeTarget, query: bytes) -> bytes:
    """Ask by TLS (RFC 7858). Raises OSError, EOFError."""
    async with open_connection(target, _TLS) as connection:
        return await _framed(connection, query)


async def _framed(connection: Connection, query: bytes) -> bytes:
    reader, writer = connection
    writer.write(len(query).to_bytes(2, "big") + query)
    return await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
