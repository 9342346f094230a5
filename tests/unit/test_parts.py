# SPDX-License-Identifier: Apache-2.0
"""Specs of several files are what a copy of all of it in one file is, in whatever order the files are read."""

from __future__ import annotations

import random
import re
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dnsteer.capacity.whatif import with_settings
from dnsteer.checks.load import check_document, load_spec
from dnsteer.render.files import rendered
from dnsteer.spec.document import Document
from dnsteer.spec.errors import SpecError, warning_lines
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.parts.effective_text import without_places
from dnsteer.spec.read import parse_document, parse_recorded, read_document, read_effective, text_to_send
from dnsteer.spec.yaml_reader import parse_yaml
from tests.unit.part_cases import HEAD, POOL, SWITCH, VIP, load_with, other_pool, write

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
SITES, COPIES = EXAMPLES / "two-sites", Path(__file__).resolve().parents[1] / "copies"
SWITCHES = ("ams-1", "ams-2", "fra-1", "fra-2")


def without_comments(texts: dict[str, str]) -> dict[str, list[str]]:
    """Rendered files without what their comments say of the places in specs, and of the file's name."""
    return {
        name: [line for line in text.replace("two-sites", "").splitlines() if not line.lstrip().startswith("#")]
        for name, text in texts.items()
    }


def comments_without_places(text: str, loaded: Loaded) -> list[str]:
    """The comments of a rendered file, in which places in specs are left out."""
    return [line.partition(" (")[0] for line in text.splitlines() if line.startswith("#") and loaded.file not in line]


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_of_the_example_is_rendered_as_its_copy(name: str) -> None:
    """Byte for byte, but for the places in comments, which are those of the files that people edit."""
    parts, copy = load_spec(SITES / f"{name}.yaml"), load_spec(COPIES / f"{name}.yaml")
    assert parts.digest == copy.digest
    made, wanted = rendered(parts), rendered(copy)
    effective = parse_document("x", made.pop("effective.yaml"))
    assert check_document(effective).digest == parts.digest and effective.parts == {}
    assert without_comments(made) == without_comments(wanted)
    for file in made:
        assert comments_without_places(made[file], parts) == comments_without_places(wanted[file], copy)
    assert "(shared/vips.yaml:4 $.vips.resolver" in made["flows.txt"] and "sites/" in made["flows.txt"]
    assert parts.warnings == copy.warnings == ()


@pytest.mark.parametrize("file", sorted([*EXAMPLES.glob("*.yaml"), *(SITES / f"{n}.yaml" for n in SWITCHES)]), ids=str)
def test_an_effective_spec_is_the_same_spec_with_the_same_places(file: Path) -> None:
    """As a record has it: its text alone, with the places of the files that it was made of."""
    document = read_effective(file)
    again = parse_recorded(str(file), document.text)
    assert again.value == document.value
    for path in document.lines:
        if path and path[0] not in ("include", "vars", "defaults", "requires"):
            place, kept = document.place(path), again.place(path)
            assert (kept.part, kept.line, kept.path) == (place.part, place.line, place.path), path
            assert set(place.origins) <= set(kept.origins), path
    assert check_document(again).digest == load_spec(file).digest
    assert parse_recorded(str(file), again.text).text == document.text


def test_a_saved_effective_spec_is_a_file_of_its_own(tmp_path: Path) -> None:
    """Whoever edits it is told of its own lines, also when it is recorded."""
    saved = tmp_path / "saved.yaml"
    saved.write_text(read_effective(SITES / "ams-1.yaml").text)
    document = read_document(saved)
    assert check_document(document).digest == load_spec(SITES / "ams-1.yaml").digest
    line = document.line(("switch", "mac"))
    assert "mac:" in saved.read_text().splitlines()[line - 1]
    again = parse_recorded(str(saved), document.text)
    assert (again.line(("switch", "mac")), again.part(("switch", "mac"))) == (line, "")


