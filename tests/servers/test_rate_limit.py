# SPDX-License-Identifier: Apache-2.0
"""NSD's limit of answers to one network: clients in the probe's network take a server out that works."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import dns.message
import pytest

from dnsteer.lab.command import run
from tests.servers import network
from tests.servers.asking import PATIENCE, ask
from tests.servers.authoritative import Nsd
from tests.servers.matrix import CHECKS, Bench
from tests.servers.server import Setting
from tests.servers.zones import ZONE

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and name servers"), pytest.mark.slow]
TRUSTED = Setting(more=("/etc/nsd/nsd.conf.d/example.conf", "    rrl-whitelist: positive\n"))
CLIENT, RATE = "10.53.0.77", 1000


@contextmanager
def queries() -> Iterator[None]:
    """RATE queries a second of a client in the probe's network, for what the check asks for."""
    run(["ip", "-n", network.PROBE, "address", "replace", f"{CLIENT}/24", "dev", "eth0"])
    stop = threading.Event()

    def send() -> None:
        query = dns.message.make_query(ZONE, "SOA").to_wire()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.bind((CLIENT, 0))
            client.connect((network.ADDRESS, 53))
            while not stop.wait(0.01):
                for _ in range(RATE // 100):
                    client.send(query)

    thread = threading.Thread(target=network.inside, args=(network.PROBE, send))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def said() -> str:
    return ask({"": CHECKS["authoritative"]})[""]


def test_rate_limited_probes_take_a_server_out(bench: Bench) -> None:
    with bench.running(Nsd), queries():
        deadline = time.monotonic() + PATIENCE
        while not said():  # the limit counts for a second before it holds
            assert time.monotonic() < deadline, "no probe was limited"
        network.probe_from(network.FAR)
        try:
            assert [said() for _ in range(10)] == [""] * 10, "a probe of another network is not"
        finally:
            network.probe_from(network.NEAR)


def test_the_limit_for_trusted_answers_keeps_the_server_in(bench: Bench) -> None:
    with bench.running(Nsd, TRUSTED), queries():
        ends = time.monotonic() + 3
        while time.monotonic() < ends:
            assert said() == ""
