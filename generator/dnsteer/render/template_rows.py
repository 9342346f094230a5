"""Whether templates name fields that their rows have: by the syntax tree, so also where no example's spec leads to."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from jinja2 import nodes

from dnsteer.render.templates import environment, resolve, templates_dir
from dnsteer.tables.order import TABLES
from dnsteer.tables.table import Table, TemplateError

GIVEN = frozenset({"plan", "masks", "file", "notes"})
"""What every template of flows is given besides its rows."""


def check_template_rows(folder: Path | None = None, tables: tuple[Table, ...] = TABLES) -> None:
    """Raise TemplateError for a field that a row has not, a loop over rows not in `uses`, and rows that none loops over."""
    folder = folder or templates_dir()
    for table in tables:
        used: set[str] = set()
        for part in ("tables", "groups"):
            file = folder / part / f"{table.name}.j2"
            if file.exists():
                tree = environment().parse(resolve(file.read_text(), f"{part}/{file.name}"))
                used |= {name.name for name in tree.find_all(nodes.Name) if name.ctx == "load"}
                for line, mistake in _mistakes(tree, table):
                    raise TemplateError(f"{part}/{file.name}:{line}: {mistake}")
        for name, kind in table.uses.items():
            if name in GIVEN:
                raise TemplateError(
                    f"{table.file}: rows cannot be called {name!r}, which every template is given already"
                )
            if name not in used:
                raise TemplateError(
                    f"{table.file}: uses has {name!r} ({kind.__name__}), and tables/{table.name}.j2 does not use it"
                )


def _mistakes(tree: nodes.Node, table: Table) -> Iterator[tuple[int, str]]:
    from dnsteer.spec.schema_errors import near

    for loop in tree.find_all(nodes.For):
        rows = loop.iter
        if not isinstance(rows, nodes.Name) or not isinstance(loop.target, nodes.Name):
            continue
        kind = table.uses.get(rows.name)
        if kind is None:
            continue
        known = [name for name in dir(kind) if not name.startswith("_")] + list(_annotated(kind))
        for field in loop.find_all(nodes.Getattr):
            at = field.node
            if isinstance(at, nodes.Name) and at.name == loop.target.name and field.attr not in known:
                yield field.lineno, f"{kind.__name__} has no {field.attr}; {near(field.attr, known)}"


def _annotated(kind: type[object]) -> Iterator[str]:
    """Yield the fields of a class and of those that it is derived from; a dataclass has those without a default only so."""
    for base in kind.__mro__:
        yield from inspect.get_annotations(base)
