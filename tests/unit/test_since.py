# SPDX-License-Identifier: Apache-2.0
"""Each key of the spec says since which version there is one: in the JSON Schema, and on the page of the spec."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, ClassVar

import jsonschema
from pydantic import Field

from dnsteer.offload.capabilities import Profile
from dnsteer.spec.model.part import Part, came_in, since_of
from dnsteer.spec.model.spec import Spec
from tests.unit.commands import ROOT, in_process

sys.path.insert(0, str(ROOT / "docs"))
import generate


class _Shape(Part):
    """A part that came whole in a later version."""

    since: ClassVar[str] = "0.3"
    sides: int = Field(default=3, description="How many sides.")


class _Younger(Part):
    """A part of the first version, which has got keys since."""

    old: int = Field(description="An old key.")
    new: int | None = Field(default=None, description="A new key.", json_schema_extra=came_in("0.2"))
    shape: _Shape | None = Field(default=None, description="A part.", json_schema_extra=came_in("0.3"))
    import_: int = Field(default=1, alias="import", description="Another name.", json_schema_extra=came_in("0.4"))


_VERSIONS = {"old": "0.1", "new": "0.2", "shape": "0.3", "import": "0.4"}


def test_a_later_key_says_so_in_the_schema() -> None:
    schema = _Younger.model_json_schema()
    assert {key: value["x-since"] for key, value in schema["properties"].items()} == _VERSIONS
    assert schema["$defs"]["_Shape"]["properties"]["sides"]["x-since"] == "0.3"
    jsonschema.Draft202012Validator(schema).validate({"old": 1, "new": 2, "shape": {"sides": 4}})


def test_a_later_key_says_so_on_the_page_of_the_spec() -> None:
    rows = [line.split(" | ") for line in generate.key_table(_Younger).splitlines()]
    assert {row[0].strip("| `"): row[3] for row in rows[2:]} == _VERSIONS
    assert rows[0][3] == "since"
    assert since_of(_Shape, "sides") == "0.3"


def test_files_that_come_with_dnsteer_say_no_versions() -> None:
    assert "x-since" not in json.dumps(Profile.model_json_schema())


def _keys(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = [("", schema), *schema["$defs"].items()]
    return [(f"{name}.{key}", value) for name, part in found for key, value in part.get("properties", {}).items()]


def test_every_key_of_the_spec_says_its_version() -> None:
    keys = _keys(Spec.model_json_schema())
    assert len(keys) > 150
    assert {name for name, value in keys if "x-since" not in value} == set()


def test_the_printed_schema_and_the_page_have_it() -> None:
    printed = json.loads(in_process("schema").stdout)
    assert printed["properties"]["pools"]["x-since"] == "0.1"
    assert printed["$defs"]["Vip"]["properties"]["announce"]["x-since"] == "0.1"
    page = (ROOT / "docs/spec.md").read_text()
    assert "| `on_all_down` | `keep`, `drop` | `keep` | 0.1 |" in page


def test_every_row_of_the_page_has_a_version() -> None:
    tables = [generate.key_table(part).splitlines()[2:] for _title, part in generate.PARTS]
    assert len(tables) > 20
    for row in (row for rows in tables for row in rows):
        assert re.fullmatch(r"[0-9]+\.[0-9]+", row.split(" | ")[3]), row
