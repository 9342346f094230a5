# SPDX-License-Identifier: Apache-2.0
"""Specs of several files are what a copy of all of it in one file is, in whatever order the files are read."""

from __future__ import annotations

import os
import random
import re
import socket
import sys
import tracemalloc
from collections.abc import Mapping
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
from dnsteer.spec.parts import merge
from dnsteer.spec.parts.effective_text import without_places
from dnsteer.spec.parts.inputs import SPEC_INPUTS, SpecInputs
from dnsteer.spec.read import parse_document, parse_recorded, read_document, read_effective, text_to_send
from dnsteer.spec.yaml_reader import MAX_SPEC_BYTES, parse_yaml

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
SITES, COPIES = EXAMPLES / "two-sites", Path(__file__).resolve().parents[1] / "copies"
SWITCHES = ("ams-1", "ams-2", "fra-1", "fra-2")

HEAD = "apiVersion: dnsteer/v1\n"
SWITCH = "switch: {flavor: ovs-netdev, bridge: br-dns, mac: 02:00:00:00:00:53, uplinks: {p0: }}\n"
POOL = "pools:\n  ns:\n    backends:\n      - {name: ns1, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01}\n"
VIP = "vips:\n  dns: {addresses: [192.0.2.53], services: [dns], pool: ns}\n"


def other_pool(name: str, number: int) -> str:
    """A pool with another server than POOL has."""
    return POOL.replace("ns", name).replace("2.11", f"2.1{number}").replace("01:01", f"01:0{number}")


def write(folder: Path, **files: str) -> Path:
    """Write files, whose names end in .yaml; the spec's own is spec."""
    for name, text in files.items():
        file = folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "spec.yaml"


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
    end = example.index("lint:")
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


def load_with(file: Path, *vars_files: Path, include_from: tuple[Path, ...] = ()) -> Loaded:
    """Load a spec as with --vars and --include-from."""
    token = SPEC_INPUTS.set(SpecInputs(vars_files, include_from))
    try:
        return load_spec(file)
    finally:
        SPEC_INPUTS.reset(token)


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


def refusal(file: Path, **inputs: Any) -> str:
    """The error of a spec, with names of its folder left out."""
    with pytest.raises(SpecError) as caught:
        load_with(file, **inputs)
    return caught.value.text().replace(f"{file.parent}/", "")


def test_a_pipe_a_socket_and_a_device_are_not_waited_for(tmp_path: Path) -> None:
    """Somebody might never write to them."""
    spec = write(tmp_path, spec=HEAD + "include: [pipe.yaml, socket.yaml, device.yaml]\n" + SWITCH)
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "device.yaml").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(tmp_path / "socket.yaml"))
        said = refusal(spec, include_from=(Path("/dev"),))
    assert said == (
        'spec.yaml:2: $.include[0]: found "pipe.yaml", which is a named pipe; expected a readable YAML file\n'
        "    hint: include a file\n"
        'spec.yaml:2: $.include[1]: found "socket.yaml", which is a socket; expected a readable YAML file\n'
        "    hint: include a file\n"
        'spec.yaml:2: $.include[2]: found "device.yaml", which is a device; expected a readable YAML file\n'
        "    hint: include a file\n"
        "3 errors in spec.yaml; nothing was changed"
    )


def test_huge_files_are_refused_alone_and_together(tmp_path: Path) -> None:
    spec = write(tmp_path, spec=HEAD + "include: [huge.yaml]\n" + SWITCH, huge=f"# {'x' * MAX_SPEC_BYTES}\n" + POOL)
    assert refusal(spec) == (
        'spec.yaml:2: $.include[0]: found "huge.yaml": more than 8 MiB; expected a spec of at most that size\n'
        "    hint: split it by switch\n"
        "1 error in spec.yaml; nothing was changed"
    )
    comment = f"# {'x' * (MAX_SPEC_BYTES // 2)}\n"
    spec = write(tmp_path, spec=HEAD + "include: [a.yaml, b.yaml]\n" + SWITCH, a=comment + POOL, b=comment + VIP)
    assert refusal(spec) == (
        'spec.yaml:2: $.include[1]: found "b.yaml", with which it is more; expected at most 8 MiB in all files of a spec\n'
        "    hint: split the spec by switch\n"
        "1 error in spec.yaml; nothing was changed"
    )
    bomb = "".join(f"  p{n}: ${{long}}\n" for n in range(100))
    spec = write(tmp_path, spec=HEAD + f"vars: {{long: {'x' * 100_000}}}\npools:\n{bomb}" + SWITCH + VIP)
    assert "found more text by variables than a spec may have; expected at most 8 MiB" in refusal(spec)


