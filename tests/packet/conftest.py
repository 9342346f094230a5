# SPDX-License-Identifier: Apache-2.0
"""Fixtures: switches for tests, with and without a spec applied; and certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dnsteer.switch import tls, tunnel_table
from tests.packet.certificates import make_certificates
from tests.packet.command import FARM, OTHER, SLOW, Ran, fresh, on, run, spec_file
from tests.packet.extension_beside_switch import Extension, Run
from tests.packet.switches import Switch, unexpected


@pytest.fixture
def switch() -> Iterator[Switch]:
    """A private switch without a bridge. Unexpected warnings in its logs fail the test."""
    with Switch() as private:
        yield private
        found = unexpected(private)
    assert found == []


@pytest.fixture
def same_layout(pytestconfig: pytest.Config) -> Callable[[Any, str], None]:
    """With --slow or --regenerate: fails if a page has another layout than the picture of a name."""
    if not pytestconfig.getoption("--slow") and not pytestconfig.getoption("--regenerate"):
        return lambda page, name: None
    from tests.packet.pictures import refuse_another_layout  # browsers' extra: not everywhere

    return partial(refuse_another_layout, regenerate=pytestconfig.getoption("--regenerate"))


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """One switch for all tests of a module, which may say in EXPECTED what else its logs may warn of."""
    with Switch() as private:
        private.expected = [*SLOW, "Connection reset by peer", *getattr(request.module, "EXPECTED", ())]
        yield private
        assert unexpected(private) == []


@pytest.fixture(scope="module")
def addresses_of_dummies(shared: Switch) -> Iterator[None]:
    """The bridge's own port is a dummy device, which takes the addresses that tunnels need by a command of its own."""

    def give(address: str, device: str) -> None:
        shared.appctl("netdev-dummy/ip6addr" if ":" in address else "netdev-dummy/ip4addr", device, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tunnel_table, "_give_address", give)
        yield


@pytest.fixture
def applied(shared: Switch, tmp_path: Path) -> Switch:
    """The module's switch with the spec FARM applied, and nothing else."""
    fresh(shared)
    done = on(shared)("apply", spec_file(tmp_path), "--yes")
    assert done.code == 0, done.err
    return shared


@pytest.fixture
def drained(shared: Switch, tmp_path: Path) -> Switch:
    """The module's switch with the spec FARM applied, OTHER as the state before it, and a drain."""
    fresh(shared)
    for text in (OTHER, FARM):
        assert on(shared)("apply", spec_file(tmp_path, text), "--yes").code == 0
    assert on(shared)("drain", "farm/ns1", "--note", "x").code == 0
    return shared


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the certificates."""
    folder = tmp_path_factory.mktemp("pki")
    make_certificates(folder)
    return folder


@pytest.fixture
def no_tls_files() -> Iterator[None]:
    """No files are in use for ssl: remotes, before the test and after it."""
    tls.use(None)
    yield
    tls.use(None)


@pytest.fixture
def extension(tmp_path: Path) -> Iterator[Extension]:
    """A running dnsteer-ext."""
    with Extension(tmp_path) as it:
        yield it


@pytest.fixture
def do(shared: Switch, extension: Extension, tmp_path: Path) -> Run:
    """The command, on an empty switch; what begins as a spec is written to a file."""
    fresh(shared)

    def ran(*args: Any) -> Ran:
        words = []
        for arg in args:
            if str(arg).startswith("apiVersion"):
                (tmp_path / "spec.yaml").write_text(arg)
                arg = tmp_path / "spec.yaml"
            words.append(arg)
        more = ["--grace", "0"] if words[0] in ("apply", "plan", "rollback") and "--plan" not in words else []
        return run(*words, *more, "--db", shared.database, "--extension", extension.socket)

    return ran
