# SPDX-License-Identifier: Apache-2.0
"""A console for tests with made-up data: an applied spec, maintenance, readings; without a switch."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from dnsteer.checks.load import check_document
from dnsteer.console.app import console_application
from dnsteer.console.change_log import ConsoleRecorder
from dnsteer.console.live import LivePages
from dnsteer.console.page_content import ConsolePages
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.plan.build import build_plan
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.slots.membership import Membership
from dnsteer.spec.read import parse_document
from dnsteer.switch.state import OVERLAY_KEY, PENDING_KEY, STATE_KEY, AppliedState, BridgeRecord

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
HOST = "127.0.0.1"
SCRIPT = "<script>alert(1)</script>"
SPEC = """\
apiVersion: dnsteer/v1
switch: {name: dpu-1, flavor: ovs-netdev, bridge: br-dns, mac: 02:00:00:00:00:53, uplinks: {p0: }}
pools:
  farm:
    slots: 32
    health: {check: dns, query: {name: example.org}}
    backends:
      - {name: ns1, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}
      - {name: ns2, ipv4: 192.0.2.12, ipv6: '2001:db8::12', mac: '02:00:00:00:01:02', weight: 2}
      - {name: ns3, ipv4: 192.0.2.13, ipv6: '2001:db8::13', mac: '02:00:00:00:01:03'}
  spare:
    slots: 16
    backends: [{name: sp1, ipv4: 192.0.2.21, ipv6: '2001:db8::21', mac: '02:00:00:00:02:01'}]
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: farm}
  other: {addresses: [192.0.2.54], services: [dns, dot], pool: spare}
"""


def known(text: str = SPEC, number: int = 1, **more: Any) -> AppliedBridge:
    """A state that is applied."""
    loaded = check_document(parse_document("farm.yaml", text))
    state = AppliedState(
        "farm.yaml",
        text,
        loaded.digest,
        "0.1.0",
        START.isoformat(),
        "alice@dpu-1",
        tuple(build_plan(loaded).members),
        {name: vip.pool for name, vip in loaded.spec.vips.items()},
        number=number,
    )
    return AppliedBridge("br-dns", replace(state, **more), loaded.spec)


def renamed(of: AppliedBridge, old: str, new: str) -> AppliedBridge:
    """The same with another name of a backend, as only a record that was changed by hand can have it."""

    def other(pool: Membership) -> Membership:
        return pool._replace(members=tuple(m._replace(name=new if m.name == old else m.name) for m in pool.members))

    return replace(of, state=replace(of.state, members=tuple(map(other, of.state.members))))


def entry(backend: str, kind: Any = "drain", *, pool: str = "farm", **more: Any) -> Maintenance:
    """Maintenance by alice, since the start."""
    return Maintenance(pool, backend, kind, START.isoformat(), "alice@dpu-1", **more)


def record(number: int, *entries: Maintenance, waits: bool = False, pending: bool = False) -> BridgeRecord:
    """The record of the bridge."""
    ids = {STATE_KEY: str(number), OVERLAY_KEY: Overlay(entries).to_json(), **({PENDING_KEY: "{}"} if pending else {})}
    return BridgeRecord("u", "v", "br-dns", ids, {}, "s", "dpu-1", waits)


class Console:
    """A console with a clock of its own; its recorder is told what an agent would tell."""

    def __init__(
        self,
        of: AppliedBridge | None = None,
        *entries: Maintenance,
        host: str = HOST,
        say: Callable[[str], None] = lambda _: None,
        **more: Any,
    ) -> None:
        self.time = START
        self.seconds = 0.0
        self.packets: dict[tuple[str, str], float] = {}
        self.up, self.as_recorded = True, True
        self.recorder = ConsoleRecorder(lambda: self.time)
        self.recorder.claim_changed("br-dns" if of else "", held=True)
        if of is not None:
            checks = [("farm", f"ns{n}", "dns") for n in (1, 2, 3)]
            self.recorder.adopted(of, checks)
            self.recorder.followed(record(of.state.number, *entries, **more))
        self.denied: dict[str, float] = {}
        self.live = LivePages(self.recorder, self, TargetSwitch("unix:/nowhere", timeout=0.1), ConsolePages(), log=say)
        self.app = console_application(self.live, self._scraped, host)

    async def _scraped(self, accept: str) -> tuple[bytes, str]:
        return b"# metrics\n", "text/plain"

    async def reading(self) -> tuple[list[Metric], float]:
        """As the pages of /metrics have it."""
        return self._metrics(), self.seconds

    def _metrics(self) -> list[Metric]:
        """Packets so far, by VIP and service."""
        services = CounterMetricFamily("dnsteer_service_packets", "", labels=("vip", "service", "pool"))
        for (vip, service), n in self.packets.items():
            services.add_metric((vip, service, ""), n)
        denied = CounterMetricFamily("dnsteer_denied_packets", "", labels=("list",))
        for title, n in self.denied.items():
            denied.add_metric((title,), n)
        found: list[Metric] = [services, denied, GaugeMetricFamily("dnsteer_switch_up", "", value=self.up)]
        if self.as_recorded is not None:
            found.append(GaugeMetricFamily("dnsteer_tables_as_recorded", "", value=self.as_recorded))
        return found

    def reads(self, seconds: float = 2.0, **packets: float) -> None:
        """Read counters that have grown by so many packets a second of DNS by UDP."""
        self.seconds += seconds
        for vip, rate in packets.items():
            self.packets[vip, "53/udp"] = self.packets.get((vip, "53/udp"), 0.0) + rate * seconds
        self.live._history.read(self._metrics(), self.seconds)

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.time += timedelta(seconds=seconds)

    def ask(self, path: str, method: str = "GET", **headers: str) -> httpx.Response:
        """The answer to a request."""

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}:9853") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(asked())

    def get(self, path: str = "/") -> str:
        """A page."""
        answer = self.ask(path)
        assert answer.status_code == 200, answer.text
        return answer.text


def words_of(page: str) -> str:
    """What a page says, without markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
