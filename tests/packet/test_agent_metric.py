# SPDX-License-Identifier: Apache-2.0
"""Pools whose load the agent balances by what servers report, on a real switch: pushed, scraped, and by their probes."""

from __future__ import annotations

import http.client
import http.server
import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dnsteer.slots.owners import owners_of
from dnsteer.status.record import read_record
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import Switch

EXPECTED = [*SLOW, "connection dropped", "Broken pipe"]
READY = "state 1"
PUSH = "{push: true, allow: [127.0.0.0/8]}"
EVEN = "    balance: {by: metric, source: SOURCE, interval: 200ms, half_life: 0, moves: 1000, change: 20%}\n"
SPILL = (
    "    balance: {policy: spill, source: SOURCE, to: ns3, above: 80%, interval: 200ms, half_life: 0, moves: 1000}\n"
)


def spec(balance: str, source: str) -> str:
    text = FARM.replace("    slots: 32\n", f"    slots: 32\n{balance.replace('SOURCE', source)}", 1)
    if "spill" in balance:
        lines = [f"{line.rstrip()[:-1]}, weight: 0}}" if "name: ns3," in line else line for line in text.splitlines()]
        text = "\n".join(lines) + "\n"
    return text


def slots_of(switch: Switch) -> Counter[str]:
    """How many slots of the pool farm each backend has, by the record."""
    found = read_record(switch.database, None, 1)
    assert found.state is not None and found.overlay is not None
    members = next(m for m in found.state.members if m.pool == "farm")
    return Counter(owners_of(members, found.overlay.of("farm")))


@contextmanager
def applied(switch: Switch, folder: Path, text: str, *arguments: str) -> Iterator[Agent]:
    """The spec applied, with an agent."""
    fresh(switch)
    done = on(switch)("apply", spec_file(folder, text), "--yes")
    assert done.code == 0, done.err
    with agent(switch, folder, READY, "agent", *arguments) as running:
        yield running
    assert on(switch)("verify", folder / "spec.yaml").code == 0


def sender(running: Agent) -> Callable[[str, object], int]:
    """What sends the load of a backend, and returns the status of the answer."""
    running.waits_for("loads of backends at http://")
    address = running.said().partition("loads of backends at http://")[2].partition("/")[0]

    def send(backend: str, value: object) -> int:
        connection = http.client.HTTPConnection(address, timeout=30)
        try:
            connection.request("POST", f"/load/{backend}", body=str(value))
            return connection.getresponse().status
        finally:
            connection.close()

    return send


def test_slots_follow_what_servers_push(shared: Switch, tmp_path: Path) -> None:
    options = "--push", "127.0.0.1:0", "--metrics", "127.0.0.1:0"
    with applied(shared, tmp_path, spec(EVEN, PUSH), *options) as running:
        send, before = sender(running), slots_of(shared)

        def ns1_is_slow() -> bool:  # each slot costs it four times as much
            now = slots_of(shared)
            for name, cost in (("ns1", 4), ("ns2", 1), ("ns3", 1)):
                assert send(f"farm/{name}", now[name] * cost / 32) == 204
            return now["ns1"] <= 4

        assert before["ns1"] == 8
        wait(ns1_is_slow, running.said)
        for value, status in (("nan", 400), ("inf", 400), ("-1", 400), ("1e308", 400), ("much", 400)):
            assert send("farm/ns1", value) == status
        assert send("farm/other", 1) == send("other/ns1", 1) == 403
        running.waits_for("'other'/'ns1' from 127.0.0.1 was refused")
        assert any(entry["kind"] == "balance" and "by its metric" in entry["note"] for entry in overlay(shared))
        address = running.said().partition("metrics at http://")[2].partition("/")[0]

        def metric_is_told() -> bool:
            now = slots_of(shared)
            pushed = {name: now[name] * cost / 32 for name, cost in (("ns1", 4), ("ns2", 1), ("ns3", 1))}
            for name, load in pushed.items():
                assert send(f"farm/{name}", load) == 204
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
                found = re.findall(r'^dnsteer_backend_metric\{.*backend="(\w+)".*\} (\S+)$', page.read().decode(), re.M)
            return {name: float(value) for name, value in found} == pytest.approx(pushed, abs=0.1)

        wait(metric_is_told, running.said)
        assert on(shared)("drain", "farm/ns2", "--yes").code == 0
        assert slots_of(shared)["ns2"] == 0


