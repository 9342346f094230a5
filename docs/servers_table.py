"""The tables of docs/servers.md, from what tests/servers has seen of real name servers. Used by docs/generate.py."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

_SEEN = Path(__file__).resolve().parents[1] / "tests" / "servers" / "expected.yaml"
_TABLE = re.compile(r"(<!-- seen: ([a-z]+), ([a-z ]+) -->\n).*?(<!-- end of seen -->)", re.DOTALL)


def page(text: str) -> str:
    """docs/servers.md with its tables made anew."""
    seen = yaml.safe_load(_SEEN.read_text(encoding="utf-8"))
    return _TABLE.sub(lambda m: f"{m[1]}\n{_table(seen[m[2]], m[3])}\n\n{m[4]}", text)


def _table(servers: dict[str, dict[str, dict[str, str]]], check: str) -> str:
    """A row for each state, a column for each server."""
    states = next(iter(servers.values()))
    lines = [f"| | {' | '.join(servers)} |", "|---" * (len(servers) + 1) + "|"]
    lines += [f"| {state} | {' | '.join(of[state][check] for of in servers.values())} |" for state in states]
    return "\n".join(lines)
