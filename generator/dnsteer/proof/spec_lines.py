"""The lines of the spec that a test packet is about: its VIP, and the backend that it should reach."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.proof.reference.outcome import Expectation
from dnsteer.proof.reference.services import service_ports
from dnsteer.proof.reference.wire import MalformedError, parse
from dnsteer.spec.errors import Path, show_path
from dnsteer.spec.loaded import Loaded


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
    return [f"{loaded.file}:{document.line(path)} {show_path(document.written(path))}" for path in paths]


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
