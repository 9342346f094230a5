# SPDX-License-Identifier: Apache-2.0
"""What capacity prints: figures that are known, that are the most, and that are anything between."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path as FilePath

import pytest
from rich.console import Console

from dnsteer.capacity.bounds import Figures, figures, latencies
from dnsteer.capacity.capacity_report import CapacityReport
from dnsteer.cli.capacity_view import view
from tests.unit.commands import Command
from tests.unit.test_capacity import BASE, DOCA, TCP, THREE, TWO, asked

QUICKSTART = str(FilePath(__file__).resolve().parents[2] / "examples" / "quickstart.yaml")
RATES = ["UDP queries/s", "new TCP conn./s"]
CORES, UNKNOWN = replace(BASE, offloaded="no", rules=0), replace(BASE, offloaded="unknown")


def shown(report: CapacityReport, before: CapacityReport | None = None, width: int = 200, detail: bool = True) -> str:
    """The text, on a wide screen and in detail unless another is asked for."""
    console = Console(file=io.StringIO(), width=width)
    console.print(view(report, before, ["a=b"], width=width, paths=detail, vips=detail))
    text = console.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def test_a_rate_of_the_cores_is_the_most_and_nothing_below_is_known() -> None:
    text = shown(asked([CORES]))
    assert re.search(r" 64 +<= 24\.9 +not known +<= 12\.8 ", text)
    assert re.search(r"dns +IPv4 +<= \d+\.\d M \(not known\) ", text)


def test_unknown_offload_shows_a_range_of_rates() -> None:
    text = shown(asked([UNKNOWN]))
    assert re.search(r" 64 +24\.9 +0\.0 \.\. 96\.7 +12\.8 ", text)
    assert re.search(r"dns +IPv4 +\d+\.\d M \(0\.0 \.\. 95\.0\) ", text)
    assert "not known)" not in text.replace("offload not known: ", "")
    assert "<=" not in text


def test_a_what_if_with_only_another_range_is_shown_as_different() -> None:
    assert re.search(r"dns IPv4 +<= 23\.0 M -> 23\.0 M \(0\.0 \.\. 95\.0\) ", shown(asked([UNKNOWN]), asked([CORES])))
    assert re.search(r"dns IPv4 +23\.0 M \(same\) ", shown(asked([UNKNOWN]), asked([UNKNOWN])))


def of(report: CapacityReport) -> Figures:
    return figures(report.setup, report.groups[0].path, ((64, 1),))


def test_unknown_offload_shows_a_range_of_latencies() -> None:
    report = asked([UNKNOWN])
    found, cores, hard = (
        latencies(report.setup, replace(BASE, offloaded=o), of(report).rate)  # type: ignore[arg-type]
        for o in ("unknown", "no", "yes")
    )
    for either, slow, quick in ((found.low, cores.low, hard.low), (found.loaded, cores.loaded, hard.loaded)):
        assert quick.value < slow.value
        assert (either.value, either.low, either.high) == (slow.value, quick.low, slow.high)
        assert "the range's lower end holds" in either.because[0]


def test_each_latency_has_its_own_range() -> None:
    report = asked([CORES], TWO)
    low, loaded = report.groups[0].latencies.low, report.groups[0].latencies.loaded
    parts = [f"{e.value:.1f} ({e.low:.1f} .. {e.high:.1f})" for e in (low, loaded)]
    assert f"hosts included: {parts[0]} at low load, {parts[1]} at 90 % of the rate;" in shown(report)
    exact = asked([replace(BASE, rewrites=0)], THREE)
    assert "hosts included: 13.7 at low load, " in shown(exact)


@pytest.mark.parametrize("setting", ["switch.hardware=bluefield-2", "$.switch.hardware = bluefield-3"])
def test_hardware_by_option_and_by_setting_is_refused(setting: str, command: Command) -> None:
    code, out, said = command("capacity", QUICKSTART, "--hardware", "bluefield-3", "--set", setting)
    assert (code, out) == (64, "")
    assert said == "dnsteer: --hardware and --set switch.hardware both name the hardware; give only one\n"


def test_a_picture_that_cannot_be_written_is_refused_before_the_work(
    command: Command, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dnsteer.cli.capacity.load_and_warn", lambda *_: pytest.fail("it began"))
    for file, why in (
        (tmp_path / "none" / "x.svg", f"there is no folder {tmp_path / 'none'}"),
        (tmp_path / "dir.svg", f"{tmp_path / 'dir.svg'} is a folder; expected a file"),
    ):
        (tmp_path / "dir.svg").mkdir(exist_ok=True)
        done = command("capacity", QUICKSTART, "--hardware", "bluefield-3", "--plot", str(file))
        assert done == (1, "", f"dnsteer: --plot: {why}\n")


def many(vips: int, pools: int) -> CapacityReport:
    """VIPs of one kind in pools by turns."""
    names = [f"v{n}" for n in range(vips)]
    one = "  p{n}:\n    slots: 64\n    backends: [{{name: b{n}, ipv4: 192.0.2.{m}, mac: '02:00:00:00:02:{n:02x}'}}]\n"
    of = "".join(one.format(n=n, m=n + 1) for n in range(pools))
    vip = "  {name}: {{addresses: [10.0.{a}.{b}], services: [dns], pool: p{pool}}}\n"
    to = "".join(vip.format(name=name, a=n // 250, b=n % 250, pool=n % pools) for n, name in enumerate(names))
    text = f"{DOCA[: DOCA.index('pools:')]}pools:\n{of}vips:\n{to}"
    return asked([replace(p, vip=name) for name in names for p in (BASE, TCP)], text=text)


def test_totals_come_first_and_fit_a_screen_for_many_vips() -> None:
    report = many(300, 12)
    lines = shown(report, width=120, detail=False).splitlines()
    assert lines[2] == "totals: VIPs in equal parts, each pool as if the card were for it alone"
    rows = [line.split() for line in lines[4:17]]
    assert [row[:3] for row in rows] == [["(all)", "300", "38,400"], *([f"p{n}", "25", "3,200"] for n in range(12))]
    figures = r" \d\d\.\d M.* \d\.\d\d M.* eSwitch packet rate; "
    assert all(re.search(figures, line) for line in lines[4:17])
    assert len(lines) < 50
    assert not re.search(r"\bv\d+ ", "\n".join(lines)) and any(line.endswith("each VIP: -v") for line in lines)
    whole = shown(report, detail=True)
    assert {f"v{n}" for n in range(300)} <= set(re.findall(r"^v\d+(?= +IPv4 )", whole, re.M))
    assert whole.count("v0, v1, v10, 297 more VIPs queries IPv4 udp/53 tcp/53  each dsr") == 1  # alike: shown once


def test_the_total_of_a_pool_is_that_of_its_vips_alone() -> None:
    report = many(3, 2)  # p0 has two
    assert [(p.pool, p.vips, p.rules) for p in report.pools] == [("p0", 2, 256), ("p1", 1, 128)]
    (alone,) = [v for v in report.vips if v.vip == "v1"]
    assert (report.pools[1].rates.queries, report.pools[1].rates.connections) == (alone.queries, alone.connections)
    told = report.as_json()["pools"]
    assert [(p["pool"], p["vips"], p["hardware_rules"]) for p in told] == [("p0", 2, 256), ("p1", 1, 128)]
    assert alone.queries is not None
    assert told[1]["queries_per_s"]["limit"] == alone.queries.limit


@pytest.mark.parametrize("width", [80, 120])
def test_no_figure_is_truncated_on_a_narrow_screen(width: int) -> None:
    lines = shown(many(30, 3), many(30, 3), width=width).splitlines()
    assert all(len(line) <= width and "\u2026" not in line for line in lines)
    heading = next(line for line in lines if line.startswith("pool ") and "basis" in line)
    assert re.split("  +", heading.strip()) == ["pool", "VIPs", "rules", *RATES, "limited by; basis"]
