# SPDX-License-Identifier: Apache-2.0
"""Connections that are kept, counted on a running switch: in status, metrics and top, and the end of a drain."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from dnsteer.cli.output import Exit
from dnsteer.spec.model.tracking import ZONE
from tests.packet.agents import agent, wait
from tests.packet.command import SLOW, on, spec_file
from tests.packet.scraping import METRICS, address, scrape, value
from tests.packet.switches import SMALL, Running, Switch, unexpected

KEEP = SMALL.replace("pool: farm}", "pool: farm, keep: connections}")
DATAPATH = "netdev@ovs-netdev"
EXPECTED = [*SLOW, "Connection reset by peer", "Broken pipe", "receive error", "connection dropped"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running() as private:
        private.expected = EXPECTED
        file = spec_file(tmp_path_factory.mktemp("kept"), KEEP)
        done = on(private)("apply", file, "--yes", "--grace", "0")
        assert done.code == 0, done.err
        yield private
        found = unexpected(private)
    assert found == []


def put(switch: Switch, flags: str, ports: Sequence[int]) -> None:
    """A segment of a connection from each of these ports."""
    head = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / IP(src="203.0.113.9", dst="192.0.2.53")
    frames = [bytes(head / TCP(sport=port, dport=53, flags=flags)).hex() for port in ports]
    switch.appctl("netdev-dummy/receive", "p0", *frames)


def known(switch: Switch) -> str:
    return switch.appctl("dpctl/dump-conntrack", DATAPATH, f"zone={ZONE}")


@pytest.fixture
def ports(running: Running) -> Iterator[list[int]]:
    """A connection of each slot, from these ports: 5 of ns1, 11 of ns2; no others are known."""
    running.appctl("dpctl/flush-conntrack", f"zone={ZONE}")
    chosen = list(range(40_000, 40_032, 2))
    put(running, "S", chosen)
    wait(lambda: known(running).count("tcp,") == 16, lambda: known(running))
    yield chosen
    on(running)("undrain", "farm/ns2")


def end(switch: Switch, ports: Sequence[int], flags: str = "FA") -> None:
    """End the connections, and wait until the tracker has seen it."""
    put(switch, flags, ports)
    state = {"FA": "CLOSING", "R": "TIME_WAIT"}[flags]
    wait(
        lambda: all(re.search(rf"sport={port},dport=53.*state={state}", known(switch)) for port in ports),
        lambda: known(switch),
    )


def counts(found: dict[str, object]) -> list[int]:
    (pool,) = found["pools"]  # type: ignore[misc]
    return [b["connections"] for b in pool["backends"]]


def test_status_counts_open_connections_by_backend(running: Running, ports: list[int]) -> None:
    end(running, ports[:1])
    end(running, ports[1:2], "R")
    done = on(running)("status", "--json", "--no-rates")
    found = done.json
    assert sum(counts(found)) == 14 and min(counts(found)) >= 3, counts(found)
    about = found["connections"]
    assert (about["entries"], about["ended"], about["limit"], about["zone"], about["over"]) == (
        16,
        2,
        100_000,
        ZONE,
        None,
    )
    assert 0 <= about["age"] < 10
    said = on(running)("status", "--no-rates").out
    assert re.search(r"open TCP +16 \(2 of them ended\) of 100,000, zone 53000; counted \d s ago", said), said
    assert re.search(rf"ns2 .* {counts(found)[1]} ", said), said


def test_a_drain_waits_for_the_last_connection_and_says_how_many_are_left(running: Running, ports: list[int]) -> None:
    do = on(running)
    left = counts(do("status", "--json", "--no-rates").json)[1]
    done = do("drain", "farm/ns2", "--wait", "0.1s", "--yes", "--json")
    assert (done.code, done.json["quiet"]) == (Exit.ATTENTION, False)
    assert done.json["busy"] == {"farm/ns2": {"packets_per_second": 0.0, "connections": left}}
    argv = [sys.executable, "-m", "dnsteer", "drain", "farm/ns2", "--wait", "60s", "--db", running.database]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and f"waiting: farm/ns2: {left} open" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and "farm/ns2 is drained; nothing waits" in said
    assert do("status", "farm/ns2", "--json", "--no-rates").json["pools"][0]["backends"][0]["state"] == "drained"
    end(running, ports)
    done = do("drain", "farm/ns2", "--wait", "30s")
    assert (done.code, "no packet goes there any more" in done.err) == (0, True), done.err


def test_an_agent_tells_all_and_says_when_a_drain_has_ended(running: Running, ports: list[int], tmp_path: Path) -> None:
    do = on(running)
    with agent(running, tmp_path, "metrics at", "agent", *METRICS) as it:
        at = address(it)
        labels = {"pool": "farm", "backend": "ns2"}
        wait(lambda: value(scrape(at), "dnsteer_backend_connections", **labels), it.said)
        found = scrape(at)
        assert value(found, "dnsteer_tracked_connections", zone=str(ZONE)) == 16
        assert value(found, "dnsteer_tracked_connections_limit", zone=str(ZONE)) == 100_000
        shown = do("status", "--json", "--no-rates").json
        assert counts(shown)[1] == value(found, "dnsteer_backend_connections", **labels)
        running.appctl("dpctl/flush-conntrack", f"zone={ZONE}")
        assert counts(do("status", "--json", "--no-rates").json) == counts(shown), "one count is for all"
        put(running, "S", ports)
        assert do("drain", "farm/ns2", "--yes").code == 0
        assert "no connections left" not in it.said()
        end(running, ports)
        it.waits_for("backend ns2 of pool farm: drained, no connections left")
        wait(lambda: value(scrape(at), "dnsteer_backend_connections", **labels) == 0, it.said)
        assert do("drain", "farm/ns2", "--wait", "30s").code == 0
        assert it.said().count("no connections left") == 1
