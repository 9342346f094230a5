# SPDX-License-Identifier: Apache-2.0
"""A spec of several files on a running switch: applied, shown, verified and brought back, whatever became of its files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from tests.packet.agents import agent
from tests.packet.command import on
from tests.packet.switches import BRIDGE, VIP_TABLE, Switch, cli

SITES = Path(__file__).resolve().parents[2] / "examples" / "two-sites"
SPEC = "site/ams-1.yaml"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the example, in the folder in which commands run."""
    copytree(SITES, tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "site"


def edit(file: Path, old: str, new: str) -> None:
    """Replace a text that a file has."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_record_needs_no_file(switch: Switch, site: Path) -> None:
    """Places in messages are those of the files, and a rollback brings back what they said then."""
    run = on(switch)
    assert run("apply", SPEC, "--yes").code == 0
    before = switch.tables()
    assert run("verify").code == 0 and run("verify", SPEC).code == 0
    shown = run("show").out
    assert shown == run("show", "--effective", SPEC).out
    assert "        weight: 2  # shared/switch.yaml:21 by $.defaults.backends.weight" in shown.splitlines()
    edit(site / "shared/switch.yaml", "weight: 2", "weight: 5")
    planned = run("plan", SPEC)
    assert "backend resolvers/ams-r1: weight 2 -> 5 (site/shared/switch.yaml:21)" in planned.out
    first = run("plan", SPEC, "--json").json["changes"][0]
    assert (first["file"], first["line"]) == ("site/shared/switch.yaml", 21)
    assert run("apply", SPEC, "--yes").code == 0 and switch.tables() != before
    rmtree(site)
    assert run("verify").code == 0
    assert run("rollback", "--yes").code == 0 and switch.tables() == before
    assert run("show").out == shown
    switch.ofctl("del-flows", f"{VIP_TABLE},udp")
    drift = run("verify")
    assert drift.code == 2 and "port 53/udp (site/shared/vips.yaml:5): cookie=" in drift.out
    assert "site/shared/vips.yaml" in {each["file"] for each in run("verify", "--json").json["drift"]}
    assert run("restore").code == 0 and switch.tables() == before
    cookie = next(f for f in switch.flows() if f"{VIP_TABLE}," in f and "tp_dst=53" in f).split("=")[1].split(",")[0]
    assert "site/shared/vips.yaml:" in run("explain", "--live", "--cookie", cookie).out


def test_a_plan_file_holds_all_parts(switch: Switch, site: Path) -> None:
    run = on(switch)
    assert run("plan", SPEC, "-o", "change.json").code == 2
    rmtree(site)
    assert run("apply", "--plan", "change.json", "--yes").code == 0
    assert run("verify").code == 0 and "# shared/switch.yaml:" in run("show").out


def test_nothing_is_changed_where_a_part_is_wrong(switch: Switch, site: Path) -> None:
    run = on(switch)
    edit(site / "vars/ams-1.yaml", "switch_mac", "switch_nac")
    refused = run("apply", SPEC, "--yes")
    assert (refused.code, switch.bridges()) == (1, [])
    assert refused.err == (
        'site/shared/switch.yaml:5: $.switch.mac: found the variable "switch_mac", which is not set; expected a variable '
        "that vars, the file vars/NAME.yaml of the switch, or --vars sets\n"
        '    hint: did you mean "switch_nac"?\n'
        "1 error in site/ams-1.yaml; nothing was changed\n"
    )
    found = run("apply", SPEC, "--yes", "--json").json
    assert found["errors"][0]["file"] == "site/shared/switch.yaml" and found["errors"][0]["line"] == 5
    (site / "given.yaml").write_text("switch_mac: 02:00:00:00:00:99\n")
    assert run("apply", SPEC, "--yes", "--vars", "site/given.yaml").code == 0
    assert "# shared/switch.yaml:5, ${switch_mac} of given.yaml:1" in run("show").out


def test_an_agent_gets_the_spec_in_one_piece(switch: Switch, site: Path) -> None:
    """It may run as somebody else, elsewhere, and its messages are those of the command without it."""
    run = on(switch)
    assert run("apply", SPEC, "--yes").code == 0
    shown = run("show").out
    (site / "given.yaml").write_text("probe4: 10.53.1.77\n")
    with agent(switch, site.parent):
        same = run("apply", SPEC, "--yes")
        assert same.out == f"{BRIDGE}: nothing to change\n"
        edit(site / "sites/ams.yaml", "weight: 1", "weight: 3")
        planned = run("plan", SPEC, "--vars", "site/given.yaml")
        assert "weight 1 -> 3 (site/sites/ams.yaml:12)" in planned.out
        (site / "given.yaml").write_text("probe4: 10.53.1.77\nspare: 1\n")
        applied = run("apply", SPEC, "--yes", "--vars", "site/given.yaml")
        assert (
            applied.code == 0 and 'site/given.yaml:2: $.spare: found the variable "spare", which nothing' in applied.err
        )
        assert run("show").out == run("show", "--effective", SPEC, "--vars", "site/given.yaml").out != shown
        edit(site / "sites/ams.yaml", "10.53.1.11", "10.53.1.300")
        refused = run("apply", SPEC, "--yes")
        assert "site/sites/ams.yaml:10: $.pools.resolvers.backends[0].ipv4: found" in refused.err and refused.code == 1


def test_an_agent_gets_standard_input_in_one_piece(switch: Switch, site: Path) -> None:
    """It is read once, and a mistake in it has its line."""
    run = on(switch)
    assert run("apply", SPEC, "--yes").code == 0
    copy = run("show").out.replace("weight: 2", "weight: 4")

    def plan(text: str) -> str:
        argv = [sys.executable, "-m", "dnsteer", "plan", "-", "--db", switch.database]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=60)
        return done.stdout + done.stderr

    with agent(switch, site.parent) as running:
        line = next(n for n, text in enumerate(copy.splitlines(), 1) if "weight: 4" in text)
        assert f"backend resolvers/ams-r1: weight 2 -> 4 (<stdin>:{line})" in plan(copy)
        whole = "\n".join(line for line in copy.splitlines() if "weight: 4" not in line)
        said = plan(f"defaults: {{backends: {{weight: 7}}}}\n{whole}\n")
        assert "backend resolvers/ams-r1: weight 2 -> 7 (<stdin>:1)" in said
        assert '<stdin>:1: $.include[0]: found "none.yaml", which is not there' in plan(
            f"include: [none.yaml]\n{whole}\n"
        )
        running.hang(switch)
        said = plan(copy)  # the command does it itself then, with what it has read
        running.process.send_signal(signal.SIGCONT)
        assert f"backend resolvers/ams-r1: weight 2 -> 4 (<stdin>:{line})" in said


def test_a_record_with_invisible_characters_is_read_again(switch: Switch, site: Path) -> None:
    """As rollback, verify and the agent do."""
    run = on(switch)
    reason = '"a\\x85b\\u2028c  # line 5"'
    (site / "shared/a b:1 # c.yaml").write_text(f"lint:\n  accept:\n    - {{code: DNS010, reason: {reason}}}\n")
    assert run("apply", SPEC, "--yes").code == 0 and run("verify").code == 0
    edit(site / "shared/switch.yaml", "weight: 2", "weight: 5")
    assert run("apply", SPEC, "--yes").code == 0 and run("rollback", "--yes").code == 0
    with agent(switch, site.parent):
        assert run("verify").code == 0


def test_lint_and_explain_name_the_files(site: Path) -> None:
    edit(site / "sites/ams.yaml", "weight: 1", "weight: 0")
    found = json.loads(cli("lint", SPEC, "--json").stdout)
    places = {(finding["path"].split(".")[1], finding["file"]) for finding in found["findings"]}
    assert ("vips", "site/shared/vips.yaml") in places and ("switch", "site/ams-1.yaml") in places
    explained = cli("explain", SPEC, "--client", "203.0.113.9:4242", "--vip", "198.51.100.53:53/udp").stdout
    assert "site/shared/vips.yaml:5  cookie" in explained and "site/sites/ams.yaml:5  cookie" in explained
