# SPDX-License-Identifier: Apache-2.0
"""A client of DoQ and of DoH by HTTP/3 whose source port changes, as behind a NAT that has forgotten it."""

from __future__ import annotations

import socket
import ssl
import time

import dns.message
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamDataReceived
from aioquic.tls import SessionTicket

from tests.system.decap_net import within

PORTS = {"doq": 853, "h3": 443}


class QuicClient:
    """One connection, of the protocol `doq` or `h3`. With a *ticket* of another one its first query is sent as 0-RTT."""

    def __init__(
        self, namespace: str, server: str, protocol: str, source: tuple[str, int], ticket: SessionTicket | None = None
    ) -> None:
        self._namespace = namespace
        self._peer = (server, PORTS[protocol])
        self.resumed = self.early = False
        self.ticket: SessionTicket | None = None
        configuration = QuicConfiguration(
            alpn_protocols=[protocol], verify_mode=ssl.CERT_NONE, server_name="dnsteer.test", session_ticket=ticket
        )
        self._quic = QuicConnection(configuration=configuration, session_ticket_handler=self._keep_ticket)
        self._socket = self._open(source)
        self._quic.connect(self._peer, time.monotonic())
        self._http = H3Connection(self._quic) if protocol == "h3" else None
        self._bodies: dict[int, bytes] = {}
        self.datagrams: list[int] = []
        """Bytes of UDP data that came from the server, by datagram."""

    def _keep_ticket(self, ticket: SessionTicket) -> None:
        self.ticket = ticket

    def _open(self, source: tuple[str, int]) -> socket.socket:
        with within(self._namespace):
            made = socket.socket(socket.AF_INET6 if ":" in source[0] else socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(source)
        made.connect(self._peer)
        return made

    def rebind(self, source: tuple[str, int]) -> None:
        """Send from another port from now on. The connection is told nothing, as behind a NAT."""
        self._socket.close()
        self._socket = self._open(source)

    def ask(self, query: bytes, timeout: float = 3) -> bytes | None:
        """The answer to a query; None where there is none in time."""
        stream = self._quic.get_next_available_stream_id()
        if self._http is None:
            self._quic.send_stream_data(stream, len(query).to_bytes(2, "big") + query, end_stream=True)
        else:
            path, size = b"/dns-query", str(len(query)).encode()
            headers = {":method": b"POST", ":scheme": b"https", ":authority": b"dnsteer.test", ":path": path}
            headers |= {"content-type": b"application/dns-message", "content-length": size}
            self._http.send_headers(stream, [(name.encode(), value) for name, value in headers.items()])
            self._http.send_data(stream, query, end_stream=True)
        self._bodies[stream] = b""
        skipped = 0 if self._http is not None else 2
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self._move(deadline)
            while (event := self._quic.next_event()) is not None:
                if isinstance(event, ConnectionTerminated):
                    return None
                if self._take(event, stream):
                    return self._bodies[stream][skipped:]
        return None

    def name(self, timeout: float = 3) -> str | None:
        """The name of the server that answers; None where none does in time."""
        found = self.ask(WHO, timeout)
        return None if found is None else server_name(found)

    def _take(self, event: QuicEvent, stream: int) -> bool:
        """Take an event; return whether it ends the answer on *stream*."""
        if isinstance(event, HandshakeCompleted):
            self.resumed, self.early = event.session_resumed, event.early_data_accepted
        if self._http is None:
            if isinstance(event, StreamDataReceived) and event.stream_id in self._bodies:
                self._bodies[event.stream_id] += event.data
                return event.stream_id == stream and event.end_stream
            return False
        ended = False
        for found in self._http.handle_event(event):
            if isinstance(found, DataReceived) and found.stream_id in self._bodies:
                self._bodies[found.stream_id] += found.data
                ended |= found.stream_id == stream and found.stream_ended
        return ended

    def _move(self, deadline: float) -> None:
        """Send what is to be sent, and take a datagram, or the timer where that comes first."""
        self._send()
        timer = self._quic.get_timer()
        until = deadline if timer is None else min(timer, deadline)
        self._socket.settimeout(max(0.001, until - time.monotonic()))
        try:
            data = self._socket.recv(65535)
        except (TimeoutError, ConnectionError):
            if timer is not None and time.monotonic() >= timer:
                self._quic.handle_timer(time.monotonic())
        else:
            self.datagrams.append(len(data))
            self._quic.receive_datagram(data, self._peer, time.monotonic())

    def _send(self) -> None:
        for data, _ in self._quic.datagrams_to_send(time.monotonic()):
            self._socket.send(data)

    def await_ticket(self, timeout: float = 1) -> SessionTicket:
        """The ticket of the server, which may come after the first answer."""
        deadline = time.monotonic() + timeout
        while self.ticket is None and time.monotonic() < deadline:
            self._move(deadline)
        assert self.ticket is not None
        return self.ticket

    def close(self) -> None:
        """End the connection."""
        self._quic.close()
        self._send()
        self._socket.close()


WHO = dns.message.make_query("whoami.dnsteer.test", "TXT", id=0).to_wire()


def server_name(answer: bytes) -> str:
    """The name of the server that gave an answer to WHO."""
    return dns.message.from_wire(answer).answer[0][0].strings[0].decode()
