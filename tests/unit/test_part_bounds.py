# SPDX-License-Identifier: Apache-2.0
"""Files that a spec must not include, and the bounds of what its files, variables and defaults amount to."""

from __future__ import annotations

import os
import socket
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.spec.errors import SpecError
from dnsteer.spec.parts import merge
from dnsteer.spec.read import read_document, text_to_send
from dnsteer.spec.yaml_reader import MAX_SPEC_BYTES
from tests.unit.part_cases import HEAD, POOL, SWITCH, VIP, load_with, other_pool, refusal, write


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


def test_a_spec_that_is_too_large_is_not_sent_in_part(tmp_path: Path) -> None:
    """The agent would take the part for the whole."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(HEAD + SWITCH + POOL + VIP + f"# {'x' * MAX_SPEC_BYTES}\n")
    with pytest.raises(SpecError, match="found more than 8 MiB; expected a spec of at most that size"):
        text_to_send(spec)
