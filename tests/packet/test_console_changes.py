"""Changes from the browser, on a real agent by HTTPS, beside a private switch."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packet.agents import Agent, agent, wait
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.console_sessions import Visit, secrets_in, serves_at, visit
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import Switch

EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]
CHANGED = FARM.replace("  uplinks:", "  console: {allow_changes: true}\n  uplinks:")
OTHER = CHANGED.replace("weight: 2", "weight: 3").replace("192.0.2.54", "192.0.2.56")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("changes")


@pytest.fixture(scope="module")
def secrets(folder: Path) -> dict[str, str]:
    return secrets_in(folder / "tokens", alice="change", bob="read")


@pytest.fixture(scope="module")
def served(shared: Switch, folder: Path, secrets: dict[str, str], pki: Path) -> Iterator[tuple[Agent, str]]:
    """An agent with a console by HTTPS beside the module's switch, which has two states, and where it serves."""
    fresh(shared)
    for text in (OTHER, CHANGED):
        assert on(shared)("apply", spec_file(folder, text), "--yes").code == 0
    tls = ["--console-tls-cert", str(pki / "web.pem"), "--console-tls-key", str(pki / "web.key")]
    options = ["--console", "127.0.0.1:0", "--console-tokens", str(folder / "tokens"), *tls]
    with agent(shared, folder, "pools with health checks: 0", "agent", *options) as running:
        running.waits_for("control socket")
        yield running, serves_at(running)


@pytest.fixture
def alice(served: tuple[Agent, str], secrets: dict[str, str], pki: Path) -> Iterator[Visit]:
    with visit(served[1], pki / "ca.pem") as browser:
        yield browser.sign_in(secrets["alice"])


@pytest.fixture
def bob(served: tuple[Agent, str], secrets: dict[str, str], pki: Path) -> Iterator[Visit]:
    with visit(served[1], pki / "ca.pem") as browser:
        yield browser.sign_in(secrets["bob"])


def test_a_backend_is_drained_and_comes_back(alice: Visit, served: tuple[Agent, str], shared: Switch) -> None:
    before = shared.tables()
    assert 'value="farm/ns1"' in alice.get("/pools/farm").text
    preview = alice.preview("drain", "farm/ns1", note="<script>x</script>", **{"for": "2h"})
    asked = on(shared)("drain", "farm/ns1", "--dry-run").out
    words = asked.partition("would change: ")[2].strip()
    assert preview.status_code == 200 and words.replace("->", "-&gt;") in preview.text, (words, preview.text)
    assert shared.tables() == before and overlay(shared) == []
    done = alice.get(alice.confirm(preview.text).headers["location"]).text
    assert "Done" in done and "changed: " in done, done
    entry = overlay(shared)[0]
    assert entry["by"] == f"alice@{socket.gethostname()} (console)"
    assert entry["note"] == "<script>x</script>" and entry["until"]
    assert f"for alice@{socket.gethostname()} (console): drain" in served[0].said()
    wait(lambda: "alice@" in alice.get("/changes").text, lambda: alice.get("/changes").text)
    assert "<script>x" not in alice.get("/changes").text + alice.get("/pools/farm").text
    assert "Done" in alice.change("undrain", "farm/ns1")
    assert shared.tables() == before and overlay(shared) == []
