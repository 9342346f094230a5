# SPDX-License-Identifier: Apache-2.0
"""The capability profiles: that they load and explain themselves, their schema, and what is said of broken ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from dnsteer.offload.capabilities import LimitName, Profile
from dnsteer.offload.profile import (
    ProfileError,
    load_profile,
    newest,
    profile,
    profile_names,
    profiles_dir,
)
from dnsteer.spec.model.spec import Flavor
from dnsteer.spec.read import read_document

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = profiles_dir() / "schema.json"
SMALL = """\
name: small
title: A small profile
flavor: ovs-dpdk
layer: dpdk
hardware: true
sources:
  here: {title: A title, place: A place}
slow_path: {verdict: no, note: never, source: here, certainty: inferred}
other_match: {verdict: no, note: never, source: here, certainty: inferred}
other_action: {verdict: partial, note: at best, source: here, certainty: inferred}
matches:
  in_port: {verdict: yes, source: here, certainty: documented}
actions:
  output: {verdict: yes, source: here, certainty: documented}
limits: {}
"""


def test_every_flavor_has_a_profile_and_the_newest_is_meant() -> None:
    assert {"ovs-doca-2", "ovs-doca-3", "ovs-dpdk", "ovs-kernel", "ovs-netdev"} <= set(profile_names())
    for flavor in Flavor:
        assert profile(flavor.value).flavor == flavor.value
    assert profile("ovs-doca") == profile(newest()["ovs-doca"]) != profile("ovs-doca-2")
    assert set(newest()) <= {flavor.value for flavor in Flavor}


@pytest.mark.parametrize("name", profile_names())
def test_profiles_rest_on_public_sources(name: str) -> None:
    found = profile(name)
    for source in found.sources.values():
        assert re.search(
            r"github\.com/|\.at\b|\.sh\b|docs\.nvidia\.com|dpdk\.org|drivers/net/|doc/guides/", source.place
        ), source
    for path, entry in found.entries():
        assert entry.certainty != "unknown" or entry.verdict == "unknown", f"{path} is sure of nothing"
        for case in entry.cases:
            assert case.verdict == "unknown" or (case.certainty or entry.certainty) != "unknown", f"{path}: {case.note}"


def test_a_base_is_taken_over_entry_by_entry() -> None:
    two, three = profile("ovs-doca-2"), profile("ovs-doca-3")
    assert three.matches == two.matches
    assert three.limits["counters"].value != two.limits["counters"].value
    assert three.limits["meters_per_flow"] == two.limits["meters_per_flow"]
    assert set(two.actions) == set(three.actions)


def test_profiles_have_the_limits_of_each_release() -> None:
    limits = profile("ovs-doca-2").limits
    assert (limits["dp_hash_bits"].value, limits["match_bytes_per_rule"].value, limits["split_depth"].value) == (
        4,
        32,
        10,
    )
    assert (limits["meters_per_flow"].value, limits["conntrack_zones"].value, limits["geneve_options"].value) == (
        4,
        8,
        1,
    )
    assert limits["dp_hash_with_conntrack"].value == 0
    assert profile("ovs-kernel").limit("actions") == 16
    assert profile("ovs-doca").limits["dp_hash_bits"].verdict == "unknown"  # of 3.x nobody has published it


def profile_schema() -> dict[str, Any]:
    """Return the JSON Schema of a profile's file. A profile with a base needs only the entries that differ."""
    full = Profile.model_json_schema()
    needed = full.pop("required")
    full["properties"] = {
        "base": {"type": "string", "description": "the profile under this one"},
        **full["properties"],
    }
    full["if"], full["then"] = {"required": ["base"]}, {"required": ["name", "title"]}
    full["else"] = {"required": needed}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **full}


def test_limits_that_nothing_computes_with_are_named_in_the_schema() -> None:
    folders = [ROOT / "generator" / "dnsteer" / name for name in ("offload", "lint")]
    code = "".join(file.read_text() for folder in folders for file in folder.rglob("*.py"))
    unread = {name for name in get_args(LimitName) if code.count(f'"{name}"') == 1}  # in the list of names alone
    text = profile_schema()["properties"]["limits"]["description"]
    assert unread == {"conntrack_connections", "insertions_per_second"} == {n for n in get_args(LimitName) if n in text}


def test_names_with_a_star_cover_what_has_no_entry_of_its_own() -> None:
    found = profile("ovs-kernel")
    assert found.match("arp.sip") is found.matches["arp.*"]
    assert found.match("tunnel.vxlan.gbp.id") is found.matches["tunnel.*"]
    assert found.match("arp") is found.match("brand_new") is found.other_match
    assert found.action("set.sctp.src") is found.actions["set.sctp.*"]
    assert found.action("set") is found.other_action


