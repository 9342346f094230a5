# SPDX-License-Identifier: Apache-2.0
"""A value of the spec as YAML, with the keys that the operator gave."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dnsteer.spec.model.part import SpelledValidator

_LONG = 1 << 20
"""Columns after which PyYAML would begin another line."""


def yaml_text(value: Any, field: FieldInfo | None = None) -> str:
    """A value in one line, as text of YAML; `unset` for None. *field* is that of its key, which has its validator."""
    plain = yaml_value(value, field)
    if plain is None:
        return "unset"
    if isinstance(plain, str):
        return plain
    text: str = yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, allow_unicode=True, width=_LONG)
    return text.removesuffix("\n").removesuffix("\n...")


def yaml_value(value: Any, field: FieldInfo | None = None) -> Any:
    """A value as YAML has it: scalars, lists and mappings. Keys that were left out are left out."""
    spell = _spell(field)
    if value is None or isinstance(value, bool):
        return value
    if spell is not None:
        return spell.spell(value)
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        given = [name for name in fields if name in value.model_fields_set]
        return {fields[name].alias or name: yaml_value(getattr(value, name), fields[name]) for name in given}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(yaml_value(key)): yaml_value(one) for key, one in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return [yaml_value(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | float) else str(value)


def _spell(field: FieldInfo | None) -> SpelledValidator | None:
    if field is None:
        return None
    inner = [one for part in get_args(field.annotation) for one in getattr(part, "__metadata__", ())]
    return next((one for one in (*field.metadata, *inner) if isinstance(one, SpelledValidator)), None)
