# SPDX-License-Identifier: Apache-2.0
"""Next hops and backends by address: what is decided about them, what the record has, and what the plan makes of it."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import struct
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.agent import neighbor_follower, probe_port
from dnsteer.agent.event_reporter import EventReporter
from dnsteer.agent.neighbor_follower import NeighborFollower
from dnsteer.agent.neighbor_moves import MOVES, SILENT, WITHIN, Heard, decide_moves
from dnsteer.agent.neighbor_table import NeighborTable, parse_messages
from dnsteer.deploy.maintenance_text import begun_and_ended
from dnsteer.deploy.neighbors import describe_neighbors, with_found
from dnsteer.plan.build import build_plan
from dnsteer.slots.maintenance import NO_OVERLAY, FoundNeighbor, Overlay, marker
from dnsteer.spec.neighbors import macs_given, neighbors_of, stand_in
from dnsteer.tables.egress import EgressRow
from dnsteer.tables.forward import ForwardRow
from dnsteer.tables.return_ import RouterRow
from tests.unit.spec_text import changed, load

TEXT = (Path(__file__).parents[2] / "examples" / "followed.yaml").read_text()
SPEC = load(TEXT).spec
NEIGHBORS = neighbors_of(SPEC)
ROUTER = NEIGHBORS[0]
A, B, OWN = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:53"
NOW = 1000.0
TIME = datetime(2026, 1, 2, tzinfo=timezone.utc)


def heard(mac: str, *moves: float, answered: float = NOW) -> dict[str, Heard]:
    return {ROUTER.address: Heard(mac, answered, [*moves])}


# What is decided


def test_each_neighbour_is_asked_once_by_its_port() -> None:
    assert [(n.address, n.port, n.mac) for n in NEIGHBORS] == [
        ("198.51.100.1", "p0", ""),
        ("fe80::1", "p0", ""),
        ("192.0.2.11", "p0", ""),
        ("192.0.2.12", "p0", ""),
    ]
    watched = load(changed(("probe: {", "probe: {watch: true, "), text=TEXT)).spec
    assert [(n.address, n.mac) for n in neighbors_of(watched)][-1] == ("192.0.2.13", "02:00:00:00:01:13")


def test_another_mac_address_is_taken_over() -> None:
    found = decide_moves([ROUTER], {ROUTER.address: A}, heard(B), [OWN], NOW)
    assert (found.macs, found.troubles, found.until) == ({ROUTER.address: B}, {}, None)
    assert not decide_moves([ROUTER], {ROUTER.address: B}, heard(B), [OWN], NOW).macs


@pytest.mark.parametrize("mac", [OWN, "00:00:00:00:00:00", "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff"])
def test_what_no_station_has_is_ignored(mac: str) -> None:
    found = decide_moves([ROUTER], {ROUTER.address: A}, heard(mac), [OWN], NOW)
    assert not found.macs and "that is ignored" in found.troubles[ROUTER.address]


def test_one_that_may_still_answer_is_no_trouble_yet() -> None:
    found = decide_moves([ROUTER], {}, heard("", answered=NOW - SILENT + 0.1), [OWN], NOW)
    assert (found.macs, found.troubles, found.silent) == ({}, {}, frozenset())


def test_the_last_mac_address_of_one_that_is_silent_stays() -> None:
    old = heard(B, answered=NOW - SILENT - 0.1)
    found = decide_moves([ROUTER], {ROUTER.address: A}, old, [OWN], NOW)
    assert not found.macs and found.silent == {ROUTER.address}
    text = f"next hop 198.51.100.1 of uplink p0 does not answer: its MAC address stays {A}"
    assert found.troubles == {ROUTER.address: text}
    unknown = decide_moves([ROUTER], {}, old, [OWN], NOW).troubles[ROUTER.address]
    assert unknown.endswith("it has no MAC address yet, and gets no packets")


def test_a_watched_mac_address_is_named_and_not_followed() -> None:
    text = changed(('ipv6: "fe80::1"', f'ipv6: "fe80::1", mac: {A}'), text=TEXT)
    watched = neighbors_of(load(text).spec)[0]
    found = decide_moves([watched], {}, heard(B), [OWN], NOW)
    assert not found.macs
    assert found.troubles[ROUTER.address].endswith(f"answers with {B}, and the spec has {A}: it stays so")
    assert not decide_moves([watched], {}, heard(A), [OWN], NOW).troubles


@given(st.lists(st.tuples(st.floats(0.05, 20), st.sampled_from([A, B])), max_size=200))
def test_two_that_fight_make_three_changes_a_minute_at_most(events: list[tuple[float, str]]) -> None:
    now, known, recorded, made = NOW, Heard(A, NOW), {ROUTER.address: A}, list[float]()
    for pause, mac in events:
        now += pause
        known.mac, known.answered = mac, now
        found = decide_moves([ROUTER], recorded, {ROUTER.address: known}, [OWN], now)
        assert bool(found.until) == ("do two stations" in found.troubles.get(ROUTER.address, ""))
        if found.macs:
            recorded |= found.macs
            known.moves.append(now)
            made.append(now)
    assert all(later - first >= WITHIN for first, later in zip(made, made[MOVES:], strict=False))
    late = decide_moves([ROUTER], recorded, {ROUTER.address: known}, [OWN], known.answered + SILENT - 1)
    assert late.macs or late.until is not None or recorded[ROUTER.address] == known.mac  # in the end the last one wins


# What is said of it


def troubled() -> tuple[NeighborFollower, list[str]]:
    said: list[str] = []
    follower = NeighborFollower(None, EventReporter(lambda text, *_, **__: said.append(text)))  # type: ignore[arg-type]
    follower._heard = heard(A)
    return follower, said


def test_a_forger_does_not_flood_the_log() -> None:
    follower, said = troubled()
    for second in range(60):  # each second another MAC address, or the right one
        troubles = {ROUTER.address: f"{second} is ignored"} if second % 3 else {}
        follower._tell(troubles, NOW + second)
    assert 5 <= len(said) <= 7, said


def test_a_trouble_ends_once_it_is_over_for_a_while() -> None:
    follower, said = troubled()
    follower._tell({ROUTER.address: "it does not answer"}, NOW)
    for second in range(1, 20):
        follower._tell({}, NOW + second)
    assert said == ["it does not answer", f"neighbour {ROUTER.address} answers as it should again"]
    follower._tell({ROUTER.address: "it does not answer"}, NOW + 20)
    assert said[2:] == ["it does not answer"], "one that has ended is said at once"


def test_messages_that_come_without_end_do_not_keep_the_agent_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    there, other = socket.socketpair()
    other.send(b"never read")
    table = SimpleNamespace(socket=there, ask_for_all=lambda: None, read=list, close=there.close)
    asker = SimpleNamespace(port=7, is_current=lambda: True, ask=lambda _: None, close=lambda: None)
    monkeypatch.setattr(neighbor_follower, "NeighborTable", lambda: table)
    monkeypatch.setattr(neighbor_follower, "Asker", lambda _: asker)
    follower, _ = troubled()
    known = SimpleNamespace(spec=SPEC, bridge="br-dns"), Overlay()
    woken: list[float] = []

    async def test() -> None:
        wake = follower._wake.set
        monkeypatch.setattr(follower._wake, "set", lambda: [woken.append(0), wake()])
        with suppress(TimeoutError):
            await asyncio.wait_for(follower.run(None, lambda: known), 0.5)  # type: ignore[arg-type, return-value]

    asyncio.run(test())
    assert 2 <= len(woken) < 100, len(woken)


# What the kernel tells


def message(kind: int, state: int, address: str, mac: str, port: int = 7) -> bytes:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    parts = [(1, socket.inet_pton(family, address))] + ([(2, bytes.fromhex(mac.replace(":", "")))] if mac else [])
    body = struct.pack("=BxxxiHBB", family, port, state, 0, 1)
    for number, value in parts:
        body += struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def test_messages_of_the_kernel_are_read() -> None:
    data = message(28, 2, "198.51.100.1", A) + message(28, 4, "fe80::1", B) + message(28, 1, "192.0.2.11", "")
    data += message(29, 2, "192.0.2.12", A) + message(28, 0x20, "192.0.2.13", A) + message(3, 0, "192.0.2.1", A)
    found = [(e.port, e.address, e.mac, e.fresh) for e in parse_messages(data)]
    assert found == [
        (7, "198.51.100.1", A, True),
        (7, "fe80::1", B, False),
        (7, "192.0.2.11", "", False),
        (7, "192.0.2.12", "", False),
        (7, "192.0.2.13", "", False),
    ]


@given(st.binary(max_size=200))
def test_garbage_instead_of_messages_is_no_error(data: bytes) -> None:
    list(parse_messages(data))


def test_the_kernel_is_asked_again_for_what_it_had_to_drop() -> None:
    class Full:
        """A socket that has overrun once, and then has messages without end."""

        asked, read = 0, 0

        def recv(self, _: int) -> bytes:
            self.read += 1
            if self.read == 1:
                raise OSError(errno.ENOBUFS, "No buffer space available")
            return message(28, 2, "198.51.100.1", A)

        def send(self, _: bytes) -> None:
            self.asked += 1

    table = NeighborTable.__new__(NeighborTable)
    table.socket = full = Full()  # type: ignore[assignment]
    assert len(table.read()) < 1000, "a flood is read in parts"
    assert full.asked == 1


# How it asks


def test_the_port_is_set_up_for_a_router_of_the_other_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link-local address is asked by the port's own, though the spec gives the port none of IPv6."""
    text = changed((', "2001:db8:53::9/64"]', "]"), text=TEXT)
    text = re.sub(r'ipv6: "2001:db8:53::1\d", |, "2001:db8:(53::1|f::53)"', "", text)
    written: list[str] = []
    commands: list[tuple[str, str]] = []
    monkeypatch.setattr(probe_port, "_write", lambda setting, _: written.append(setting))
    monkeypatch.setattr(probe_port, "_ip", lambda command, lines="": commands.append((command, lines)) or "")
    probe_port.set_up_probe_port(load(text).spec)
    assert {"ipv6/conf/probe0/disable_ipv6", "ipv6/conf/probe0/accept_ra"} <= {*written}
    routes = [lines.splitlines() for command, lines in commands if "-batch" in command]
    assert routes == [
        [f"route replace {a} dev probe0 scope link table 5353" for a in (ROUTER.address, "192.0.2.11", "192.0.2.12")]
    ]


