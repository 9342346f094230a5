# SPDX-License-Identifier: Apache-2.0
"""Capture packets of a VIP or backend on the running switch. What it makes there goes when it ends, however it ends."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from dnsteer.capture.readers import CapturedFrame, DeviceReader, MirrorReader, StreamReader, filter_program
from dnsteer.capture.selection import PacketSelection, select_packets
from dnsteer.capture.sinks import PacketSink
from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.target_switch import Confirm, Progress, TargetSwitch
from dnsteer.deploy.times import now, stamp
from dnsteer.spec.model.spec import Flavor
from dnsteer.status.record import read_recorded_switch
from dnsteer.switch.captures import DIRECTIONS, Capture, CaptureSession, OutputPort
from dnsteer.switch.private_switch import new_directory
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.state import BridgeRecord
from dnsteer.switch.tools import SwitchError, UnavailableError

_HELD_BACK = 0.02
"""Seconds after which what one mirror put out is taken to have been read, so that packets are in the order of time."""
_PATIENCE = 5.0
"""Seconds that a capture may be late before its mirrors are removed all the same."""
_PARTING = 2.0
"""Seconds to wait for a switch that may not run any more. It follows the database when it does."""
_NOT_ON_DOCA = (
    "capture does not work with flavor ovs-doca: a mirror to a port of the CPU was never tried on it. Mirror to the "
    "representor of a host function instead, and run tcpdump in the host: docs/capture.md says how"
)


@dataclass(frozen=True)
class CaptureRequest:
    """What to capture: a VIP or POOL/BACKEND, for so many *seconds*, at most *count* packets, of each *snaplen* bytes."""

    what: str
    seconds: float
    count: int | None = None
    snaplen: int | None = None


@dataclass
class CaptureCounts:
    """Packets captured, packets of others that the mirrors had too, and packets dropped for want of room."""

    taken: int = 0
    others: int = 0
    dropped: int = 0


def run_capture(
    switch: TargetSwitch,
    bridge: str | None,
    wanted: CaptureRequest,
    sink: PacketSink,
    confirm: Confirm | None,
    say: Progress,
    counts: CaptureCounts,
) -> None:
    """Capture until the time or the number of packets is reached, and remove what was made for it.

    *counts* is kept up to date. Raises SwitchError or its kinds, PermissionError, OSError of the sink, KeyboardInterrupt; in
    each case nothing is left on the switch, unless its message says so.
    """
    live = read_recorded_switch(switch, bridge)
    for warning in live.warnings:
        say(f"warning: {warning}")
    selection = select_packets(live.loaded.spec, wanted.what)
    refuse_flavor(live.loaded.spec.switch.flavor)
    if selection.extended:
        say("the extension serves it: packets are seen as they come in and leave, not between bridge and extension")
    with ExitStack() as stack:
        session = stack.enter_context(CaptureSession(switch.remote, switch.timeout))
        session.hold_or_refuse(live.bridge)
        types, config = session.facts()
        _confirm_mirroring(config.get("hw-offload") == "true", selection, wanted, confirm)
        dummy = "dummy" in types  # only a switch of tests and checks has it
        folder = stack.enter_context(_sockets()) if dummy else None
        readers = [_reader(direction, selection, folder, switch.timeout) for direction in DIRECTIONS]
        for reader in readers:
            stack.callback(reader.close)
        sink.open()
        record = session.record_of(live.bridge)
        ends = now() + timedelta(seconds=wanted.seconds)
        note = Capture(selection.title, operator_name(), os.getpid(), stamp(ends))
        with _mirrors(switch, session, record, note, selection, readers, folder, wanted):
            until = time.monotonic() + wanted.seconds
            sink.begin()
            say(f"{live.bridge}: {note.text}, mirroring {', '.join(selection.ports)}")
            try:
                _read(readers, selection, sink, until, wanted.count, counts)
            finally:
                counts.dropped = sum(reader.dropped() for reader in readers)


def refuse_flavor(flavor: Flavor) -> None:
    """Raise SwitchError where a flavor cannot, with what to do instead."""
    if flavor is Flavor.OVS_DOCA:
        raise SwitchError(_NOT_ON_DOCA)


def _confirm_mirroring(
    offloads: bool, selection: PacketSelection, wanted: CaptureRequest, confirm: Confirm | None
) -> None:
    if offloads and confirm is not None:
        ports = ", ".join(selection.ports)
        reason = (
            f"hw-offload is on: while packets are mirrored, all that pass {ports} are forwarded by the CPU, and packets "
            "are lost if it cannot forward as many"
        )
        confirm([reason], [f"{ports} would be mirrored for {wanted.seconds:g} s"])


@contextmanager
def _sockets() -> Iterator[Path]:
    """A directory for the sockets of a switch without devices. A killed capture's goes as that of a private switch."""
    folder, held = new_directory()
    try:
        yield folder
    finally:
        if held is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def _reader(direction: str, selection: PacketSelection, folder: Path | None, timeout: float) -> MirrorReader:
    if folder is not None:
        return StreamReader(direction, folder / direction, timeout)
    return DeviceReader(direction, filter_program(selection.addresses))


