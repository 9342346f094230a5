# SPDX-License-Identifier: Apache-2.0
"""Findings as SARIF 2.1.0, the format that code-review tools read (OASIS Standard, 27 March 2020)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from dnsteer import __version__
from dnsteer.lint.finding import Code, LintFinding
from dnsteer.lint.run import CODES
from dnsteer.spec.errors import file_of_part, show_path

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(file: str, findings: Sequence[LintFinding]) -> dict[str, Any]:
    """Return one run of lint over *file* as a SARIF log."""
    order = list(CODES)
    driver = {
        "name": "dnsteer lint",
        "version": __version__,
        "rules": [_rule(code) for code in CODES.values()],
    }
    results = [_result(file, finding, order.index(finding.code.code)) for finding in findings]
    _add_fingerprints(file, results)
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.code,
        "shortDescription": {"text": code.title},
        "help": {"text": code.page(), "markdown": code.page()},
        "defaultConfiguration": {"level": code.severity.value},
    }


def _result(file: str, finding: LintFinding, index: int) -> dict[str, Any]:
    text = f"{finding.text}; {finding.advice}" if finding.advice else finding.text
    out: dict[str, Any] = {
        "ruleId": finding.code.code,
        "ruleIndex": index,
        "level": finding.code.severity.value,
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(file_of_part(file, finding.part))},
                    "region": {"startLine": max(1, finding.line)},
                },
                "logicalLocations": [{"fullyQualifiedName": show_path(finding.path)}],
            }
        ],
    }
    if finding.accepted:
        out["suppressions"] = [{"kind": "inSource", "justification": finding.accepted}]
    return out


def _uri(file: str) -> str:
    """Return a file name as a URI; relative names stay relative, since tools resolve them from the top of a checkout."""
    path = PurePosixPath(file)
    return path.as_uri() if path.is_absolute() else quote(str(path))


def _add_fingerprints(file: str, results: Sequence[dict[str, Any]]) -> None:
    """Add fingerprints to results, so that tools recognise a result after its line or its numbers have changed."""
    counts: Counter[str] = Counter()
    for result in results:
        (place,) = result["locations"][0]["logicalLocations"]
        what = "\0".join([result["ruleId"], PurePosixPath(file).name, place["fullyQualifiedName"]])
        counts[what] += 1
        print_ = hashlib.sha256(f"{what}\0{counts[what]}".encode()).hexdigest()[:32]
        result["partialFingerprints"] = {"dnsteer/v1": print_}