def test_places_are_left_out_for_comparisons() -> None:
    document = read_effective(SITES / "fra-1.yaml")
    assert parse_yaml("x", without_places(document.text)).value == document.value
    assert "#" not in without_places(document.text)
    assert without_places("a: 1  # line 5\n") == "a: 1  # line 5\n"


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    pools = {name: other_pool(name, number) for number, name in enumerate("abc", 2)}
    vips = {
        name: VIP.replace("dns:", f"{name}:").replace(".53", f".5{number}").replace(": ns", f": {name}")
        for number, name in enumerate("abc")
    }
    parts = {
        name: f"{pools[name]}{vips[name]}lint: {{accept: [{{code: DNS01{n}, reason: x}}]}}\n"
        for n, name in enumerate("abc")
    }
    texts, digests = set[str](), set[str]()
    for order in (["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]):
        include = f"include: [{', '.join(f'{name}.yaml' for name in order)}]\n"
        loaded = load_spec(write(tmp_path, spec=f"{HEAD}{include}{SWITCH}", **parts))
        assert [*loaded.spec.pools] == [*loaded.spec.vips] == ["a", "b", "c"]
        assert [entry.code for entry in loaded.spec.lint.accept] == ["DNS010", "DNS011", "DNS012"]
        for document in (loaded.document, parse_recorded(str(tmp_path / "spec.yaml"), loaded.document.text)):
            code = document.finding(("lint", "accept", 1, "code"), "x", "y")
            assert (code.part, code.line, code.path, code.found) == ("b.yaml", 7, ("lint", "accept", 0, "code"), "x")
        texts.add(re.sub("spec.yaml sha256.*", "", loaded.document.text))
        digests.add(loaded.digest)
    assert len(texts) == len(digests) == 1


def test_what_one_file_has_keeps_its_order(tmp_path: Path) -> None:
    """So a spec whose pools or VIPs are moved to a file of their own stays as it is."""
    example = (EXAMPLES / "authoritative.yaml").read_text()
    start = example.index("pools:")
    end = example.index("vips:")
    spec = write(tmp_path, spec="include: [pools.yaml]\n" + example[:start] + example[end:], pools=example[start:end])
    assert load_spec(spec).digest == load_spec(EXAMPLES / "authoritative.yaml").digest


def test_a_spec_of_one_file_is_read_as_it_is_written() -> None:
    for file in EXAMPLES.glob("*.yaml"):
        assert read_document(file).text == file.read_text()


# What somebody could write into a spec and move to another file: paths of objects that stand for themselves.
def _movable(value: dict[str, Any]) -> list[tuple[str, ...]]:
    names = [(kind, name) for kind in ("pools", "vips") for name in value[kind]]
    return [*names, *(("switch", key) for key in value["switch"]), *([("lint",)] if "lint" in value else [])]


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 30), example=st.sampled_from(sorted(EXAMPLES.glob("*.yaml"))))
def test_a_spec_that_is_split_at_random_is_the_same(
    seed: int, example: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each object, key of the switch and scalar may move: to another file, into a variable, or into defaults."""
    chance = random.Random(seed)
    folder = tmp_path_factory.mktemp("split")
    whole = parse_yaml("x", example.read_text()).value
    for kind in ("pools", "vips"):  # as they are merged
        whole[kind] = dict(sorted(whole[kind].items()))
    names = ["spec", "one", "sub/two", "sub/three"]
    files: dict[str, dict[str, Any]] = {name: {} for name in names}
    files["spec"] = {"apiVersion": "dnsteer/v1", "include": ["one.yaml", "sub/*.yaml"]}
    variables: dict[str, Any] = {}
    for path in _movable(whole):
        value = whole[path[0]] if len(path) == 1 else whole[path[0]][path[1]]
        value = _with_variables(value, path, variables, chance)
        part = files[chance.choice(names)]
        (
            part.__setitem__(path[0], value)
            if len(path) == 1
            else part.setdefault(path[0], {}).__setitem__(path[1], value)
        )
    for name, value in variables.items():
        files[chance.choice(names)].setdefault("vars", {})[name] = value
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content or {"vars": {}}, sort_keys=False))
    found, wanted = load_spec(folder / "spec.yaml"), check_document(Document("x", whole, {}))
    assert found.spec == wanted.spec and found.digest == wanted.digest
    again = parse_recorded("x", found.document.text)
    assert again.value == found.document.value


def _with_variables(value: Any, path: tuple[object, ...], variables: dict[str, Any], chance: random.Random) -> Any:
    if isinstance(value, dict):
        return {key: _with_variables(each, (*path, key), variables, chance) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_variables(each, (*path, n), variables, chance) for n, each in enumerate(value)]
    if value is None or chance.random() < 0.7 or (path[-1] == "name" and path[0] == "pools" and len(path) == 5):
        return value
    name = f"v{len(variables)}"
    text = str(value)
    if isinstance(value, str) and len(text) > 3 and "$" not in text and chance.random() < 0.5:
        variables[name] = text[1:-1]
        return f"{text[0]}${{{name}}}{text[-1]}"
    variables[name] = value
    return f"${{{name}}}"


def test_variables_of_the_command_go_before_the_switch_and_these_before_the_spec(tmp_path: Path) -> None:
    body = "vars: {a: 1, b: 1, c: 1}\n" + SWITCH.replace("uplinks", 'name: dpu-1, link_gbps: "${a}", uplinks')
    body += POOL.replace("ns:\n", 'ns:\n    slots: "${b}"\n    panic: ${c}%\n', 1) + VIP
    of_switch = {"vars/dpu-1": "a: 2\nb: 64\n"}
    spec = write(tmp_path, spec=HEAD + body, given="a: 100\n", **of_switch)
    found = load_with(spec, tmp_path / "given.yaml")
    pool = found.spec.pools["ns"]
    assert (found.spec.switch.link_gbps, pool.slots, pool.panic) == (100, 64, 1)
    assert "${a} of given.yaml:1" in found.document.text and "${b} of vars/dpu-1.yaml:2" in found.document.text
    assert load_spec(spec).spec.switch.link_gbps == 2
    (tmp_path / "more.yaml").write_text("b: 2\na: 5\n")
    with pytest.raises(SpecError) as caught:
        load_with(spec, tmp_path / "given.yaml", tmp_path / "more.yaml")
    assert caught.value.text() == (
        f'{tmp_path}/more.yaml:2: $.a: found the variable "a" a second time; expected each of them once\n'
        f"    hint: the first is at {tmp_path}/given.yaml:1: remove one of the two\n"
        f"1 error in {spec}; nothing was changed"
    )


def test_values_have_types_after_variables(tmp_path: Path) -> None:
    """A whole value is the variable's own; part of a text without quotes is what it then looks like."""
    body = """vars: {yes: true, no: "true", n: 2, text: "53"}
pools:
  ns: {a: "${yes}", b: "${no}", c: "${n}", d: "1${n}", e: "$${n}", f: "x${n}${n}"}
  z:
    a: ${yes}
    b: 1${n}
    c: 1${text}
    d: ${text}
    e: $${n}
"""
    value = parse_document("x", body).value["pools"]
    assert value["ns"] == {"a": True, "b": "true", "c": 2, "d": "12", "e": "${n}", "f": "x22"}
    assert value["z"] == {"a": True, "b": 12, "c": 153, "d": "53", "e": "${n}"}


def test_unused_variables_are_warned_of(tmp_path: Path) -> None:
    mac = SWITCH.replace("mac: 02:00:00:00:00:53", 'mac: "${mac}", name: dpu-1')
    of_switch = {"vars/dpu-1": "mac: 02:00:00:00:00:53\nspare: 1\n"}
    spec = write(tmp_path, spec=HEAD + "vars: {mcu: 1}\n" + mac + POOL + VIP, **of_switch)
    texts = [warning.text("spec.yaml") for warning in load_spec(spec).warnings]
    assert texts[:2] == [
        'spec.yaml:2: $.vars.mcu: found the variable "mcu", which nothing uses; expected ${mcu} in a value of the spec\n'
        '    hint: did you mean "mac"?',
        'vars/dpu-1.yaml:2: $.spare: found the variable "spare", which nothing uses; expected ${spare} in a value of the '
        "spec\n    hint: use it, or remove it",
    ]
    found = [each for each in load_spec(spec).warnings if each.kind == "variables that nothing uses"]
    assert warning_lines(found, "spec.yaml") == [
        "spec.yaml:2 and 1 more file: 2 variables that nothing uses: mcu, spare\n    hint: -v shows each of them"
    ]


def test_null_spelled_out_goes_without_a_default(tmp_path: Path) -> None:
    defaults = "defaults: {pools: {serves: authoritative, health: {query: {name: example.org}}}}\n"
    two = POOL.replace("ns:\n", "ns:\n    health: null\n", 1)
    two += other_pool("other", 2).removeprefix("pools:\n")
    spec = write(tmp_path, spec=HEAD + defaults + SWITCH + two + VIP)
    pools = load_spec(spec).spec.pools
    assert pools["ns"].health is None and pools["other"].health and pools["ns"].serves == "authoritative"
    spec.write_text(spec.read_text().replace("health: null", "health:"))
    with pytest.raises(SpecError, match="health: found nothing"):
        load_spec(spec)


def test_a_default_with_keys_of_its_own_is_one_whole(tmp_path: Path) -> None:
    defaults = "defaults: {pools: {health: {query: {name: example.org}, interval: 5s}}}\n"
    own = POOL.replace("ns:\n", "ns:\n    health: {interval: 9s}\n", 1)
    health = load_spec(write(tmp_path, spec=HEAD + defaults + SWITCH + own + VIP)).spec.pools["ns"].health
    assert health is not None and health[0].interval == 9 and health[0].query.name is None


def test_a_text_that_is_no_file_includes_nothing() -> None:
    with pytest.raises(SpecError) as caught:
        parse_document("pasted", HEAD + "include: [pools.yaml]\n" + SWITCH)
    assert caught.value.text() == (
        "pasted:2: $.include: found includes in a text that is no file; expected a spec in one piece\n"
        "    hint: put it together first, with: dnsteer show --effective SPEC\n"
        "1 error in pasted; nothing was changed"
    )


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("ams-1.yaml", "pair: ams", "pair: amsterdam"),
        ("shared/switch.yaml", "weight: 2", "weight: 3"),
        ("shared/vips.yaml", "198.51.100.53", "198.51.100.54"),
        ("sites/ams.yaml", "10.53.1.13", "10.53.1.14"),
        ("vars/ams-1.yaml", "probe4: 10.53.1.9", "probe4: 10.53.1.99"),
    ],
)
def test_a_change_of_a_part_changes_the_digest(tmp_path: Path, file: str, old: str, new: str) -> None:
    before = load_spec(SITES / "ams-1.yaml").digest
    for source in SITES.rglob("*.yaml"):
        target = tmp_path / source.relative_to(SITES)
        target.parent.mkdir(exist_ok=True)
        target.write_text("# another comment\n" + source.read_text())
    spec, changed = tmp_path / "ams-1.yaml", tmp_path / file
    assert load_spec(spec).digest == before
    assert old in changed.read_text()
    changed.write_text(changed.read_text().replace(old, new))
    assert load_spec(spec).digest != before


