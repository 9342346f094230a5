# SPDX-License-Identifier: Apache-2.0
"""What docs/servers.md tells people to write is what was tried with the servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dnsteer.agent.probes.targets import ProbeTarget
from tests.servers import expected
from tests.servers.asking import targets
from tests.servers.matrix import AUTHORITATIVE, CHECKS, RESOLVERS, STATES, checks_of
from tests.servers.server import NameServer
from tests.servers.zones import Root

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "servers.md").read_text(encoding="utf-8")
ROOT = Root("", "", "")


def asked(target: ProbeTarget) -> object:
    return target.query, target.timeout


def test_the_checks_that_the_page_shows_are_those_that_were_tried() -> None:
    tried = {asked(target) for keys in CHECKS.values() for target in targets(keys)}
    shown = [yaml.safe_load(block)["pools"] for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    pools = [pool for spec in shown for pool in spec.values()]
    assert len(pools) == 3
    for pool in pools:
        for target in targets(yaml.safe_dump(pool, default_flow_style=False)):
            slow_root = target.query.name == "." and target.timeout == 3  # the default one, with more time
            assert asked(target) in tried or slow_root, pool


@pytest.mark.parametrize("of", [*AUTHORITATIVE, *RESOLVERS[1:]], ids=lambda of: of.name)
def test_the_page_shows_what_was_added_to_the_configuration(of: type[NameServer]) -> None:
    path, lines = of(Path("/nowhere"), ROOT).added()
    assert f"# {of.name}: {path}\n{lines}" in PAGE


def test_the_table_has_each_server_in_each_state() -> None:
    table = expected.read()
    for kind, servers in (("authoritative", AUTHORITATIVE), ("resolvers", RESOLVERS)):
        assert list(table[kind]) == [of.name for of in servers]
        for of in servers:
            assert {name: list(row) for name, row in table[kind][of.name].items()} == {
                state.name: list(checks_of(of)) for state in STATES[of]
            }
