"""Turn pydantic's validation errors into findings: one per mistake, with the line and what was found."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.model import Backend, Pool, Port, Service, Spec, Switch, Uplink, Vip

_UNION_TAGS = frozenset(["mapping", "word"])  # steps that pydantic adds for the service union
_KEY = "[key]"  # step that pydantic adds when a mapping's key is at fault


def near(word: str, known: list[str]) -> str:
    """A hint that names the nearest known word, or lists the known ones."""
    match = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if match:
        return f"did you mean {match[0]!r}?"
    shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
    return f"known here: {shown}" if known else ""


def show_value(value: Any) -> str:
    """A value as the operator wrote it, short."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + '..."'


def findings_of(error: ValidationError, doc: Document) -> list[Finding]:
    """The findings that *error* stands for, each once."""
    out: dict[tuple[Path, str], Finding] = {}
    for item in error.errors(include_url=False):
        finding = _finding(dict(item), doc)
        out.setdefault((finding.path, finding.expected), finding)
    return list(out.values())


def _finding(item: Mapping[str, Any], doc: Document) -> Finding:
    raw = tuple(item["loc"])
    path: Path = tuple(s for i, s in enumerate(raw) if s != _KEY and not (i and s in _UNION_TAGS and _list_item(raw, i)))
    line = doc.line(path)
    found, kind, ctx = show_value(item["input"]), item["type"], item.get("ctx", {})
    if kind == "dnsteer":
        return Finding(line, path, found, ctx["expected"], ctx["hint"])
    if kind == "missing":
        return Finding(line, path[:-1], f"no {path[-1]!r}", f"the key {path[-1]!r}", _describe(path))
    if kind == "extra_forbidden":
        return Finding(line, path, "an unknown key", "a known key", near(str(path[-1]), _known_keys(path[:-1])))
    if kind in ("enum", "literal_error"):
        expected = ctx["expected"].replace("'", "")
        hint = near(str(item["input"]), [w.strip() for w in expected.replace(" or ", ", ").split(",")])
        return Finding(line, path, found, expected, hint if hint.startswith("did") else "")
    plain = {
        "model_type": "a mapping",
        "dict_type": "a mapping",
        "list_type": "a list",
        "string_type": "a string",
        "bool_type": "true or false",
        "bool_parsing": "true or false",
        "too_short": "at least one entry",
    }
    return Finding(line, path, found, plain.get(kind, str(item["msg"])), "")


def _list_item(raw: tuple[Any, ...], index: int) -> bool:
    return isinstance(raw[index - 1], int)


_PARTS: dict[str, type[BaseModel]] = {"pools": Pool, "vips": Vip, "uplinks": Uplink, "ports": Port}


def _model_at(path: Path) -> type[BaseModel] | None:
    """The model that describes the mapping at *path*."""
    match path:
        case ():
            return Spec
        case ("switch",):
            return Switch
        case ("switch", ("uplinks" | "ports") as part, _) | (("pools" | "vips") as part, _):
            return _PARTS[str(part)]
        case ("pools", _, "backends", _):
            return Backend
        case ("vips", _, "services", _):
            return Service
    return None


def _known_keys(path: Path) -> list[str]:
    model = _model_at(path)
    return list(model.model_fields) if model else []


def _describe(path: Path) -> str:
    model = _model_at(path[:-1])
    field = model.model_fields.get(str(path[-1])) if model else None
    text = (field.description or "") if field else ""
    return text.split(". ")[0].rstrip(".").replace("`", "")
