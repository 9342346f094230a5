# SPDX-License-Identifier: Apache-2.0
"""`report` on a real switch: the figures under load, damage, switches that are down, and the page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.packet.browser import SIZES, chromium, overflow, refuse_axe_findings
from tests.packet.command import SLOW, fresh, nothing_changes, on, run
from tests.packet.status_cases import GONE, deployed, load, out
from tests.packet.switches import BRIDGE, VIP_TABLE, Switch
from tests.unit.test_report import Page

EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]
SCRIPT = "<script>alert(1)</script>"


def written(switch: Switch, folder: Path, *options: str, code: int = 0, said: list[str] | None = None) -> str:
    """The page that the command writes; *said* gets what it says on standard error."""
    file = folder / "report.html"
    done = on(switch)("report", "-o", file, "--interval", "0.5s", *options)
    assert done.code == code, done.err
    if said is not None:
        said.append(done.err)
    text = file.read_text()
    assert done.out.startswith(f"{file}: written ({len(text.encode()) / 1000:,.0f} kB); ")
    Page(text)
    return text


def text_of(html: str) -> str:
    """A page's text, each element on a line."""
    return unescape(re.sub(r"\s*\n\s*", "\n", re.sub(r"<[^>]*>", "\n", html.partition("<body")[2])))


