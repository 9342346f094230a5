# SPDX-License-Identifier: Apache-2.0
"""A pool whose load the agent balances by slots, on a real switch with packets in a few hot slots."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from math import inf
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.owners import owners_of
from dnsteer.status.flow_counts import read_slots
from dnsteer.status.record import read_record
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.maintenance_specs import overlay
from tests.packet.status_cases import inserted
from tests.packet.switches import BRIDGE, Switch

EXPECTED = [
    *SLOW,
    "connection dropped",
    "Broken pipe",
]
BALANCE = "    balance: {by: slots, interval: 1s, tolerance: 10%, moves: 1000}\n"
BALANCED = FARM.replace("    slots: 32\n", f"    slots: 32\n{BALANCE}", 1)
SLOTS = 32
READY = "state 1"
WEIGHTS = {"ns1": 1, "ns2": 2, "ns3": 1}


@pytest.fixture
def balanced(shared: Switch, tmp_path: Path) -> Iterator[Switch]:
    """The module's switch with a pool whose load is balanced."""
    fresh(shared)
    done = on(shared)("apply", spec_file(tmp_path, BALANCED), "--yes")
    assert done.code == 0, done.err
    yield shared


def owners(switch: Switch) -> tuple[str, ...]:
    """The backend of each slot of the pool farm, by the record."""
    found = read_record(switch.database, None, 1)
    assert found.state is not None and found.overlay is not None
    members = next(m for m in found.state.members if m.pool == "farm")
    return owners_of(members, found.overlay.of("farm"))


def given(switch: Switch) -> dict[int, str]:
    """The slots that backends were given, by the record."""
    return {
        slot: entry["backend"] for entry in overlay(switch) if entry["kind"] == "balance" for slot in entry["slots"]
    }


def load(switch: Switch, sizes: dict[int, int], also: Sequence[str] = ()) -> AbstractContextManager[None]:
    """So many packets of each slot, mixed, again and again: some 2,500 a second, few at a time, so that none is dropped."""
    queries = [query(UDP(sport=1024 + 2 * s, dport=53)) for s, n in sizes.items() for _ in range(n)]
    frames = random.Random(1).sample([*queries, *also], len(queries) + len(also))
    return inserted(switch, [frames[first : first + 50] for first in range(0, len(frames), 50)], 50)


def query(segment: Packet) -> str:
    """A packet of one client to the VIP of the pool farm."""
    head = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / IP(src="198.18.0.1", dst="192.0.2.53")
    return bytes(head / segment).hex()


def excess(by: tuple[str, ...], sizes: dict[int, int], *, without: str = "") -> float:
    """The largest part by which a backend gets more than its share by weight, of those in service."""
    weights = {name: weight for name, weight in WEIGHTS.items() if name != without}
    found = Counter(dict.fromkeys(weights, 0))
    for slot in range(SLOTS):
        found[by[slot]] += sizes.get(slot, 0)
    return max(n / found.total() * sum(weights.values()) / weights[name] for name, n in found.items()) - 1


def hot(switch: Switch) -> dict[int, int]:
    """A load under which ns1 gets more than twice its share: its eight slots have four times the packets of others."""
    return {slot: 40 if name == "ns1" else 10 for slot, name in enumerate(owners(switch))}


def counted(switch: Switch) -> Callable[[], float]:
    """The excess by what the switch has counted since the call before."""
    last = dict[int, int]()

    def now() -> float:
        found = read_record(switch.database, None, 1)
        assert found.state is not None
        members = next(m for m in found.state.members if m.pool == "farm")
        total = read_slots(TargetSwitch(switch.database).client(BRIDGE), members)
        since = {slot: packets - last.get(slot, 0) for slot, packets in total.items()}
        last.update(total)
        return excess(owners(switch), since) if sum(since.values()) > 2000 else inf

    return now


def moved(running: Agent) -> None:
    running.waits_for(" of others: ")


def test_slots_leave_the_hot_backend_until_the_load_is_even(balanced: Switch, tmp_path: Path) -> None:
    base, tables, sizes = owners(balanced), balanced.tables(), hot(balanced)
    assert excess(base, sizes) > 1
    with load(balanced, sizes), agent(balanced, tmp_path, READY) as running:
        moved(running)
        wait(lambda: excess(owners(balanced), sizes) < 0.15, running.said)
    now = given(balanced)
    leave = {slot: to for slot, to in now.items() if base[slot] == "ns1"}
    assert set(leave.values()) == {"ns2", "ns3"} and len(now) <= len(leave) + 2 <= 7, "few slots: ns1 has eight"
    assert owners(balanced) == tuple(now.get(slot, name) for slot, name in enumerate(base))
    assert on(balanced)("verify", tmp_path / "spec.yaml").code == 0
    said = " ".join(on(balanced)("status", "--no-rates").out.split())
    assert "given slots" in said and "more than its share; now" in said
    client = f"198.18.0.1:{1024 + 2 * min(leave)}"
    explained = on(balanced)("explain", "--live", "--client", client, "--vip", "192.0.2.53:53/udp")
    assert explained.out.count("given slots of others since") == 1, explained.out + explained.err
    text = BALANCED.replace(BALANCE, "")
    done = on(balanced)("apply", spec_file(tmp_path, text), "--yes")
    assert done.code == 0 and given(balanced) == {}, done.out
    assert "balance of farm/ns2 ends: the pool's load is no longer balanced" in done.out, done.out
    assert on(balanced)("apply", spec_file(tmp_path, BALANCED), "--yes").code == 0
    assert owners(balanced) == base and [len(t) for t in balanced.tables()] == [len(t) for t in tables]