def test_a_requirement_is_asked_of_who_reads_the_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that was recorded by another version is judged by what its tables need."""
    text = f'{HEAD}requires: "==0.1.*"\n{SWITCH}{POOL}{VIP}'
    document = parse_document("spec.yaml", text)
    assert document.text == text and check_document(document).digest == check_document(parse_document("x", text)).digest
    monkeypatch.setattr("dnsteer.spec.parts.compose.__version__", "0.3.0")
    with pytest.raises(SpecError, match=r"\$\.requires: found dnsteer 0\.3\.0; expected dnsteer ==0\.1\.\*"):
        parse_document("spec.yaml", text)
    assert check_document(parse_recorded("spec.yaml (state 1)", text), recorded=True).spec.pools


def test_a_switch_whose_name_is_a_number_has_variables(tmp_path: Path) -> None:
    switch = SWITCH.replace("mac: 02:00:00:00:00:53", 'name: 7, mac: "${mac}"')
    spec = write(tmp_path, spec=HEAD + switch + POOL + VIP, **{"vars/7": "mac: 02:00:00:00:00:53\n"})
    assert load_spec(spec).spec.switch.name == "7"


def test_what_is_sent_to_an_agent_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input has no second time, and a file may change meanwhile."""
    text = HEAD + "defaults: {vips: {pool: ns}}\n" + SWITCH + POOL + VIP.replace(", pool: ns", "")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text.encode())))
    sent = parse_recorded("<stdin>", text_to_send(Path("-"))[0].decode())
    assert sent.value["vips"]["dns"]["pool"] == "ns" and sent.line(("vips", "dns", "pool")) == 2


