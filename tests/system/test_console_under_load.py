# SPDX-License-Identifier: Apache-2.0
"""A drain and its end by clicks in a real browser, while dnsperf asks real name servers through the switch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import traffic
from dnsteer.lab.traffic import Load
from dnsteer.spec.read import parse_document
from tests.packet.agents import Agent, agent, wait
from tests.packet.browser import chromium, opened
from tests.packet.console_sessions import secrets_in, serves_at
from tests.system.lab_specs import apply_in_lab

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
SPEC = (Path(__file__).parents[2] / "examples" / "quickstart.yaml").read_text(encoding="utf-8")
ALLOWED = SPEC.replace("  uplinks:", "  console: {allow_changes: true}\n  uplinks:", 1)
POOL, BACKEND = "authoritative", "authoritative/ns1"


@pytest.fixture
def browser() -> Iterator[Any]:
    """First of all: without one nothing is built."""
    with chromium() as found:
        yield found


@pytest.fixture
def state(browser: Any, no_lab: None) -> Iterator[lab.LabState]:
    """A lab with the spec applied."""
    loaded = check_document(parse_document("spec.yaml", ALLOWED))
    built = lab.up(loaded.spec)
    try:
        apply_in_lab(loaded)
        yield built
    finally:
        lab.down()


def test_clicks_lose_no_query(browser: Any, state: lab.LabState, tmp_path: Path) -> None:
    secret = secrets_in(tmp_path / "tokens", alice="change")["alice"]
    before = {name: count["udp"] for name, count in traffic.query_counters(state).items()}
    switch: Any = SimpleNamespace(database=state.db)  # all that an agent needs of one
    options = ("--console", "127.0.0.1:0", "--console-tokens", str(tmp_path / "tokens"))
    with agent(switch, tmp_path, "control socket", "agent", *options) as running:
        url = f"{serves_at(running)}/pools/{POOL}"
        with opened(browser, url, ready="input[name=token]") as page:
            page.fill("input[name=token]", secret)
            page.click("button.main")
            page.wait_for_selector("#link[data-state=live]")
            load = Load("192.0.2.53", clients=128, seconds=60, max_qps=10_000, report_seconds=0.5)
            with traffic.start_dnsperf(state, load) as going:
                wait(lambda: packets_of(page), lambda: "the page shows no queries")
                for verb, words in (("drain", "Drain"), ("undrain", "Undrain")):
                    page.goto(url)
                    page.select_option("select[name=about]", BACKEND)
                    page.click(f"button[value={verb}]")
                    page.click(f"button:has-text('{words} {BACKEND}')")
                    page.wait_for_selector("text=Done")
                result = going.stop()
    assert result.lost == 0 and set(result.rcodes) <= {"NOERROR", "NXDOMAIN"}
    assert result.completed == result.sent - result.interrupted > 5000
    for name, count in traffic.query_counters(state).items():
        assert count["udp"] > before[name]
    assert said_of_both(running)


def packets_of(page: Any) -> bool:
    """Whether the page of the pool shows a rate of any backend: two readings have seen the load."""
    rates = page.locator("[data-number^=q-]").all_inner_texts()
    return any(re.search("[1-9]", text) for text in rates)


def said_of_both(running: Agent) -> bool:
    """Whether the log names who asked for both."""
    by = f"alice@{os.uname().nodename} (console)"
    lines = running.said().splitlines()
    return all(any(by in line and f": {verb} " in line for line in lines) for verb in ("drain", "undrain"))