@contextmanager
def _mirrors(
    switch: TargetSwitch,
    session: CaptureSession,
    record: BridgeRecord,
    note: Capture,
    selection: PacketSelection,
    readers: Sequence[MirrorReader],
    folder: Path | None,
    wanted: CaptureRequest,
) -> Iterator[None]:
    """Make ports and mirrors, and remove them at the end of the block."""
    kind = "internal" if folder is None else "dummy"
    options = {} if folder is None else {direction: f"unix:{folder / direction}" for direction in DIRECTIONS}
    # Whoever writes to a pipe may wait for ever; the switch does not wait with him.
    late = threading.Timer(wanted.seconds + _PATIENCE, _end_late, (switch, record.bridge))
    late.daemon = True
    try:
        late.start()
        session.mirror(record, note, selection.ports, kind, options, wanted.snaplen)
        for reader, port in zip(readers, session.wait_for_ports(record.bridge), strict=True):
            if folder is None:
                _prepare_device(port)
            reader.start(port.name)
        if not session.wait_for_switch(session.timeout):
            raise UnavailableError(f"ovs-vswitchd did not make the mirrors within {session.timeout:g} s")
        yield
    finally:
        late.cancel()
        with defer_signals():
            _end(switch, session, record.bridge)


def _end(switch: TargetSwitch, session: CaptureSession, bridge: str) -> None:
    """Remove ports and mirrors, by a new connection if that one is lost."""
    try:
        try:
            session.end(bridge)
        except SwitchError:
            with CaptureSession(switch.remote, switch.timeout) as again:
                again.end(bridge)
                again.wait_for_switch(_PARTING)
            return
        with suppress(SwitchError):
            session.wait_for_switch(_PARTING)
    except SwitchError as err:
        raise type(err)(
            f"{err}; the mirrors of the capture may still be there: dnsteer reconcile removes them"
        ) from None


def _end_late(switch: TargetSwitch, bridge: str) -> None:
    with suppress(SwitchError, OSError), CaptureSession(switch.remote, switch.timeout) as session:
        session.end(bridge)


def _read(
    readers: Sequence[MirrorReader],
    selection: PacketSelection,
    sink: PacketSink,
    until: float,
    count: int | None,
    counts: CaptureCounts,
) -> None:
    """Read until the time or *count* is reached, in the order of time."""
    held: list[CapturedFrame] = []
    with selectors.DefaultSelector() as waiting:
        for reader in readers:
            waiting.register(reader, selectors.EVENT_READ)
        while True:
            left = until - time.monotonic()
            waiting.select(max(0.0, min(left, _HELD_BACK) if held else left))
            # What one mirror has is read before all that the other has of that time, so the youngest wait a turn.
            edge = time.time_ns()
            ended = left <= 0
            for reader in readers:
                try:
                    held += reader.read()
                except SwitchError:
                    if not ended:
                        raise
            held.sort(key=lambda packet: packet.time)
            number = len(held) if ended else bisect_left(held, edge, key=lambda packet: packet.time)
            ready, held = held[:number], held[number:]
            for packet in ready:
                if not selection.matches(packet.data):
                    counts.others += 1
                    continue
                sink.put(packet)
                counts.taken += 1
                if count is not None and counts.taken >= count:
                    return
            if ended:
                return


def _prepare_device(port: OutputPort) -> None:
    """Bring the device of a mirror up without ARP, IPv6 and multicast: this machine sends nothing by it.

    Raises SwitchError when it is not on this machine.
    """
    index = Path("/sys/class/net") / port.name / "ifindex"
    try:
        here = int(index.read_text())
    except OSError:
        here = 0
    if here == 0 or here != port.ifindex:
        raise SwitchError(
            f"the switch has opened {port.name}, but this machine or network namespace has no such device; "
            "run dnsteer capture where ovs-vswitchd runs"
        )
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        Path(f"/proc/sys/net/ipv6/conf/{port.name}/disable_ipv6").write_text("1")
    command = ["ip", "link", "set", "dev", port.name, "arp", "off", "multicast", "off", "up"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except FileNotFoundError:
        raise UnavailableError("no program ip: install iproute2") from None
    if done.returncode:
        raise SwitchError(f"{' '.join(command)}: {done.stderr.strip()}")
