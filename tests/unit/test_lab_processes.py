# SPDX-License-Identifier: Apache-2.0
"""Processes of a lab: what those that are killed held is free afterwards, and its own programs load little."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("by", ["id", "module"])
def test_the_address_of_a_killed_process_is_free(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "listens.py").write_text(_LISTENS)
    argv = [sys.executable, "-m", "listens"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        monkeypatch.setattr(processes, "inside_namespaces", lambda: {os.getpid(): "ns", process.pid: "ns"})
        if by == "id":
            processes.kill([process.pid])
        else:
            processes.kill_module("ns", "listens")
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))


def test_killing_an_ended_process_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    processes.kill([process.pid])


@pytest.mark.parametrize("program", ["stream", "relay", "whoami", "zone"])
def test_programs_of_the_lab_load_little(program: str) -> None:
    code = f"import sys, dnsteer.lab.{program}; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
