# SPDX-License-Identifier: Apache-2.0
"""Real name servers in states of health and failure, and what the default check of each kind says of them.

BIND as an authoritative server and Unbound as a resolver are tried by `make test`, all nine by `make test-servers`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import expected
from tests.servers.authoritative import Bind
from tests.servers.matrix import AUTHORITATIVE, RESOLVERS, STATES, Bench, State, seen
from tests.servers.required_servers import leave_out, need_server
from tests.servers.resolvers import Unbound
from tests.servers.server import NameServer

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and name servers")]
TRIES = 3
"""On a machine that has other work to do an answer may be late."""


def _cases() -> Iterator[Any]:
    for kind, servers in (("authoritative", AUTHORITATIVE), ("resolvers", RESOLVERS)):
        for of in servers:
            for state in STATES[of]:
                marks = [] if of in (Bind, Unbound) else [pytest.mark.slow]
                yield pytest.param(kind, of, state, marks=marks, id=f"{kind}-{of.name}-{state.name}")


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[expected.Table]:
    """What is expected; with --regenerate, what is seen replaces it."""
    table = expected.read()
    yield table
    if request.config.getoption("--regenerate"):
        expected.write(table)


def altered(of: type[NameServer]) -> list[str]:
    """The configuration files of a server's packages that are not as they came."""
    said = subprocess.run(["dpkg", "--verify", *of.packages], capture_output=True, text=True, check=False).stdout
    return [words[-1] for words in (line.split() for line in said.splitlines()) if words[1:2] == ["c"]]


@pytest.mark.parametrize(("kind", "of", "state"), list(_cases()))
def test_default_checks_judge_each_server_state_as_published(
    request: pytest.FixtureRequest, bench: Bench, found: expected.Table, kind: str, of: type[NameServer], state: State
) -> None:
    need_server(of.program)
    if files := altered(of):
        leave_out(of.program, f"not as Debian ships it on this machine: {', '.join(files)}")
    regenerate = request.config.getoption("--regenerate")
    states = found.setdefault(kind, {}).setdefault(of.name, {}) if regenerate else found[kind][of.name]
    wanted = states.get(state.name) if regenerate else states[state.name]
    said: expected.Row = {}
    for _ in range(1 if regenerate else TRIES):
        said = seen(bench, of, state, None if regenerate else wanted)
        if wanted is not None and expected.matches(said, wanted):
            return
    assert regenerate, f"{said}\nexpected: {wanted}\nif the servers have changed: make docs-servers"
    states[state.name] = said
