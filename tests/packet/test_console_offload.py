# SPDX-License-Identifier: Apache-2.0
"""The page Offload of a real agent on a private switch: what `verify --offload` and `capacity` say."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.l2 import ARP, Ether

from dnsteer.checks.load import check_document
from dnsteer.cli.prediction import predict
from dnsteer.console import offload_page
from dnsteer.console.offload_page import MAX_INTERVAL, MIN_INTERVAL, OffloadPoller, OffloadSnapshot
from dnsteer.console.prediction import Prediction
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.lint.masks.bound import mask_bound
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.plan.build import build_plan
from dnsteer.spec.model.lint import MASKS
from dnsteer.spec.read import parse_document
from tests.packet import agents
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import SLOW, fresh, on, run, spec_file
from tests.packet.scraping import get, get_read, shows
from tests.packet.status_cases import insert_by_start
from tests.packet.switches import BRIDGE, LARGE, SMALL, Switch, spec_of
from tests.unit.console_cases import words_of

EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]


@pytest.fixture(scope="module")
def spec(shared: Switch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec that the module's switch has."""
    fresh(shared)
    file = spec_file(tmp_path_factory.mktemp("offload"), LARGE)
    assert on(shared)("apply", file, "--yes").code == 0
    return file


@pytest.fixture(scope="module")
def console(shared: Switch, spec: Path) -> Iterator[tuple[Agent, str]]:
    """An agent beside it, and where it serves its console."""
    with agent(shared, spec.parent, "pools with health checks", "agent", "--console", "127.0.0.1:0") as running:
        found = re.search(r"console at (http://\S+)/\n", running.said())
        assert found is not None
        wait(lambda: shows(found[1], "straight"), running.said)
        yield running, found[1]


def number(said: str, name: str) -> int:
    """The number that stands after a name."""
    found = re.search(rf"{re.escape(name)} ([\d,]+)", said)
    assert found is not None, name
    return int(found[1].replace(",", ""))


def send(switch: Switch) -> None:
    """Queries, and a packet that ovs-vswitchd itself must answer."""
    insert_by_start(switch, "198.51.100.54", udp=40, tcp=10)
    asks = Ether(src="02:00:00:00:00:fe", dst="ff:ff:ff:ff:ff:ff") / ARP(
        hwsrc="02:00:00:00:00:fe", psrc="10.53.0.9", pdst="10.53.0.1"
    )
    switch.appctl("netdev-dummy/receive", "p0", bytes(asks).hex())


def test_the_page_shows_what_verify_offload_says(shared: Switch, spec: Path, console: tuple[Agent, str]) -> None:
    send(shared)
    page = get_read(f"{console[1]}/offload")
    verified = on(shared)("verify", spec, "--offload", "--flavor", "ovs-doca", "--json").json
    said = words_of(page)
    assert "Nothing is offloaded here. The flavor ovs-netdev forwards in software." in said
    assert "by the profile ovs-doca-3, which dnsteer lint judges by as well" in said
    assert number(said, "In hardware") == verified["flows"]["yes"] == 0
    assert number(said, "Not in hardware") == number(said, "Flows") == verified["flows"]["no"] > 20
    assert number(said, "Would be offloaded") == len(verified["missing"])
    assert (
        number(said, "Would not") + number(said, "Not published")
        == verified["flows"]["no"] - len(verified["missing"])
        > 0
    )
    rows = [words_of(row) for row in re.findall(r'<tr role="row"><th scope="row" role="rowheader">(.*?)</th>', page)]
    assert len(rows) == verified["flows"]["no"]
    owners = [o["owners"][0] for o in verified["missing"]]
    udp = sum(o["service"] == "udp/53" for o in owners)
    assert rows.count("queries of straight over ipv4 (udp/53)") == udp > 10
    assert "packets of no service" in rows, "the ARP request"
    assert "userspace" in said or "arp" in said
    assert 'class="word bad">missing' not in page, "a flavor without hardware misses nothing"
    assert "None of it was measured on that card by dnsteer" in said and "lib/dpdk-offload-doca.c" in said


