# SPDX-License-Identifier: Apache-2.0
"""Captures on a private switch: in this process and in one of its own, and what must be gone afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dnsteer.capture.readers import CapturedFrame
from dnsteer.capture.run import CaptureCounts, CaptureRequest, run_capture
from dnsteer.deploy.target_switch import TargetSwitch
from tests.packet.switches import BRIDGE, ROOT, Switch

EXPECTED = [
    "connection dropped",
    "could not open network device",
    "Broken pipe",
    "cap[0-9a-f]{8}[io]",
]
QUERY = bytes(
    Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53")
    / IP(src="198.51.100.7", dst="192.0.2.53")
    / UDP(sport=4000, dport=53)
    / (b"\0\7" + b"\1\0\0\1\0\0\0\0\0\0" + b"\1a\7example\0" + b"\0\1\0\1")
)


@dataclass
class Held:
    """A sink that keeps packets. *ready* is set when the mirrors are there."""

    packets: list[CapturedFrame] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        pass

    def begin(self) -> None:
        self.ready.set()

    def put(self, packet: CapturedFrame) -> None:
        self.packets.append(packet)


def captured(switch: Switch, what: str, send: Callable[[], object], count: int) -> list[tuple[str, bytes]]:
    """Directions and frames of *count* packets of *what*, while *send* sends."""
    sink = Held()
    args = (
        TargetSwitch(switch.database),
        None,
        CaptureRequest(what, 30, count),
        sink,
        None,
        lambda _: None,
        CaptureCounts(),
    )
    thread = threading.Thread(target=run_capture, args=args)
    thread.start()
    try:
        assert sink.ready.wait(15)
        switch.appctl("revalidator/wait")  # datapath flows that were there get the mirrors a moment later
        send()
    finally:
        thread.join(35)
    return [(p.direction, p.data) for p in sink.packets]


def send(switch: Switch, *frames: bytes, port: str = "p0") -> None:
    for frame in frames:
        switch.appctl("netdev-dummy/receive", port, frame.hex())


def start(switch: Switch, *args: object, **options: object) -> subprocess.Popen[str]:
    """A capture in a process of its own, when its mirrors are there."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    argv = [sys.executable, "-m", "dnsteer", "capture", *map(str, args), "--db", switch.database]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    process = subprocess.Popen(argv, text=True, env=env, **streams)  # type: ignore[call-overload]
    said = process.stderr.readline()
    assert "mirroring" in said, said + process.stderr.read()
    switch.appctl("revalidator/wait")  # as above
    return process  # type: ignore[no-any-return]


def sent(switch: Switch, port: str = "p0") -> int:
    """Packets that left by a port."""
    found = re.search(r"tx pkts=(\d+)", switch.ofctl("dump-ports", port))
    assert found is not None
    return int(found[1])


def is_clean(switch: Switch, ports: set[str] = frozenset({"p0", "p1"})) -> bool:  # type: ignore[assignment]
    mirrors, note = switch.vsctl("list", "Mirror").strip(), switch.column("Bridge", BRIDGE, "external_ids")
    return not mirrors and "dnsteer-capture" not in note and switch.ports() == ports
