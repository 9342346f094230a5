# SPDX-License-Identifier: Apache-2.0
"""Two bridges of one Open vSwitch, each with a spec and an agent of its own: no verb and no agent touches the other's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packet.agents import agent, wait
from tests.packet.command import FARM, fresh, on
from tests.packet.switches import Switch

CHECK = "health: {check: command, command: [test, -e, 'FOLDER/{backend}'], interval: 500ms, timeout: 490ms, fall: 2}"
ONE, TWO = ("--bridge", "br-dns"), ("--bridge", "br-two")


def text(folder: Path, bridge: str) -> str:
    """The spec of one of the bridges: the same VIPs, pools and backends, and files of its own for their health."""
    checked = FARM.replace(
        "    slots: 32\n", f"    slots: 32\n    {CHECK.replace('FOLDER', str(folder / bridge))}\n", 1
    )
    ports = "    p0:\n    p1:\n"
    return checked if bridge == "br-dns" else checked.replace("br-dns", bridge).replace(ports, "    q0:\n    q1:\n")


@pytest.fixture
def both(shared: Switch, tmp_path: Path) -> Iterator[Switch]:
    """A switch with both bridges."""
    fresh(shared)
    for bridge in ("br-dns", "br-two"):
        (tmp_path / bridge).mkdir()
        for name in ("ns1", "ns2", "ns3", "ns4"):
            (tmp_path / bridge / name).touch()
        (tmp_path / f"{bridge}.yaml").write_text(text(tmp_path, bridge))
        assert on(shared)("apply", tmp_path / f"{bridge}.yaml", "--yes").code == 0
    yield shared
    shared.vsctl("del-br", "br-two")


def test_each_bridge_has_its_own_verbs_and_states(both: Switch, tmp_path: Path) -> None:
    run, spec = on(both), tmp_path / "br-two.yaml"
    before = both.tables("br-dns"), both.tables("br-two")
    for words in (
        ["status"],
        ["drain", "farm/ns1"],
        ["rollback"],
        ["history"],
        ["verify"],
        ["deny", "198.51.100.0/24"],
    ):
        done = run(*words)
        assert (done.code, "br-dns" in done.err and "br-two" in done.err and "--bridge" in done.err) == (1, True), words
    assert (both.tables("br-dns"), both.tables("br-two")) == before
    assert run("drain", "farm/ns1", *TWO).code == 0
    assert both.tables("br-dns") == before[0]
    spec.write_text(spec.read_text().replace("weight: 2", "weight: 5"))
    assert run("apply", spec, "--yes").code == 0  # the spec names its bridge
    assert both.tables("br-dns") == before[0]
    assert [len(run("history", "--json", *each).json["states"]) for each in (ONE, TWO)] == [1, 2]
    assert run("undrain", "farm/ns1", *TWO).code == 0
    assert run("rollback", "--yes", *TWO).code == 0
    assert (both.tables("br-dns"), both.tables("br-two")) == before
    assert run("verify", *ONE).code == run("verify", *TWO).code == 0


def test_each_bridge_has_its_own_agent(both: Switch, tmp_path: Path) -> None:
    run = on(both)
    with agent(both, tmp_path, "state 1", "one", *ONE) as one, agent(both, tmp_path, "state 1", "two", *TWO) as two:
        base = both.tables("br-dns")
        (tmp_path / "br-two" / "ns1").unlink()
        two.waits_for("farm/ns1")
        wait(lambda: _failing(both) == ["ns1"], two.said)
        found = json.dumps(run("status", "--json", "--no-rates", *TWO).json)
        assert "dnsteer drain farm/ns1 --bridge br-two" in found  # a command to copy
        assert "dnsteer drain farm/ns1 --bridge br-two" in json.dumps(run("top", "--once", "--json", *TWO).json)
        assert (both.tables("br-dns"), "farm/ns1" in one.said()) == (base, False)
        assert run("drain", "farm/ns2", *ONE).code == 0  # by the agent of that bridge
        one.waits_for("farm/ns2")
        assert "farm/ns2" not in two.said()
        both.ofctl("del-flows", "table=0", bridge="br-two")
        two.waits_for("repaired")
        assert "repaired" not in one.said()
        assert run("undrain", "farm/ns2", *ONE).code == 0
        assert both.tables("br-dns") == base


def _failing(switch: Switch) -> list[str]:
    """The backends of pool farm of the second bridge that are out."""
    pools = on(switch)("status", "--json", "--no-rates", *TWO).json["pools"]
    return [b["name"] for p in pools if p["name"] == "farm" for b in p["backends"] if b["state"] == "unhealthy"]
