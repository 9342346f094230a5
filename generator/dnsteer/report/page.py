"""HTML files that need nothing else: the style is inside, there are no scripts, and their policy allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from dnsteer import __version__
from dnsteer.console import drawing, numbers
from dnsteer.console.wording import WORDS

FOLDER = Path(__file__).parent / "pages"
_CONSOLE = Path(drawing.__file__).parent
"""Style and parts of pages are the console's, so that what is in the report looks as it does there."""


def style() -> str:
    """The style of all pages."""
    return (_CONSOLE / "assets" / "console.css").read_text(encoding="utf-8") + (FOLDER / "report.css").read_text(
        encoding="utf-8"
    )


def policy(css: str) -> str:
    """The content security policy of a page with this style: its own style, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def make(folder: Path, name: str, values: dict[str, Any], mask: Callable[[str], str] = str) -> str:
    """The page of a template in *folder*, which extends `page.html`. All text is escaped, after *mask* has changed it."""

    def printed(value: Any) -> Any:
        return value if isinstance(value, Markup) else mask(value) if isinstance(value, str) else value

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, FOLDER, _CONSOLE / "pages"]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=printed,
    )
    env.filters.update(
        number=numbers.number,
        moment=numbers.moment,
        ranges=numbers.ranges,
        colour=drawing.colour,
        variant=drawing.variant,
    )
    env.globals.update(version=__version__, percent=numbers.percent, interactive=False, words=WORDS)
    css = style()
    # The style is hashed as it stands in the file, so it is not escaped: it is ours, and has no `<`.
    return env.get_template(name).render(css=Markup(css), policy=policy(css), **values) + "\n"