# What the record has


def overlay(**macs: str) -> Overlay:
    addresses = {"router": "198.51.100.1", "router6": "fe80::1", "ns1": "192.0.2.11", "ns2": "192.0.2.12"}
    return Overlay(
        neighbors=tuple(FoundNeighbor(addresses[k], mac, "2026-01-01T00:00:00+00:00") for k, mac in macs.items())
    )


def test_an_overlay_is_recorded_with_its_neighbours() -> None:
    for each in (NO_OVERLAY, overlay(), overlay(router=A)):
        assert Overlay.from_json(each.to_json()) == each
    assert NO_OVERLAY.to_json() == "[]"
    markers = {marker("", each) for each in (NO_OVERLAY, overlay(), overlay(router=A), overlay(router=B))}
    assert len(markers) == 4, "else a change that was cut off could not be settled"


@pytest.mark.parametrize(
    "bad", ['[["192.0.2.1","x","",""]]', '[["192.0.2.1"]]', "7", f'[["192.0.2.1","{A}","2026-01-01",""]]']
)
def test_damaged_neighbours_are_an_error(bad: str) -> None:
    with pytest.raises(ValueError, match=r"neighbour|MAC"):
        Overlay.from_json(f'[{{"neighbors":{bad}}}]')


def test_entries_of_maintenance_leave_neighbours_alone() -> None:
    found = overlay(router=A)
    assert found.without([]).neighbors == found.put_by_start([]).neighbors == found.neighbors


