# SPDX-License-Identifier: Apache-2.0
"""VIPs that the extension serves, in the lab: real queries through switch, extension and switch to real name servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import client_affinity, decap, demo, extension_program, names, traffic
from dnsteer.lab.command import run
from dnsteer.lab.shares import ExpectedQueries
from dnsteer.lab.targets import LoadTarget, targets_of
from dnsteer.lab.topology import Topology, plan_network, service_kind
from dnsteer.lab.zone import LARGE, WHOAMI
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Selection
from dnsteer.spec.read import parse_document
from dnsteer.switch.tools import SwitchError, UnavailableError
from tests.system.lab_specs import EXTENDED, apply_in_lab, drift_in_lab

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces and raw sockets"),
]
EXAMPLES = Path(__file__).parents[2] / "examples"


@contextmanager
def running(name: str, **changes: str) -> Iterator[tuple[Loaded, Topology, lab.LabState]]:
    """A lab with an example or a spec's text applied, each of *changes* made in it."""
    text = name if "\n" in name else (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    loaded = check_document(parse_document("spec.yaml", text))
    try:
        lab.up(loaded.spec)
        apply_in_lab(loaded)
        state = lab.status()
        assert state is not None and state.phase == "up", state
        yield loaded, plan_network(loaded.spec), state
    finally:
        lab.down()
    assert lab.status() is None
    assert not names.RUN_DIR.exists()


def asked(state: lab.LabState, target: LoadTarget, number: int = 4) -> list[str]:
    """Which servers answered *number* queries."""
    found = []
    for _ in range(number):
        said = traffic.ask(state, str(target.address), WHOAMI, "TXT", transport=target.endpoint.protocol.value)
        assert said is not None and said.status == "NOERROR", target.label
        assert said.source == str(target.address)
        found.append(said.nsid)
    return found


def loaded_with(state: lab.LabState, load: traffic.Load) -> tuple[traffic.LoadResult, dict[str, int]]:
    """Run a load; what dnsperf says, and the queries that each server saw."""
    before = traffic.query_counters(state)
    with traffic.start_dnsperf(state, load) as going:
        result = going.wait(60)
    after = traffic.query_counters(state)
    assert (result.lost, set(result.rcodes)) == (0, {"NOERROR", "NXDOMAIN"})
    return result, {name: sum(after[name].values()) - sum(before[name].values()) for name in after}


def shares_by_source_port(loaded: Loaded, network: Topology, state: lab.LabState) -> None:
    """Each server gets what its slots say, to the query; and so says the extension of UDP, where a packet is a query."""
    for target in targets_of(loaded.spec, network):
        if target.selection is not Selection.SOURCE_PORT:
            continue
        parts = ExpectedQueries(loaded.spec, network.server_of).shares(target.pool, target.reached)
        if target.endpoint.protocol.value == "udp":
            asked(state, target, 2)  # neighbours are looked for, and a query that waits for one may come late
        counted = extension_program.read_counters()
        load = traffic.Load(
            str(target.address), transport=target.endpoint.protocol.value, clients=target.source_ports, repeats=2
        )
        result, seen = loaded_with(state, load)
        assert seen == {server: result.sent * parts.get(server, 0) for server in seen}, target.label
        served = extension_program.read_counters().since(counted)
        assert served.problems() == []
        name = f"{target.vip}/{target.address}/{target.endpoint.protocol.value}/{target.endpoint.port}"
        if name in served.services and target.endpoint.protocol.value == "udp":
            by = {backend.split("/")[1]: n for backend, n in served.services[name].items()}
            assert by == {server: n for server, n in seen.items() if n}, target.label


@pytest.fixture(autouse=True)
def _alone(no_lab: None) -> None:
    """Nobody else's lab is up."""


def padded(state: lab.LabState, address: str, timeout: int = 5) -> bool:
    """Whether a query over TCP is answered that is longer than a segment, and so comes in a full one."""
    argv = ["kdig", f"@{address}", WHOAMI, "TXT", "+tcp", "+padding=4000", "+retry=0", f"+timeout={timeout}"]
    said = traffic.run_in_client(state, argv).stdout
    return "status: NOERROR" in said and "ANSWER: 1" in said


def test_tunneled_queries_are_answered() -> None:
    with running("ipip") as (loaded, network, state):
        assert {p.program for p in state.processes} == {"nsd", "ovs-vswitchd", "ovsdb-server", extension_program.NAME}
        assert drift_in_lab(loaded) == []
        for target in targets_of(loaded.spec, network):
            asked(state, target, 2)
            large = traffic.ask(state, str(target.address), LARGE, "TXT", bufsize=4096)
            assert large is not None and large.size > 3000  # not through the tunnel, in fragments
            assert padded(state, str(target.address))  # 1500 bytes in a tunnel, on links of 1600
        shares_by_source_port(loaded, network, state)
        text = (EXAMPLES / "ipip.yaml").read_text().replace("weight: 3", "weight: 1")
        changed = check_document(parse_document("ipip.yaml", text))
        assert drift_in_lab(changed) != []
        assert apply_in_lab(changed).changed
        assert drift_in_lab(changed) == []
        shares_by_source_port(changed, network, state)


def test_a_segment_that_the_tunnel_makes_too_long_is_lost_and_a_smaller_mss_helps() -> None:
    with running("ipip", **{"mtu: 1600": "mtu: 1500"}) as (loaded, network, state):
        addresses = [str(a) for a in loaded.spec.vips["dns"].addresses]
        for address in addresses:
            assert not padded(state, address, timeout=1)
            said = traffic.ask(state, address, WHOAMI, "TXT", transport="tcp")
            assert said is not None
        for host in network.hosts:
            for route in ("198.18.0.2/32", "2001:2::2/128"):
                change = ["route", "change", route, "dev", "eth0", "advmss", "1400"]
                run(["ip", "-n", host.namespace, *change])
        assert all(padded(state, address) for address in addresses)


def test_a_server_takes_tunnels_from_the_extension_alone() -> None:
    with running("ipip") as (loaded, network, state):
        target = next(targets_of(loaded.spec, network))
        asked(state, target, 2)
        text = (
            (EXAMPLES / "ipip.yaml")
            .read_text()
            .replace("192.0.2.2 ", "192.0.2.3 ")
            .replace("2001:db8::2\n", "2001:db8::3\n")
        )
        decap.attach_decap(plan_network(check_document(parse_document("other.yaml", text)).spec), lambda _: None)
        assert traffic.ask(state, str(target.address), WHOAMI, "TXT", timeout=1) is None


def test_translated_queries_are_answered() -> None:
    with running("siit") as (loaded, network, state):
        for target in targets_of(loaded.spec, network):
            asked(state, target, 2)
        address = str(loaded.spec.vips["dns4"].addresses[0])
        small = traffic.ask(state, address, LARGE, "TXT", bufsize=4096)
        assert small is not None and "tc" in small.flags and small.size <= 1232
        whole = traffic.ask(state, address, LARGE, "TXT", transport="tcp")
        assert whole is not None and "tc" not in whole.flags and whole.size > 3000
        assert padded(state, address)  # on links of 1500, as the servers ask for segments that fit
        shares_by_source_port(loaded, network, state)
        after_a_crash(loaded, network, state)


def after_a_crash(loaded: Loaded, network: Topology, state: lab.LabState) -> None:
    """Without the extension its VIP gets no answers, but the other does; a new process serves it again."""
    translated, by_the_switch = (str(loaded.spec.vips[name].addresses[0]) for name in ("dns4", "dns6"))
    extension_program.crash()
    broken = lab.status()
    assert broken is not None and broken.phase == "broken"
    assert broken.problem == "processes have ended: dnsteer-ext (0 of 1 run)"
    assert traffic.ask(state, translated, WHOAMI, "TXT", timeout=1) is None
    assert traffic.ask(state, by_the_switch, WHOAMI, "TXT") is not None
    with pytest.raises(UnavailableError, match="is it running"):
        extension_program.read_counters()
    extension_program.run_program()
    again = lab.status()
    assert again is not None and again.phase == "up"
    for target in targets_of(loaded.spec, network):
        asked(state, target, 2)


def test_spray_spreads_queries_of_one_socket() -> None:
    with running("spray") as (loaded, network, state):
        shares_by_source_port(loaded, network, state)
        for target in targets_of(loaded.spec, network):
            if target.selection is not Selection.SPRAY:
                asked(state, target, 2)
                continue
            assert set(asked(state, target, 40)) == {"ns1", "ns2", "ns3"}
            result, seen = loaded_with(state, traffic.Load(str(target.address), clients=1, repeats=20))
            expected = ExpectedQueries(loaded.spec, network.server_of)
            expected.add(target.pool, target.reached, result.sent, 1)
            assert sum(seen.values()) == result.sent == 20 * traffic.queries_in_file()
            for server, number in seen.items():
                assert abs(expected.deviation(server, number)) < expected.allowed(server) < 0.1, (server, number)


def test_a_client_stays_with_its_server() -> None:
    with running("client-hash") as (loaded, network, state):
        of: dict[int, dict[str, int]] = {}
        for target in targets_of(loaded.spec, network):
            local = client_affinity.addresses(state, target.address.version)[7]
            load = traffic.Load(str(target.address), transport=target.endpoint.protocol.value, repeats=1, local=local)
            result, seen = loaded_with(state, load)
            assert sorted(seen.values()) == [0, 0, result.sent], target.label
            clients = client_affinity.ask_from(state, target, ExpectedQueries(loaded.spec, network.server_of))
            assert clients.problems() == []
            assert (clients.clients, clients.queries, clients.unanswered, clients.moved) == (1024, 4096, 0, ())
            # The service is no part of what is hashed.
            assert of.setdefault(target.address.version, clients.seen) == clients.seen


def test_clients_that_move_and_are_not_spread_are_noticed() -> None:
    with running("client-hash", **{"hash_fields: [src_ip]": "hash_fields: [src_port]"}) as (loaded, network, state):
        target = next(targets_of(loaded.spec, network))
        expected = ExpectedQueries(loaded.spec, network.server_of)
        assert client_affinity.ask_from(state, target, expected).problems() == []  # each time from the same port
        moving = client_affinity.ask_from(state, replace(target, hash_fields=("src_ip",)), expected)
        assert len(moving.moved) > 512 and any("had several servers" in text for text in moving.problems())
    with running("client-hash", **{"hash_fields: [src_ip]": "hash_fields: [dst_ip]"}) as (loaded, network, state):
        target = next(targets_of(loaded.spec, network))
        all_at_one = client_affinity.ask_from(state, target, expected)
        assert not all_at_one.moved and any("of 1024 clients" in text for text in all_at_one.problems())


def test_all_modes_work_together_behind_uplinks_and_ports() -> None:
    with running(EXTENDED) as (loaded, network, state):
        assert drift_in_lab(loaded) == []
        seen: set[str] = set()
        for vip in loaded.spec.vips.values():
            for address in vip.addresses:
                for endpoint in derived.endpoints(vip):
                    transport = "tls" if service_kind(endpoint) == "dot" else endpoint.protocol.value
                    for client in state.clients:
                        said = traffic.ask(
                            state,
                            str(address),
                            WHOAMI,
                            "TXT",
                            port=endpoint.port,
                            transport=transport,
                            uplink=client.uplink,
                        )
                        assert said is not None and said.nsid, (address, transport, client.uplink)
                        seen.add(said.nsid)
        assert seen <= {server.name for _, server in network.servers()} and len(seen) > 5
        shares_by_source_port(loaded, network, state)
        for target in targets_of(loaded.spec, network):
            if target.selection is Selection.CLIENT:
                assert (
                    client_affinity.ask_from(state, target, ExpectedQueries(loaded.spec, network.server_of)).problems()
                    == []
                )


@pytest.mark.parametrize("name", ["spray", "client-hash"])
def test_the_demo_reports_what_the_extension_did(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ROUNDS", 1)
    monkeypatch.setattr(demo, "LEAST_QUERIES", 4000)
    monkeypatch.setattr(demo, "MAX_QUERIES", 8000)
    monkeypatch.setattr(demo, "_CALIBRATION_SECONDS", 0.3)
    with running(name) as (loaded, _, _), (tmp_path / "said").open("w") as said:
        report = demo.run(loaded.spec, tmp_path / "report.json", console=Console(file=said, width=200), seconds=1.0)
    assert report.problems == []
    told = report.as_json()
    assert told["lost"] == 0 and told["extension"]["missed"] == 0 and not any(told["extension"]["dropped"].values())
    assert all(service["packets"] > 0 for service in told["extension"]["services"].values())
    if name == "spray":
        assert list(told["one_socket"]) == ["dns-udp IPv4 udp/53", "dns-udp IPv6 udp/53"]
        assert all(0.02 < b["tolerance"] < 0.2 for one in told["one_socket"].values() for b in one["backends"].values())
    else:
        assert [c["moved"] for c in told["clients"].values()] == [()] * 4
    text = (tmp_path / "said").read_text()
    assert "packets of the extension, by its own counters: 0 dropped" in text
    assert re.search(r"one socket to|each has one name server", text)


def test_the_lab_without_the_program_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DNSTEER_EXT", str(tmp_path))
    loaded = check_document(parse_document("siit.yaml", (EXAMPLES / "siit.yaml").read_text()))
    with pytest.raises(SwitchError, match="make extension"):
        lab.up(loaded.spec)
    assert lab.status() is None
    program = tmp_path / extension_program.NAME
    program.write_text('#!/bin/sh\necho \'{"error":"no huge pages"}\' >&2\n')
    program.chmod(0o755)
    with pytest.raises(lab.LabError, match="dnsteer-ext did not come up: no huge pages"):
        lab.up(loaded.spec)
    assert lab.status() is None
