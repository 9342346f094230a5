# SPDX-License-Identifier: Apache-2.0
"""Lets the machine reach a port of a namespace: connections that come in on a socket from outside go on to that port.

Its command runs in the namespace, with a listening socket of the machine's: a socket stays in the namespace that it was made
in. `python -m dnsteer.lab.relay DESCRIPTOR PORT` relays to 127.0.0.1:PORT.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress

_CHUNK = 1 << 16
_MAX = 128
"""Connections at once."""


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on all that comes, until either side ends."""
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def relay(listening: socket.socket, port: int) -> None:
    """Relay until cancelled."""
    places = asyncio.Semaphore(_MAX)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with places:
            with suppress(OSError):
                inside, outside = await asyncio.open_connection("127.0.0.1", port)
                try:
                    await asyncio.gather(_copy(reader, outside), _copy(inside, writer))
                finally:
                    outside.close()
            writer.close()

    server = await asyncio.start_server(connected, sock=listening)
    async with server:
        await server.serve_forever()


def main() -> None:
    """The command."""
    asyncio.run(relay(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])))


if __name__ == "__main__":
    main()