def test_a_saved_effective_spec_with_a_byte_order_mark_is_a_file_of_its_own(tmp_path: Path) -> None:
    """As editors of some systems save it."""
    saved = tmp_path / "saved.yaml"
    text = read_effective(EXAMPLES / "quickstart.yaml").text
    saved.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    sent = parse_recorded(str(saved), text_to_send(saved)[0].decode())
    line = sent.line(("switch", "bridge"))
    assert "bridge:" in text.splitlines()[line - 1] and sent.part(("switch", "bridge")) == ""


@pytest.mark.parametrize(
    "setting",
    ["pools.resolvers.health.interval=xx", "vips.resolver.forwarding=natt", "switch.mac=zz", "switch.probe=5"],
)
def test_a_setting_of_capacity_is_of_no_file(setting: str) -> None:
    """Whatever is written where it goes: a value of a part, a default, or a variable."""
    path, _, value = setting.partition("=")
    with pytest.raises(SpecError) as caught:
        with_settings(load_spec(SITES / "ams-1.yaml"), [setting])
    first = caught.value.text().splitlines()[0]
    assert first.startswith(
        (f'--set {setting}: $.{path}: found "{value}"; ', f"--set {setting}: $.{path}: found {value}; ")
    )


def test_a_spec_whose_own_name_has_two_lines_is_rendered(tmp_path: Path) -> None:
    """A name that came by a program is no flow."""
    spec = tmp_path / "two\nlines.yaml"
    spec.write_text(HEAD + SWITCH + POOL + VIP)
    assert "two\\nlines.yaml:" in rendered(load_spec(spec))["flows.txt"]


