# SPDX-License-Identifier: Apache-2.0
"""What every profile says of every datapath flow of the example specs, those alike counted together. Prints JSON.

A row is a kind of traffic with a verdict, the first reason (or what a yes rests on) and the source of that. The same
statements are held against the matrix that the profiles were built from by tests/offload_dumps/rows.yaml.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from bench.machine import machine
from dnsteer.checks.load import load_spec
from dnsteer.lint.finder import first_reason, without_value
from dnsteer.offload.examine import JudgedFlow, examine
from dnsteer.offload.profile import profile, profile_names

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def rows(file: Path, name: str) -> list[dict[str, Any]]:
    """The rows of one spec by one profile."""
    found = Counter(_row(judged) for judged in examine(load_spec(file), profile(name)).judged)
    keys = ("traffic", "verdict", "certainty", "because", "source")
    return [dict(zip(keys, row, strict=True)) | {"flows": flows} for row, flows in sorted(found.items())]


def _row(judged: JudgedFlow) -> tuple[str, str, str, str, str]:
    judgement = judged.judgement
    reasons = judgement.reasons or judgement.remarks
    because = first_reason(judged) if judgement.reasons else "; ".join(without_value(remark).text for remark in reasons)
    return (
        judged.kind,
        judgement.verdict,
        judgement.certainty,
        because,
        without_value(reasons[0]).source if reasons else "",
    )


def main() -> int:
    """Print all rows."""
    found = {f.stem: {name: rows(f, name) for name in profile_names()} for f in sorted(EXAMPLES.glob("*.yaml"))}
    print(json.dumps({"machine": machine(), "specs": found}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