def test_maintenance_overrides_balance_and_survives_a_killed_agent(balanced: Switch, tmp_path: Path) -> None:
    sizes = hot(balanced)
    with load(balanced, sizes):
        running = Agent(balanced, tmp_path / "killed.log")
        moved(running)
        running.end(signal.SIGKILL)
    before = given(balanced)
    assert before and excess(owners(balanced), sizes) < 0.3
    assert all(owners(balanced)[slot] == name for slot, name in before.items())
    taker = next(name for name in before.values() if name != "ns1")
    assert on(balanced)("drain", f"farm/{taker}", "--yes").code == 0
    assert taker not in owners(balanced)
    with load(balanced, sizes), agent(balanced, tmp_path, READY, "next") as running:
        wait(lambda: excess(owners(balanced), sizes, without=taker) < 0.15, running.said)
        assert taker not in owners(balanced)
    assert on(balanced)("undrain", f"farm/{taker}", "--yes").code == 0
    assert taker in owners(balanced)


def test_too_few_packets_or_an_even_load_moves_no_slot(balanced: Switch, tmp_path: Path) -> None:
    even = dict.fromkeys(range(SLOTS), 3)
    with load(balanced, even), agent(balanced, tmp_path, READY) as running:
        running.waits_for("state 1")
        time.sleep(3)
        assert "slots of others" not in running.said() and given(balanced) == {}


def test_a_change_of_the_number_of_slots_ends_it(balanced: Switch, tmp_path: Path) -> None:
    with load(balanced, hot(balanced)), agent(balanced, tmp_path, READY) as running:
        moved(running)
    assert given(balanced)
    other = BALANCED.replace("slots: 32", "slots: 64", 1)
    assert on(balanced)("apply", spec_file(tmp_path, other), "--yes").code == 0
    assert given(balanced) == {}


def test_slots_of_dp_hash_are_counted_in_their_group(balanced: Switch, tmp_path: Path) -> None:
    text = BALANCED.replace("slots: 32\n", "slots: 32\n    selection: dp-hash\n", 1)
    assert on(balanced)("apply", spec_file(tmp_path, text), "--yes").code == 0
    ports = range(20_000, 20_060)
    # One client with an eighth of all packets, which is half of a share, and 59 others: by chance they are not even.
    clients = [query(UDP(sport=port, dport=53)) for n, port in enumerate(ports) for _ in range(60 if n == 0 else 7)]
    now = counted(balanced)
    with load(balanced, {}, clients), agent(balanced, tmp_path, "control socket") as running:
        moved(running)

        def even() -> bool:
            time.sleep(2)
            return now() < 0.15

        wait(even, running.said)
    assert given(balanced)
    assert on(balanced)("verify", tmp_path / "spec.yaml").code == 0


def test_a_service_with_slots_of_its_own_counts_and_moves_with_the_others(balanced: Switch, tmp_path: Path) -> None:
    health = "health: [{check: dns, interval: 1h}, {check: tls, per: service, interval: 1h}]"  # none is due here
    text = BALANCED.replace("slots: 32\n", f"slots: 32\n    {health}\n", 1)
    text = text.replace("services: [dns], pool: farm", "services: [dns, dot], pool: farm")
    assert on(balanced)("apply", spec_file(tmp_path, text), "--yes").code == 0
    over_tls = {slot: 40 if name == "ns1" else 0 for slot, name in enumerate(owners(balanced))}
    even = dict.fromkeys(range(SLOTS), 10)
    sizes = {slot: even[slot] + over_tls[slot] for slot in even}
    connections = [query(TCP(sport=1024 + 2 * slot, dport=853)) for slot, n in over_tls.items() for _ in range(n)]
    assert excess(owners(balanced), sizes) > 1
    with load(balanced, even, connections), agent(balanced, tmp_path, "control socket") as running:
        moved(running)
        wait(lambda: excess(owners(balanced), sizes) < 0.15, running.said)
    found = read_record(balanced.database, None, 1)
    assert found.state is not None and found.overlay is not None
    tables = [owners_of(m, found.overlay.of("farm")) for m in found.state.members if m.pool == "farm"]
    assert tables[0] == tables[1], "a slot's service does not matter to who gets it"
    assert on(balanced)("verify", tmp_path / "spec.yaml").code == 0
