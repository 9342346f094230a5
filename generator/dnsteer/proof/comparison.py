# SPDX-License-Identifier: Apache-2.0
"""Compare with the reference what a switch does, byte for byte, and which backend each slot of the extension has."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from dnsteer.proof.check_report import CheckReport, Failure
from dnsteer.proof.harness.extension_process import Handled
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.packet_text import differing_fields, packet_summary
from dnsteer.proof.reference.outcome import Expectation, Frame
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.service import PROTOCOLS, AddressService, ServiceKey, TargetBackend
from dnsteer.proof.reference.spec_services import service_ports
from dnsteer.proof.reference.topology import packed_mac
from dnsteer.proof.reference.wire import MalformedError, parse
from dnsteer.proof.traffic.craft import identity
from dnsteer.proof.traffic.unpredicted_slots import ObservedBackends
from dnsteer.proof.traffic.vectors import Vector
from dnsteer.render.templates import about
from dnsteer.spec.errors import Path, show_path
from dnsteer.spec.loaded import Loaded
from dnsteer.tables.order import TABLES

_MACS = 12  # bytes
_TRACED_FAILURES = 3
_TABLE = re.compile(r"( *(\d+)\.)(?= )")
_COOKIE = re.compile(r"cookie (0x[0-9a-f]+)")


class Comparison:
    """Compares frames with the reference and adds each difference to a report."""

    def __init__(self, loaded: Loaded, harness: Harness, reference: Reference, report: CheckReport) -> None:
        self._loaded = loaded
        self._harness = harness
        self._reference = reference
        self._report = report
        self._observed = ObservedBackends()

    def send(self, vectors: Sequence[Vector]) -> list[tuple[Vector, Frame]]:
        """Send these frames together, and compare all frames that leave with those expected.

        Returns the vectors of which what was expected left, with what left.
        """
        expected = [self._reference.expect(vector.port, vector.data) for vector in vectors]
        expecting: dict[Frame, list[int]] = defaultdict(list)
        for i, expectation in enumerate(expected):
            for frame in expectation.options:
                expecting[frame].append(i)
        times_left = Counter[int]()
        kinds_left: set[tuple[int, Frame]] = set()
        unexpected: list[Frame] = []
        passed: list[tuple[Vector, Frame]] = []
        handled: dict[bytes, Handled] = {}  # by the bytes that the switch does not change on the path to the extension

        def on_handled(result: Handled) -> None:
            handled[result.data[_MACS:]] = result

        for frame in self._harness.send((Frame(v.port, v.data) for v in vectors), on_handled):
            frame = self._reference.comparable(frame)
            candidates = expecting.get(frame)
            if not candidates:
                unexpected.append(frame)
                continue
            # Packets that expect identical frames (two ARP requests) are credited with them in turn.
            i = min(candidates, key=lambda i: times_left[i])
            times_left[i] += 1
            kinds_left.add((i, frame))
            self._observed.add(vectors[i], expected[i], frame)
            passed.append((vectors[i], frame))
        packets = self._report.packets
        kinds = Counter(i for i, _ in kinds_left)
        for i, vector in enumerate(vectors):
            packets[vector.kind] = packets.get(vector.kind, 0) + 1
            # Of frames that must all leave, each did where as many have left as there are kinds of them.
            if times_left[i] != expected[i].count or kinds[i] != expected[i].count:
                self._fail(vector, expected[i], times_left[i], unexpected, handled.get(vector.data[_MACS:]))
        sent: dict[bytes, int] = {}
        if unexpected:  # where packets are alike but for their headers, it was the one that should be dropped
            for i in sorted(range(len(vectors)), key=lambda i: not expected[i].options):
                sent[identity(vectors[i].data)] = i
        for frame in unexpected:
            by = sent.get(identity(frame.data))
            if by is None:
                problem = f"no packet that was sent explains what left by port {frame.port}"
                self._report.add(Failure("(no packet)", frame.port, problem, (packet_summary(frame.data),)))
            else:
                self._fail_dropped(vectors[by], expected[by], frame)
        return passed

    def compare_backends(self) -> None:
        """Check which backends the queries without a predicted slot reached; call this once all are sent."""
        for vector, problem in self._observed.problems():
            self._report.add(Failure(vector, ", ".join(self._reference.topology.uplinks), problem, ()))

    def _fail(
        self, vector: Vector, want: Expectation, times: int, unexpected: list[Frame], handled: Handled | None
    ) -> None:
        """Report a packet that left too often, changed or not at all. If it left changed, remove it from *unexpected*."""
        found = _with_same_payload(want, unexpected) if times <= 1 else None
        if found is not None:
            unexpected.remove(found)
        if self._report.is_full:
            self._report.failed += 1
            return
        detail = self._detail(vector, want)
        if times and want.every:
            problem = f"left {times} times, not once for each of {want.count} backends"
        elif times > 1:
            problem = f"left {times} times"
        else:
            option = min(want.options, key=lambda frame: frame.port)
            detail.append(f"expected: {option.port}: {packet_summary(option.data)}")
            if found is None:
                problem = "was dropped"
            else:
                ports = {each.port for each in want.options if each.data == found.data}
                right = " or ".join(sorted(ports))
                problem = f"left by port {found.port}, not {right}" if right else "left with wrong bytes"
                detail.append(f"left:     {found.port}: {packet_summary(found.data)}")
                detail += differing_fields(option.data, found.data)
        if handled is not None:
            detail.append(f"the extension: {handled.verdict} what came in by its port {handled.port}, {handled.reason}")
        self._add(vector, problem, detail)

    def _fail_dropped(self, vector: Vector, want: Expectation, left: Frame) -> None:
        """Report a packet that left although it should be dropped, or that left once more."""
        if self._report.is_full:
            self._report.failed += 1
            return
        wanted = "what it should become was seen too" if want.options else "it should be dropped"
        detail = [*self._detail(vector, want), f"left:     {left.port}: {packet_summary(left.data)}"]
        self._add(vector, f"left by port {left.port}, and {wanted}", detail)

    def _detail(self, vector: Vector, want: Expectation) -> list[str]:
        """What is said of every packet that failed."""
        places = [f"spec:     {place}" for place in spec_lines(self._loaded, vector.data, want)]
        return [*places, f"packet:   {want.why}", f"in:       {vector.port}: {packet_summary(vector.data)}"]

    def _add(self, vector: Vector, problem: str, detail: Sequence[str]) -> None:
        """Add a failure, one of the first with a trace."""
        trace: list[str] = []
        if len(self._report.failures) < _TRACED_FAILURES:
            lines = self._harness.trace(vector.port, vector.data).splitlines()
            trace = ["ofproto/trace:", *(f"    {self._named(line)}" for line in lines if line.strip())]
        self._report.add(Failure(vector.name, vector.port, problem, (*detail, *trace)))

    def _named(self, line: str) -> str:
        """A line of a trace, with the table's name and what its cookie stands for."""
        if m := _TABLE.match(line):
            line = f"{m[1]} {next((t.name for t in TABLES if t.number == int(m[2])), '')}{line[m.end() :]}"
        m = _COOKIE.search(line)
        subject = self._harness.plan.subject(int(m[1], 16)) if m else None
        return f"{line}: {about(subject, self._loaded.file)}" if subject is not None else line


