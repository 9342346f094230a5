"""What capacity prints: figures that are known, that are the most, and that are anything between."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path as FilePath

import pytest
from rich.console import Console

from dnsteer.cli.capacity_view import view
from dnsteer.offload.capacity.bounds import Figures, figures, latencies
from dnsteer.offload.capacity.report import Report
from tests.unit.commands import Command
from tests.unit.test_capacity import BASE, THREE, TWO, asked

QUICKSTART = str(FilePath(__file__).resolve().parents[2] / "examples" / "quickstart.yaml")
CORES, UNKNOWN = replace(BASE, offloaded="no", rules=0), replace(BASE, offloaded="unknown")


def shown(report: Report, before: Report | None = None) -> str:
    """The text, on a wide screen."""
    console = Console(file=io.StringIO(), width=200)
    console.print(view(report, before, ["a=b"]))
    text = console.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def test_a_rate_of_the_cores_is_the_most_and_nothing_below_is_known() -> None:
    text = shown(asked([CORES]))
    assert re.search(r" 64 +<= 24\.9 +not known +<= 12\.8 ", text)
    assert re.search(r"dns +IPv4 +<= \d+\.\d M +not known ", text)


def test_where_offload_is_not_known_the_range_has_both_ends() -> None:
    text = shown(asked([UNKNOWN]))
    assert re.search(r" 64 +24\.9 +0\.0 \.\. 96\.7 +12\.8 ", text)
    assert re.search(r"dns +IPv4 +\d+\.\d M +0\.0 \.\. 95\.0 ", text)
    assert "not known " not in text.replace("offload not known: ", "")
    assert "<=" not in text


def test_a_what_if_of_which_only_the_range_is_another_is_not_the_same() -> None:
    assert re.search(r"dns +IPv4 +<= 23\.0 M -> 23\.0 M +0\.0 \.\. 95\.0 ", shown(asked([UNKNOWN]), asked([CORES])))
    assert re.search(r"dns +IPv4 +23\.0 M +same ", shown(asked([UNKNOWN]), asked([UNKNOWN])))


def of(report: Report) -> Figures:
    return figures(report.setup, report.ways[0].path, ((64, 1),))


def test_where_offload_is_not_known_latency_spans_both() -> None:
    report = asked([UNKNOWN])
    found, cores, hard = (latencies(report.setup, replace(BASE, offloaded=o), of(report).rate)  # type: ignore[arg-type]
                          for o in ("unknown", "no", "yes"))  # fmt: skip
    for either, slow, quick in ((found.low, cores.low, hard.low), (found.loaded, cores.loaded, hard.loaded)):
        assert quick.value < slow.value
        assert (either.value, either.low, either.high) == (slow.value, quick.low, slow.high)
        assert "the range's lower end holds" in either.because[0]


def test_each_latency_has_its_own_range() -> None:
    report = asked([CORES], TWO)
    low, loaded = report.ways[0].latencies.low, report.ways[0].latencies.loaded
    parts = [f"{e.value:.1f} ({e.low:.1f} .. {e.high:.1f})" for e in (low, loaded)]
    assert f"hosts included: {parts[0]} at low load, {parts[1]} at 90% of the rate;" in shown(report)
    exact = asked([replace(BASE, rewrites=0)], THREE)
    assert "hosts included: 13.7 at low load, " in shown(exact)


@pytest.mark.parametrize("setting", ["switch.hardware=bluefield-2", "$.switch.hardware = bluefield-3"])
def test_hardware_by_option_and_by_setting_is_refused(setting: str, command: Command) -> None:
    code, out, said = command("capacity", QUICKSTART, "--hardware", "bluefield-3", "--set", setting)
    assert (code, out) == (64, "")
    assert said == "dnsteer: --hardware and --set switch.hardware both say for which: give one of them\n"


def test_a_picture_that_cannot_be_written_is_refused_before_the_work(
    command: Command, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dnsteer.cli.capacity.load", lambda *_: pytest.fail("it began"))
    for file, why in ((tmp_path / "none" / "x.svg", f"there is no folder {tmp_path / 'none'}"),
                      (tmp_path / "dir.svg", f"{tmp_path / 'dir.svg'} is a folder; expected a file")):  # fmt: skip
        (tmp_path / "dir.svg").mkdir(exist_ok=True)
        done = command("capacity", QUICKSTART, "--hardware", "bluefield-3", "--plot", str(file))
        assert done == (1, "", f"dnsteer: --plot: {why}\n")