def test_a_move_keeps_the_mac_address_before() -> None:
    found = with_found(overlay(router=A, ns1=A), ["198.51.100.1", "fe80::1", "192.0.2.11"], {"198.51.100.1": B}, TIME)
    assert [(n.address, n.mac, n.before) for n in found] == [("198.51.100.1", B, A), ("192.0.2.11", A, "")]
    words = list(describe_neighbors(SPEC, found))
    assert "next hop fe80::1 of uplink p0" in words[0] and f"198.51.100.1 of uplink p0 is at {B}" in words[1]


def test_fixed_mac_addresses_hold_until_the_neighbour_answers() -> None:
    was = changed(('{next_hop: {ipv4: 198.51.100.1, ipv6: "fe80::1"}}', f"{{next_hop: '{A}'}}"), text=TEXT)
    was = was.replace('::11", mac: auto', f"::11\", mac: '{B}'")
    assert macs_given(load(was).spec, SPEC) == {"198.51.100.1": A, "fe80::1": A, "192.0.2.11": B}


def test_a_move_is_a_change_in_words() -> None:
    assert begun_and_ended(overlay(router=A), overlay(router=B, ns1=A)) == [
        f"198.51.100.1 moved from {A} to {B}",
        f"192.0.2.11 is at {A}",
    ]


# What the plan makes of it


def test_the_digest_does_not_depend_on_what_is_found() -> None:
    loaded = load(TEXT)
    assert build_plan(loaded).digest == build_plan(loaded, overlay(router=A)).digest == loaded.digest


def test_flows_have_what_was_found_and_nothing_for_the_rest() -> None:
    loaded = load(TEXT)
    plan = build_plan(loaded, overlay(router=A, ns2=B))
    hops = [(row.protocol, row.next_hop) for row in plan.rows.of(EgressRow) if row.next_hop]
    assert hops == [("ip", A)], "IPv6 has no router yet"
    assert {row.mac for row in plan.rows.of(ForwardRow)} == {B, "02:00:00:00:01:13"}, "ns1 has no MAC address yet"
    assert [row.mac for row in plan.rows.of(RouterRow)] == [A]
    both = build_plan(loaded, overlay(router=A, router6=A))
    assert [(row.protocol, row.next_hop) for row in both.rows.of(EgressRow) if row.next_hop] == [("", A)]
    none = build_plan(loaded, overlay())
    assert not none.rows.of(RouterRow) and not any(row.next_hop for row in none.rows.of(EgressRow))


def test_without_a_switch_stand_ins_are_used() -> None:
    macs = {row.mac for row in build_plan(load(TEXT)).rows.of(ForwardRow)}
    assert macs == {stand_in("192.0.2.11"), stand_in("192.0.2.12"), "02:00:00:00:01:13"}
