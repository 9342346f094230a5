# SPDX-License-Identifier: Apache-2.0
"""NSD with long TCP connections, with `dsr` and `ct-nat`: who answers while it is drained, and what breaks with `down`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bench.change.ports import source_ports
from bench.change.tcp import Connections

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.cli.output import Exit
from dnsteer.lab import names
from dnsteer.lab.command import program_environment
from dnsteer.spec.read import parse_document
from tests.system.lab_specs import apply_in_lab

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
SLOTS = 16
VIPS = {"farm": "198.51.100.1", "behind": "198.51.100.2"}
SPEC = f"""
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-kept
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1]
  uplinks:
    p0: {{next_hop: 02:00:00:00:00:fe}}
  ports:
    vf0:
    vf1:
pools:
  farm:
    slots: {SLOTS}
    backends:
      - {{name: a, ipv4: 10.53.0.11, mac: 02:00:00:00:05:01, port: vf0}}
      - {{name: b, ipv4: 10.53.0.12, mac: 02:00:00:00:05:02, port: vf1}}
  behind:
    slots: {SLOTS}
    backends:
      - {{name: a, ipv4: 10.53.0.21, mac: 02:00:00:00:05:03, port: vf0}}
      - {{name: b, ipv4: 10.53.0.22, mac: 02:00:00:00:05:04, port: vf1}}
vips:
  direct: {{addresses: [{VIPS["farm"]}], services: [dns], pool: farm, keep: connections}}
  translated: {{addresses: [{VIPS["behind"]}], services: [dns], pool: behind, forwarding: ct-nat}}
"""


@pytest.fixture(scope="module")
def state(no_lab: None) -> Iterator[lab.LabState]:
    loaded = check_document(parse_document("spec.yaml", SPEC))
    try:
        lab.up(loaded.spec)
        apply_in_lab(loaded)
        found = lab.status()
        assert found is not None
        yield found
    finally:
        lab.down()


def dnsteer(*words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "dnsteer", *words, "--json", "--db", names.db_target()]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=program_environment())


def result(verb: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    said, _ = verb.communicate(timeout=30)
    return verb.returncode, json.loads(said)


def answering(held: Connections, dead: dict[int, str] | None = None) -> dict[int, str]:
    """The server that answers each open connection; *dead* are those that break."""
    found = held.check()
    assert found.dead == (dead or {})
    return {port: str(server).rpartition(".")[2] for port, server in found.backends.items()}


@contextmanager
def connections(state: lab.LabState, pool: str) -> Iterator[tuple[Connections, dict[int, str]]]:
    """A connection from two ports of each slot, and the server that answers each."""
    with Connections(state, VIPS[pool], SLOTS, ports=source_ports(2 * SLOTS, SLOTS)) as found:
        at = answering(found)
        assert set(at.values()) == {"a", "b"}
        yield found, at


@pytest.mark.parametrize("pool", VIPS)
def test_a_drain_waits_for_the_clients_of_a_server(state: lab.LabState, pool: str) -> None:
    name = f"{pool}/a"
    try:
        with connections(state, pool) as (held, at):
            drain = dnsteer("drain", name, "--wait", "3s")
            looks = 0
            while drain.poll() is None:
                assert answering(held) == at  # the drained server goes on
                looks += 1
                time.sleep(0.2)
            code, said = result(drain)
            assert (code, said["quiet"], list(said["busy"])) == (Exit.ATTENTION, False, [name]) and looks > 5
            assert said["busy"][name]["connections"] == list(at.values()).count("a") == SLOTS
            drain = dnsteer("drain", name, "--wait", "20s")
            time.sleep(1)
            assert drain.poll() is None
            held.end()
            assert result(drain)[0] == Exit.OK
            assert not held.reopen() and set(answering(held).values()) == {"b"}
    finally:
        dnsteer("undrain", name).wait(30)


@pytest.mark.parametrize("pool", VIPS)
def test_down_resets_the_clients_of_a_server_by_another_one(state: lab.LabState, pool: str) -> None:
    name = f"{pool}/b"
    try:
        with connections(state, pool) as (held, at):
            assert result(dnsteer("down", name))[0] == Exit.OK
            left = answering(held, {port: "reset" for port, server in at.items() if server == "b"})
            assert left == {port: "a" for port, server in at.items() if server == "a"}
            assert not held.reopen() and set(answering(held).values()) == {"a"}
    finally:
        dnsteer("up", name).wait(30)
