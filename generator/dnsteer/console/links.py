"""Links to the pages of VIPs in texts that name them."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import quote

from markupsafe import Markup, escape

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


def link_vips(text: str, names: Collection[str], before: str = "VIP") -> Markup:
    """A text, escaped, in which each of these VIPs is a link where its name follows the word *before*."""
    out, at = Markup(), 0
    for found in re.finditer(rf"\b{before} ({_NAME})", text):
        name = found[1]
        if name in names:
            out += escape(text[at : found.start(1)]) + link_vip(name)
            at = found.end(1)
    return out + escape(text[at:])


def link_vip(name: str) -> Markup:
    """A link to the page of a VIP."""
    return Markup('<a href="/vips/{}">{}</a>').format(quote(name, safe=""), name)
