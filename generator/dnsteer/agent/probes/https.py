# SPDX-License-Identifier: Apache-2.0
"""DNS queries by HTTPS (RFC 8484). HTTP clients cannot bind a source port, so this is one request by HTTP/2 alone."""

from __future__ import annotations

import asyncio

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset
from h2.exceptions import H2Error

from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.agent.probes.tcp import open_connection, unverified_context

PATH = "/dns-query"
_MEDIA = "application/dns-message"
_CHUNK, _MAX = 4096, 1 << 17
"""Bytes that are read at once and in all. An answer has less than 65536, which fits the flow control windows of HTTP/2."""
_TLS = unverified_context("h2")


async def ask_https(target: ProbeTarget, query: bytes) -> bytes:
    """Ask by a POST request. Raises OSError, EOFError, and ValueError for what is no proper answer."""
    async with open_connection(target, _TLS) as (reader, writer):
        secured = writer.get_extra_info("ssl_object")
        if secured.selected_alpn_protocol() != "h2":
            raise ValueError("offers no HTTP/2 (ALPN h2)")
        authority = f"[{target.address}]" if ":" in target.address else target.address
        try:
            return await _post(reader, writer, authority, query)
        except H2Error as err:
            raise ValueError(f"no proper HTTP/2: {err}") from None


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, query: bytes) -> bytes:
    http = H2Connection(H2Configuration(client_side=True))
    http.initiate_connection()
    stream = http.get_next_available_stream_id()
    http.send_headers(
        stream,
        [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", authority),
            (":path", PATH),
            ("accept", _MEDIA),
            ("content-type", _MEDIA),
            ("content-length", str(len(query))),
        ],
    )
    http.send_data(stream, query, end_stream=True)
    received, body = 0, bytearray()
    while received < _MAX:
        writer.write(http.data_to_send())
        await asyncio.sleep(
            0
        )  # what has come already is read without waiting, and hundreds of small frames take their time
        data = await reader.read(_CHUNK)
        if not data:
            raise EOFError
        received += len(data)
        for event in http.receive_data(data):
            if isinstance(event, ResponseReceived):
                status = dict(event.headers or ()).get(b":status", b"")
                if status != b"200":
                    raise ValueError(f"answered HTTP status {status.decode(errors='replace')} to {PATH}")
            elif isinstance(event, DataReceived):
                body += event.data or b""
            elif isinstance(event, StreamEnded):
                return bytes(body)
            elif isinstance(event, StreamReset | ConnectionTerminated):
                raise ValueError(f"ended HTTP/2 with error code {int(event.error_code or 0)}")
    raise ValueError(f"sent more than {_MAX >> 10} KiB by HTTP/2")