def test_many_files_and_deep_includes_end(tmp_path: Path) -> None:
    chain = {f"f{n}": f"include: [f{n + 1}.yaml]\n" for n in range(12)}
    spec = write(tmp_path, spec=HEAD + "include: [f0.yaml]\n" + SWITCH, **chain, f12=POOL + VIP)
    assert refusal(spec) == (
        'f9.yaml:1: $.include[0]: found "f10.yaml", too deep; expected at most 1000 files, which include one another at '
        "most 10 deep\n    hint: include more of them from one file\n1 error in spec.yaml; nothing was changed"
    )
    many = {f"m/{n}": "lint: {}\n" for n in range(1001)}
    spec = write(tmp_path, spec=HEAD + 'include: ["m/*.yaml"]\n' + SWITCH, **many)
    assert "found more than 1000 files; expected at most 1000 files" in refusal(spec)


def test_links_out_of_the_folder_are_refused_unless_allowed(tmp_path: Path) -> None:
    """Whoever may write into the folder is not to choose what a reader of the whole machine reads."""
    outside = tmp_path / "shared"
    write(outside, pools=POOL)
    spec = write(tmp_path / "site", spec=HEAD + "include: [pools.yaml, vips.yaml]\n" + SWITCH, vips=VIP)
    (spec.parent / "pools.yaml").symlink_to(outside / "pools.yaml")
    assert refusal(spec).startswith(
        'spec.yaml:2: $.include[0]: found "pools.yaml", which is outside the folder of the spec'
    )
    assert load_with(spec, include_from=(outside,)).spec.pools
    spec.write_text(HEAD + "include: [../shared/pools.yaml, vips.yaml]\n" + SWITCH)
    loaded = load_with(spec, include_from=(outside,))
    assert loaded.document.where(("pools", "ns")) == f"{outside}/pools.yaml:2"
    spec.write_text(HEAD + f"include: [{outside}/pools.yaml, vips.yaml]\n" + SWITCH)
    assert "which is outside" in refusal(spec)
    assert load_with(spec, include_from=(outside,)).digest == loaded.digest


def test_variables_of_a_switch_are_of_its_folder_too(tmp_path: Path) -> None:
    spec = write(
        tmp_path / "site", spec=HEAD + SWITCH.replace("mac: 02:00:00:00:00:53", 'name: a, mac: "${mac}"') + POOL + VIP
    )
    write(tmp_path, a="mac: 02:00:00:00:00:53\n")
    (spec.parent / "vars").mkdir()
    (spec.parent / "vars/a.yaml").symlink_to("../../a.yaml")
    assert refusal(spec) == (
        "vars/a.yaml: found a link out of the folder of the spec; expected a file in that folder\n"
        "    hint: give it by --vars, or allow its folder: --include-from DIR\n"
        "1 error in spec.yaml; nothing was changed"
    )
    assert (
        load_with(spec, include_from=(tmp_path,)).digest
        == load_with(spec, tmp_path / "a.yaml", include_from=(tmp_path,)).digest
    )
    (spec.parent / "vars/a.yaml").unlink()
    assert 'found the variable "mac", which is not set' in refusal(spec)
    (spec.parent / "vars/a.yaml").mkdir()
    assert refusal(spec).startswith("vars/a.yaml: found a directory; expected a readable YAML file")


def test_one_file_by_two_names_is_twice(tmp_path: Path) -> None:
    spec = write(tmp_path, spec=HEAD + "include: [pools.yaml, link.yaml, vips.yaml]\n" + SWITCH, pools=POOL, vips=VIP)
    (tmp_path / "link.yaml").symlink_to("pools.yaml")
    assert 'found "link.yaml" a second time' in refusal(spec)


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