def _with_same_payload(want: Expectation, frames: Sequence[Frame]) -> Frame | None:
    wanted = {identity(option.data) for option in want.options}
    return next((frame for frame in frames if identity(frame.data) in wanted), None)


def spec_lines(loaded: Loaded, frame: bytes, expected: Expectation) -> list[str]:
    """`FILE:LINE PATH` of the VIP that *frame* concerns and of its expected backend; empty where it concerns no VIP."""
    name = next(
        (vip for data, is_query in _both_ways(frame, expected) for vip in _vips_of(loaded, data, is_query)), None
    )
    if name is None:
        return []
    paths: list[Path] = [("vips", name)]
    pool = loaded.spec.vips[name].pool
    backends = [backend.name for backend in loaded.spec.pools[pool].backends]
    if expected.backend in backends:
        paths.append(("pools", pool, "backends", backends.index(expected.backend)))
    document = loaded.document
    return [f"{document.where(path)} {show_path(document.path_in_file(path))}" for path in paths]


def _both_ways(frame: bytes, expected: Expectation) -> Iterator[tuple[bytes, bool]]:
    """The frame as a query; then what should leave as an answer, which has the VIP's address as its source."""
    yield frame, True
    for option in expected.options:
        yield option.data, False


def _vips_of(loaded: Loaded, data: bytes, is_query: bool) -> list[str]:
    """VIPs with the packet's address, first those with a service of its port: VIPs may share an address."""
    try:
        packet = parse(data)
    except MalformedError:
        return []
    address, port = (packet.destination, packet.dport) if is_query else (packet.source, packet.sport)
    found = {
        name: any((packet.protocol, port) == (end.protocol, end.port) for end in service_ports(vip))
        for name, vip in loaded.spec.vips.items()
        if any(each.packed == address for each in vip.addresses)
    }
    return sorted(found, key=found.__getitem__, reverse=True)


_PROTOCOL_NUMBERS = {name: number for number, name in PROTOCOLS.items()}


def slot_problems(reference: Reference, dump: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (service, problem) where the program differs from the spec. *dump* is the program's answer to `dump`."""
    program: Mapping[str, Any] = dump["program"]
    backends = {each["name"]: each for each in program["backends"]}
    held: dict[ServiceKey, tuple[Mapping[str, Any], list[str]]] = {}
    slots = {each["vip"]: [slot["backend"] for slot in each["slots"]] for each in dump["services"]}
    for vip in program["vips"]:
        key = ip_address(vip["address"]).packed, _PROTOCOL_NUMBERS[vip["protocol"]], vip["port"]
        held[key] = vip, slots.get(vip["name"], [])
    for key, service in reference.services.items():
        if not service.by_extension:
            continue
        if key not in held:
            yield service.label, "the extension's program does not have it"
            continue
        vip, names = held.pop(key)
        if tuple(vip.get("hash_fields", ())) != service.hash_fields:
            yield service.label, f"the extension's program hashes {vip.get('hash_fields')}"
        yield from _slots(service, [backends[name] for name in names])
    for key, (vip, names) in held.items():
        if names or key not in reference.unserved:  # which only probes reach
            yield vip["name"], "the extension's program has it, but the spec has no such service"


def _slots(service: AddressService, found: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield a problem if the number of slots is wrong, else one for the first slot with a wrong backend."""
    if len(found) != len(service.slots):
        problem = f"the extension's program has {len(found)} slots, the spec {len(service.slots)}"
        yield service.label, problem
        return
    for slot, (backend, target) in enumerate(zip(found, service.slots, strict=True)):
        if not _is_target(backend, target, with_address=service.mode.addresses_backend):
            problem = f"slot {slot} is {backend['name']}'s in the extension's program, and {target.name}'s by the spec"
            yield service.label, problem
            return


def _is_target(backend: Mapping[str, Any], target: TargetBackend, *, with_address: bool) -> bool:
    if packed_mac(backend["mac"]) != target.mac:
        return False
    return not with_address or ip_address(backend["address"]).packed == target.address
