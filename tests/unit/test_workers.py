# SPDX-License-Identifier: Apache-2.0
"""Workers of one host: backends of their own, with ports of their own, whose place in the file is that of their host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dnsteer.agent.balance import scraped_metric
from dnsteer.agent.balance.scraped_metric import Scraper, series_of, url_of
from dnsteer.agent.probes.targets import probe_targets
from dnsteer.capture.selection import select_packets
from dnsteer.checks.load import load_spec
from dnsteer.deploy.overlay_change import Edit
from dnsteer.deploy.overlay_edits import bring_back, give_weight, take_out, take_weight_back
from dnsteer.deploy.spec_differences import compare_specs
from dnsteer.lab import topology
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.plan.spec_size import size_of_spec
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.render.flows import flows_of
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.balance import MetricSource
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.read import parse_document
from dnsteer.spec.worker_names import host_of, names_of
from dnsteer.spec.workers import Worker, named, with_workers, worker_counts
from dnsteer.switch.state import AppliedState, DamagedError
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.slot import SlotTable
from tests.strategies import specs
from tests.unit.spec_text import changed, load

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "workers.yaml"
TEXT = EXAMPLE.read_text()
LINES = TEXT.splitlines()
WORKERS = ["r1.0", "r1.1", "r1.2", "r1.3", "r2.0", "r2.1"]
NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)


def line_of(text: str) -> int:
    (found,) = [n for n, line in enumerate(LINES, 1) if text in line]
    return found


# What the spec becomes


def test_the_host_of_a_worker_is_known_by_its_name() -> None:
    workers = {"farm": {"r1": 2}}
    assert [host_of(workers, "farm", name) for name in ("r1.0", "r1.1", "r1.2", "r2.0", "r1", "r1.x")] == [
        "r1",
        "r1",
        "r1.2",
        "r2.0",
        "r1",
        "r1.x",
    ]
    assert host_of(workers, "other", "r1.0") == "r1.0"


def test_a_backend_for_each_worker() -> None:
    pool = load(TEXT).spec.pools["resolvers"]
    assert [b.name for b in pool.backends] == WORKERS
    assert [b.port_offset for b in pool.backends] == [0, 1, 2, 3, 0, 1]
    assert {str(b.ipv4) for b in pool.backends[:4]} == {"10.53.0.11"} and {b.host for b in pool.backends[4:]} == {"r2"}
    assert [b.name for b in named(pool, "r2")] == ["r2.0", "r2.1"]
    assert [b.name for b in named(pool, "r1.2")] == ["r1.2"] and named(pool, "r3") == []


def test_a_spec_without_workers_is_as_it_was() -> None:
    spec = load_spec(EXAMPLE.with_name("quickstart.yaml")).spec
    assert with_workers(spec) is spec
    digest = load_spec(EXAMPLE.with_name("quickstart.yaml")).digest
    assert digest == "665786329e83e3b58edc93cc91951c28723f9a0d0711104d222ce4961e523cf6", "as before there were workers"


def test_the_digest_counts_workers() -> None:
    digests = {load(changed(("workers: 2", f"workers: {n}"), text=TEXT)).digest for n in (2, 3, 4)}
    assert len(digests) == 3


def test_flows_and_errors_name_the_line_of_the_host() -> None:
    loaded = load(TEXT)
    plan = build_plan(loaded)
    about = {s.title: (s.line, s.path) for s in plan.subjects.values()}
    first, second = line_of("name: r1"), line_of("name: r2")
    assert about["backend r1.3 of pool resolvers"] == (first, ("pools", "resolvers", "backends", 0))
    assert about["backend r2.1 of pool resolvers"] == (second, ("pools", "resolvers", "backends", 1))
    fragments = "fragments of answers of backend r1 (10.53.0.11) as VIP resolver 198.51.100.53"
    assert about[fragments] == (first, ("pools", "resolvers", "backends", 0))
    (slots,) = plan.rows.of(SlotTable)
    places = {(slots.subject(n).line, slots.subject(n).path[3]) for n in range(64)}
    assert places == {(first, 0), (second, 1)}


SPARE = """\
  spare:
    backends:
      - {name: s0, ipv4: 10.53.0.21, ipv6: '2001:db8:53::21', mac: '02:00:00:00:04:21'}
      - {name: s1, ipv4: 10.53.0.22, ipv6: '2001:db8:53::22', mac: '02:00:00:00:04:22', workers: 2}

