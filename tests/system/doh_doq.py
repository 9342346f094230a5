# SPDX-License-Identifier: Apache-2.0
"""DoH or DoQ in front of a name server that speaks neither: CERTIFICATE KEY NAMESERVER KIND ADDRESS..."""

from __future__ import annotations

import asyncio
import socket
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived
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


async def main(cert: str, key: str, kind: str, addresses: list[str]) -> None:
    """Serve at each address by a socket of its own, so that answers come from it."""
    for address in addresses:
        if kind == "https":
            await asyncio.start_server(doh, address, 443, ssl=secured((cert, key), "h2"))
        else:
            configuration = QuicConfiguration(is_client=False, alpn_protocols=["doq"])
            configuration.load_cert_chain(cert, key)
            await serve(address, 853, configuration=configuration, create_protocol=Doq)
    await asyncio.Event().wait()


if __name__ == "__main__":
    NAMESERVER = sys.argv[3]
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[4], sys.argv[5:]))
