# SPDX-License-Identifier: Apache-2.0
"""SARIF for tools of code review: well-formed whatever the file is called, and the same finding is known again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest

from dnsteer.lint.finding import Code, LintFinding
from dnsteer.lint.other_traffic import REFUSED
from dnsteer.lint.run import CODES
from dnsteer.lint.sarif import sarif
from dnsteer.lint.service_offload import PASSES, RULES
from dnsteer.spec.model.lint import CODE
from tests.unit.commands import ROOT, in_process

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
URI = r"^(file://)?[A-Za-z0-9._~/%-]+$"
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}


def closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object with these properties and no others."""
    properties = {**required, **optional}
    return {"type": "object", "required": [*required], "properties": properties, "additionalProperties": False}


def several(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


# What SARIF 2.1.0 asks of the parts that are written here (sections 3.13 to 3.52).
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = closed(
    {"id": {"type": "string"}}, shortDescription=TEXT, help=TEXT, defaultConfiguration=closed({"level": LEVEL})
)
PLACE = closed(
    {
        "physicalLocation": closed(
            {
                "artifactLocation": closed({"uri": {"type": "string", "format": "uri-reference", "pattern": URI}}),
                "region": closed({"startLine": {"type": "integer", "minimum": 1}}),
            }
        ),
        "logicalLocations": several(closed({"fullyQualifiedName": {"type": "string", "minLength": 1}})),
    }
)
RESULT = closed(
    {
        "ruleId": {"enum": list(CODES)},
        "ruleIndex": {"type": "integer", "minimum": 0, "maximum": len(CODES) - 1},
        "level": LEVEL,
        "message": TEXT,
        "locations": several(PLACE),
        "partialFingerprints": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
    },
    suppressions=several(closed({"kind": {"enum": ["inSource", "external"]}}, justification={"type": "string"})),
)
DRIVER = closed({"name": {"type": "string"}, "version": {"type": "string"}, "rules": several(RULE)})
RUN = closed({"tool": closed({"driver": DRIVER}), "results": several(RESULT)})
LOG = closed({"version": {"const": "2.1.0"}, "runs": several(RUN)}, **{"$schema": {"type": "string"}})


def check(log: Any) -> list[dict[str, Any]]:
    """The results of a log that is as it should be."""
    jsonschema.Draft202012Validator.check_schema(LOG)
    jsonschema.Draft202012Validator(LOG).validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == list(CODES)
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
    prints = [tuple(result["partialFingerprints"].items()) for result in run["results"]]
    assert len(set(prints)) == len(prints)
    return list(run["results"])


def found(code: Code, *path: str | int, line: int = 7, text: str = "something") -> LintFinding:
    return LintFinding(code, path, line, text, "do something")


def uri_of(file: str) -> str:
    (result,) = check(sarif(file, [found(PASSES, "pools", "a")]))
    return str(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def test_specs_can_accept_every_code() -> None:
    assert all(re.fullmatch(CODE, code) for code in CODES)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_sarif_of_examples_fits_the_schema(file: Path) -> None:
    """On OVS-DPDK there are errors too."""
    done = in_process("lint", str(file), "--flavor", "ovs-dpdk", "--sarif", "-")
    assert done.stdout, done.stderr  # without the extension's build it says what to run
    results = check(json.loads(done.stdout))
    assert done.returncode in (0, 1, 2) and results


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("spec.yaml", "spec.yaml"),
        ("dir/spec.yaml", "dir/spec.yaml"),
        ("../sp ace #1.yaml", "../sp%20ace%20%231.yaml"),
        ("a:b?.yaml", "a%3Ab%3F.yaml"),
        ("100%.yaml", "100%25.yaml"),
        ("größe.yaml", "gr%C3%B6%C3%9Fe.yaml"),
        ("/etc/dns teer/spec.yaml", "file:///etc/dns%20teer/spec.yaml"),
    ],
)
def test_every_file_name_makes_a_valid_uri(file: str, uri: str) -> None:
    assert uri_of(file) == uri
    assert unquote(urlsplit(uri).path) == file


def test_fingerprints_do_not_depend_on_lines_and_numbers() -> None:
    def prints(*findings: LintFinding, file: str = "spec.yaml") -> list[dict[str, str]]:
        return [result["partialFingerprints"] for result in check(sarif(file, findings))]

    (first,) = prints(found(PASSES, "pools", "a", line=3, text="2 passes"))
    assert prints(found(PASSES, "pools", "a", line=9, text="3 passes"), file="/else/where/spec.yaml") == [first]
    assert prints(found(PASSES, "pools", "b")) != [first]
    assert prints(found(RULES, "pools", "a")) != [first]
    assert prints(found(PASSES, "pools", "a"), file="other.yaml") != [first]
    several = [found(REFUSED, "switch", text=text) for text in ("one", "two")]
    assert len(prints(*several)) == 2  # and check() has seen that they differ


def test_two_documents_are_not_mixed() -> None:
    done = in_process("lint", str(EXAMPLES[0]), "--json", "--sarif", "-")
    assert done.returncode == 64
    assert "--sarif -" in done.stdout + done.stderr