@pytest.fixture(scope="module")
def loaded(shared: Switch, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a switch with traffic, with one backend out and hostile notes."""
    fresh(shared)
    folder = tmp_path_factory.mktemp("report")
    target = deployed(shared)
    out(target, "direct/a", note=SCRIPT)
    with load(shared, "198.51.100.54", udp=400, tcp=100), nothing_changes(shared):
        return written(shared, folder)


def test_the_report_has_the_figures_of_the_switch(loaded: str) -> None:
    text = text_of(loaded)
    assert re.search(r"\nstraight\n198\.51\.100\.54\n2001:db8:1::54\n53/udp\+tcp\ndirect\ndsr\n\d+\n\d+\n", text)
    assert "direct/a is drained" in text and "dnsteer undrain direct/a" in text
    megaflows = re.search(r"\nMegaflows\n([\d,]+)\n", text)
    upcalls = re.search(r"\nUpcalls\n([\d,]+)\n", text)
    lost = re.search(r"\nLost\n(\d+)\n", text)
    assert megaflows and upcalls and lost
    assert int(megaflows[1]) > 0 and int(upcalls[1].replace(",", "")) >= int(megaflows[1].replace(",", ""))
    assert "ovs-netdev" in text and "offloads nothing" in text
    assert re.search(r"Bridge br-dns\n\s*datapath_type: netdev", text) and re.search(r"Port vf0\n\s*ofport \d+", text)
    assert "The switch is as the applied spec and its maintenance say." in text
    assert "change 4711" in text and "apiVersion: dnsteer/v1" in text
    assert "Open vSwitch 3" in text
    assert loaded.count('<svg class="slots"') == 2


def test_notes_are_escaped(loaded: str) -> None:
    assert "<script" not in loaded and "&lt;script&gt;alert(1)" in loaded


def test_differences_are_listed_with_the_exit_code_of_status(drained: Switch, tmp_path: Path) -> None:
    drained.ofctl("del-flows", f"{VIP_TABLE},udp,nw_dst=192.0.2.54")
    drained.ofctl("mod-port", "p1", "down")
    text = text_of(written(drained, tmp_path, code=2))
    assert on(drained)("status", "--no-rates").code == 2
    assert "difference" in text and "flow missing: VIP other 192.0.2.54 port 53/udp" in text
    assert "port down: port p1" in text and "The switch is not as applied" in text
    drained.ofctl("mod-port", "p1", "up")


def test_a_damaged_record_does_not_hide_the_rest(drained: Switch, tmp_path: Path) -> None:
    drained.vsctl("set", "Bridge", BRIDGE, 'external_ids:dnsteer-overlay="[1]"')
    said: list[str] = []
    text = text_of(written(drained, tmp_path, code=1, said=said))
    assert "error: external_ids:dnsteer-overlay of bridge br-dns in OVSDB is damaged" in said[0]
    assert "External_ids:dnsteer-overlay of bridge br-dns in OVSDB is damaged" in text
    assert "The record of it cannot be read." in text and "192.0.2.53" in text and "apiVersion" in text
    drained.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-state=x")
    text = text_of(written(drained, tmp_path, code=1))
    assert "damaged" in text and "Bridge br-dns" in text


def test_a_report_over_tcp_lacks_only_local_facts(applied: Switch, tmp_path: Path) -> None:
    remote = applied.listen_on_tcp()
    file = tmp_path / "report.html"
    openflow = f"unix:{applied.dir}/{BRIDGE}.mgmt"
    done = run("report", "-o", file, "--interval", "0.5s", "--db", remote, "--openflow", openflow)
    assert done.code == 0, done.err
    assert done.err.startswith("warning: without the datapath: datapath flows are read through ovs-vswitchd's control")
    text = text_of(file.read_text())
    assert "the datapath\ndatapath flows are read through ovs-vswitchd's control socket" in text
    assert f"From\n{remote}\n" in text and "The switch is as the applied spec" in text


def test_addresses_and_people_can_be_left_out(drained: Switch, tmp_path: Path) -> None:
    text = written(drained, tmp_path, "--without", "addresses", "--without", "people")
    assert not re.search(r"192\.0\.2\.|2001:db8|02:00:00:|@", text.partition("<body")[2])
    assert "IPv4-1" in text and "person 1" in text and "farm/ns1 is drained" in text


def test_files_are_written_whole_or_not_at_all(applied: Switch, tmp_path: Path) -> None:
    do = on(applied)
    for where, why in ((tmp_path, "is a folder; expected a file"), (tmp_path / "no" / "file", "there is no folder")):
        done = do("report", "-o", where)
        assert done.code == 1 and why in done.err
    assert do("report").code == 64
    assert do("report", "-o", tmp_path / "x", "--without", "secrets").code == 64
    done = do("report", "-o", tmp_path / "x", "--bridge", "br-other")
    assert done.code == 1 and "bridge br-other does not exist" in done.err
    assert list(tmp_path.iterdir()) == [tmp_path / "spec.yaml"]
    done = do("report", "-o", "-", "--interval", "0.5s")
    assert done.code == 0 and done.out.startswith("<!doctype html>") and done.out.endswith("</html>\n")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def test_the_report_fits_a_browser_without_errors(browser: Any, loaded: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(loaded)
    page = browser.new_page()
    wrong: list[str] = []
    page.on("console", lambda m: wrong.append(m.text))
    page.on("request", lambda r: None if r.url == file.as_uri() else wrong.append(r.url))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.goto(file.as_uri())
            assert overflow(page) == [], (scheme, width)
    page.set_viewport_size({"width": 1280, "height": 800})
    refuse_axe_findings(page, "light", "dark")
    page.emulate_media(media="print", color_scheme="dark")
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    page.close()
    assert [words for words in wrong if "axe" not in words] == []


def test_the_report_of_a_stopped_switch_has_the_record(switch: Switch, tmp_path: Path) -> None:
    switch.expected = [*GONE, *EXPECTED]
    deployed(switch)
    switch.kill_switch()
    said: list[str] = []
    text = text_of(written(switch, tmp_path, code=69, said=said))
    assert "is ovs-vswitchd running?" in said[0]
    assert "The switch does not answer" in text and "198.51.100.54" in text and "apiVersion" in text
    assert "Bridge br-dns" in text and "change 4711" in text
    switch.stop()
    done = on(switch)("report", "-o", tmp_path / "away.html")
    assert done.code == 69 and "dnsteer: OVSDB at unix:" in done.err
    text = (tmp_path / "away.html").read_text()
    Page(text)
    assert "The switch&#39;s database cannot be reached" in text
