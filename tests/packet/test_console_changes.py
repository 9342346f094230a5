# SPDX-License-Identifier: Apache-2.0
"""Changes from the browser, on a real agent by HTTPS, beside a private switch."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from bench.repeated import repeated

from tests.packet.agents import Agent, agent, wait
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.console_sessions import Visit, secrets_in, serves_at, visit
from tests.packet.maintenance_specs import overlay
from tests.packet.status_cases import insert_by_start
from tests.packet.switches import BRIDGE, Switch

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


def test_packets_flow_while_it_drains(alice: Visit, shared: Switch) -> None:
    def passed(direction: str) -> int:
        found = re.search(rf"{direction} pkts=(\d+)", shared.ofctl("dump-ports", "p0"))
        assert found is not None
        return int(found[1])

    before, tables = (passed("rx"), passed("tx")), shared.tables()
    with repeated(lambda: insert_by_start(shared, "192.0.2.53", udp=40, tcp=0), every=0):
        for verb, about in (("drain", "farm/ns1"), ("undrain", "farm/ns1"), ("down", "farm/ns3"), ("up", "farm/ns3")):
            assert "Done" in alice.change(verb, about)
    sent = passed("rx") - before[0]
    assert sent > 80
    wait(lambda: passed("tx") - before[1] == sent, lambda: f"{sent} sent, {passed('tx') - before[1]} arrived")
    assert shared.tables() == tables


def test_a_change_is_refused_if_the_switch_changed_since_the_preview(alice: Visit, shared: Switch) -> None:
    preview = alice.preview("drain", "farm/ns1").text
    assert on(shared)("drain", "farm/ns2", "--yes").code == 0
    again = alice.confirm(preview)
    assert again.status_code == 409 and "The switch has changed since the preview, and nothing was done" in again.text
    assert [entry["backend"] for entry in overlay(shared)] == ["ns2"]
    assert alice.confirm(again.text).status_code == 303
    assert [entry["backend"] for entry in overlay(shared)] == ["ns2", "ns1"]
    twice = alice.confirm(again.text)
    assert twice.status_code == 409 and "Nothing would change" in twice.text
    preview = alice.preview("drain", "farm/ns3").text
    assert "Please check:" in preview and "no backend" in preview, preview
    for name in ("ns2", "ns1"):
        assert "Done" in alice.change("undrain", f"farm/{name}")


def test_a_gradual_drain_is_under_way_and_ends(alice: Visit, bob: Visit) -> None:
    run = alice.confirm(alice.preview("drain", "farm/ns1", over="20s").text).headers["location"]
    page = alice.get(run).text
    assert "Under way since" in page and "data-reload" in page
    preview = alice.preview("down", "spare/sp1").text  # the steps of another pool do not make it another record
    assert alice.confirm(preview).status_code == 303
    assert bob.get(run).status_code == alice.get(run + "x").status_code == 404
    for verb, about in (("undrain", "farm/ns1"), ("up", "spare/sp1")):
        assert "Done" in alice.change(verb, about)
    wait(lambda: "Not done" in alice.get(run).text, lambda: alice.get(run).text)
    assert "it was ended by another command" in alice.get(run).text
    run = alice.confirm(alice.preview("drain", "farm/ns1", over="1s").text).headers["location"]
    wait(lambda: "Done" in alice.get(run).text, lambda: alice.get(run).text)
    assert "100 % drained" in alice.get(run).text
    assert "Done" in alice.change("undrain", "farm/ns1")


def test_a_state_is_compared_and_rolled_back_to(alice: Visit, bob: Visit, shared: Switch) -> None:
    tables = shared.tables()
    page = alice.get("/changes/2").text
    assert "backend farm/ns2: weight 3 -&gt; 2" in page and "192.0.2.56" in page
    assert re.search(r'class="minus">-[^<]*192\.0\.2\.56', page) and re.search(
        r'class="plus">\+[^<]*192\.0\.2\.54', page
    )
    assert 'class="minus"' not in alice.get("/changes/1").text and "apiVersion" in alice.get("/changes/1").text
    assert "Roll back to state" not in page, "it is the current one"
    masked = bob.get("/changes/2").text
    assert "192.0.2" not in masked and "02:00:00" not in masked and "(address)" in masked
    assert "Roll back to state" not in bob.get("/changes/1").text
    assert alice.get("/changes/99").status_code == 404
    preview = alice.preview("rollback", "1", note="as it was").text
    assert "weight 2 -&gt; 3" in preview and "clients" in preview
    assert shared.tables() == tables
    assert "applied as state 3" in alice.confirm_and_read(preview)
    found = on(shared)("history", "--json").json["states"][0]
    assert (found["note"], found["by"]) == ("as it was", f"alice@{socket.gethostname()} (console)")
    assert shared.tables() != tables
    marked = re.compile(
        r'/changes/(\d+)">\1</a>(?:<br><span class="word ok">current</span>)?<br><span[^>]*>rolled back<'
    )
    assert marked.findall(alice.get("/changes").text) == ["2"]
    assert "applied as state 4" in alice.change("rollback", "2")
    assert shared.tables() == tables
    assert marked.findall(alice.get("/changes").text) == []


def test_wrong_requests_say_what_is_wrong(alice: Visit, shared: Switch) -> None:
    tables = shared.tables()
    for verb, about, options, words in (
        ("drain", "farm/nsx", {}, "expected a backend of the applied spec"),
        ("drain", "--yes", {}, "expected a backend of the applied spec"),
        ("apply", "farm/ns1", {}, "expected one of drain, undrain, down, up, rollback"),
        ("rollback", "-1", {}, "expected the number of a state"),
        ("down", "farm/ns1", {"for": "soon"}, "For: found 'soon'; expected a time such as 90s"),
        ("drain", "farm/ns1", {"note": "x" * 501}, "found 501 characters; expected at most 500"),
        ("drain", "farm/ns1", {"note": "a\nb"}, "expected one line of text without control"),
    ):
        done = alice.preview(verb, about, **options)
        assert (done.status_code, words in unescape(done.text)) == (400, True), done.text
        assert 'aria-label="Pages"' in done.text and '">Back to ' in done.text
    for verb, about, options, words in (
        ("drain", "farm/ns1", {"over": "2m", "for": "1m"}, "--for must be longer than --over"),
        ("rollback", "77", {}, "there is no state 77 in the record"),
    ):
        page = alice.preview(verb, about, **options).text
        assert "This is refused:" in page and words in page and "╭" not in page and "/changes/confirm" not in page, page
        assert 'action="/changes/preview"' in page and all(f'value="{value}"' in page for value in options.values())
    assert "it is so already" in alice.preview("undrain", "farm/ns1").text
    assert shared.tables() == tables and overlay(shared) == []


def test_a_plan_of_a_spec_changes_nothing(alice: Visit, bob: Visit, shared: Switch, folder: Path) -> None:
    tables, conf = shared.tables(), shared.column("Bridge", BRIDGE, "external_ids")

    def plan(browser: Visit, text: str) -> str:
        fields = {"csrf": browser.csrf(), "file": "farm.yaml", "spec": text.replace("\n", "\r\n")}
        done = browser.post("/plan", fields)
        assert done.status_code == 200, done.text
        return unescape(done.text.partition('<form class="fields"')[0])

    assert "Nothing to change: the switch is as this spec says." in plan(alice, CHANGED)
    said = on(shared)("plan", spec_file(folder, OTHER))
    words = (said.err + said.out).replace(str(folder / "spec.yaml"), "farm.yaml").strip()
    page = plan(alice, OTHER)
    assert "An apply would change the switch as follows." in page and words in page, (words, page)
    page = plan(bob, OTHER)
    assert "weight 2 -> 3 (farm.yaml:16)" in page and "+(address) -(address)" in page and "192.0.2.5" not in page, page
    bad = plan(alice, CHANGED.replace("weight: 2", "weight: two"))
    assert "There is no plan; nothing was changed." in bad and "farm.yaml:16: $.pools.farm.backends[1].weight" in bad, (
        bad
    )
    assert "the YAML alias" in plan(bob, "a: &a [x]\nb: [*a, *a]\n")
    head, _, rest = CHANGED.partition("pools:\n")
    many = "".join(
        f"  p{n}: {{slots: 4096, backends: [{{name: x, ipv4: 10.0.0.{n}, mac: 02:00:00:00:02:01}}]}}\n"
        for n in range(99)
    )
    vips = "".join(f"  v{n}: {{addresses: [10.1.0.{n}], services: [dns], pool: p{n}}}\n" for n in range(99))
    page = plan(bob, f"{head}pools:\n{many}{rest}{vips}")
    assert "farm.yaml: found about 406," in page and "on the machine: dnsteer plan farm.yaml" in page, page
    evil = plan(alice, "a: <script>alert(1)</script>")
    assert "farm.yaml" in evil
    assert "<script>alert" not in bob.post("/plan", {"csrf": bob.csrf(), "spec": "</textarea><script>alert(1)"}).text
    large = alice.post("/plan", {"csrf": alice.csrf(), "spec": "#" * (1 << 20) + "\n"})
    assert large.status_code == 413
    assert (shared.tables(), shared.column("Bridge", BRIDGE, "external_ids")) == (tables, conf)


def test_a_token_to_read_changes_nothing(bob: Visit, shared: Switch) -> None:
    assert "Change a backend" not in bob.get("/pools/farm").text
    done = bob.preview("drain", "farm/ns1")
    assert (done.status_code, "needs a token of the role change" in done.text) == (403, True)
    fields = {"csrf": bob.csrf(), "basis": "x", "verb": "drain", "about": "farm/ns1"}
    assert bob.post("/changes/confirm", fields).status_code == 403
    assert overlay(shared) == []


def test_a_spec_without_console_changes_refuses_them(
    alice: Visit, served: tuple[Agent, str], shared: Switch, folder: Path
) -> None:
    preview = alice.preview("drain", "farm/ns1").text
    assert on(shared)("apply", spec_file(folder, FARM), "--yes").code == 0
    try:
        wait(lambda: "No changes from here" in alice.get("/pools/farm").text, served[0].said)
        for done in (alice.preview("drain", "farm/ns1"), alice.confirm(preview)):
            assert (done.status_code, "switch.console: {allow_changes: true}" in done.text) == (403, True)
        assert overlay(shared) == []
    finally:
        assert on(shared)("apply", spec_file(folder, CHANGED), "--yes").code == 0
        wait(lambda: "Change a backend" in alice.get("/pools/farm").text, served[0].said)


def test_an_agent_that_ends_leaves_a_drain_as_far_as_it_is(
    alice: Visit, served: tuple[Agent, str], shared: Switch
) -> None:
    """The last test: it ends the module's agent."""
    run = alice.confirm(alice.preview("drain", "farm/ns1", over="1h").text).headers["location"]
    assert "Under way since" in alice.get(run).text
    assert served[0].end() == 0, served[0].said()
    assert [(entry["backend"], entry["gone"] < 100) for entry in overlay(shared)] == [("ns1", True)]