def test_a_busy_server_spills_and_gets_its_slots_back(shared: Switch, tmp_path: Path) -> None:
    with applied(shared, tmp_path, spec(SPILL, PUSH), "--push", "127.0.0.1:0") as running:
        send, before = sender(running), slots_of(shared)
        assert before["ns3"] == 0

        def at(load: float, until: Callable[[Counter[str]], bool]) -> None:
            """Servers bear *load* as long as they have all their slots, and less with fewer."""

            def reached() -> bool:
                now = slots_of(shared)
                for name in ("ns1", "ns2"):
                    assert send(f"farm/{name}", load * now[name] / before[name]) == 204
                assert send("farm/ns3", now["ns3"] / 32) == 204
                return until(now)

            wait(reached, running.said)

        def spilt_as_said() -> bool:
            said = " ".join(on(shared)("status", "--no-rates").out.split())
            return f"farm/ns3 spill {slots_of(shared)['ns3']}" in said

        at(1.2, lambda now: all(1.2 * now[name] / before[name] <= 0.801 for name in ("ns1", "ns2")))
        wait(spilt_as_said, running.said)  # a step may have been on its way, decided by the loads before
        spilt = slots_of(shared)["ns3"]
        assert 32 / 3 <= spilt <= 16, spilt
        assert on(shared)("down", "farm/ns3", "--yes").code == 0
        assert slots_of(shared) == before, "who is out gets nothing"
        assert on(shared)("up", "farm/ns3", "--yes").code == 0
        assert slots_of(shared)["ns3"] == spilt
        at(0.3, lambda now: now == before)
        assert not overlay(shared)


def test_an_invalid_metric_moves_no_slot(shared: Switch, tmp_path: Path) -> None:
    pages = {"page": "busy 0.9\n"}

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            backend = self.path.rpartition("/")[2]
            self.wfile.write((pages.get(backend) or pages["page"]).encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = f'{{prometheus: "http://127.0.0.1:{server.server_port}/{{pool}}/{{backend}}", metric: busy}}'
        with applied(shared, tmp_path, spec(EVEN, source)) as running:
            before = slots_of(shared)
            for number, (text, why) in enumerate(
                (("busy NaN", "nan is not finite"), ("<html>", "no busy"), ("", "no busy"))
            ):
                pages["ns1"] = f"{text}\n"
                wait(lambda n=number: running.said().count("bears is not known: ") > n, running.said)  # type: ignore[misc]
                assert running.said().rpartition("what farm/ns1 bears is not known: ")[2].startswith(why)
                pages["ns1"] = "busy 0.9\n"
                wait(lambda n=number: running.said().count("is known again") > n, running.said)  # type: ignore[misc]
            assert slots_of(shared) == before
            pages["ns1"] = "busy 1.8\n"
            wait(lambda: slots_of(shared)["ns1"] < before["ns1"], running.said)
        server.shutdown()


@pytest.mark.parametrize("change", ["    balance: {by: slots}\n", ""])
def test_spilled_slots_return_when_the_policy_is_removed(shared: Switch, tmp_path: Path, change: str) -> None:
    text = spec(SPILL, PUSH)
    with applied(shared, tmp_path, text, "--push", "127.0.0.1:0") as running:
        send, before = sender(running), slots_of(shared)

        def spills() -> bool:
            assert send("farm/ns1", 3) == 204
            return slots_of(shared)["ns3"] > 0

        wait(spills, running.said)
        line = next(line for line in text.splitlines() if "policy: spill" in line)
        done = on(shared)("apply", spec_file(tmp_path, text.replace(f"{line}\n", change)), "--yes")
        assert done.code == 0, done.err
        assert slots_of(shared) == before
        assert "spill of farm/ns3 ends" in done.out


def test_slots_leave_the_backend_with_slow_probe_answers(shared: Switch, tmp_path: Path) -> None:
    for name, seconds in (("ns1", "0.6"), ("ns2", "0.02"), ("ns3", "0.02")):
        (tmp_path / name).write_text(seconds)
    command = f"[sh, -c, 'sleep $(cat {tmp_path}/{{backend}})']"
    health = f"    health: {{check: command, command: {command}, interval: 1s, timeout: 990ms}}\n"
    text = spec(EVEN, "probe-latency").replace("    slots: 32\n", f"    slots: 32\n{health}", 1)
    with applied(shared, tmp_path, text) as running:
        wait(lambda: slots_of(shared)["ns1"] <= 5, running.said)
        assert any("ns1 is at 0." in entry["note"] for entry in overlay(shared))
        (tmp_path / "ns1").write_text("0.02")
        (tmp_path / "ns2").write_text("0.7")
        running.waits_for("ns2 is at 0.")  # and slots leave it, though it may have got some more before
