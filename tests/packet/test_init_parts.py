# SPDX-License-Identifier: Apache-2.0
"""`init --parts`: the same spec in parts, of which a second switch needs two small files more."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

from dnsteer.checks.load import load_spec
from dnsteer.cli.output import Exit
from dnsteer.render import atomic_files
from dnsteer.render.files import rendered
from dnsteer.spec.file_schema import spec_file_schema, variables_schema
from dnsteer.spec.yaml_reader import read_yaml
from tests.packet.command import run
from tests.packet.init_cases import FAMILIES, MACS, SITES, V4, asked, flags

PARTS = ["dpu-1.yaml", "site.yaml", "vars/dpu-1.yaml"]


def files_in(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def without_places(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: re.sub(r"[\w/.-]+\.yaml(:\d+)?", "SPEC", text) for name, text in texts.items()}


@pytest.mark.parametrize("families", FAMILIES)
@pytest.mark.parametrize(("site", "probe", "nat"), SITES)
def test_a_site_in_parts_is_the_same_spec(site: str, probe: bool, nat: bool, families: str, tmp_path: Path) -> None:
    whole, own = tmp_path / "whole.yaml", tmp_path / "parts" / "dpu-1.yaml"
    own.parent.mkdir()
    words = flags(site, families, probe=probe, nat=nat)
    assert run(*words, "-o", whole).code == 0
    done = run(*words, "--parts", "-o", own)
    assert (done.code, done.err) == (0, ""), done.err
    assert files_in(own.parent) == PARTS
    one, parts = load_spec(whole), load_spec(own)
    assert (parts.spec, parts.digest, parts.warnings) == (one.spec, one.digest, ())
    texts, same = without_places(rendered(parts)), without_places(rendered(one))
    assert {name: texts[name] for name in same} == same  # parts have the effective spec besides
    for name in PARTS:
        text = (own.parent / name).read_text()
        assert text.startswith("# ") and max(map(len, text.splitlines())) <= 125
        schema = variables_schema() if name.startswith("vars/") else spec_file_schema()
        jsonschema.validate(read_yaml(own.parent / name).value, schema)
    if families == "both":
        checked = run("check", own, "--sample", 4)
        assert (checked.code, checked.err) == (0, ""), checked.out + checked.err


@pytest.mark.parametrize("name", ["dpu-1", "dpu-09", "edge", "true", "1", "n" * 63])
def test_a_second_switch_is_made_by_the_commands_that_are_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*flags("dsr", "both", probe=True), "--name", name, "--parts")
    assert files_in(tmp_path) == sorted([f"{name}.yaml", "site.yaml", f"vars/{name}.yaml"])
    second = re.findall(r"such as (.+), copy two files", done.out)[0]
    copies = re.findall(r"^  (cp .*?)  +then write (.*) there", done.out, re.MULTILINE)
    assert [about for _, about in copies] == ["its name", "its MAC address and the addresses of its probes"]
    for command, _ in copies:
        subprocess.run(command, shell=True, check=True)
    own, variables = Path(f"{second}.yaml"), Path("vars", f"{second}.yaml")
    assert own.read_text().count("\n") < 8 and variables.read_text().count("\n") < 8
    own.write_text(re.sub("name: .*?  #", f"name: '{second}'  #", own.read_text()))
    text = variables.read_text().replace(":53\n", ":57\n").replace(".9/24", ".10/24").replace("::9/", "::a/")
    variables.write_text(text)
    checked = re.findall(r"^  (dnsteer check \S+)  +and so on", done.out, re.MULTILINE)
    assert shlex.split(checked[0]) == ["dnsteer", "check", str(own)]
    ours, theirs = (load_spec(Path(f"{one}.yaml")).spec for one in (name, second))
    assert (theirs.switch.name, theirs.switch.mac) == (second, "02:00:00:00:00:57")
    assert theirs.switch.probe and list(map(str, theirs.switch.probe.addresses)) == ["192.0.2.10/24", "2001:db8::a/64"]
    differing = {"name": name, "mac": ours.switch.mac, "probe": ours.switch.probe}
    assert theirs.model_copy(update={"switch": theirs.switch.model_copy(update=differing)}) == ours
    again = run(*flags("dsr", "both", probe=True), "--name", name, "--parts", "--force")
    assert f"such as {second}, " not in again.out  # its files are there now


def test_the_next_commands_name_the_switchs_own_file(tmp_path: Path) -> None:
    own = tmp_path / "my dpu.yaml"
    done = run(*flags("resolvers", "v4"), "--parts", "-o", own)
    for verb in ("check", "lint", "bringup", "plan", "apply"):
        assert f"  dnsteer {verb} {shlex.quote(str(own))}" in done.out
    shown = run(*flags("resolvers", "v4"), "--parts", "-o", own, "--force", "--json").json
    assert shown["files"] == [str(own), str(tmp_path / "site.yaml"), str(tmp_path / "vars" / "dpu-1.yaml")]
    assert (shown["file"], shlex.split(shown["next"][0])) == (str(own), ["dnsteer", "check", str(own)])


def test_addresses_of_probes_of_one_family_are_variables_each(tmp_path: Path) -> None:
    words = [*flags("dsr", "v4", probe=True), "--probe", "198.51.100.9/24", "--parts", "-o", tmp_path / "a.yaml"]
    assert run(*words).code == 0
    variables = read_yaml(tmp_path / "vars" / "dpu-1.yaml").value
    assert [variables[key] for key in ("probe_ipv4", "probe_ipv4_2")] == ["192.0.2.9/24", "198.51.100.9/24"]
    probe = load_spec(tmp_path / "a.yaml").spec.switch.probe
    assert probe and list(map(str, probe.addresses)) == ["192.0.2.9/24", "198.51.100.9/24"]


@pytest.mark.parametrize("there", PARTS)
def test_a_file_that_is_there_is_named_and_nothing_is_written(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(there).parent.mkdir(exist_ok=True)
    Path(there).write_text("mine\n")
    words = [*flags("dsr", "v4"), "--parts"]
    done = run(*words)
    assert done.code == Exit.ERROR and f"dnsteer: {there}: is there already; --force replaces it" in done.err
    assert files_in(tmp_path) == [there] and Path(there).read_text() == "mine\n"
    assert json.loads(run(*words, "--json").out)["error"].startswith(there)
    assert run(*words, "--force").code == 0 and files_in(tmp_path) == PARTS
    assert load_spec(Path("dpu-1.yaml")).spec.switch.name == "dpu-1"
    again = run(*words)
    assert f"dnsteer: {', '.join(PARTS)}: are there already; --force replaces them" in again.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-o", "-"], Exit.USAGE, "found -o - with --parts, which writes three files"),
        (["-o", "site.yaml"], Exit.ERROR, "site.yaml: is the place of what the switches of the site have in common"),
        (["--name", "site"], Exit.ERROR, "site.yaml: is the place of what the switches of the site have in common"),
        (["-o", "vars"], Exit.ERROR, "vars: is the place of the switches' variables"),
        (["-o", "none/a.yaml"], Exit.ERROR, "none/a.yaml: found no directory none"),
        (["-o", "vars/a.yaml"], Exit.ERROR, "vars/a.yaml: found no directory vars"),
        (["-o", "pipe", "--force"], Exit.ERROR, "pipe: found a device or a pipe"),
        (["-o", "folder"], Exit.ERROR, "folder: found a directory"),
        (["-o", "folder/a.yaml"], Exit.ERROR, "folder/vars/dpu-1.yaml: found no directory folder/vars"),
    ],
)
def test_places_where_parts_cannot_be_are_refused(
    words: list[str], code: Exit, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder", "vars").write_text("a file\n")
    os.mkfifo("pipe")  # and no device: if it were replaced, all programs would miss it
    done = run(*flags("dsr", "v4"), "--parts", *words)
    assert (done.code, done.out) == (code, "") and said in " ".join(done.err.split()), done.err
    assert files_in(tmp_path) == ["folder/vars"] and Path("pipe").is_fifo()


def test_all_parts_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, written = atomic_files._beside, []

    def full_disk(target: Path, *others: object) -> Path:
        written.append(target.name)
        if len(written) == len(PARTS):
            raise OSError(28, "No space left on device")
        return beside(target, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(atomic_files, "_beside", full_disk)
    done = run(*flags("dsr", "v4"), "--parts", "-o", tmp_path / "dpu-1.yaml")
    assert done.code == Exit.ERROR and "vars/dpu-1.yaml: No space left on device" in done.err
    assert len(written) == len(PARTS) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [["--vip", "192.0.2.11"], ["--backend", "ns1,192.0.2.9,02:00:00:00:01:09"]])
def test_a_wrong_flag_is_reported_as_of_a_spec_in_one_file(wrong: list[str], tmp_path: Path) -> None:
    words = [*flags("dsr", "v4"), *wrong, "-o", tmp_path / "dpu-1.yaml"]
    whole, parts = run(*words), run(*words, "--parts")
    assert (parts.code, parts.out, parts.err) == (whole.code, whole.out, whole.err) and whole.code == Exit.ERROR
    assert "--backend ns1: found" in parts.err and list(tmp_path.iterdir()) == []
    assert run(*words, "--parts", "--json").json == run(*words, "--json").json


def test_contradictory_answers_are_kept_as_parts(tmp_path: Path) -> None:
    own, drafts = tmp_path / "dpu-7.yaml", [tmp_path / "dpu-7.yaml.draft", tmp_path / "dpu-7.yaml.draft1"]
    answers = ["dsr", "", "dpu-7", "ovs-netdev", "", "", "192.0.2.11", "", f"ns1,192.0.2.11,{MACS[0]}", ""]
    parts = ["dpu-7.yaml", "site.yaml", "vars/dpu-7.yaml"]
    for draft in drafts:  # one that is being corrected stays
        code, questions, _ = asked(answers, "--parts", "-o", own)
        said = " ".join(questions.split())
        assert files_in(draft) == parts
        line = 1 + next(
            n for n, text in enumerate((draft / "site.yaml").read_text().splitlines()) if "name: ns1" in text
        )
        assert code == Exit.ERROR and f"{draft}/site.yaml:{line}: $.pools" in said, said
    (tmp_path / "vars").mkdir()
    (tmp_path / "vars" / "dpu-6.yaml").write_text("mac: 02:00:00:00:00:63\n")  # of another site's switch
    text = (drafts[1] / "site.yaml").read_text()
    (drafts[1] / "site.yaml").write_text(text.replace("ipv4: 192.0.2.11", "ipv4: 192.0.2.12"))
    command = said.partition("correct it, then: ")[2]
    assert command.startswith(f"dnsteer check {drafts[1]}/dpu-7.yaml && ")
    command = command.replace("dnsteer check", f"{shlex.quote(sys.executable)} -m dnsteer check")
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert not drafts[1].exists() and load_spec(own).spec.switch.name == "dpu-7"


def test_a_name_whose_files_are_there_is_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "vars").mkdir()
    (tmp_path / "vars" / "dpu-1.yaml").write_text("mac: 02:00:00:00:00:53\n")
    answers = ["dsr", "", "dpu-1", "dpu-2", "ovs-netdev", "", "", V4, "", f"ns1,192.0.2.11,{MACS[0]}", ""]
    code, questions, _ = asked(answers, "--parts", "-o", tmp_path / "own.yaml")
    assert code == 0, questions
    assert "--name: " in questions and "vars/dpu-1.yaml: is there already" in " ".join(questions.split())
    assert load_spec(tmp_path / "own.yaml").spec.switch.name == "dpu-2"


def test_files_that_are_there_are_named_before_any_question(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("mine\n")
    code, questions, _ = asked([], "--parts", "-o", tmp_path / "own.yaml")
    assert code == Exit.ERROR and "site (" not in questions and "site.yaml: is there already" in questions
