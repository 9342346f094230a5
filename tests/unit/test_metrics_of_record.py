# SPDX-License-Identifier: Apache-2.0
"""What /metrics tells of the record and of its own server, without a switch; and that every series names the switch."""

from __future__ import annotations

import shutil
import socket
import subprocess
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.agent_metrics import AgentMetrics
from dnsteer.metrics.collect import Collector
from dnsteer.metrics.exposition import Exposition
from dnsteer.metrics.switch_readings import read_switch_metrics
from dnsteer.slots.maintenance import Maintenance
from dnsteer.spec.derived import pair_name
from dnsteer.status.agent_knowledge import UnannouncedVip
from dnsteer.switch.role import Role
from dnsteer.switch.state import ROLE_KEY
from tests.unit.console_cases import SPEC, START, entry, known, record
from tests.unit.spec_text import changed, load

HERE = {"switch": "dpu-1", "bridge": "br-dns"}


def collector(
    *entries: Maintenance, text: str = SPEC, switch: str = "dpu-1", role: Role | None = None
) -> tuple[Collector, AgentMetrics]:
    """Metrics of an agent that follows a record, beside a switch that does not answer."""
    agent = AgentMetrics()
    agent.claim_changed("br-dns", held=True, switch=switch)
    found = known(text)
    agent.adopted(found, [("farm", "ns1", "dns")])
    of = record(1, *entries)
    agent.followed(replace(of, ids={**of.ids, **({ROLE_KEY: role.to_json()} if role is not None else {})}))
    return Collector(TargetSwitch("unix:/nowhere", timeout=0.1), agent), agent


