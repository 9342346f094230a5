# SPDX-License-Identifier: Apache-2.0
"""Self-contained HTML files: the style is inline, there are no scripts, and their security policy allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from dnsteer import __version__
from dnsteer.view import drawing, wording

PAGES = Path(__file__).parent / "pages"
"""Templates that the console and HTML files share."""
ASSETS = Path(__file__).parent / "assets"
"""Styles; console.css is that of the console too, so that what is in a file looks as it does there."""


def style() -> str:
    """The style of all files."""
    return "".join((ASSETS / name).read_text(encoding="utf-8") for name in ("console.css", "report.css"))


def policy(css: str) -> str:
    """The content security policy of a page with this style: its own style, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page_environment(
    folder: Path, *, interactive: bool, finalize: Callable[[Any], Any] | None = None
) -> jinja2.Environment:
    """The environment of the templates in *folder* and of those in PAGES, with the filters and values that both use.

    *interactive*: the page is the console's. *finalize* changes each value that is printed.
    """
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, PAGES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=finalize,
    )
    env.filters.update(
        number=wording.number,
        moment=wording.moment,
        ranges=wording.ranges,
        colour=drawing.colour,
        variant=drawing.variant,
    )
    env.globals.update(version=__version__, percent=wording.percent, interactive=interactive, words=wording.WORDS)
    return env


def make_html(folder: Path, name: str, values: dict[str, Any], mask: Callable[[str], str] = str) -> str:
    """The page of a template in *folder*, which extends `page.html`. All text is escaped, after *mask* has changed it."""

    def printed(value: Any) -> Any:
        return value if isinstance(value, Markup) else mask(value) if isinstance(value, str) else value

    env = page_environment(folder, interactive=False, finalize=printed)
    css = style()
    # The style is hashed as it stands in the file, so it is not escaped: it is ours, and has no `<`.
    return env.get_template(name).render(css=Markup(css), policy=policy(css), **values) + "\n"
