# SPDX-License-Identifier: Apache-2.0
"""The probes that measure changes under load, each held against what is known otherwise."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.change.clients import Answers, Clients, wrong
from bench.change.counters import Counters
from bench.change.inside import Helper
from bench.change.load import SteadyLoad
from bench.change.ports import PROBE_PORTS, slot_of, source_ports
from bench.change.priority import LOADING, PROBING, SERVING, niceness_counts, prefer
from bench.change.question import backend_of, number_of, query
from bench.change.tcp import Connections

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import openvswitch, topology, traffic
from dnsteer.lab.openvswitch import direct_path
from dnsteer.plan.pool_slots import slots_of
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded
from tests import worker_machine
from tests.packet.switches import SLOT_TABLE

pytestmark = pytest.mark.system
QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.yaml"
V4, V6 = "192.0.2.53", "2001:db8::53"
SLOTS = 64
DOWN_SLOTS = (3, 17, 40)


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return load_spec(QUICKSTART)


@pytest.fixture(scope="module")
def state(loaded: Loaded, no_lab: None) -> Iterator[lab.LabState]:
    with niceness_counts():
        built = lab.up(loaded.spec)
        try:
            assert apply(built)
            now = lab.status()
            assert now is not None
            prefer(now)
            yield now
        finally:
            lab.down()


def apply(state: lab.LabState) -> bool:
    """Apply the example by the command; whether anything changed."""
    argv = [sys.executable, "-m", "dnsteer", "apply", str(QUICKSTART), "--db", state.db, "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or "." for p in sys.path)}
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=60, env=environment)
    said = json.loads(done.stdout)
    assert said["ok"], said
    return bool(said["changed"])


def owner(loaded: Loaded, address: str) -> tuple[str, ...]:
    """The backend of each slot."""
    pool = loaded.spec.pools["authoritative"]
    vip_address = next(a for a in loaded.spec.vips["dns"].addresses if str(a) == address)
    return tuple(slots_of(loaded.spec, pool, derived.family_of(vip_address)))


def expected(loaded: Loaded, address: str, ports: tuple[int, ...]) -> dict[int, str]:
    names = owner(loaded, address)
    return {p: names[(p >> 1) % len(names)] for p in ports}


def assert_all_answered(answers: Answers) -> None:
    assert (answers.unanswered, answers.first_try_lost, answers.errors) == ((), (), ())
    assert answers.sent == answers.answered == len(answers.backends)


# Without a lab.


@pytest.mark.parametrize("slots", [2, 64, 512, 1024, 4096])
@pytest.mark.parametrize("count", [64, 1000, 2000])
def test_source_ports_cover_the_slots_evenly(count: int, slots: int) -> None:
    ports = source_ports(count, slots)
    assert len(set(ports)) == count and set(ports) <= set(PROBE_PORTS)
    held = Counter(slot_of(p, slots) for p in ports)
    assert len(held) == min(count, slots)
    assert max(held.values()) - min(held.values()) <= 1


def test_more_source_ports_than_there_are() -> None:
    with pytest.raises(ValueError, match=r"10000 source ports for 64 slots; there are \d+ from 1024 on"):
        source_ports(10000, 64)


def test_an_answer_is_only_taken_from_a_good_one() -> None:
    asked = query(0x10203)
    assert number_of(asked) == 0x203
    assert backend_of(asked) is None, "a query is no answer"
    refused = bytes([asked[0], asked[1], 0x84, 5]) + asked[4:]
    assert backend_of(refused) is None
    assert backend_of(b"") is None and number_of(b"\1") == -1


# In the lab.


@pytest.mark.root("network namespaces and raw sockets")
@pytest.mark.parametrize("address", [V4, V6])
def test_every_client_is_answered_by_the_backend_of_its_slot(state: lab.LabState, loaded: Loaded, address: str) -> None:
    with Clients(state, address, SLOTS) as clients:
        want = expected(loaded, address, clients.ports)
        for _ in range(3):
            said = clients.ask()
            assert_all_answered(said)
            assert wrong(said.backends, want) == {}
            assert said.seconds < 5.0
    assert len(want) == 2000 and set(want.values()) == {"ns1", "ns2", "ns3", "ns4"}


@pytest.mark.root("network namespaces and raw sockets")
@pytest.mark.parametrize("address", [V4, V6])
def test_counters_count_every_datagram(state: lab.LabState, loaded: Loaded, address: str) -> None:
    counters = Counters(state)
    with Clients(state, address, SLOTS) as clients:
        clients.ask()
        before, rounds = counters.read(), 4
        assert {name: (r.udp, r.tcp) for name, r in counters.since(before).items()} == dict.fromkeys(before, (0, 0))
        for _ in range(rounds):
            assert_all_answered(clients.ask())
        time.sleep(0.1)
        got = counters.since(before)
        want = Counter(expected(loaded, address, clients.ports).values())
    assert {name: (r.udp, r.tcp) for name, r in got.items()} == {n: (rounds * want[n], 0) for n in before}


@pytest.mark.root("network namespaces and raw sockets")
def test_counters_count_datagrams_that_no_server_reads(state: lab.LabState, loaded: Loaded) -> None:
    """A datagram for a closed port is one that the backend received, though no server saw it."""
    plan = topology.plan_network(loaded.spec)
    counters = Counters(state)
    with direct_path(plan, "ns1", plan.clients[0]):
        traffic.ask(state, "192.0.2.11", "example.", port=53)
        before = counters.read()
        assert traffic.ask(state, "192.0.2.11", "example.", port=9953, timeout=1) is None
        got = counters.since(before)
    assert got["ns1"].udp >= 1 and [got[n].udp for n in ("ns2", "ns3", "ns4")] == [0, 0, 0]


@pytest.mark.root("network namespaces and raw sockets")
def test_counters_name_a_server_that_has_ended(state: lab.LabState) -> None:
    processes = tuple(p for p in state.processes if p.namespace != state.server("ns2").namespace)
    with pytest.raises(lab.LabError, match="no process of name server ns2"):
        Counters(type(state)(**{**vars(state), "processes": processes}))


@pytest.mark.root("network namespaces and raw sockets")
@pytest.mark.parametrize("address", [V4, V6])
def test_connections_survive_an_apply_that_changes_nothing(state: lab.LabState, loaded: Loaded, address: str) -> None:
    with Connections(state, address, SLOTS) as connections:
        want = expected(loaded, address, connections.ports)
        first = connections.check()
        assert (first.backends, first.dead) == (want, {})
        assert not apply(state)
        again = connections.check()
        assert (again.backends, again.dead) == (want, {})
    assert len(want) == 1000


@pytest.mark.root("network namespaces and raw sockets")
def test_a_changed_slot_flow_moves_exactly_its_clients(state: lab.LabState, loaded: Loaded) -> None:
    names = owner(loaded, V4)
    target = "ns1"
    moved = tuple(slot for slot in DOWN_SLOTS if names[slot] != target)
    assert moved
    counters = Counters(state)
    with Clients(state, V4, SLOTS) as clients, Connections(state, V4, SLOTS) as connections:
        before = clients.ask()
        connections.check()
        change_slot_flows(state, names, moved, target)
        try:
            in_the_datapath()
            start = counters.read()
            after, checked = clients.ask(), connections.check()
            time.sleep(0.1)
            got = counters.since(start)
        finally:
            assert apply(state)
        clients_of = {p for p in clients.ports if slot_of(p, SLOTS) in moved}
        assert after.moved_since(before) == {p: (names[slot_of(p, SLOTS)], target) for p in clients_of}
        assert_all_answered(after)
        # A server that does not know a connection resets it; the others do not notice.
        broken = {p for p in connections.ports if slot_of(p, SLOTS) in moved}
        assert dict(checked.dead) == dict.fromkeys(broken, "reset")
        assert set(checked.backends) == set(connections.ports) - broken
        assert {n: r.udp for n, r in got.items()} == {n: after.shares[n] for n in got}

        assert clients.ask().moved_since(before) == {}
        assert connections.reopen() == {}
        back = connections.check()
        assert (back.backends, back.dead) == (expected(loaded, V4, connections.ports), {})


def change_slot_flows(state: lab.LabState, names: tuple[str, ...], slots: tuple[int, ...], target: str) -> None:
    """Give *slots* to the backend *target* by hand, by the actions that its own slots have."""
    flows = {
        int(found[2], 16): (found[1], found[3])
        for line in openvswitch.ofctl(state.bridge, "dump-flows", SLOT_TABLE).splitlines()
        if (found := re.search(r"priority=\d+,(\S*?reg1=(0x[0-9a-f]+|0)\S*) actions=(\S+)$", line))
    }
    assert sorted(flows) == list(range(SLOTS))
    actions = flows[names.index(target)][1]
    lines = [f"{SLOT_TABLE},{flows[slot][0]},actions={actions}" for slot in slots]
    openvswitch.ofctl(state.bridge, "mod-flows", "-", stdin="\n".join(lines) + "\n")


def in_the_datapath() -> None:
    """Wait until the switch's megaflows are what its tables say."""
    openvswitch.appctl("revalidator/wait")


