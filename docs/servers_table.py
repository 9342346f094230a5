"""The tables of docs/servers.md, from what tests/servers has seen of real name servers. Used by docs/generate.py."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

_SEEN = Path(__file__).resolve().parents[1] / "tests" / "servers" / "expected.yaml"
_TABLE = re.compile(r"(<!-- seen: ([a-z]+), ([a-z ]+) -->\n).*?(<!-- end of seen -->)", re.DOTALL)
_LEGEND = re.compile(r"(<!-- reasons -->\n).*?(<!-- end of reasons -->)", re.DOTALL)
_LONG = 40
"""Characters of a reason from which on its beginning and a letter stand for it."""


def page(text: str) -> str:
    """docs/servers.md with its tables made anew."""
    seen = yaml.safe_load(_SEEN.read_text(encoding="utf-8"))
    all_ = [
        why
        for servers in seen.values()
        for states in servers.values()
        for row in states.values()
        for why in row.values()
    ]
    letters = {
        why: "abcdefghijklmnopqrstuvwxyz"[n]
        for n, why in enumerate(dict.fromkeys(w for w in all_ if ": " in w and len(w) > _LONG))
    }
    legend = "\n".join(f"- {letter}: `{why}`" for why, letter in letters.items())
    text = _LEGEND.sub(lambda m: f"{m[1]}\n{legend}\n\n{m[2]}", text)
    return _TABLE.sub(lambda m: f"{m[1]}\n{_table(seen[m[2]], m[3], letters)}\n\n{m[4]}", text)


def _table(servers: dict[str, dict[str, dict[str, str]]], check: str, letters: dict[str, str]) -> str:
    """A row for each state, a column for each server that the check is for."""
    asked = {name: states for name, states in servers.items() if check in states["up"]}
    lines = [f"| | {' | '.join(asked)} |", "|---" * (len(asked) + 1) + "|"]
    for state in next(iter(asked.values())):
        cells = (_cell(states[state][check], letters) for states in asked.values())
        lines.append(f"| {state} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(why: str, letters: dict[str, str]) -> str:
    return f"{why.partition(':')[0].removeprefix('answered ')} (**{letters[why]}**)" if why in letters else why