def test_a_link_to_the_folder_leads_to_the_files_of_the_folder(tmp_path: Path) -> None:
    """What is checked and what is read are one file, also where `..` of the link is another folder."""
    spec = write(tmp_path / "sites/ams", spec=HEAD + "include: [../shared/pools.yaml, vips.yaml]\n" + SWITCH, vips=VIP)
    write(tmp_path / "sites/shared", pools=POOL)
    write(tmp_path / "shared", pools=POOL.replace("ns1", "wrong"))
    (tmp_path / "here").symlink_to("sites/ams")
    linked, shared = tmp_path / "here/spec.yaml", tmp_path / "sites/shared"
    loaded = load_with(linked, include_from=(shared,))
    assert loaded.digest == load_with(spec, include_from=(shared,)).digest
    assert loaded.document.where(("pools", "ns")) == f"{shared}/pools.yaml:2"
    assert "which is outside" in refusal(linked, include_from=(tmp_path / "shared",))


def test_patterns_are_of_the_entry_alone(tmp_path: Path) -> None:
    """Folders may have brackets in their names, as those of releases do; hidden files and backups of editors stay out."""
    files = {
        "site[1]/all": 'include: ["[pv]*.yaml"]\n',
        "site[1]/pools": POOL,
        "site[1]/vips": VIP,
        "site[1]/.p": "[\n",
    }
    spec = write(tmp_path, spec=HEAD + 'include: ["site*/all.yaml"]\n' + SWITCH, **files)
    (tmp_path / "site[1]/pools.yaml~").write_text("[\n")
    assert load_spec(spec).document.where(("pools", "ns")) == f"{tmp_path}/site[1]/pools.yaml:2"
    (tmp_path / "site[1]/all.yaml").write_text('include: ["x*.yaml"]\n')
    assert f"hint: look into {tmp_path}/site[1]\n" in caught_text(spec)


def caught_text(file: Path) -> str:
    """The error of a spec."""
    with pytest.raises(SpecError) as caught:
        load_spec(file)
    return caught.value.text()


def test_a_switch_whose_name_is_a_number_has_variables(tmp_path: Path) -> None:
    switch = SWITCH.replace("mac: 02:00:00:00:00:53", 'name: 7, mac: "${mac}"')
    spec = write(tmp_path, spec=HEAD + switch + POOL + VIP, **{"vars/7": "mac: 02:00:00:00:00:53\n"})
    assert load_spec(spec).spec.switch.name == "7"


def test_defaults_end_where_a_spec_does(tmp_path: Path) -> None:
    """Before memory does: ten megabytes of files can stand for terabytes."""
    services = f"[{', '.join(['dns'] * 20_000)}]"
    vips = "".join(f"  v{n}: {{addresses: [192.0.2.1]}}\n" for n in range(200))
    spec = write(tmp_path, spec=f"{HEAD}{SWITCH}{POOL}defaults: {{vips: {{services: {services}}}}}\nvips:\n{vips}")
    tracemalloc.start()
    try:
        said = refusal(spec)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert said == (
        "spec.yaml:7: $.defaults.vips.services: found more than 1000000 values, or 8 MiB of text, with all defaults; "
        "expected a spec of at most that much\n    hint: shorten the default, or split the spec by switch\n"
        "1 error in spec.yaml; nothing was changed"
    )
    assert peak < 512 << 20
    pools = "pools:\n" + "".join(f"  p{n}: {{backends: []}}\n" for n in range(200))
    spec.write_text(f"{HEAD}{SWITCH}{pools}defaults: {{pools: {{health: {{command: [{'x' * 100_000}]}}}}}}\n")
    assert "or 8 MiB of text, with all defaults" in refusal(spec)


def test_files_together_have_values_in_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dnsteer.spec.parts.compose.MAX_VALUES", 20)
    spec = write(tmp_path, spec=HEAD + "include: [pools.yaml, vips.yaml]\n" + SWITCH, pools=POOL, vips=VIP)
    assert refusal(spec).startswith("spec.yaml: found more than 20 values in all files; expected at most that many")


