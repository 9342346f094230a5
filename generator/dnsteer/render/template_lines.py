"""Which line of a template rendered a flow or group, for messages."""

from __future__ import annotations

import re

from dnsteer.render.templates import resolve, templates_dir

_RENDERED = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def template_line(file: str, rendered: str) -> str:
    """Return a template's name with the number of the line that most likely rendered *rendered*; alone if none could."""
    template = templates_dir() / file
    if not template.exists():
        return file
    found = []
    for number, line in enumerate(resolve(template.read_text(), file).splitlines(), 1):
        fixed = _RENDERED.split(line)
        if any(fixed) and re.fullmatch(".*".join(map(re.escape, fixed)), rendered):
            found.append((len("".join(fixed)), -number))
    return f"{file}:{-max(found)[1]}" if found else file
