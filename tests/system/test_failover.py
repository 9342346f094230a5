# SPDX-License-Identifier: Apache-2.0
"""The demo of the agent on real servers: one is killed under load and comes back, and only its clients notice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import failover, names, nameserver, traffic
from dnsteer.lab.zone import WHOAMI
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec
from tests.system.lab_specs import apply_in_lab

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
HEALTH = Path(__file__).parents[2] / "examples" / "authoritative.yaml"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The example with shorter times."""
    file = tmp_path_factory.mktemp("failover") / "authoritative.yaml"
    text = HEALTH.read_text().replace("slow_start: 10s", "slow_start: 1s")
    times = "interval: 300ms, timeout: 250ms"
    file.write_text(text.replace("serial_at_least: 2026010100}}}", f"serial_at_least: 2026010100}}}}, {times}}}"))
    loaded = load_spec(file)
    checks = loaded.spec.pools["authoritative"].health
    assert checks is not None and checks[0].interval == 0.3
    return loaded


@pytest.fixture(scope="module")
def spec(loaded: Loaded) -> Spec:
    return loaded.spec


@pytest.fixture(scope="module")
def state(loaded: Loaded, no_lab: None) -> Iterator[lab.LabState]:
    built = lab.up(loaded.spec)
    try:
        apply_in_lab(loaded)
        yield built
    finally:
        lab.down()


def test_only_the_clients_of_a_killed_server_notice(
    state: lab.LabState, spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Few enough that half a second in which nothing gets the processor, as beside other tests, overflows no buffer.
    monkeypatch.setattr(failover, "QPS", 200)
    monkeypatch.setattr(failover, "_MAX_PORTS", 128)
    file = tmp_path / "report.json"
    file.write_text('{"ok": true, "queries": 7}')
    with (tmp_path / "said").open("w") as said:
        report = failover.run(spec, file, console=Console(file=said, width=200))
    assert report.problems == [], report.timeline.lost
    assert report.pids and not any(Path(f"/proc/{pid}").exists() for pid in report.pids)
    assert report.own.lost > 0 and report.own.moved == report.own.back == report.own.clients > 0
    assert (report.others.lost, report.others.moved, report.lost_on_return) == (0, 0, 0) and report.others.clients > 0
    assert 0 < report.noticed <= report.moved and 0 < report.healthy <= report.whole
    told = json.loads(file.read_text())
    assert told["queries"] == 7 and told["agent"] == json.loads(json.dumps(report.as_json()))
    text = (tmp_path / "said").read_text()
    assert f"{report.server} is killed" in text and " slots of pool authoritative move " in text
    assert "only its own clients noticed" in text


def test_a_server_that_was_killed_answers_again(state: lab.LabState) -> None:
    server = state.servers[0]
    others = {s.name: nameserver.pids_of(s.index, s.namespace) for s in state.servers[1:]}
    killed = nameserver.kill(server.index, server.namespace)
    try:
        assert killed and traffic.ask(state, server.addresses[0], WHOAMI, "TXT", timeout=1) is None
    finally:
        nameserver.start(server.index, server.namespace)
    assert {s.name: nameserver.pids_of(s.index, s.namespace) for s in state.servers[1:]} == others
    assert not set(killed) & set(nameserver.pids_of(server.index, server.namespace))
    assert nameserver.pids_of(server.index, f"{names.PREFIX}elsewhere") == []


@pytest.mark.parametrize("other", [{"health": None}, {"serves": "resolver"}], ids=["no checks", "resolvers"])
def test_a_pool_whose_servers_cannot_fail_in_the_lab_is_refused(
    state: lab.LabState, spec: Spec, tmp_path: Path, other: dict[str, str | None]
) -> None:
    pools = {name: pool.model_copy(update=other) for name, pool in spec.pools.items()}
    with pytest.raises(lab.LabError, match=r"no VIP .* has a pool with `health` that can spare a backend"):
        failover.run(spec.model_copy(update={"pools": pools}), tmp_path / "report.json", console=Console())
