# SPDX-License-Identifier: Apache-2.0
"""Health per service on a real switch: a backend is out of one service, and serves the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest

from dnsteer.agent.effect import Effect, decide_and_change
from dnsteer.agent.followed_state import read_followed_state
from dnsteer.agent.health_decision import PoolHealth
from dnsteer.agent.probes.targets import probe_targets
from dnsteer.checks.load import load_spec
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.proof.check import prove
from dnsteer.switch.session import Session
from tests.packet.command import FARM, fresh, nothing_changes, on, spec_file
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import Switch

HEALTH = "    health: [{check: dns}, {check: tls, per: service}]\n"
FARM_DOT = FARM.replace("    slots: 32\n", f"    slots: 32\n{HEALTH}", 1).replace(
    "services: [dns], pool: farm", "services: [dns, dot], pool: farm"
)
NS1, NS2, NS3 = (f"02:00:00:00:01:0{n}" for n in (1, 2, 3))
DNS, DOT = "farm", "farm (853/tcp)"


@pytest.fixture
def split(shared: Switch, tmp_path: Path) -> Iterator[Switch]:
    """The module's switch with a pool that has slots for DoT alone."""
    fresh(shared)
    done = on(shared)("apply", spec_file(tmp_path, FARM_DOT), "--yes")
    assert done.code == 0, done.err
    yield shared


def decide(switch: Switch, ill: Mapping[str, Mapping[str, str]]) -> Effect:
    """What the agent does when these are unhealthy, by the name of their slots."""
    target = TargetSwitch(switch.database)
    with Session(target.remote, target.timeout) as session:
        followed = read_followed_state(session, session.record_of(None))
    assert set(followed.rules) == {DNS, DOT}
    effect = decide_and_change(
        target,
        followed.bridge,
        followed.number,
        list(followed.rules.values()),
        {name: PoolHealth(ill.get(name, {})) for name in (DNS, DOT)},
    )
    assert not effect.outdated
    return effect


def held(switch: Switch, protocol: str, port: int) -> Counter[str]:
    """How many slots of a service each backend has."""
    return Counter(_macs(switch, protocol, port))


def _macs(switch: Switch, protocol: str, port: int) -> list[str]:
    """The MAC address of each slot's backend, by the flows that the switch has."""
    found = []
    for slot in range(32):
        traced = switch.appctl(
            "ofproto/trace",
            "br-dns",
            f"in_port=p0,{protocol},dl_src=02:00:00:00:00:fe,dl_dst=02:00:00:00:00:53,nw_src=198.51.100.7,"
            f"nw_dst=192.0.2.53,nw_ttl=64,{protocol}_src={1024 + 2 * slot},{protocol}_dst={port}",
        )
        found.append(traced.rpartition("->eth_dst")[0].rpartition("set_field:")[2])
    return found


def test_a_backend_is_out_of_one_service(split: Switch, tmp_path: Path) -> None:
    whole = held(split, "udp", 53)
    assert held(split, "tcp", 853) == whole
    with nothing_changes(split):
        decide(split, {})
    decide(split, {DOT: {"ns1": "tls 192.0.2.53:853: connection refused"}})
    assert NS1 not in held(split, "tcp", 853)
    assert held(split, "udp", 53) == held(split, "tcp", 53) == whole
    entry = overlay(split)[0]
    assert (entry["kind"], entry["service"]) == ("health", "853/tcp")
    assert on(split)("verify", tmp_path / "spec.yaml").code == 0
    said = " ".join(on(split)("status", "--no-rates").out.split())
    assert "farm (853/tcp)" in said and "health (853/tcp)" in said and "connection refused" in said
    pools = {pool["title"]: pool for pool in on(split)("status", "--no-rates", "--json").json["pools"]}
    states = {title: [b["state"] for b in pool["backends"]] for title, pool in pools.items()}
    assert states["pool farm"] == ["up", "up", "up", "down"]
    assert states["pool farm (853/tcp)"] == ["unhealthy", "up", "up", "down"]
    own = [slot for slot, mac in enumerate(_macs(split, "udp", 53)) if mac == NS1]
    explained = dict.fromkeys(("53/udp", "853/tcp"), "")
    for service, slot in product(explained, own):  # some of its slots are those of ns4, which is down in the spec
        query = ("--vip", f"192.0.2.53:{service}", "--client", f"198.51.100.7:{1024 + 2 * slot}")
        done = on(split)("explain", "--live", *query)
        assert done.code == 0, done.err
        explained[service] += done.out.partition("\n")[2]
    assert "ns1, which is unhealthy (853/tcp)" in explained["853/tcp"]
    assert "unhealthy" not in explained["53/udp"]
    decide(split, {DNS: {"ns2": "no answer"}, DOT: {"ns1": "refused"}})
    assert set(held(split, "tcp", 853)) == {NS3}
    assert set(held(split, "udp", 53)) == {NS1, NS3}
    decide(split, {})
    decide(split, {})
    assert held(split, "udp", 53) == held(split, "tcp", 853) == whole
    assert overlay(split) == []


def test_operator_verbs_apply_to_all_services(split: Switch) -> None:
    decide(split, {DOT: {"ns1": "refused"}})
    done = on(split)("drain", "farm/ns3")
    assert "slots of pool farm move" in done.out and "slots of pool farm (853/tcp) move" in done.out
    assert set(held(split, "tcp", 853)) == {NS2}
    assert set(held(split, "udp", 53)) == {NS1, NS2}
    assert on(split)("weight", "farm/ns1", "9").code == 0
    assert held(split, "udp", 53)[NS1] > 20
    assert set(held(split, "tcp", 853)) == {NS2}


def test_the_panic_is_about_one_service(split: Switch) -> None:
    effect = decide(split, {DOT: {"ns1": "refused", "ns2": "refused", "ns3": "refused"}})
    assert {name: d.panics for name, d in effect.decisions.items()} == {DNS: False, DOT: True}
    assert overlay(split) == []


def test_a_spec_without_per_service_health_ends_it(split: Switch, tmp_path: Path) -> None:
    decide(split, {DOT: {"ns1": "refused"}})
    plain = tmp_path / "plain.yaml"
    plain.write_text(FARM_DOT.replace(", per: service", ""))
    done = on(split)("apply", plain, "--yes")
    assert done.code == 0, done.err
    decided = {DNS: PoolHealth()}
    target = TargetSwitch(split.database)
    with Session(target.remote, target.timeout) as session:
        followed = read_followed_state(session, session.record_of(None))
    decide_and_change(target, followed.bridge, followed.number, list(followed.rules.values()), decided)
    assert overlay(split) == []
    assert on(split)("verify", plain).code == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("    slots: 32\n", "    slots: 32\n    selection: dp-hash\n"),
        (", ipv6: '2001:db8::11'", ""),
        ("{check: tls, per: service}", "{check: dns, per: service}, {check: tcp, per: service}"),
        ("uplinks:", "probe: {addresses: [192.0.2.9/24, '2001:db8::9/64']}\n  uplinks:"),
    ],
)
def test_per_service_health_passes_the_proof(tmp_path: Path, old: str, new: str) -> None:
    loaded = load_spec(spec_file(tmp_path, FARM_DOT.replace(old, new, 1) if old else FARM_DOT))
    report = prove(loaded)
    assert report.ok, report.failures
    assert any(target.services != ("",) for target in probe_targets(loaded.spec))
