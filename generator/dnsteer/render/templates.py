"""Jinja2 set up for flows: strict about undefined names, and spelling numbers as ovs-ofctl prints them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2

from dnsteer import __version__
from dnsteer.plan import pipeline
from dnsteer.plan.extension.program import PREFIX
from dnsteer.plan.objects import SlotTable
from dnsteer.plan.subject import Subject


def templates_dir() -> Path:
    """Where the templates are: inside the installed package, or at the top of a source checkout."""
    packaged = Path(str(resources.files("dnsteer"))) / "templates"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "templates"


def register_value(value: int) -> str:
    """A register's value as ovs-ofctl prints it."""
    return f"0x{value:x}" if value else "0"


def port_name(name: str) -> str:
    """A port's name as ovs-ofctl prints it with --names: quoted where it is not a plain identifier."""
    return name if all(c.isalnum() or c in "_-." for c in name) else f'"{name}"'


def flow_line(owner: Subject | int, table: pipeline.Table, priority: int, match: str, actions: str) -> str:
    """A flow of *owner*, a subject or its cookie, as ovs-ofctl prints it."""
    comma = "," if match else ""
    cookie = owner if isinstance(owner, int) else owner.cookie
    return f"cookie=0x{cookie:x}, table={table.number}, priority={priority}{comma}{match} actions={actions}"


def slot_lines(
    slots: SlotTable, table: pipeline.Table, priority: int, match: str, actions: Mapping[str, str]
) -> list[str]:
    """The flows of a pool's slots: *match* ends with the slot's value, and its backend's name says which *actions*.

    All at once, since a large switch has 100,000 of them: one by one they take longer than all else of the tables.
    """
    cookie = f"cookie=0x{slots.cookie >> 16:x}"
    head = f", table={table.number}, priority={priority},{match}"
    tails = {backend: f" actions={those}" for backend, those in actions.items()}
    texts = zip(_slot_texts(len(slots.owners)), slots.owners, strict=True)
    return [f"{cookie}{low}{head}{value}{tails[owner]}" for (low, value), owner in texts]


@cache
def _slot_texts(count: int) -> list[tuple[str, str]]:
    """The end of each slot's cookie, and its register's value; the same in all pools of one size."""
    return [(f"{slot:04x}", register_value(slot)) for slot in range(count)]


def bits(low: int, high: int) -> str:
    """Some bits of a field as ovs-ofctl prints them."""
    return f"[{low}]" if low == high else f"[{low}..{high}]"


def look(*names: str) -> str:
    """Actions that look at fields, by copying them to where nobody reads: `udp_dst`, or `udp_dst[0..11]` for some bits."""
    moves = []
    for name in names:
        field, mark, part = name.partition("[")
        nxm, width = pipeline.LOOKS[field]
        low, _, high = part.rstrip("]").partition("..")
        count = int(high or low) - int(low) + 1 if mark else width
        to = "" if count == _WIDEST else bits(0, count - 1)
        moves.append(f"move:{nxm}{mark}{part}{'' if mark else '[]'}->{pipeline.LOOKED}{to or '[]'}")
    return ",".join(moves)


_WIDEST = 128


class _Environment(jinja2.Environment):
    """Jinja2's, where a dot means an attribute and nothing else: a large switch has 300,000 of them."""

    getattr = staticmethod(getattr)  # type: ignore[assignment]


@cache
def environment() -> jinja2.Environment:
    """The one Jinja2 environment."""
    env = _Environment(
        loader=jinja2.FileSystemLoader(templates_dir()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # flows and shell, not markup
    )
    env.filters["flow"] = flow_line  # a filter, since Jinja2 takes far longer to call a function than a filter
    env.filters["slots"] = slot_lines
    env.filters["bits"] = bits
    env.filters["reg"] = register_value
    env.filters["port"] = port_name
    env.globals.update(
        T=SimpleNamespace(**pipeline.PIPELINE.tables),
        R=SimpleNamespace(**pipeline.PIPELINE.registers),
        MODE=pipeline.MODE,
        TRANSPORT=pipeline.TRANSPORT,
        QUERY=pipeline.PATH_QUERY,
        ANSWER=pipeline.PATH_ANSWER,
        PREFIX=PREFIX,
        UPLINK=pipeline.SIDE_UPLINK,
        look=look,
        version=__version__,
    )
    return env


def render(template: str, **values: Any) -> str:
    """Render one template."""
    return environment().get_template(template).render(**values)
