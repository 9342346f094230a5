# SPDX-License-Identifier: Apache-2.0
"""The vectors of large specs and of any spec."""

from __future__ import annotations

import time
from collections import Counter
from ipaddress import ip_address
from itertools import islice

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.traffic.craft import Clients
from dnsteer.proof.traffic.vectors import vectors
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.read import parse_document
from tests.strategies import specs


def large(vips: int) -> Spec:
    """A spec of many VIPs by NAT, each with a pool of its own."""
    pools, listed = [], []
    for n in range(vips):
        backends = ", ".join(
            f"{{name: b{i}, ipv4: 10.{n >> 8}.{n & 255}.{i + 1}, ipv6: '2001:db8:b:{n:x}::{i + 1:x}', "
            f"mac: 02:00:00:{n >> 8:02x}:{n & 255:02x}:{i + 1:02x}}}"
            for i in range(4)
        )
        pools.append(f"  p{n}: {{slots: 64, backends: [{backends}]}}")
        listed.append(
            f"  v{n}: {{addresses: [198.18.{n >> 8}.{n & 255}, '2001:db8:c::{n:x}'], services: [dns], pool: p{n}, "
            "forwarding: nat}"
        )
    head = (
        "apiVersion: dnsteer/v1\nswitch: {flavor: ovs-netdev, bridge: br0, mac: 06:00:00:00:00:53, "
        "gateways: [192.168.0.1, '2001:db8:a::1'], uplinks: {p0: {next_hop: 06:00:00:00:00:fe}, p1: }}\n"
    )
    text = head + "pools:\n" + "\n".join(pools) + "\nvips:\n" + "\n".join(listed) + "\n"
    return Spec.model_validate(parse_document("large", text).value)


def test_clients_are_not_those_of_the_spec() -> None:
    clients = Clients(large(3))
    assert [ip_address(clients.next(4)[1]) for _ in range(2)] == [ip_address("198.18.0.3"), ip_address("198.18.0.4")]


def test_vectors_of_a_large_spec_are_lazy_and_unique() -> None:
    spec = large(100)
    reference = Reference(spec)
    begin = time.process_time()
    few = list(islice(vectors(spec, reference), 10))
    assert len(few) == 10
    assert time.process_time() - begin < 1  # made as they are asked for
    made = [(v, reference.expect(v.port, v.data)) for v in vectors(spec, reference, per_service=4)]
    count = Counter(frame for _, expectation in made for frame in expectation.options)
    assert max(count.values()) == 1
    assert Counter(v.kind for v, _ in made)["query"] == 100 * 4 * 4
    assert [v.name for v, e in made if (v.kind == "drop") == bool(e.options)] == []


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(loaded=specs(), per_service=st.sampled_from([None, 3]))
def test_vectors_of_random_specs_are_consistent(loaded: Loaded, per_service: int | None) -> None:
    reference = Reference(loaded.spec)
    made = [(v, reference.expect(v.port, v.data)) for v in vectors(loaded.spec, reference, per_service=per_service)]
    assert [(v.name, e.why) for v, e in made if (v.kind == "drop") == bool(e.options)] == []
    for values in ([v.name for v, _ in made], [frame for _, e in made for frame in e.options]):
        assert [value for value, times in Counter(values).items() if times > 1] == []