@contextmanager
def dropping(state: lab.LabState, slot: int) -> Iterator[None]:
    """Drop the queries of *slot* by a flow put in by hand."""
    cookie = "0x1ab0000000000001"
    openvswitch.ofctl(state.bridge, "add-flow", f"cookie={cookie},{SLOT_TABLE},priority=200,reg1={slot},actions=drop")
    try:
        yield
    finally:
        openvswitch.ofctl(state.bridge, "del-flows", f"cookie={cookie}/-1")


@pytest.mark.root("network namespaces and raw sockets")
def test_clients_without_answer_are_named(state: lab.LabState, loaded: Loaded) -> None:
    """A slot that drops: its clients are asked three times, the others once; no connection of it works."""
    names = owner(loaded, V4)
    slot = 5
    with Clients(state, V4, SLOTS) as clients, Connections(state, V4, SLOTS) as connections:
        clients.ask()
        with dropping(state, slot):
            in_the_datapath()
            said, checked = clients.ask(wait=0.2), connections.check(wait=0.5)
        lost = {p for p in clients.ports if slot_of(p, SLOTS) == slot}
        assert set(said.unanswered) == set(said.first_try_lost) == lost
        assert said.sent == 2000 + 2 * len(lost) and said.answered == 2000 - len(lost)
        assert {p: b for p, b in said.backends.items() if b} == {
            p: names[slot_of(p, SLOTS)] for p in clients.ports if p not in lost
        }
        silent = {p for p in connections.ports if slot_of(p, SLOTS) == slot}
        assert dict(checked.dead) == dict.fromkeys(silent, "no answer")
        assert connections.reopen() == {}
        assert_all_answered(clients.ask())


