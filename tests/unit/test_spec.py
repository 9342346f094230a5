# SPDX-License-Identifier: Apache-2.0
"""Reading a spec: lines, scalars, files, and the digest of what it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.spec.document import bridge_of
from dnsteer.spec.errors import MAX_FINDINGS, MAX_SHOWN, SpecError
from dnsteer.spec.loaded import digest
from dnsteer.spec.read import parse_document
from dnsteer.spec.yaml_reader import MAX_SPEC_BYTES
from tests.unit.spec_text import SPEC, changed, load


def value_of(text: str) -> Any:
    return parse_document("x.yaml", f"key: {text}\n").value["key"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 2),
        (("apiVersion",), 2),
        (("switch",), 4),
        (("switch", "mac"), 7),
        (("switch", "uplinks", "p0"), 9),
        (("switch", "uplinks", "p0", "next_hop"), 9),
        (("switch", "ports"), 4),
        (("pools", "ns", "backends", 0, "ipv4"), 13),
        (("pools", "ns", "backends", 1), 14),
        (("pools", "ns", "backends", 1, "mac"), 16),
        (("pools", "ns", "backends", 7, "mac"), 12),
        (("vips", "dns", "addresses", 0), 20),
        (("vips", "other"), 17),
        (("elsewhere",), 2),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_values_have_the_line_of_their_path(path: tuple[str | int, ...], line: int, end: str) -> None:
    assert parse_document("spec.yaml", SPEC.replace("\n", end)).line(path) == line


def test_keys_of_all_kinds_have_lines() -> None:
    doc = parse_document("x.yaml", 'a: 1\n"b c": 2\n? d\n: 3\n"?": 4\n1: 5\n')
    assert doc.value == {"a": 1, "b c": 2, "d": 3, "?": 4, "1": 5}
    assert [doc.line((key,)) for key in doc.value] == [1, 2, 3, 5, 6]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("53", 53),
        ("-1", -1),
        ("65535", 65535),
        # Text in YAML 1.2, something else in YAML 1.1:
        ("12:34:56:12:34:56", "12:34:56:12:34:56"),
        ("190:20:30", "190:20:30"),
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        # Numbers that do not look like what they would become stay text as well:
        ("007", "007"),
        ("010", "010"),
        ("+5", "+5"),
        ("-0", "-0"),
        ("1.10", "1.10"),
        ("1e3", "1e3"),
        ("0x1f", "0x1f"),
        (".inf", ".inf"),
        ("9" * 30, "9" * 30),
        ("True", "True"),
        # Quoted scalars are text:
        ("'53'", "53"),
        ('"true"', "true"),
        ("''", ""),
        ("|\n  53", "53\n"),
        ("[2001:db8::53]", ["2001:db8::53"]),
        ("{ipv6: 2001:db8::53}", {"ipv6": "2001:db8::53"}),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


def test_numbers_and_truth_values_are_text_where_text_is_wanted() -> None:
    options = "{dpdk-devargs: 0000:03:00.0, n_rxq: 4, flag: true, ratio: 1.10, mask: 0x0f, word: abc, empty: ''}"
    loaded = load(
        changed(
            ("p0:", f"p0: {{options: {options}}}"),
            ("name: b", "name: 7"),
            ("  ns:", "  2026:"),
            ("pool: ns", "pool: 2026"),
        )
    )
    assert loaded.spec.switch.uplinks["p0"].options == {
        "dpdk-devargs": "0000:03:00.0",
        "n_rxq": "4",
        "flag": "true",
        "ratio": "1.10",
        "mask": "0x0f",
        "word": "abc",
        "empty": "",
    }
    assert loaded.spec.pools["2026"].backends[1].name == "7"


def test_a_byte_order_mark_is_no_matter() -> None:
    assert digest(load("\ufeff" + SPEC).spec) == digest(load(SPEC).spec)


@pytest.mark.parametrize(
    "pairs",
    [
        (("# a comment\n", ""), ("  bridge", "  # another\n  bridge")),
        (("02:00:00:00:01:01", "02:00:00:00:01:01".upper()), ("mac: 02:00:00:00:00:53", 'mac: "02:00:00:00:00:53"')),
        (("{name: a, ipv4: 192.0.2.11, ", "{ipv4: 192.0.2.11, name: a, "),),
        (("      - 192.0.2.53\n", "      [192.0.2.53]\n"),),
        (("p0:", "p0: {}"),),
        (("pool: ns", "pool: ns\n    forwarding: dsr\n    echo: true"),),
    ],
)
def test_equal_specs_have_one_digest(pairs: tuple[tuple[str, str], ...]) -> None:
    assert digest(load(changed(*pairs)).spec) == digest(load(SPEC).spec)


def test_the_digest_of_a_balance_is_that_of_its_first_release() -> None:
    """Keys that came later do not change it: the state that is applied stays the same one after an upgrade."""
    text = changed(("    backends:", "    balance: {by: slots, tolerance: 20%}\n    backends:"))
    assert digest(load(text).spec).startswith("9a229be001b94689f008")


def test_spellings_of_an_address_have_one_digest() -> None:
    short, long = (changed(("192.0.2.11", f"192.0.2.11, ipv6: {a}")) for a in ("2001:db8::b", "2001:0DB8:0:0::000B"))
    assert digest(load(short).spec) == digest(load(long).spec)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("192.0.2.53", "192.0.2.54"),
        ("01:01}", "01:01, weight: 2}"),
        ("01:01}", "01:01, state: down}"),
        ("[dns]", "[dns, dot]"),
        ("pool: ns", "pool: ns\n    echo: false"),
        ("p0:", "p1:"),
        ("p0:", "p0:\n    p1:"),
        ("br-dns", "br-dns2"),
        ("name: b", "name: c"),
        ("ovs-netdev", "ovs-kernel"),
    ],
)
def test_different_specs_have_different_digests(old: str, new: str) -> None:
    assert digest(load(changed((old, new))).spec) != digest(load(SPEC).spec)


# --- files


def error_of(file: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(file)
    assert len(caught.value.findings) == 1
    return caught.value.text()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "missing.yaml: found no such file; expected" in error_of(tmp_path / "missing.yaml")


def test_a_directory_is_named(tmp_path: Path) -> None:
    assert "found a directory" in error_of(tmp_path)


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert "found a file without read permission" in error_of(tmp_path / "spec.yaml")


@pytest.mark.parametrize("name", ["a\0b", "\udcff\ud800", "x" * 5000])
def test_impossible_file_names_are_refused(name: str) -> None:
    assert error_of(Path(name)).isprintable() is False  # for its line ends alone
    assert all(line.isprintable() for line in error_of(Path(name)).splitlines())


def test_control_characters_in_file_names_are_escaped(tmp_path: Path) -> None:
    assert "\\x1b[31m.yaml: found no such file" in error_of(tmp_path / "\x1b[31m.yaml")


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_bytes(b"#" * MAX_SPEC_BYTES + b"\n")
    assert "found more than 8 MiB" in error_of(file)


def test_an_endless_file_is_refused() -> None:
    """What never ends is not read to its end."""
    with Path("/dev/zero").open() as zero, pytest.MonkeyPatch().context() as patch:
        patch.setattr("sys.stdin", zero)
        assert "<stdin>: found more than 8 MiB" in error_of(Path("-"))


def test_a_file_at_the_limit_is_read(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text(SPEC + "#" * (MAX_SPEC_BYTES - len(SPEC)))
    assert digest(load_spec(file).spec) == digest(load(SPEC).spec)


def test_too_many_values_are_refused() -> None:
    with pytest.raises(SpecError, match="more than 1000000 values"):
        parse_document("x", "[" + "a," * 1_000_001 + "]")


def test_findings_come_in_the_order_of_the_lines_and_end() -> None:
    many = "".join(f"  v{i}: {{addresses: [x], services: [dns], pool: ns}}\n" for i in range(MAX_FINDINGS + 50))
    with pytest.raises(SpecError) as caught:
        load(changed(("vips:\n", f"vips:\n{many}")))
    lines = [f.line for f in caught.value.findings]
    assert len(lines) == MAX_FINDINGS
    assert lines == sorted(lines)
    text, total = caught.value.text(), MAX_FINDINGS + 50
    assert text.count("expected an IP address") == MAX_SHOWN
    assert text.endswith(
        f"{total} errors in spec.yaml, of which {MAX_SHOWN} are shown (with --json {MAX_FINDINGS}); nothing was changed"
    )
    assert caught.value.more == 50


@pytest.mark.parametrize(
    ("text", "more", "count"),
    [
        ("".join(f"key{i}: 1\n" for i in range(100_000)), 99_004, "100004 errors"),  # four keys are missing
        ("a: 1\n" * 20_000, 18_999, "19999 errors"),  # what the reader finds
        ("", 0, "25 errors"),
        (
            changed(
                ("pool: ns", "pool: gone"),
                (
                    "vips:\n",
                    "vips:\n"
                    + "".join(
                        f"  v{i}: {{addresses: [10.0.{i >> 8}.{i & 255}], services: [dns], pool: gone}}\n"
                        for i in range(1200)
                    ),
                ),
            ),
            1,
            "more than 1000 errors",
        ),  # what the rules find: the rest is not looked for
    ],
    ids=["keys", "twice", "few", "rules"],
)
def test_twenty_findings_are_shown_and_the_rest_is_counted(text: str, more: int, count: str) -> None:
    text = text or changed(("pool: ns", "pool: ns" + "".join(f"\n    key{i}: 1" for i in range(25))))
    with pytest.raises(SpecError) as caught:
        load(text)
    shown = caught.value.text().splitlines()
    assert len([line for line in shown if line.startswith("spec.yaml:")]) == MAX_SHOWN
    assert shown[-1].startswith(f"{count} in spec.yaml, of which {MAX_SHOWN} are shown (with --json ")
    assert shown[-1].endswith("); nothing was changed")
    assert caught.value.more == more
    assert len(caught.value.findings) == (MAX_FINDINGS if more else 25)


@pytest.mark.parametrize(
    ("text", "bridge"),
    [(SPEC, "br-dns"), ("switch: {bridge: 3}", ""), ("switch: []", ""), ("switch: {}", ""), ("[1]", ""), ("x", "")],
)
def test_the_bridge_of_an_unchecked_document(text: str, bridge: str) -> None:
    assert bridge_of(parse_document("spec.yaml", text)) == bridge


@pytest.mark.parametrize("levels", [32, 500, 50_000])
def test_too_deep_nesting_has_one_message_for_all_parser_versions(levels: int) -> None:
    with pytest.raises(SpecError) as caught:
        parse_document("x.yaml", f"apiVersion: dnsteer/v1\nswitch: {'[' * levels}\n")
    (finding,) = caught.value.findings
    assert (finding.line, finding.found) == (2, "more than 32 levels of nesting")
    assert finding.hint == "look for brackets that are not closed"


@pytest.mark.parametrize(("line", "expected"), [("", "netdev"), ("\n  datapath_type: doca", "doca")])
def test_the_datapath_type_of_ovs_doca_can_be_chosen(line: str, expected: str) -> None:
    spec = load(changed(("flavor: ovs-netdev", f"flavor: ovs-doca{line}"))).spec
    assert wanted_bridge(spec).datapath_type == expected