def test_backends_of_a_backup_are_in_the_file_of_their_own_pool(tmp_path: Path) -> None:
    """Also among those of the pool that they stand by for, with what they have of defaults and variables."""
    spare = (
        other_pool("spare", 2).replace("mac: 02:00:00:00:01:02", 'mac: "${mac}"') + "vars: {mac: 02:00:00:00:01:02}\n"
    )
    own = POOL.replace("ns:\n", "ns:\n    backup: spare\n    health: {}\n", 1) + VIP
    head = HEAD + "include: [own.yaml, spare.yaml]\ndefaults: {backends: {weight: 2}}\n" + SWITCH
    loaded = load_spec(write(tmp_path, spec=head, own=own, spare=spare))
    assert [backend.name for backend in loaded.spec.pools["ns"].backends] == ["ns1", "spare1"]
    found = {key: loaded.document.place(("pools", "ns", "backends", 1, key)) for key in ("name", "mac", "weight")}
    assert {key: (place.part, place.line) for key, place in found.items()} == {
        "name": ("spare.yaml", 4),
        "mac": ("spare.yaml", 4),
        "weight": ("", 3),
    }
    assert found["mac"].origins == (("mac", "spare.yaml", 5),)
    assert found["weight"].path == ("defaults", "backends", "weight")