@pytest.mark.root("network namespaces and raw sockets")
def test_a_load_is_steady_and_counted(state: lab.LabState, loaded: Loaded) -> None:
    counters = Counters(state)
    with Clients(state, V4, SLOTS) as clients:
        clients.ask()
        before = counters.read()
        with SteadyLoad(state, {V4: SLOTS, V6: SLOTS}, qps=8000, tcp_qps=200) as load:
            asked = 0
            for _ in range(3):
                time.sleep(0.5)
                said = clients.ask()
                asked += said.sent
                assert said.unanswered == ()
            result = load.stop()
        time.sleep(0.1)
        got = counters.since(before)
    assert result.lost == 0 and result.udp.errors == result.tcp.errors == 0
    assert result.udp.qps == pytest.approx(8000, rel=0.05) and result.tcp.qps == pytest.approx(200, rel=0.05)
    assert sum(r.udp for r in got.values()) == result.udp.sent + asked
    shares = Counter(owner(loaded, V4))
    for name, received in got.items():
        share = received.udp / sum(r.udp for r in got.values())
        assert share == pytest.approx(shares[name] / SLOTS, rel=0.02)


@pytest.mark.root("network namespaces and raw sockets")
def test_a_load_counts_lost_queries(state: lab.LabState) -> None:
    with SteadyLoad(state, {V4: SLOTS}, qps=2000, tcp_qps=0) as load:
        time.sleep(0.3)
        with dropping(state, 5):
            time.sleep(0.5)
        result = load.stop()
    # One slot of 64 for half a second.
    assert 5 <= result.udp.lost <= 40
    assert result.tcp.sent == 0


@pytest.mark.root("network namespaces and raw sockets")
def test_the_lab_runs_before_others(state: lab.LabState) -> None:
    assert prefer(state) > 0  # as the fixture has
    # The process that serves, not only the one that the pidfile names.
    here = {(Path("/run/netns") / p.namespace).stat().st_ino for p in state.processes if p.program == "nsd"}
    serving = [pid for pid in running("-x", "nsd: server 1") if Path(f"/proc/{pid}/ns/net").stat().st_ino in here]
    assert len(serving) >= 4
    assert {niceness(pid) for pid in serving} == {SERVING}
    switch = next(p.pid for p in state.processes if p.program == "ovs-vswitchd")
    threads = [int(t.name) for t in Path(f"/proc/{switch}/task").iterdir()]
    assert len(threads) > 1
    assert {niceness(thread) for thread in threads} == {SERVING}
    with Clients(state, V4, SLOTS, ports=[1024]):
        assert [niceness(pid) for pid in running("-f", "bench.change.asker")] == [PROBING]


@pytest.mark.root("network namespaces and raw sockets")
def test_a_load_runs_before_others_when_asked(state: lab.LabState) -> None:
    with SteadyLoad(state, {V4: SLOTS}, qps=500, tcp_qps=50) as load:
        time.sleep(0.5)
        loads = running("-x", "dnsperf")
        assert len(loads) == 2
        assert {niceness(pid) for pid in loads} == {niceness(0)}
        load.prefer()
        threads = [int(t.name) for pid in loads for t in Path(f"/proc/{pid}/task").iterdir()]
        assert len(threads) > len(loads)
        assert {niceness(thread) for thread in threads} == {LOADING}


def running(how: str, name: str) -> list[int]:
    """The processes of this machine that pgrep finds by name."""
    found = subprocess.run(["pgrep", how, name], stdout=subprocess.PIPE, check=True).stdout.split()
    return [int(pid) for pid in found if worker_machine.has(int(pid))]


def niceness(thread: int) -> int:
    """Of a thread or process; 0 is this one."""
    return os.getpriority(os.PRIO_PROCESS, thread)


@pytest.mark.root("network namespaces and raw sockets")
def test_a_helper_that_ends_or_refuses_says_so(state: lab.LabState) -> None:
    with Clients(state, V4, SLOTS, ports=[2000]), pytest.raises(lab.LabError, match=r"open: .*in use"):
        Clients(state, V4, SLOTS, ports=[2000])
    with (
        Helper(state, "bench.change.no_such_module") as helper,
        pytest.raises(lab.LabCommandError, match=r"ended with exit code 1: .*no_such_module"),
    ):
        helper.call("open", timeout=10)
