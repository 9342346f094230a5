# SPDX-License-Identifier: Apache-2.0
"""The vectors of every example and of specs that have everything, with what the reference expects of each."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_network
from pathlib import Path

import pytest

from dnsteer.checks.load import check_document, load_spec
from dnsteer.proof.reference.modes.siit import NAT64_PREFIX
from dnsteer.proof.reference.packets import Expectation, Reference
from dnsteer.proof.reference.wire import parse
from dnsteer.proof.traffic.vectors import Vector, vectors
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.read import parse_document
from tests.unit.extension_cases import SPEC as EXTENSION
from tests.unit.reference_cases import SPEC

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
WRITTEN = {"everything": SPEC, "extension": EXTENSION}
NAMES = [*(example.stem for example in EXAMPLES), *WRITTEN]
KINDS = {"query", "answer", "fragment", "neighbor", "echo", "error", "unusual", "drop"}
CLIENTS = ip_network("198.18.0.0/15"), ip_network("2001:2::/48")

Checked = list[tuple[Vector, Expectation]]


@cache
def spec_of(name: str) -> Spec:
    if name in WRITTEN:
        return check_document(parse_document("spec.yaml", WRITTEN[name])).spec
    (example,) = (example for example in EXAMPLES if example.stem == name)
    return load_spec(example).spec


@cache
def checked(name: str, per_service: int | None = None) -> Checked:
    reference = Reference(spec_of(name))
    made = vectors(spec_of(name), reference, per_service=per_service)
    return [(vector, reference.expect(vector.port, vector.data)) for vector in made]


def of_kind(name: str, *kinds: str) -> Checked:
    return [item for item in checked(name) if item[0].kind in kinds]


def first_queries(name: str) -> Checked:
    """Queries for each slot, without those that show how a slot is chosen."""
    return [
        (v, e)
        for v, e in of_kind(name, "query")
        if not v.name.startswith("same hash fields as ") and " that differ in " not in v.name
    ]


def as_served(data: bytes) -> bytes:
    """What a frame brings to a server: that of a tunnel an inner packet, behind the same Ethernet addresses."""
    packet = parse(data)
    if packet.protocol == 47 or (packet.protocol == 17 and packet.dport in (4789, 6081)):
        return data[packet.l4 + (8 if packet.protocol == 47 else 16) :]
    if packet.protocol not in (4, 41):
        return data
    return data[:12] + (b"\x08\0" if packet.protocol == 4 else b"\x86\xdd") + data[packet.l4 :]


def client_of(address: bytes) -> bytes:
    """A client as it is known where it asks."""
    return address[len(NAT64_PREFIX) :] if address.startswith(NAT64_PREFIX) else address


every_spec = pytest.mark.parametrize("name", NAMES)
