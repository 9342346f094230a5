"""Findings as SARIF 2.1.0, which tools for code review read (OASIS Standard, 27 March 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from dnsteer import __version__
from dnsteer.offload.codes import CODES, Code
from dnsteer.offload.findings import Finding
from dnsteer.spec.errors import show_path

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(file: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """One run of lint over *file*."""
    order = list(CODES)
    driver = {
        "name": "dnsteer lint",
        "version": __version__,
        "rules": [_rule(code) for code in CODES.values()],
    }
    results = [_result(file, finding, order.index(finding.code.code)) for finding in findings]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.code,
        "shortDescription": {"text": code.title},
        "help": {"text": code.page(), "markdown": code.page()},
        "defaultConfiguration": {"level": code.severity.value},
    }


def _result(file: str, finding: Finding, index: int) -> dict[str, Any]:
    text = f"{finding.text}; {finding.advice}" if finding.advice else finding.text
    out: dict[str, Any] = {
        "ruleId": finding.code.code,
        "ruleIndex": index,
        "level": finding.code.severity.value,
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": PurePath(file).as_posix()},
                    "region": {"startLine": max(1, finding.line)},
                },
                "logicalLocations": [{"fullyQualifiedName": show_path(finding.path)}],
            }
        ],
    }
    if finding.accepted:
        out["suppressions"] = [{"kind": "inSource", "justification": finding.accepted}]
    return out
