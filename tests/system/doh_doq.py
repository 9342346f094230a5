# SPDX-License-Identifier: Apache-2.0
"""DoH, DoQ or DoH by HTTP/3 in front of a name server that speaks none of them.

CERTIFICATE KEY NAMESERVER KINDS ADDRESS..., where KINDS is `https`, `quic`, `h3` or several of them joined by commas.
QUIC has 0-RTT with the tickets of the same process.
"""

from __future__ import annotations

import asyncio
import socket
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived as H3DataReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent, StreamDataReceived
from aioquic.tls import SessionTicket
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded

from tests.unit.agent_probing import secured

NAMESERVER = ""


async def asked(query: bytes) -> bytes:
    """What the name server answers."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET6 if ":" in NAMESERVER else socket.AF_INET, socket.SOCK_DGRAM) as to:
        to.setblocking(False)
        to.connect((NAMESERVER, 53))
        to.send(query)
        return await loop.sock_recv(to, 65535)


async def doh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    http = H2Connection(H2Configuration(client_side=False))
    http.initiate_connection()
    writer.write(http.data_to_send())
    bodies: dict[int, bytes] = {}
    try:
        while data := await reader.read(65536):
            for event in http.receive_data(data):
                if isinstance(event, DataReceived) and event.stream_id is not None:
                    bodies[event.stream_id] = bodies.get(event.stream_id, b"") + (event.data or b"")
                elif isinstance(event, StreamEnded) and event.stream_id is not None:
                    answer = await asked(bodies.pop(event.stream_id, b""))
                    http.send_headers(
                        event.stream_id, [(":status", "200"), ("content-type", "application/dns-message")]
                    )
                    http.send_data(event.stream_id, answer, end_stream=True)
            writer.write(http.data_to_send())
    except ConnectionError:
        pass
    writer.close()


class Doq(QuicConnectionProtocol):
    """Answers the queries of one connection, each in one piece."""

    def quic_event_received(self, event: QuicEvent) -> None:
        """Take a query."""
        if isinstance(event, StreamDataReceived) and len(event.data) > 2:
            self._loop.create_task(self._answer(event.stream_id, event.data[2:]))

    async def _answer(self, stream: int, query: bytes) -> None:
        answer = await asked(query)
        self._quic.send_stream_data(stream, len(answer).to_bytes(2, "big") + answer, end_stream=True)
        self.transmit()


class Doh3(QuicConnectionProtocol):
    """Answers the requests of one connection of HTTP/3, each of whose bodies comes in one piece."""

    _http: H3Connection | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        """Take a request."""
        if isinstance(event, ProtocolNegotiated):
            self._http = H3Connection(self._quic)
        for found in self._http.handle_event(event) if self._http is not None else ():
            if isinstance(found, H3DataReceived) and found.data:
                self._loop.create_task(self._answer(found.stream_id, found.data))

    async def _answer(self, stream: int, query: bytes) -> None:
        answer = await asked(query)
        assert self._http is not None
        self._http.send_headers(stream, [(b":status", b"200"), (b"content-type", b"application/dns-message")])
        self._http.send_data(stream, answer, end_stream=True)
        self.transmit()


QUIC = {"quic": ("doq", 853, Doq), "h3": ("h3", 443, Doh3)}


async def main(cert: str, key: str, kinds: list[str], addresses: list[str]) -> None:
    """Serve at each address by a socket of its own, so that answers come from it."""
    tickets: dict[bytes, SessionTicket] = {}
    for address in addresses:
        for kind in kinds:
            if kind == "https":
                await asyncio.start_server(doh, address, 443, ssl=secured((cert, key), "h2"))
                continue
            word, port, protocol = QUIC[kind]
            configuration = QuicConfiguration(is_client=False, alpn_protocols=[word])
            configuration.load_cert_chain(cert, key)
            await serve(
                address,
                port,
                configuration=configuration,
                create_protocol=protocol,
                session_ticket_fetcher=tickets.get,
                session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
            )
    await asyncio.Event().wait()


if __name__ == "__main__":
    NAMESERVER = sys.argv[3]
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[4].split(","), sys.argv[5:]))
