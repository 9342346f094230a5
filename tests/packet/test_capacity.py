# SPDX-License-Identifier: Apache-2.0
"""`capacity` from a spec to its answers: the paths are those of real datapath flows."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dnsteer.cli import main

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = str(ROOT / "examples" / "quickstart.yaml")
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Exit code, output and messages of the command."""

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dnsteer", "capacity", *args])
        code = main._run()
        return code, *capsys.readouterr()

    return run


def test_what_if_the_quickstart_were_offloaded(command: Command, tmp_path: Path) -> None:
    """In software, the Arm cores bound it; offloaded, one datapath pass and a rule per slot, near the published 95 Mpps."""
    picture = ["--plot", str(tmp_path / "a.svg")]
    code, shown, said = command(
        QUICKSTART,
        "--hardware",
        "bluefield-3",
        "--set",
        "switch.flavor=ovs-doca",
        "--frame",
        "query",
        "--json",
        *picture,
    )
    assert (code, said) == (0, "")
    found = json.loads(shown)
    assert (found["ok"], found["hardware"], found["flavor"]) == (True, "bluefield-3", "ovs-doca")
    before, after = found["before"], found
    assert {p["offloaded"] for p in before["paths"]} == {"no"}
    assert {f["limit"] for p in before["paths"] for f in p["frames"]} == {"arm"}
    four = next(p for p in after["paths"] if p["family"] == "ipv4")
    assert (four["offloaded"], four["passes"], four["depth"], four["rules"]) == ("yes", 1, 1, 2 * 64)
    assert four["services"] == ["udp/53", "tcp/53"]
    assert four["frames"][0]["mpps"]["value"] == pytest.approx(95.0)
    assert after["all"]["queries_per_s"]["value"] > 2 * before["all"]["queries_per_s"]["value"]
    assert found["set"] == ["switch.flavor=ovs-doca"]
    assert not picture or (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("asked", "flavor", "offloaded"),
    [("ovs-doca", "ovs-doca", "yes"), ("ovs-doca-2", "ovs-doca", "yes"), ("ovs-netdev", "ovs-netdev", "no")],
)
def test_the_flavor_option_selects_who_judges_the_flows(
    asked: str, flavor: str, offloaded: str, command: Command
) -> None:
    """As lint has it: the spec stays as it is, the flows are judged by what is known of the other flavor."""
    card = [QUICKSTART, "--hardware", "bluefield-3", "--frame", "query", "--json"]
    code, shown, said = command(*card, "--flavor", asked)
    assert (code, said) == (0, "")
    found = json.loads(shown)
    assert (found["flavor"], found["before"]) == (flavor, None)
    assert {p["offloaded"] for p in found["paths"]} == {offloaded}
    own = json.loads(command(*card)[1]) if asked == "ovs-netdev" else None
    assert own in (None, found)


def test_the_table_names_limits_ranges_and_sources(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "COLUMNS", "140")
    code, shown, said = command(QUICKSTART, "--hardware", "bluefield-2", "--frame", "64", "--frame", "imix")
    assert (code, said) == (0, "")
    unwrapped = " ".join(shown.split())  # the line begins with the spec's path
    assert "ovs-netdev on NVIDIA BlueField-2, link 100 Gb/s, 1 Arm core for the rest" in unwrapped
    assert "dns queries IPv4 udp/53 tcp/53  dsr, source-port" in shown
    assert "not offloaded: on the Arm cores" in shown
    assert re.search(
        r"imix +362 +<= \d\.\d\d +not known +<= \d\d\.\d +\d+ % +Arm cores; extrapolation 1,2,3,4 a,b", shown
    )
    assert "what hardware would do: --flavor ovs-doca" in shown
    assert "middlebox" in shown
    assert "doi:10.1109/TC.2024.3500372" in shown


def test_missing_hardware_is_an_error_that_lists_known_cards(command: Command) -> None:
    code, shown, said = command(QUICKSTART)
    assert (code, shown) == (64, "")
    assert said == (
        f"dnsteer: {QUICKSTART}: $.switch has no key hardware, and --hardware is not given; "
        "known are bluefield-2, bluefield-3\n"
    )
    code, shown, said = command(QUICKSTART, "--json")
    assert (code, said) == (64, "")
    assert json.loads(shown)["ok"] is False


USAGE = {
    "--hardware connectx-7": "is not one of 'bluefield-2', 'bluefield-3'",
    "--frame tiny": "--frame: found 'tiny'; expected query, answer, imix, jumbo or a size of 64 to 9600 bytes",
    "--plot a.png": "--plot: found 'a.png'; expected a file name that ends in .svg",
    "--query-bytes 5": "'--query-bytes'",
    "--arm-cores 0": "'--arm-cores'",
    "--hardware bluefield-3 --flavor ovs": "--flavor: found 'ovs'; expected one of ovs-doca, ovs-doca-2",
    "--hardware bluefield-3 --flavor ovs-doca --set switch.flavor=ovs-kernel": "--set switch.flavor both name the flavor",
}


@pytest.mark.parametrize("line", USAGE)
def test_wrong_usage_is_64_and_helps(line: str, command: Command) -> None:
    code, shown, said = command(QUICKSTART, *line.split())
    assert (code, shown) == (64, "")
    assert USAGE[line] in said


def test_an_impossible_setting_is_named_by_its_path(command: Command) -> None:
    wrong = ["--hardware", "bluefield-3", "--set", "pools.authoritative.selection=rss"]
    code, shown, said = command(QUICKSTART, *wrong)
    assert (code, shown) == (1, "")
    expected = "source-port, source-address, dp-hash, client or spray"
    assert f'$.pools.authoritative.selection: found "rss"; expected {expected}' in said
    code, shown, said = command(QUICKSTART, *wrong, "--json")
    assert (code, said) == (1, "")
    assert json.loads(shown)["errors"][0]["path"] == "$.pools.authoritative.selection"
