"""The packages of the code as a table in docs/architecture.md and as a picture beside it. Used by docs/generate.py.

The layers are those of the import contract in pyproject.toml, which `make lint` holds the code to; what a package is for is the
first paragraph of its docstring.
"""

from __future__ import annotations

import ast
import re
import textwrap
from html import escape
from pathlib import Path

import tomllib

from dnsteer.tables.order import TABLES

_ROOT = Path(__file__).resolve().parents[1]
_CODE = _ROOT / "generator" / "dnsteer"
_TABLE = re.compile(r"(<!-- packages -->\n).*?(<!-- end of packages -->)", re.DOTALL)
_PIPELINE = re.compile(r"(<!-- tables -->\n).*?(<!-- end of tables -->)", re.DOTALL)
_WIDTH, _HEIGHT, _LINE, _GAP, _MARGIN, _TEXT = 1040, 46, 15, 12, 16, 6.4
_FILL = {"cli": "#dbe7f5", "spec": "#e4f0dc"}


def layers() -> list[list[str]]:
    """The packages, from the top layer down; those of one layer do not import each other."""
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    found = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip().removeprefix("dnsteer.") for name in layer.split("|")] for layer in found]


def purpose(package: str) -> str:
    """What a package is for."""
    return _first_paragraph(_CODE / package / "__init__.py")


def _first_paragraph(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def modules() -> str:
    """docs/modules.md: what each module is for."""
    out = [
        "# Modules\n\nThe modules of `generator/dnsteer`, by the first paragraph of each. [architecture.md](architecture.md) has the packages and the ways through them."
    ]
    for package in (package for layer in layers() for package in layer):
        out.append(f"## {package}\n\n{purpose(package)}\n\n| module | what it is for |\n|---|---|")
        for file in sorted((_CODE / package).rglob("*.py"), key=lambda file: (len(file.parts), file)):
            name = str(file.relative_to(_CODE)).removesuffix("__init__.py")
            if name != f"{package}/":
                out[-1] += f"\n| `{name}` | {_first_paragraph(file).replace('|', chr(92) + '|')} |"
    return "\n\n".join(out) + "\n"


def page(text: str) -> str:
    """docs/architecture.md with its tables made anew."""
    rows = [f"| `{package}/` | {purpose(package)} |" for layer in layers() for package in layer]
    made = "\n".join(["| package | what it is for |", "|---|---|", *rows])
    text = _TABLE.sub(lambda m: f"{m[1]}\n{made}\n\n{m[2]}", text)
    pipeline = "\n".join(f"{t.number:>4} {t.name:<10} {t.does}" for t in TABLES)
    return _PIPELINE.sub(lambda m: f"{m[1]}\n```\n{pipeline}\n```\n\n{m[2]}", text)


def picture() -> str:
    """The packages in their layers as SVG: a package imports packages below it alone."""
    boxes, y = [], _MARGIN + 20.0
    for layer in layers():
        width = (_WIDTH - 2 * _MARGIN - _GAP * (len(layer) - 1)) / len(layer)
        texts = [textwrap.wrap(purpose(package).replace("`", ""), int((width - 20) / _TEXT)) for package in layer]
        tall = _HEIGHT + _LINE * (max(map(len, texts)) - 1)
        for i, (package, text) in enumerate(zip(layer, texts, strict=True)):
            x = _MARGIN + i * (width + _GAP)
            fill = _FILL.get(package, "#f4f1ea")
            boxes.append(
                f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{tall}" rx="4" fill="{fill}" stroke="#555"/>\n'
                f'<text x="{x + 10:.0f}" y="{y + 18:.0f}" font-weight="bold">{escape(package)}/</text>'
            )
            boxes += [
                f'<text x="{x + 10:.0f}" y="{y + 36 + _LINE * n:.0f}" font-size="12">{escape(line)}</text>'
                for n, line in enumerate(text)
            ]
        y += tall + _GAP
    height = y + _MARGIN - _GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}" '
        'font-family="sans-serif" font-size="14" fill="#222">\n'
        f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#fff"/>\n'
        f'<text x="{_MARGIN}" y="{_MARGIN + 6}" font-size="12">generator/dnsteer/: a package imports packages below it, never above or '
        "beside it</text>\n"
    )
    return head + "\n".join(boxes) + "\n</svg>\n"