vips:
"""
BACKUP = changed(("    balance: {by: slots}\n", "    backup: spare\n    health: {}\n"), ("vips:\n", SPARE), text=TEXT)


def test_workers_of_a_backup_have_lines_too() -> None:
    loaded = load(BACKUP)
    assert [b.name for b in loaded.spec.pools["resolvers"].backends] == [*WORKERS, "s0", "s1.0", "s1.1"]
    lines = BACKUP.splitlines()
    for index, name in ((0, "r1,"), (3, "r1,"), (5, "r2,"), (6, "s0,"), (7, "s1,"), (8, "s1,")):
        assert f"name: {name}" in lines[loaded.document.line(("pools", "resolvers", "backends", index)) - 1]
    assert f"name: {'s1,'}" in lines[loaded.document.line(("pools", "spare", "backends", 2, "mac")) - 1]
    assert build_plan(loaded)


def test_a_plan_is_no_larger_than_its_spec_says() -> None:
    for text in (TEXT, BACKUP, changed(("workers: 4", "workers: 64"), ("slots: 64", "slots: 256"), text=TEXT)):
        flows = len(flows_of(build_plan(load(text))))
        written = Spec.model_validate(parse_document("x", text).value)
        assert flows - 90 <= size_of_spec(written).flows <= 2.2 * flows
        assert size_of_spec(load(text).spec).flows >= flows - 90


def test_rules_are_counted_for_each_worker() -> None:
    loaded = load(TEXT)
    sizes = sizes_of(loaded.spec, build_plan(loaded))
    assert sizes.rules["queries", "ipv4"] == 2 * 64 and sizes.rules["answers", "ipv4"] == 2 * 6
    assert sizes.tracked == 2, "fragments go by the hosts' addresses"


# Packets, by the reference alone


@pytest.mark.parametrize("text", [TEXT, changed(("slots: 64", "slots: 64\n    selection: dp-hash"), text=TEXT)])
def test_queries_go_to_the_port_of_the_worker(text: str) -> None:
    reference = Reference(load(text).spec)
    seen = set()
    for sport in range(1024, 1024 + 2 * 64, 2):
        query = IP(src="192.0.2.7", dst="198.51.100.53") / UDP(sport=sport, dport=53) / b"hello"
        frame_in = bytes(Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / query)
        found = reference.expect("p0", frame_in)
        for option in found.options:
            frame = Ether(option.data)
            name = found.backend or reference.receiver(Frame("p0", frame_in), option) or ""
            host, _, number = name.rpartition(".")
            assert (frame[IP].dst, frame[UDP].dport) == (
                {"r1": "10.53.0.11", "r2": "10.53.0.12"}[host],
                5300 + int(number),
            )
            seen.add(name)
    assert sorted(seen) == WORKERS


@pytest.mark.parametrize(("port", "passes"), [(5299, False), (5300, True), (5303, True), (5304, False), (53, False)])
def test_answers_come_from_the_ports_of_workers(port: int, passes: bool) -> None:
    answer = IP(src="10.53.0.11", dst="192.0.2.7") / UDP(sport=port, dport=4000) / b"hello"
    frame = Ether(src="02:00:00:00:04:01", dst="02:00:00:00:00:52") / answer
    found = Reference(load(TEXT).spec).expect("p0", bytes(frame))
    left = [(Ether(o.data)[IP].src, Ether(o.data)[UDP].sport) for o in found.options]
    assert left == ([("198.51.100.53", 53)] if passes else [])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_random_specs_give_each_worker_its_port(loaded: Loaded) -> None:
    for pool in loaded.spec.pools.values():
        for backend in pool.backends:
            assert isinstance(backend, Worker) == bool(backend.host != backend.name)
            assert backend.name == (
                f"{backend.host}.{backend.port_offset}" if isinstance(backend, Worker) else backend.host
            )


def test_random_specs_have_workers_sometimes() -> None:
    found = []

    @settings(max_examples=150, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(specs())
    def look(loaded: Loaded) -> None:
        found.append(bool(worker_counts(loaded.spec)))

    look()
    assert 3 <= sum(found) < len(found)


# What asks backends


def health(check: str, services: str = "") -> dict[str, int]:
    """The port at which each backend is asked, at its IPv4 address."""
    text = changed(("balance: {by: slots}", f"health: {check}"), text=TEXT)
    text = text.replace(", workers: 2}", "}")
    if services:
        text = (
            text[: text.index("    services:")]
            + f"    services: {services}\n"
            + text[text.index("    pool: resolvers") :]
        )
    found = [t for t in probe_targets(load(text).spec) if "." in t.address]
    return {t.backend: t.port for t in found}


@pytest.mark.parametrize(
    ("check", "services", "first", "other"),
    [
        ("{}", "", 5300, 53),
        ("{check: tcp}", "", 5300, 53),
        ("{port: 53}", "", 5300, 53),
        ("{port: 8053}", "", 8053, 8053),
        ("{check: tls}", "", 853, 853),
        ("{check: tls}", "[dns, dot]", 853, 853),
        ("{}", "[dns]", 53, 53),
        ("{check: command, command: [x, '{port}']}", "", 5300, 0),
        ("{check: command, command: [x, '{port}'], port: 99}", "", 99, 99),
    ],
)
def test_each_worker_is_asked_at_its_own_port(check: str, services: str, first: int, other: int) -> None:
    assert health(check, services) == {**{f"r1.{n}": first + n for n in range(4)}, "r2": other}


def test_through_the_bridge_each_worker_is_asked_at_the_vip() -> None:
    text = changed(
        ("balance: {by: slots}", "health: {}"),
        ("  uplinks:", "  probe: {addresses: [10.53.0.9/24]}\n  uplinks:"),
        text=TEXT,
    )
    found = [t for t in probe_targets(load(text).spec) if t.source is not None]
    assert [t.backend for t in found] == WORKERS and {(t.address, t.port) for t in found} == {("198.51.100.53", 53)}
    assert len({t.source.ports[0] for t in found if t.source}) == 6


def test_workers_of_a_host_have_pages_and_series_of_their_own() -> None:
    two = load(TEXT).spec.pools["resolvers"].backends[2]
    source = MetricSource.model_validate(
        {"prometheus": "http://{address}:910{worker}/{backend}", "metric": 'busy{core="{worker}"}'}
    )
    assert url_of(source, "p", two) == "http://10.53.0.11:9102/r1.2"
    assert series_of(source, two) == 'busy{core="2"}'
    plain = load_spec(EXAMPLE.with_name("one-armed-nat.yaml")).spec.pools["resolvers"].backends[0]
    assert (url_of(source, "p", plain), series_of(source, plain)) == ("http://10.53.0.11:9100/r1", 'busy{core="0"}')


def test_a_page_that_workers_share_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def page(_client: object, url: str, _timeout: float) -> bytes:
        asked.append(url)
        return b'busy{w="0"} 1\nbusy{w="1"} 2\nbusy{w="3"} 4\n'

    monkeypatch.setattr(scraped_metric, "scrape", page)
    source = MetricSource.model_validate({"prometheus": "http://{address}:9100/", "metric": 'busy{w="{worker}"}'})
    backends = load(TEXT).spec.pools["resolvers"].backends
    found = asyncio.run(Scraper().scrape(source, "resolvers", backends))
    assert asked == ["http://10.53.0.11:9100/", "http://10.53.0.12:9100/"]
    assert [found[f"r1.{n}"] for n in (0, 1, 3)] == [1.0, 2.0, 4.0]
    assert str(found["r1.2"]) == 'no busy{w="2"}'


def test_captures_tell_workers_apart() -> None:
    spec = load(TEXT).spec
    one, host, vip = (select_packets(spec, name) for name in ("resolvers/r1.1", "resolvers/r1", "resolver"))

    def takes(sport: int, source: str = "10.53.0.11") -> list[bool]:
        frame = bytes(Ether() / IP(src=source, dst="192.0.2.7") / UDP(sport=sport, dport=4000))
        return [each.matches(frame) for each in (one, host, vip)]

    assert takes(5301) == [True, True, True]
    assert takes(5303) == [False, True, True]
    assert takes(5304) == [False, False, False]
    assert takes(5301, "10.53.0.12") == [False, False, True]
    with pytest.raises(SwitchError, match="r1"):
        select_packets(spec, "resolvers/r3")


def test_the_lab_runs_a_server_for_each_worker() -> None:
    found = topology.plan_network(load(TEXT).spec)
    assert [h.mac for h in found.hosts] == ["02:00:00:00:04:01", "02:00:00:00:04:02"]
    servers = {s.name: s for _, s in found.servers()}
    assert sorted(servers) == WORKERS
    assert servers["r1.3"].listen == [(ip_address("10.53.0.11"), 5303), (ip_address("2001:db8:53::11"), 5303)]
    assert servers["r1.0"].lab_mac == servers["r1.3"].lab_mac != servers["r2.0"].lab_mac


# Commands


def state() -> AppliedState:
    loaded = load(TEXT)
    members = tuple(build_plan(loaded).members)
    return AppliedState(
        "s", TEXT, loaded.digest, "1", NOW.isoformat(), "me", members, {}, workers=worker_counts(loaded.spec)
    )


def edited(*edits: Edit) -> dict[tuple[str, str], int | None]:
    overlay, at = NO_OVERLAY, state()
    for edit in edits:
        overlay = edit(overlay, at, NOW)
    return {(a.backend, a.kind): a.weight for a in overlay}


@pytest.mark.parametrize("kind", ["drain", "down"])
def test_a_host_leaves_and_returns_with_all_its_workers(kind: str) -> None:
    out: Callable[[str], Edit] = lambda name: take_out(name, kind)  # type: ignore[arg-type]  # noqa: E731
    back: Callable[[str], Edit] = lambda name: bring_back(name, kind)  # type: ignore[arg-type]  # noqa: E731
    assert list(edited(out("resolvers/r1"))) == [(f"r1.{n}", kind) for n in range(4)]
    assert list(edited(out("resolvers/r1.2"))) == [("r1.2", kind)]
    assert list(edited(out("resolvers/r1"), back("resolvers/r1.0"))) == [(f"r1.{n}", kind) for n in (1, 2, 3)]
    assert list(edited(out("resolvers/r1.2"), out("resolvers/r2"), back("resolvers/r1"))) == [
        ("r2.0", kind),
        ("r2.1", kind),
    ]
    assert edited(back("resolvers/r1")) == {}
    with pytest.raises(SwitchError, match=r"no backend 'r1\.4'"):
        edited(out("resolvers/r1.4"))
    with pytest.raises(SwitchError, match=r'did you mean "r1'):
        edited(out("resolvers/r11"))


def test_workers_of_one_change_have_one_decision() -> None:
    overlay = take_out("resolvers/r1", "drain")(NO_OVERLAY, state(), NOW)
    assert len({a.decision for a in overlay}) == 1 and len(overlay.entries) == 4


def test_the_weight_of_a_host_is_that_of_each_worker() -> None:
    assert edited(give_weight("resolvers/r2", 3)) == {("r2.0", "weight"): 3, ("r2.1", "weight"): 3}
    assert edited(give_weight("resolvers/r2", 3), give_weight("resolvers/r2.1", 5)) == {
        ("r2.0", "weight"): 3,
        ("r2.1", "weight"): 5,
    }
    assert edited(give_weight("resolvers/r2.1", 3), take_weight_back("resolvers/r2")) == {}
    assert edited(give_weight("resolvers/r2", 3), give_weight("resolvers/r2", 1)) == {}, "as in the spec"


def test_the_record_has_the_workers_of_hosts() -> None:
    recorded = replace(state(), number=1)
    assert AppliedState.from_ids(recorded.to_ids(), "it") == recorded
    assert names_of(recorded.workers, "resolvers", "r2") == ["r2.0", "r2.1"]
    assert names_of(recorded.workers, "other", "r2") == ["r2"]
    assert "workers" not in replace(recorded, workers={}).to_ids(), "a record without is as it was"
    with pytest.raises(DamagedError):
        AppliedState.from_ids({**recorded.to_ids(), "workers": "x"}, "it")


def test_a_state_on_all_workers_is_that_of_the_spec() -> None:
    down = load(changed(("workers: 2", "workers: 2, state: down"), text=TEXT))
    members = tuple(build_plan(down).members)
    at = AppliedState("s", TEXT, down.digest, "1", NOW.isoformat(), "me", members, {}, workers=worker_counts(down.spec))
    with pytest.raises(SwitchError, match="resolvers/r2 is down in the spec"):
        bring_back("resolvers/r2", "down")(Overlay(), at, NOW)


def test_spec_differences_name_workers() -> None:
    old = load(TEXT).spec
    more = load(changed(("workers: 2", "workers: 3"), text=TEXT)).spec
    assert [d.text for d in compare_specs(old, more)] == [
        "backend resolvers/r2.2 added: 10.53.0.12, 2001:db8:53::12, weight 1"
    ]
    plain = load(changed((", workers: 2", ""), ("name: r2", "name: r2.1"), text=TEXT)).spec
    assert [d.text for d in compare_specs(old, plain)] == [
        "backend resolvers/r2.1: listens at target ports + 1 -> target ports",
        "backend resolvers/r2.0 removed",
    ]
