# SPDX-License-Identifier: Apache-2.0
"""Packets on their way while the switch and its extension change: at every step they must arrive, and so must answers.

The extension is dnsteer-ext-frames, behind a control socket of its own; what the bridge gives to the extension's ports is
handed to it and back. What is under way when a step is done arrives after that step, as it would in a network.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from dnsteer.proof.harness.extension_process import ExtensionProcess
from dnsteer.proof.traffic.craft import stacked
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Forwarding, Spec
from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.rpc import Rpc
from dnsteer.switch.thread_counters import read_counters
from tests.packet.switches import Switch

CLIENT, PREFIX = "198.18.0.9", "64:ff9b::c612:9"
ROUTER = "02:00:00:00:00:fe"
SOURCES = (20000, 20006, 20018)
End = tuple[str, str, int]
_FILE_HEAD, _HEAD = 24, struct.Struct("=IIII")
"""Of a capture file, and of each packet in it."""


class Relay:
    """A context manager: a control socket at *path* before somebody who answers lines. *refuse* and *mute* change that."""

    def __init__(self, path: Path, answer: Callable[[bytes], bytes]) -> None:
        self.path = path
        self.refuse = ""
        self.asked: list[str] = []
        self.on_load: Callable[[], None] = lambda: None
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Relay:
        self.path.unlink(missing_ok=True)
        self._socket.bind(str(self.path))
        self._socket.listen(8)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    command = json.loads(line)["command"]
                    self.asked.append(command)
                    if command == "load" and self.refuse:
                        said = json.dumps({"ok": False, "error": self.refuse}).encode() + b"\n"
                    else:
                        if command == "load":
                            self.on_load()
                        try:
                            said = self._answer(line)
                        except OSError:
                            break  # it is gone
                    connection.sendall(said)


@dataclass
class Under:
    """What is under way: frames that the bridge gave to the extension, those that it gave back, and answers."""

    into: list[tuple[str, bytes]] = field(default_factory=list)
    back: list[tuple[str, bytes]] = field(default_factory=list)
    answers: list[tuple[str, bytes]] = field(default_factory=list)


# Scapy is slow, and much of what is sent at one moment is sent at the next one too.


@cache
def query(mac: str, address: str, protocol: str, port: int, source: int, number: int) -> bytes:
    """A query of the client for an address at *mac*."""
    kind = UDP if protocol == "udp" else TCP
    network = IPv6(src="2001:db8:9::9", dst=address) if ":" in address else IP(src=CLIENT, dst=address)
    payload = Raw(f"query {number:04d}".encode())
    return bytes(stacked(Ether(src=ROUTER, dst=mac), network, kind(sport=source, dport=port), payload))


@cache
def read(data: bytes) -> Packet:
    """A frame, which nobody changes."""
    return Ether(data)


def answer(packet: Packet, mac: str, gateway_mac: str) -> bytes:
    """The answer to a query from a server at *mac*."""
    transport = packet.getlayer(UDP) or packet.getlayer(TCP)
    return _answer(
        type(packet), packet.dst, packet.src, type(transport), transport.dport, transport.sport, mac, gateway_mac
    )


@cache
def _answer(
    network: type[Packet], source: str, destination: str, kind: type[Packet], sport: int, dport: int, mac: str, to: str
) -> bytes:
    header = Ether(src=mac, dst=to)
    return bytes(
        stacked(header, network(src=source, dst=destination), kind(sport=sport, dport=dport), Raw(b"an answer"))
    )


class Crossing:
    """Sends queries to all VIPs, through the bridge and the extension, and answers back. *lost* is what did not arrive."""

    def __init__(self, switch: Switch, process: ExtensionProcess, folder: Path) -> None:
        self.switch = switch
        self.process = process
        self.folder = folder
        self.lost: list[str] = []
        self.moments: list[str] = []
        self.arrived: dict[str, int] = {}
        self._offsets: dict[str, int] = {}
        self._under = Under()
        self._specs: list[Spec] = []
        self._required: list[Spec] = []
        self._ext: dict[str, str] = {}

    def watch(self, old: Loaded, new: Loaded) -> None:
        """Change from one spec to another: until `turn` the VIPs of the old one are served, then those of the new."""
        self._specs = [old.spec, new.spec]
        self._required = [old.spec]
        self._ext = {}
        for spec in self._specs:
            part = spec.switch.extension
            if part is not None:
                self._ext |= {part.ingress.port: "in", part.egress.port: "out"}
        self._under = Under()

    def turn(self) -> None:
        """The new VIPs must be served from now on, and the old ones no longer."""
        self._required = [self._specs[1]]

    def pause(self) -> None:
        """What was under way has arrived."""
        self._under = Under()

    def moment(self, name: str) -> None:
        """Let queries and answers arrive that were under way, and send new ones."""
        self.moments.append(name)
        late, self._under = self._under, Under()
        queries = [
            (self._uplink, query(self._specs[0].switch.mac, *end, source, i))
            for i, (end, source) in enumerate((e, s) for e in self._ends(self._required[0]) for s in SOURCES)
        ]
        out, into = self._through(queries, name, "a query")
        self._under.into = into
        for answers, keep in ((into, True), (late.into, False)):
            given = self._program(answers, name)
            left, more = self._through(given, name, "a query from the extension")
            assert not more
            out += left
            if keep:
                self._under.back = given
        left, _ = self._through(late.back, name, "a query that was under way from the extension")
        out += left
        self.arrived[name] = len(out)
        answers = [a for port, data in out for a in self._arrive(port, data, name)]
        self._under.answers = answers
        self._answer([*answers, *late.answers], name)

    @property
    def _uplink(self) -> str:
        return next(iter(self._specs[0].switch.uplinks))

    def _answer(self, answers: list[tuple[str, bytes]], name: str) -> None:
        out, into = self._through(answers, name, "an answer")
        given = self._program(into, name)
        left, _ = self._through(given, name, "an answer from the extension")
        for port, data in [*out, *left]:
            frame = read(data)
            addresses = {str(a) for s in self._specs for v in s.vips.values() for a in v.addresses}
            good = port in self._specs[0].switch.uplinks and frame.dst == ROUTER and frame.payload.src in addresses
            if not good:
                self.lost.append(f"{name}: an answer came out of {port}: {frame.summary()}")

    def _through(
        self, frames: list[tuple[str, bytes]], name: str, what: str
    ) -> tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]:
        """What comes out of the bridge: by its ports, and by the extension's."""
        self._collect()
        for port in dict.fromkeys(p for p, _ in frames):
            self._put(port, [data for p, data in frames if p == port])
        left = self._collect()
        if len(left) != len(frames):
            gone = [Ether(d).summary() for _, d in frames]
            self.lost.append(f"{name}: {what}: {len(left)} of {len(frames)} came out; in: {gone[:40]}, out: {left[:2]}")
        return [f for f in left if f[0] not in self._ext], [f for f in left if f[0] in self._ext]

    def _program(self, frames: list[tuple[str, bytes]], name: str) -> list[tuple[str, bytes]]:
        ports = {word: port for port, word in self._ext.items()}
        out = []
        for handled in self.process.run([(self._ext[port], data) for port, data in frames]):
            if len(handled.sent) != 1:
                self.lost.append(f"{name}: the extension: {Ether(handled.data).summary()}: {handled.reason}")
            out += [(ports[by], data) for by, data in handled.sent]
        return out

    def _ends(self, spec: Spec) -> list[End]:
        return [
            (str(a), e.protocol.value, e.port)
            for vip in spec.vips.values()
            for e in derived.endpoints(vip)
            for a in vip.addresses
        ]

    def _arrive(self, port: str, data: bytes, name: str) -> list[tuple[str, bytes]]:
        """Check that a query came to a backend of its VIP; the answer, where it passes the switch."""
        frame = read(data)
        for spec in self._specs:
            for pool in spec.pools.values():
                for backend in pool.backends:
                    place = backend.port or self._uplink
                    if (frame.dst, port) == (backend.mac, place):
                        return self._answers(spec, backend, frame, port)
        self.lost.append(f"{name}: no backend is at {port} with that address: {frame.summary()}")
        return []

    def _answers(self, spec: Spec, backend: Any, frame: Packet, port: str) -> list[tuple[str, bytes]]:
        packet = frame.payload
        own = {str(a) for a in (backend.ipv4, backend.ipv6) if a}
        if packet.dst in own and isinstance(packet.payload, IP | IPv6):
            packet = packet.payload  # out of its tunnel
        vips = {str(a): v for s in self._specs for v in s.vips.values() for a in v.addresses}
        if packet.dst in vips:
            modes = {vips[packet.dst].forwarding} & {Forwarding.DSR, Forwarding.IPIP}
            if not modes or port not in spec.switch.ports:
                return []  # it answers past the switch
        elif packet.dst not in own:
            return []
        return [(port, answer(packet, backend.mac, derived.gateway_mac(spec.switch)))]

    def _put(self, port: str, frames: list[bytes]) -> None:
        def received() -> int:
            return read_counters(self.switch.appctl("dpif-netdev/pmd-stats-show")).received

        for some in (frames[i : i + 100] for i in range(0, len(frames), 100)):
            wanted, deadline = received() + len(some), time.monotonic() + 20
            self.switch.appctl("netdev-dummy/receive", port, *(data.hex() for data in some))
            while received() < wanted:
                assert time.monotonic() < deadline
                time.sleep(0.002)

    def _collect(self) -> list[tuple[str, bytes]]:
        out: list[tuple[str, bytes]] = []
        for file in sorted(self.folder.glob("*.pcap")):
            at = self._offsets.get(file.stem, _FILE_HEAD)
            with file.open("rb") as stream:
                stream.seek(at)
                while head := stream.read(_HEAD.size):
                    length = _HEAD.unpack(head)[2]
                    out.append((file.stem, stream.read(length)))
                    at += _HEAD.size + length
            self._offsets[file.stem] = at
        return out


def revalidated(switch: PrivateSwitch) -> None:
    """Wait until the datapath has what the tables have: two rounds, as the first may have begun before the tables changed.

    The switch sees that it may answer only when something else wakes it, every half second at the latest: so it is asked
    something else meanwhile.
    """
    other = Rpc(f"unix:{switch.dir}/vswitchd.ctl", "the switch", 10)
    with ThreadPoolExecutor(1) as executor, closing(other):
        for _ in range(2):
            done = executor.submit(switch.appctl, "revalidator/wait")
            while not done.done():
                other.call("version", [], 10)
                time.sleep(0.02)
            done.result()


def captured(text: str, folder: Path, ports: Iterable[str]) -> str:
    """The spec with each of its ports writing what leaves by it to a file."""
    for port in ports:
        capture = f"options: {{tx_pcap: {folder}/{port}.pcap}}"
        for old, new in (
            (f"    {port}:\n", f"    {port}: {{{capture}}}\n"),
            (f"    {port}: {{", f"    {port}: {{{capture}, "),
            (f"{{port: {port}}}", f"{{port: {port}, {capture}}}"),
        ):
            if old in text:
                text = text.replace(old, new, 1)
                break
    return text