def test_the_schema_is_fresh_and_fits_the_profiles(request: pytest.FixtureRequest) -> None:
    text = json.dumps(profile_schema(), indent=2) + "\n"
    if request.config.getoption("--regenerate"):
        SCHEMA.write_text(text)
    assert SCHEMA.read_text() == text, "stale: run pytest tests/unit/test_profiles.py --regenerate"
    validator = jsonschema.Draft202012Validator(profile_schema())
    for name in profile_names():
        validator.validate(read_document(profiles_dir() / f"{name}.yaml").value)
    with pytest.raises(jsonschema.ValidationError, match="sources"):
        validator.validate({"name": "x", "title": "y"})


ENTRY = "{verdict: yes, source: here, certainty: documented}"
AT = "12: $.matches.in_port"
BAD: dict[str, tuple[str, str, str]] = {
    "verdict": (
        ENTRY,
        ENTRY.replace("yes", "maybe"),
        f'{AT}.verdict: found "maybe"; expected yes, partial, no or unknown',
    ),
    "certainty": (
        "certainty: documented",
        "certainty: sure",
        f'{AT}.certainty: found "sure"; expected documented, source-code',
    ),
    "no source": (
        ENTRY,
        "{verdict: yes, certainty: documented}",
        f'{AT}: found no key "source"; expected the key "source"',
    ),
    "source nowhere": (
        "source: here, certainty: documented",
        "source: her, certainty: documented",
        f'{AT}.source: found "her"; expected a key of sources\n    hint: did you mean "here"?',
    ),
    "no reason": (
        ENTRY,
        ENTRY.replace("yes", "no"),
        f'{AT}: found no note for the verdict "no"; expected a note that says why',
    ),
    "unknown key": (
        "hardware: true",
        "hardware: true\nwetware: true",
        '6: found the unknown key "wetware"; expected a key of ovs/profiles/schema.json',
    ),
    "condition": (
        ENTRY,
        ENTRY.replace("}", ", cases: [{when: never, verdict: no, note: x}]}"),
        f'{AT}.cases[0]: found the unknown key "when"; expected a key of ovs/profiles/schema.json',
    ),
    "mask": (
        ENTRY,
        ENTRY.replace("}", ", cases: [{beyond: much, verdict: no, note: x}]}"),
        f'{AT}.cases[0].beyond: found "much"; expected a mask such as 0xff',
    ),
    "limit": (
        "limits: {}",
        "limits:\n  weight: {value: 3, unit: kg, source: here, certainty: documented}",
        '16: $.limits.weight: found "weight"; expected match_bytes_per_rule, ',
    ),
    "limit's value": (
        "limits: {}",
        "limits:\n  masks: {value: many, unit: masks, source: here, certainty: documented}",
        '16: $.limits.masks.value: found "many"; expected ',
    ),
    "name": ("name: small", "name: large", '1: $.name: found "large"; expected "small", as the file'),
    "flavor": (
        "flavor: ovs-dpdk",
        "flavor: ovs",
        '3: $.flavor: found "ovs"; expected ovs-doca, ovs-dpdk, ovs-kernel or',
    ),
    "list": (f"matches:\n  in_port: {ENTRY}", "matches: [in_port]", "11: $.matches: found a list; expected "),
    "base": (
        "name: small",
        "base: nothing\nname: small",
        '1: $.base: found "nothing"; expected the name of another profile',
    ),
    "base in a circle": (
        "name: small",
        "base: small\nname: small",
        '1: $.base: found "small", which is based on this profile; expected the name of another profile',
    ),
    "YAML": ("flavor: ovs-dpdk", "flavor: [ovs-dpdk", '3: found a "[" that is not closed'),
    "no mapping": (SMALL, "- a list\n", "1: found a list; expected a mapping"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_broken_profile_is_named_with_line_and_cause(case: str, tmp_path: Path) -> None:
    old, new, expected = BAD[case]
    file = tmp_path / "small.yaml"
    file.write_text(SMALL.replace(old, new, 1))
    with pytest.raises(ProfileError) as raised:
        load_profile(file)
    assert f"{file}:{expected}" in str(raised.value)


def test_a_source_that_nothing_rests_on(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL.replace("  here:", "  there: {title: A, place: B}\n  here:", 1))
    with pytest.raises(ProfileError, match=r"\$\.sources\.there: found a source that nothing names"):
        load_profile(file)


def test_a_profile_that_does_not_exist() -> None:
    with pytest.raises(ProfileError) as raised:
        profile("ovs-docca")
    assert 'no such profile; expected the name of a profile or flavor\n    hint: did you mean "ovs-doca' in str(
        raised.value
    )
