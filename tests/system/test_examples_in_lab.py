# SPDX-License-Identifier: Apache-2.0
"""Every example in the lab: applied as an operator does it, then asked real questions that real servers answer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import names, openvswitch, traffic
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.zone import LARGE, WHOAMI
from dnsteer.modes import MODES
from dnsteer.plan.pool_slots import slots_of
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Forwarding, Selection
from dnsteer.status.verify import Drift
from tests.system.lab_specs import EXAMPLES, apply_in_lab, drift_in_lab

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces and raw sockets"),
]
Up = tuple[Loaded, lab.LabState]


@pytest.fixture(scope="module", params=EXAMPLES, ids=lambda f: f.stem)
def shape(request: pytest.FixtureRequest, no_lab: None) -> Iterator[Up]:
    """A lab with the example applied."""
    loaded = load_spec(request.param)
    try:
        lab.up(loaded.spec)
        apply_in_lab(loaded)
        state = lab.status()
        assert state is not None
        yield loaded, state
    finally:
        lab.down()
    assert lab.status() is None


def places(loaded: Loaded) -> Iterator[tuple[str, str, str]]:
    """VIP name, address and transport of each plain DNS service."""
    for name, vip in loaded.spec.vips.items():
        for address in vip.addresses:
            for endpoint in derived.endpoints(vip):
                if endpoint.port == 53:
                    yield name, str(address), endpoint.protocol.value


def test_apply_again_changes_nothing_and_verify_is_clean(shape: Up) -> None:
    loaded, _ = shape
    assert not apply_in_lab(loaded).changed
    assert drift_in_lab(loaded) == []


def test_every_source_port_is_answered_by_the_server_that_the_slots_say(shape: Up) -> None:
    loaded, state = shape
    for nth, (vip_name, address, transport) in enumerate(places(loaded)):
        vip = loaded.spec.vips[vip_name]
        pool = loaded.spec.pools[vip.pool]
        slots = slots_of(loaded.spec, pool, MODES[vip.forwarding].reach("ipv6" if ":" in address else "ipv4"))
        client = next(str(a) for a in state.client().addresses if (":" in str(a)) == (":" in address))
        for base in (20000, 20001, 20002, 31337, 45678, 65000):
            port = base + nth * 10  # a TCP port rests after use
            local = f"{client}#{port}"
            answer = traffic.ask(state, address, WHOAMI, "TXT", transport=transport, local=local)
            assert answer is not None, f"no answer from {address} {transport} to port {port}"
            assert answer.status == "NOERROR"
            who = answer.records[0].strip('"')
            if pool.selection is Selection.SOURCE_PORT:
                assert who == slots[(port >> 1) % len(slots)]
            else:
                assert who in slots


def test_large_udp_answers_arrive_in_fragments(shape: Up) -> None:
    loaded, state = shape
    translated = {vip.pool for vip in loaded.spec.vips.values() if vip.forwarding is Forwarding.SIIT}
    for name, address, transport in places(loaded):
        if transport == "udp" and loaded.spec.vips[name].pool not in translated:
            answer = traffic.ask(state, address, LARGE, "TXT", bufsize=4096)
            assert answer is not None, f"no large answer from {address}"
            assert "tc" not in answer.flags
            assert answer.size > 3000


def test_vips_and_gateways_answer_ping(shape: Up) -> None:
    loaded, state = shape
    for vip in loaded.spec.vips.values():
        for address in vip.addresses:
            done = traffic.run_in_client(state, ["ping", "-c", "2", "-i", "0.2", "-W", "2", str(address)])
            assert done.returncode == 0, done.stdout
    through = [v.pool for v in loaded.spec.vips.values() if v.forwarding is Forwarding.NAT]
    names = {b.name for pool in through for b in loaded.spec.pools[pool].backends}
    for gateway in loaded.spec.switch.gateways if through else ():
        server = next((s for s in state.servers if s.name in names), state.servers[0])
        run(netns_exec(server.namespace, ["ping", "-c", "2", "-i", "0.2", "-W", "2", str(gateway)]))


def drift_after(loaded: Loaded, kind: str) -> list[Drift]:
    """What differs, as soon as something of a kind does; empty: as soon as nothing does. The switch takes its time."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        drift = drift_in_lab(loaded)
        if [d.kind for d in drift if d.kind == kind] == ([kind] if kind else [d.kind for d in drift]):
            break
        time.sleep(0.1)
    return drift


def test_a_port_that_is_down_is_named_with_the_command_that_brings_it_up(shape: Up) -> None:
    loaded, state = shape
    uplink = next(iter(loaded.spec.switch.uplinks))
    run(netns_exec(names.SWITCH_NAMESPACE, ["ip", "link", "set", uplink, "down"]))
    (found,) = (d for d in drift_after(loaded, "port down") if not d.warns)
    assert found.kind == "port down"
    assert uplink in found.about
    assert found.line
    bridge = loaded.spec.switch.bridge
    assert found.detail.endswith(f": ovs-ofctl -O OpenFlow15 mod-port {bridge} {uplink} up")
    openvswitch.ofctl(bridge, "mod-port", uplink, "up")
    assert drift_after(loaded, "") == []
    for _, address, transport in places(loaded):
        assert traffic.ask(state, address, WHOAMI, "TXT", transport=transport) is not None


def test_a_port_that_is_gone_is_named(shape: Up) -> None:
    """Last of the file: it takes the switch's first uplink away."""
    loaded, _ = shape
    uplink = next(iter(loaded.spec.switch.uplinks))
    run(netns_exec(names.SWITCH_NAMESPACE, ["ip", "link", "delete", uplink]))
    drift = drift_after(loaded, "port gone")
    assert any(d.kind == "port gone" and uplink in d.about and d.line for d in drift), drift
