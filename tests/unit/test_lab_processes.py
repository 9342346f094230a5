"""Killing processes of a lab: what they held is free afterwards."""

from __future__ import annotations

import socket
import subprocess
import sys

from dnsteer.lab import processes

_LISTENS = """
import socket, sys, time
held = bytearray(300_000_000)  # takes a while to give back: the command line is gone before the socket is
sock = socket.socket()
sock.bind(("127.0.0.1", 0))
sock.listen()
print(sock.getsockname()[1], flush=True)
time.sleep(60)
"""


def test_the_address_of_one_that_was_killed_is_free() -> None:
    with subprocess.Popen([sys.executable, "-c", _LISTENS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        processes.kill([process.pid])
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))


def test_one_that_has_ended_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    processes.kill([process.pid])
