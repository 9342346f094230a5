# SPDX-License-Identifier: Apache-2.0
"""Whether a dashboard is one by Grafana's own model of dashboards, which Grafana publishes as a package."""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Collection, Iterator
from typing import Any

import pytest


def mistakes(board: dict[str, Any]) -> list[str]:
    """What Grafana does not know, or expects otherwise, with the path to it. Skips where the package cannot be had."""
    plugins, encoder, models = (
        pytest.importorskip(f"grafana_foundation_sdk.{name}", reason="the package is for Python 3.11 and later")
        for name in ("cog.plugins", "cog.encoder", "models.dashboard")
    )
    plugins.register_default_plugins()
    read = models.Dashboard.from_json(board)
    kept = json.loads(json.dumps(read, cls=encoder.JSONEncoder))
    return [*_of_other_types(read, models.Dashboard, "$"), *_lost(board, kept, "$")]


def _lost(written: Any, kept: Any, path: str) -> Iterator[str]:
    """What the model does not keep: it has no such key."""
    if isinstance(written, dict) and isinstance(kept, dict):
        for key, value in written.items():
            if key not in kept and value is not None:
                yield f"{path}.{key}: Grafana has no such key"
            elif key in kept:
                yield from _lost(value, kept[key], f"{path}.{key}")
    elif isinstance(written, list) and isinstance(kept, list):
        for n, (one, other) in enumerate(zip(written, kept, strict=True)):
            yield from _lost(one, other, f"{path}[{n}]")
    elif written != kept:
        yield f"{path}: Grafana reads {kept!r} for {written!r}"


def _of_other_types(value: Any, hint: Any, path: str) -> Iterator[str]:
    """Where a value is not what the model says."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object) or (isinstance(hint, type) and getattr(hint, "__module__", "").endswith("variants")):
        hint = type(value)  # what panels and data sources have of their own
    if origin in (typing.Union, types.UnionType):
        yield from _of_no_member(value, args, path)
    elif origin in (list, dict):
        yield from _of_other_elements(value, origin, args[-1], path)
    elif origin is typing.Literal:
        if value not in args:
            yield f"{path}: found {value!r}; expected one of {args}"
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        if value not in [one.value for one in hint]:
            yield f"{path}: found {value!r}; expected one of {[one.value for one in hint]}"
    elif hint in (bool, int, str, float):
        right = {float: (int, float)}.get(hint, hint)
        if not isinstance(value, right) or (hint is not bool and isinstance(value, bool)):
            yield f"{path}: found {value!r}; expected {hint.__name__}"
    elif hasattr(hint, "from_json"):
        yield from _of_another_model(value, hint, path)


def _of_no_member(value: Any, members: Collection[Any], path: str) -> Iterator[str]:
    """What is wrong by that member of a union which fits best."""
    if value is None and types.NoneType in members:
        return
    some = [one for one in members if one is not types.NoneType]
    fitting = [one for one in some if isinstance(one, type) and isinstance(value, one)]
    found = [[*_of_other_types(value, one, path)] for one in fitting or some]
    if all(found):
        yield from min(found, key=len)


def _of_other_elements(value: Any, kind: type, hint: Any, path: str) -> Iterator[str]:
    if not isinstance(value, kind):
        yield f"{path}: found {value!r}; expected {'a list' if kind is list else 'an object'}"
        return
    places = value.items() if isinstance(value, dict) else enumerate(value)
    for place, one in places:
        yield from _of_other_types(one, hint, f"{path}.{place}" if kind is dict else f"{path}[{place}]")


def _of_another_model(value: Any, model: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):  # as the package leaves some
        yield from _of_other_types(model.from_json(value), model, path)
    elif isinstance(value, model):
        for name, of in typing.get_type_hints(model).items():
            yield from _of_other_types(getattr(value, name), of, f"{path}.{name}")
    else:
        yield f"{path}: found {value!r}; expected {model.__name__}"
