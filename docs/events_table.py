"""The table of the agent's events in docs/agent.md, from the code. Used by docs/generate.py."""

from __future__ import annotations

import re

from dnsteer.events.event import KINDS

_TABLE = re.compile(r"(<!-- events -->\n).*?(<!-- end of events -->)", re.DOTALL)


def page(text: str) -> str:
    """docs/agent.md with its table made anew."""
    rows = [f"| `{kind.name}` | {kind.means} | {', '.join(f'`{field}`' for field in kind.fields)} |" for kind in KINDS]
    made = "\n".join(["| event | meaning | fields |", "|---|---|---|", *rows])
    return _TABLE.sub(lambda m: f"{m[1]}\n{made}\n\n{m[2]}", text)