def test_masks_load_and_prediction(console: tuple[Agent, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "PATIENCE", 120)  # it is computed with a low priority
    url = f"{console[1]}/offload"
    bound = mask_bound(build_plan(spec_of(LARGE))).total
    wait(lambda: "being computed" not in get(url)[0], lambda: get(url)[0])
    said = words_of(get_read(url))
    assert f"any traffic can make at most {bound} of this spec's tables (computed), and its budget is {MASKS}" in said
    assert "No capacity is predicted: the spec does not say on which card it runs: switch.hardware" in said
    assert re.search(r"Megaflows \d+ of [\d,]+ \([\d.]+ %\), the limit that Open vSwitch sets itself now", said)
    assert re.search(r"Read 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC; again after 10 s", said)


def test_datapath_flows_are_read_again_only_when_due(shared: Switch, console: tuple[Agent, str]) -> None:
    url = f"{console[1]}/offload"
    found = [re.search(r"Read (\S+ \S+) UTC; again after 10 s", words_of(get_read(url))) for _ in range(3)]
    times = [datetime.fromisoformat(each[1]) for each in found if each is not None]
    assert len(times) == 3
    for before, after in pairwise(times):
        assert after == before or after - before >= timedelta(seconds=9), "times are cut to seconds"


def known(shared: Switch) -> AppliedBridge:
    with TargetSwitch(shared.database).session() as session:
        record = session.record_of(BRIDGE)
        state = session.state(record, record.number)
    return AppliedBridge(BRIDGE, state, spec_of(LARGE).spec)


def test_many_flows_are_read_rarely_and_too_many_never(
    shared: Switch, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = OffloadPoller(TargetSwitch(shared.database), lambda: None)
    send(shared)
    few = watch._read(known(shared))
    assert few.reading is not None and few.again == MIN_INTERVAL and few.reading.total > 20 and not few.error
    monkeypatch.setattr(offload_page, "MANY_FLOWS", 20)
    assert watch._read(known(shared)).again == MAX_INTERVAL
    monkeypatch.setattr(offload_page, "MAX_DUMPED_FLOWS", 20)
    many = watch._read(known(shared))
    assert (many.reading, many.again, many.error) == (None, MAX_INTERVAL, "") and many.figures["megaflows"] > 20
    watch.close()


def test_an_unreachable_switch_is_named_on_the_page(shared: Switch, spec: Path, tmp_path: Path) -> None:
    here = known(shared)
    for remote, why in (
        (f"unix:{tmp_path}/db.sock", "db.sock"),
        (shared.listen_on_tcp(), "only an agent on the switch itself"),
    ):
        view = OffloadPoller(TargetSwitch(remote, timeout=2), lambda: None)._read(here)
        assert view.reading is None and why in view.error


class Watch(OffloadPoller):
    """With readings that are made up."""

    def __init__(self, clock: list[float], again: float) -> None:
        async def later(_: object) -> Prediction:
            return Prediction(masks=3)

        super().__init__(TargetSwitch("unix:/nowhere"), lambda: None, later, lambda: clock[0])
        self.begun, self.again = 0, again

    def _read(self, known: AppliedBridge) -> OffloadSnapshot:
        self.begun += 1
        return OffloadSnapshot(None, known, again=self.again)  # type: ignore[arg-type]


@pytest.mark.parametrize("again", [MIN_INTERVAL, MAX_INTERVAL])
def test_a_reading_begins_when_it_is_due(again: float) -> None:
    clock = [100.0]
    watch = Watch(clock, again)

    async def looks() -> None:
        here: Any = type("Side", (), {"known": AppliedBridge("br-dns", type("S", (), {})(), None)})  # type: ignore[arg-type]
        for at, begun in ((0.0, 1), (again - 0.1, 1), (again, 2), (2 * again - 0.1, 2), (2 * again, 3)):
            clock[0] = 100.0 + at
            await watch.latest(here, wait=True)
            while watch._reading is not None:
                await asyncio.sleep(0)
            assert watch.begun == begun, at
        assert (await watch.latest(here, wait=True)).prediction == Prediction(masks=3)
        watch.close()

    asyncio.run(looks())


def test_the_prediction_is_that_of_capacity(tmp_path: Path) -> None:
    text = SMALL.replace("flavor: ovs-netdev", "flavor: ovs-doca\n  hardware: bluefield-3")
    file = spec_file(tmp_path, text)
    figures = run("capacity", file, "--json", "--frame", "query").json["all"]["queries_per_s"]
    state: Any = type("State", (), {"file": "dns.yaml", "text": text})
    found = asyncio.run(predict(state))
    assert found.queries is not None and found.connections is not None and found.why_not == ""
    assert [round(found.queries.value), round(found.queries.low), round(found.queries.high)] == [
        round(figures[name]) for name in ("value", "low", "high")
    ]
    assert (found.queries.kind, found.queries.limit, found.hardware) == (
        figures["kind"],
        figures["limit"],
        "bluefield-3",
    )
    assert found.sources and found.masks == mask_bound(build_plan(check_document(parse_document("x", text)))).total
    bad: Any = type("State", (), {"file": "dns.yaml", "text": "apiVersion: dnsteer/v1\n"})
    assert "dns.yaml" in asyncio.run(predict(bad)).why_not


def test_a_prediction_in_json_is_read_or_reported_as_failed() -> None:
    from dnsteer.cli.prediction import _read

    assert _read(b"", b"Traceback\nValueError: x\n").why_not == "it failed: ValueError: x"
    assert _read(b"", b"").why_not == "it failed: it said nothing"
    assert _read(json.dumps({**Prediction(3).__dict__}).encode(), b"") == Prediction(3)