def test_mistakes_with_many_variables_are_counted_and_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A similar name is looked for of the first ones only: that takes longer than all else."""
    compared: list[object] = []
    monkeypatch.setattr("dnsteer.spec.parts.variables.near", lambda word, _: compared.append(word) or "")
    names = range(5000)
    spec = write(tmp_path, spec=HEAD + SWITCH + "pools:\n" + "".join(f"  p{n}: ${{v{n}}}\n" for n in names))
    assert "more than 1000 errors in spec.yaml, of which 20 are shown" in refusal(spec)
    assert len(compared) == 1001
    compared.clear()
    given_ = "vars:\n" + "".join(f"  v{n}: 1\n" for n in names)
    spec.write_text(HEAD + given_ + SWITCH + POOL + VIP)
    assert sum(warning.kind == "variables that nothing uses" for warning in load_spec(spec).warnings) == 5000
    assert len(compared) == 100


def test_entries_of_lists_of_files_are_copied_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Once for each file, not for each entry: that took minutes for lists of thousands."""
    copied: list[int] = []

    def copy(known: Mapping[Any, Any], path: Any, into: dict[Any, Any], first: int) -> None:
        copied.append(first)
        copy_entries(known, path, into, first)

    copy_entries = merge._copy_entries
    monkeypatch.setattr(merge, "_copy_entries", copy)
    entries = "".join(f"    - {{code: DNS0{n + 10}, reason: x}}\n" for n in range(50))
    spec = write(
        tmp_path,
        spec=HEAD + "include: [a.yaml, b.yaml]\n" + SWITCH,
        a=f"lint:\n  accept:\n{entries}",
        b=f"lint:\n  accept:\n{entries}",
    )
    document = read_document(spec)
    assert document.where(("lint", "accept", 99, "code")) == f"{tmp_path}/b.yaml:52"
    assert copied == [0, 0, 50, 50]  # lines and variables


def test_what_is_sent_to_an_agent_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input has no second time, and a file may change meanwhile."""
    text = HEAD + "defaults: {vips: {pool: ns}}\n" + SWITCH + POOL + VIP.replace(", pool: ns", "")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text.encode())))
    sent = parse_recorded("<stdin>", text_to_send(Path("-"))[0].decode())
    assert sent.value["vips"]["dns"]["pool"] == "ns" and sent.line(("vips", "dns", "pool")) == 2


def test_a_spec_that_is_too_large_is_not_sent_in_part(tmp_path: Path) -> None:
    """The agent would take the part for the whole."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(HEAD + SWITCH + POOL + VIP + f"# {'x' * MAX_SPEC_BYTES}\n")
    with pytest.raises(SpecError, match="found more than 8 MiB; expected a spec of at most that size"):
        text_to_send(spec)


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


def test_names_that_cannot_be_shown_are_refused(tmp_path: Path) -> None:
    """They would be lines of their own in rendered files, and no text at all in pages."""
    spec = write(tmp_path, spec=HEAD + 'include: ["parts/*.yaml", vips.yaml]\n' + SWITCH, vips=VIP)
    write(tmp_path, **{"parts/two\nlines": POOL, "parts/\udcff": other_pool("other", 2)})
    assert refusal(spec) == (
        'spec.yaml:2: $.include[0]: found "parts/two\\nlines.yaml" by "parts/*.yaml", a name that cannot be shown; expected '
        "a name of printable characters\n    hint: rename it\n"
        'spec.yaml:2: $.include[0]: found "parts/\\udcff.yaml" by "parts/*.yaml", a name that cannot be shown; expected '
        "a name of printable characters\n    hint: rename it\n"
        "2 errors in spec.yaml; nothing was changed"
    )


def test_a_spec_whose_own_name_has_two_lines_is_rendered(tmp_path: Path) -> None:
    """A name that came by a program is no flow."""
    spec = tmp_path / "two\nlines.yaml"
    spec.write_text(HEAD + SWITCH + POOL + VIP)
    assert "two\\nlines.yaml:" in rendered(load_spec(spec))["flows.txt"]
