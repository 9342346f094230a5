# SPDX-License-Identifier: Apache-2.0
"""`init`: a first spec for a site, from flags or from answers in a terminal, that `check` proves."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from dnsteer.checks.load import load_spec
from dnsteer.cli.output import Exit
from tests.packet.command import run
from tests.packet.init_cases import FAMILIES, MACS, NEXT_HOP, SITES, V4, V6, VIPS, asked, flags


@pytest.mark.parametrize("families", FAMILIES)
@pytest.mark.parametrize(("site", "probe", "nat"), SITES)
def test_every_site_is_proven(site: str, probe: bool, nat: bool, families: str, tmp_path: Path) -> None:
    spec = tmp_path / "site.yaml"
    done = run(*flags(site, families, probe=probe, nat=nat), "-o", spec)
    assert (done.code, done.err) == (0, ""), done.err
    checked = run("check", spec, "--sample", 4)
    assert (checked.code, checked.err) == (0, ""), checked.out + checked.err
    text = spec.read_text()
    assert text.count("#") > 6 and max(map(len, text.splitlines())) <= 125
    found = load_spec(spec).spec
    (vip,) = found.vips.values()
    assert list(map(str, vip.addresses)) == VIPS[families] and vip.forwarding.value == ("nat" if nat else "dsr")
    (pool,) = found.pools.values()
    assert [b.mac for b in pool.backends] == MACS
    assert (pool.serves == "resolver") is (site == "resolvers") and bool(found.switch.probe) is probe
    assert bool(pool.health) is (probe or site == "resolvers")


def test_the_output_names_the_next_commands(tmp_path: Path) -> None:
    spec = tmp_path / "s.yaml"
    done = run(*flags("resolvers", "both", probe=True), "-o", spec)
    for command in ("check", "lint", "bringup", "plan", "apply"):
        assert f"  dnsteer {command} {spec}" in done.out
    assert "  dnsteer agent " in done.out
    again = run(*flags("resolvers", "both"), "-o", spec, "--json", "--force")
    assert again.json["next"][0] == f"dnsteer check {spec}"


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    spec = tmp_path / "s.yaml"
    spec.write_text("mine\n")
    done = run(*flags("dsr", "v4"), "-o", spec)
    assert done.code == Exit.ERROR and "--force replaces it" in done.err and spec.read_text() == "mine\n"
    assert run(*flags("dsr", "v4"), "-o", spec, "--force").code == 0 and "apiVersion" in spec.read_text()
    shown = run(*flags("dsr", "v4"), "-o", "-")
    assert shown.out == spec.read_text() and yaml.safe_load(shown.out)["vips"]["dns"]["pool"] == "authoritative"


def test_without_terminal_and_flags_usage_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words, missing in (
        ([], "--site, --vip, --backend"),
        (["--site", "nat", "--vip", V4], "--backend, --gateway, --next-hop"),
    ):
        done = run("init", *words)
        said = " ".join(done.err.split())
        assert done.code == Exit.USAGE and "no terminal to ask" in said, said
        assert all(flag in said for flag in missing.split(", "))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flag", "value", "said", "code"),
    [
        ("--site", "anycast", "expected one of dsr, nat, resolvers", Exit.USAGE),
        ("--vip", "192.0.2", "expected an IP address", Exit.USAGE),
        ("--backend", "ns1,192.0.2.11", "expected NAME,ADDRESS,MAC", Exit.USAGE),
        ("--backend", "ns1,192.0.2.11,192.0.2.12,02:00:00:00:01:01", "expected NAME,ADDRESS,MAC", Exit.USAGE),
        ("--backend", "ns 1,192.0.2.11,02:00:00:00:01:01", "expected a name", Exit.USAGE),
        ("--mac", "01:00:5e:00:00:01", "MAC address of one station", Exit.USAGE),
        ("--probe", "192.0.2.9", "with its prefix length", Exit.USAGE),
        ("--flavor", "ovs", "expected one of ovs-doca", Exit.USAGE),
        ("--gateway", "192.0.2.1", "found --gateway for --site dsr", Exit.USAGE),
        ("--next-hop", NEXT_HOP, "found --next-hop for servers that answer the clients themselves", Exit.USAGE),
        ("--probe", "192.0.2.9/24", "expected --zone NAME too", Exit.USAGE),
        ("--zone", "example..org", "it has an empty label", Exit.USAGE),
        ("--vip", V6, f"dnsteer: --vip {V6}: found", Exit.ERROR),  # found when the spec is checked
        ("--vip", "192.0.2.11", "dnsteer: --backend ns1: found", Exit.ERROR),
        ("--vip", "192.0.2.11", "see --vip 192.0.2.11 nothing was written", Exit.ERROR),
    ],
)
def test_wrong_answers_write_nothing(flag: str, value: str, said: str, code: Exit, tmp_path: Path) -> None:
    spec = tmp_path / "s.yaml"
    done = run(*flags("dsr", "v4"), flag, value, "-o", spec)
    words = " ".join("".join(c for c in done.err if c not in "\u2502\u256d\u256e\u2570\u256f\u2500").split())
    assert done.code == code and said in words, done.err
    assert not spec.exists()


@pytest.mark.parametrize("word", ["true", "null", "1e3", "0x10"])
def test_words_of_yaml_are_names(word: str, tmp_path: Path) -> None:
    spec, zone = tmp_path / "s.yaml", "it's.example.org" if word == "true" else word
    words = ["--name", word, "--zone", zone, "--backend", f"{word}-4,192.0.2.14,02:00:00:00:01:04"]
    words += ["--backend", f"{word},192.0.2.15,02:00:00:00:01:05"]
    words += ["--bridge", word, "--uplink", word.upper()] if word.isalpha() else []
    done = run(*flags("dsr", "v4"), *words, "-o", spec)
    assert (done.code, done.err) == (0, ""), done.err
    found = load_spec(spec).spec
    (pool,) = found.pools.values()
    assert (found.switch.name, pool.backends[-1].name) == (word, word)
    assert pool.health[0].query.name == f"{zone}."
    by_others = yaml.safe_load(spec.read_text())  # a reader of YAML 1.1
    assert by_others["switch"]["name"] == word and by_others["pools"]["authoritative"]["backends"][-1]["name"] == word


def test_a_wrong_flag_is_an_error_in_json(tmp_path: Path) -> None:
    done = run(*flags("dsr", "v4"), "--vip", "192.0.2.11", "-o", tmp_path / "s.yaml", "--json")
    (error,) = done.json["errors"]
    assert (done.code, error["flag"], error["line"]) == (Exit.ERROR, "--backend ns1", 0)
    assert list(tmp_path.iterdir()) == []


def test_next_commands_are_quoted_for_a_shell(tmp_path: Path) -> None:
    spec = tmp_path / "my site.yaml"
    done = run(*flags("dsr", "v4"), "-o", spec, "--json")
    assert shlex.split(done.json["next"][0]) == ["dnsteer", "check", str(spec)]


def test_answers_in_a_terminal_make_a_spec(tmp_path: Path) -> None:
    spec = tmp_path / "asked.yaml"
    answers = [
        "nowhere",
        "nat",
        "example..org",
        "",
        "dpu-7",
        "ovs-netdev",
        "",
        "",
        V4,
        "",
        "ns1,192.0.2.11",
        f"ns1,192.0.2.11,{MACS[0]}",
        f"ns2,192.0.2.12,{MACS[1]}",
        "",
        "192.0.2.1",
        "",
        NEXT_HOP,
    ]
    code, questions, shown = asked(answers, "-o", spec)
    assert code == 0, questions
    assert "found 'nowhere'; expected one of dsr, nat, resolvers" in questions
    assert "expected NAME,ADDRESS,MAC" in questions and "it has an empty label" in questions
    assert "written: site nat, 2 servers" in shown
    assert run("check", spec, "--sample", 4).code == 0
    switch = load_spec(spec).spec.switch
    assert (switch.name, switch.flavor.value, list(switch.uplinks)) == ("dpu-7", "ovs-netdev", ["p0"])


def test_answers_that_contradict_each_other_are_kept_as_a_draft(tmp_path: Path) -> None:
    spec, drafts = tmp_path / "asked.yaml", [tmp_path / "asked.yaml.draft", tmp_path / "asked.yaml.draft1"]
    answers = ["dsr", "", "dpu-7", "ovs-netdev", "", "", "192.0.2.11", "", f"ns1,192.0.2.11,{MACS[0]}", ""]
    for draft in drafts:  # one that is being corrected stays
        code, questions, _ = asked(answers, "-o", spec)
        said = " ".join(questions.split())
        line = 1 + next(n for n, text in enumerate(draft.read_text().splitlines()) if "name: ns1" in text)
        assert code == Exit.ERROR and f"{draft}:{line}: $.pools" in said, said
        assert f"your answers are kept there; correct it, then: dnsteer check {draft} && mv {draft} {spec}" in said
    assert sorted(tmp_path.iterdir()) == drafts


def test_flags_are_checked_before_any_question(tmp_path: Path) -> None:
    for words in (["--mac", "x"], ["-o", tmp_path / "none" / "s.yaml"], ["-o", tmp_path]):
        code, questions, _ = asked([], *words)
        assert code in (Exit.USAGE, Exit.ERROR) and "site (" not in questions, questions


def test_a_probe_makes_the_zone_a_question(tmp_path: Path) -> None:
    spec = tmp_path / "s.yaml"
    code, questions, _ = asked(["", "example.org"], *flags("dsr", "v4")[1:], "--probe", "192.0.2.9/24", "-o", spec)
    assert code == 0 and load_spec(spec).spec.switch.probe, questions
