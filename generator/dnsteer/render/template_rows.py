"""Whether templates name what there is: by their syntax trees, so also where no example's spec leads to."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from dnsteer.plan.extension.program import ExtensionPlan
from dnsteer.plan.mask_policy import MaskPolicy
from dnsteer.plan.plan import Plan
from dnsteer.render.template_types import TemplateReader
from dnsteer.render.templates import environment, resolve, templates_dir
from dnsteer.tables.order import TABLES
from dnsteer.tables.table import Table, TemplateError

ALWAYS_GIVEN: dict[str, Any] = {"plan": Plan, "masks": MaskPolicy, "file": str, "notes": bool}
"""What every template of flows is given besides its rows."""


@cache
def check_own_template_rows() -> None:
    """Check the templates that are used, once in a process. Raises TemplateError."""
    check_template_rows()


def check_template_rows(folder: Path | None = None, tables: tuple[Table, ...] = TABLES) -> None:
    """Raise TemplateError for what a template names and is not there, and for rows in `uses` that no template names."""
    folder = folder or templates_dir()
    for table in tables:
        for name in table.uses:
            if name in ALWAYS_GIVEN:
                raise TemplateError(
                    f"{table.file}: rows cannot be called {name!r}, which every template is given already"
                )
        rows = {name: list[kind] for name, kind in table.uses.items()}  # type: ignore[valid-type]
        if not (folder / "tables" / f"{table.name}.j2").exists():
            raise TemplateError(f"table {table.name} has no template tables/{table.name}.j2")
        reader = TemplateReader(environment(), {**ALWAYS_GIVEN, **rows}, {"ExtensionPlan": ExtensionPlan})
        for part in ("tables", "groups"):
            file = folder / part / f"{table.name}.j2"
            if file.exists():
                name = f"{part}/{file.name}"
                try:
                    reader.read(environment().tree(resolve(file.read_text(), name)))
                except jinja2.TemplateSyntaxError as err:
                    raise TemplateError(f"{name}:{err.lineno}: {err.message}") from None
                if reader.mistakes:
                    line, mistake = reader.mistakes[0]
                    raise TemplateError(f"{name}:{line}: {mistake}")
        for name, kind in table.uses.items():
            if name not in reader.used:
                raise TemplateError(
                    f"{table.file}: uses has {name!r} ({kind.__name__}), and tables/{table.name}.j2 does not use it"
                )