def series(metrics: list[Metric], name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The values of a metric by its labels, without those that all have."""
    samples = [sample for metric in metrics for sample in metric.samples if sample.name == name]
    assert all(sample.labels.items() >= HERE.items() for sample in samples)
    return {
        tuple((label, value) for label, value in sample.labels.items() if label not in HERE): sample.value
        for sample in samples
    }


def switches(metrics: list[Metric]) -> set[str | None]:
    """What all series have as the label `switch`."""
    return {sample.labels.get("switch") for metric in metrics for sample in metric.samples}


def test_every_series_names_the_switch_also_those_of_the_process_and_of_ovs() -> None:
    class Control:
        def run(self, command: str, *args: str) -> str:
            own = 'doca_packets_total{switch="0",port="p0"} 7\ndoca_packets_total{port="p1"} 8\n'
            return f"# TYPE doca_packets counter\n{own}"

    of, _ = collector()
    of._read_datapath = lambda _: None  # type: ignore[method-assign]
    of._of_switch = read_switch_metrics(Control())
    for _ in range(2):  # the metrics of OVS-DOCA stay the same objects
        found = of.collect()
        assert switches(found) == {"dpu-1"}
        names = {sample.name for metric in found for sample in metric.samples}
        assert {
            "process_cpu_seconds_total",
            "dnsteer_switch_up",
            "dnsteer_backend_slots",
            "dnsteer_changes_total",
        } <= names
        doca = [sample.labels for metric in found for sample in metric.samples if sample.name == "doca_packets_total"]
        assert doca == [{"switch": "dpu-1", "exported_switch": "0", "port": "p0"}, {"switch": "dpu-1", "port": "p1"}]
    page = Exposition("").page(lambda source: generate_latest(source), found)
    assert all(b'switch="dpu-1"' in line for line in page.splitlines() if not line.startswith(b"#"))


def test_a_switch_without_a_name_is_called_by_its_machine_and_never_by_nothing() -> None:
    agent = AgentMetrics()
    of = Collector(TargetSwitch("unix:/nowhere", timeout=0.1), agent)
    here = socket.gethostname()
    assert here and switches(of.collect()) == {here}  # no record was read yet
    agent.claim_changed("br-dns", held=True, switch="")
    assert switches(of.collect()) == {here}
    agent.claim_changed("br-dns", held=True, switch="dpu-1")
    assert switches(of.collect()) == {"dpu-1"}


def test_a_switch_that_is_renamed_has_its_new_name_in_all_that_is_kept_between_readings() -> None:
    of, agent = collector(entry("ns1", note="disk"))
    assert switches(of.collect()) == {"dpu-1"}
    agent.claim_changed("br-dns", held=True, switch="dpu-2")
    assert switches(of.collect()) == {"dpu-2"}


def test_timed_maintenance_exports_its_end() -> None:
    end = START + timedelta(hours=2)
    of, _ = collector(entry("ns1", until=end.isoformat()), entry("ns2"), entry("ns3", kind="weight", weight=1))
    found = series(of.collect(), "dnsteer_maintenance_end_timestamp_seconds")
    assert found == {(("pool", "farm"), ("backend", "ns1"), ("kind", "drain")): end.timestamp()}


@pytest.mark.parametrize(("name", "active"), [("active", 1.0), ("standby", 0.0)])
def test_a_switch_with_a_role_exports_its_pair(name: str, active: float) -> None:
    role = Role(name, START.isoformat(), "alice@dpu-1", "")  # type: ignore[arg-type]
    of, _ = collector(role=role)
    assert series(of.collect(), "dnsteer_pair_active") == {(("pair", "192.0.2.53"),): active}
    of, _ = collector(role=role, text=changed(("name: dpu-1", "name: dpu-1, pair: site-a"), text=SPEC))
    assert series(of.collect(), "dnsteer_pair_active") == {(("pair", "site-a"),): active}


def test_a_switch_that_stands_alone_is_of_no_pair() -> None:
    of, _ = collector()
    assert series(of.collect(), "dnsteer_pair_active") == {}


def test_a_pair_without_a_name_is_known_by_its_lowest_address() -> None:
    addresses = ("addresses: [192.0.2.53]", "addresses: ['2001:db8::53', 192.0.2.200]")
    assert pair_name(known(changed(addresses, text=SPEC)).spec) == "192.0.2.54"


def test_a_pair_does_not_change_the_digest_of_a_spec_without_one() -> None:
    paired = changed(("  bridge: br-dns", "  bridge: br-dns\n  pair: site-a"))
    assert load(changed()).digest == "bb6e91d75ed9b31fdad4cd573caaa234fb9d38da93abd0c51ddd60bf7544973d"
    assert load(paired).digest != load(changed()).digest


def test_unannounced_vips_export_their_cause() -> None:
    of, agent = collector()
    agent.announcements_changed(
        {},
        {},
        {
            "asked": UnannouncedVip("asked", "asked by alice", START, None, by_people=True, withdrawn=False),
            "sick": UnannouncedVip("sick", "x" * 500, START),
            "lost": UnannouncedVip("lost", "BIRD has no route to 192.0.2.53/32", START, withdrawn=False),
        },
        {},
    )
    name = "dnsteer_vip_unannounced_info"
    found = {tuple(value for _, value in labels) for labels in series(of.collect(), name)}
    assert found == {
        ("asked", "people", "asked by alice"),
        ("sick", "health", "x" * 120),
        ("lost", "routing", "BIRD has no route to 192.0.2.53/32"),
    }
    agent.announcements_changed({}, {}, {}, {})
    assert series(of.collect(), name) == {}


def test_the_certificate_and_console_are_exported_where_configured() -> None:
    of, _ = collector()
    end, where = "dnsteer_certificate_end_timestamp_seconds", "dnsteer_console_info"
    assert (series(of.collect(), end), series(of.collect(), where)) == ({}, {})
    of.certificate_end = lambda: datetime(2026, 3, 1, tzinfo=timezone.utc)
    of.console_url = "https://dpu-1.example.net:9853/"
    found = of.collect()
    assert series(found, end) == {(): datetime(2026, 3, 1, tzinfo=timezone.utc).timestamp()}
    assert series(found, where) == {(("url", "https://dpu-1.example.net:9853/"),): 1.0}


@pytest.mark.parametrize("kind", ["", "application/openmetrics-text; version=1.0.0"])
def test_the_page_is_valid_with_every_recorded_value(kind: str) -> None:
    """In both formats; promtool's check, which also looks at names and help, is of the classic one."""
    of, agent = collector(
        entry("ns1", until=(START + timedelta(hours=2)).isoformat()),
        role=Role("active", START.isoformat(), "alice@dpu-1", ""),
    )
    agent.announcements_changed({}, {}, {"dns": UnannouncedVip("dns", 'why "so" \\', START)}, {})
    of.certificate_end = lambda: datetime(2026, 3, 1, tzinfo=timezone.utc)
    of.console_url = "https://dpu-1.example.net:9853/"
    encode, content_type = choose_encoder(kind)
    text = Exposition(content_type).page(encode, of.collect()).decode()
    read = read_openmetrics if kind else text_string_to_metric_families
    samples = [sample for family in read(text) for sample in family.samples]
    assert len({(sample.name, *sorted(sample.labels.items())) for sample in samples}) == len(samples) > 100
    if kind or shutil.which("promtool") is None:
        return
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
