# SPDX-License-Identifier: Apache-2.0
"""The metrics that OVS-DOCA has of itself, passed on as they are."""

from __future__ import annotations

import contextlib

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.agent_metrics import AgentMetrics
from dnsteer.metrics.collect import Collector
from dnsteer.metrics.datapath import Datapath
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.metrics.switch_readings import MAX_SERIES, read_switch_metrics
from dnsteer.switch.thread_counters import UnknownFormatError
from dnsteer.switch.tools import SwitchError, UnavailableError
from tests.unit.spec_text import SPEC, changed, load
from tests.unit.thread_texts import FROM_4_0

TEXT = """\
# HELP ovs_vswitchd_hw_offload Whether offload is on.
# TYPE ovs_vswitchd_hw_offload gauge
ovs_vswitchd_hw_offload 1
# HELP ovs_vswitchd_flows_total Flows "so far".
# TYPE ovs_vswitchd_flows_total counter
ovs_vswitchd_flows_total{datapath="doca@ovs-doca",port="a\\"b"} 12
# TYPE ovs_vswitchd_odd counter
ovs_vswitchd_odd 3
# TYPE dnsteer_switch_up gauge
dnsteer_switch_up 0
ovs_vswitchd_scrape_duration_seconds 0.001
"""


class Held:
    """Metrics as the library takes them."""

    def __init__(self, metrics: list[object]) -> None:
        self.metrics = metrics

    def collect(self) -> list[object]:
        return self.metrics


class Doca:
    """An ovs-vswitchd that answers by name, and refuses what it does not have."""

    def __init__(self, text: str | None) -> None:
        self.answers = {"dpctl/dump-dps": "doca@ovs-doca\n", "dpif-netdev/pmd-stats-show": FROM_4_0}
        self.answers |= dict.fromkeys(("dpctl/show", "upcall/show", "dpctl/dump-flows"), "doca@ovs-doca:\n")
        if text is not None:
            self.answers["metrics/show"] = text

    def run(self, command: str, *_: str) -> str:
        if command not in self.answers:
            raise SwitchError(f'"{command}" is not a valid command')
        return self.answers[command]


def test_metrics_of_the_switch_keep_their_names() -> None:
    found = read_switch_metrics(Doca(TEXT))
    page = generate_latest(Held(found)).decode()  # type: ignore[arg-type]
    assert 'ovs_vswitchd_flows_total{datapath="doca@ovs-doca",port="a\\"b"} 12.0' in page
    assert "ovs_vswitchd_hw_offload 1.0" in page and "ovs_vswitchd_odd_total 3.0" in page
    assert "dnsteer_" not in page  # what is ours is not overwritten
    assert generate_openmetrics(Held(found)).decode().endswith("# EOF\n")  # type: ignore[no-untyped-call]


def test_a_switch_without_the_command_has_none() -> None:
    class Gone:
        def run(self, *_: str) -> str:
            raise UnavailableError("gone")

    assert read_switch_metrics(Doca(None)) == []
    with pytest.raises(UnavailableError):
        read_switch_metrics(Gone())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("flows offloaded: some\n", "no metric"),
        ("".join(f'ovs_x{{n="{n}"}} 1\n' for n in range(MAX_SERIES + 1)), "5,001 series"),
        ("#" * 2_000_001, "2,000,001 characters"),
    ],
)
def test_malformed_or_excess_metrics_are_left_out_and_named(text: str, found: str) -> None:
    with pytest.raises(UnknownFormatError, match="metrics/show answers in a form that dnsteer does not know") as caught:
        read_switch_metrics(Doca(text))
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("flavor", "text", "passed", "said"),
    [("ovs-doca", TEXT, True, ""), ("ovs-netdev", TEXT, False, ""), ("ovs-doca", "a b c\n", False, "metrics/show")],
)
def test_the_page_has_them_with_ovs_doca_alone(
    flavor: str, text: str, passed: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = contextlib.nullcontext(Doca(text))
    monkeypatch.setattr("dnsteer.metrics.collect.Unixctl", lambda *_: switch)
    monkeypatch.setattr("dnsteer.metrics.collect.control_socket", lambda _: None)
    agent = AgentMetrics()
    collector = Collector(TargetSwitch("unix:/nowhere"), agent)
    known = AppliedBridge("br-dns", None, load(changed(("ovs-netdev", flavor), text=SPEC)).spec)  # type: ignore[arg-type]
    collector._read_datapath(known)
    agent.known = known
    assert any(metric.name == "ovs_vswitchd_hw_offload" for metric in collector.collect()) is passed
    assert said in collector.not_understood and bool(said) == bool(collector.not_understood)


def test_missing_switch_metrics_leave_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Doca):
        def run(self, command: str, *args: str) -> str:
            if command == "metrics/show":
                raise UnavailableError("no answer within 5 s")
            return super().run(command, *args)

    monkeypatch.setattr("dnsteer.metrics.collect.Unixctl", lambda *_: contextlib.nullcontext(Slow(TEXT)))
    monkeypatch.setattr("dnsteer.metrics.collect.control_socket", lambda _: None)
    read = Datapath(workers={("packets", "0"): 1})
    collector = Collector(TargetSwitch("unix:/nowhere"), AgentMetrics())
    monkeypatch.setattr(collector._datapath, "read", lambda *_: read)
    collector._read_datapath(AppliedBridge("br-dns", None, load(changed(("ovs-netdev", "ovs-doca"), text=SPEC)).spec))  # type: ignore[arg-type]
    assert collector._seen is read and collector._of_switch == []
