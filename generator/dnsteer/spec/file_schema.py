# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of the files of a spec, for editors: of any one of them, and of files of variables.

A file of a spec need not have what another file, a default or a variable can give, and an editor sees one file alone. So
these schemas accept all that the program accepts; what is missing in the spec as a whole is for `dnsteer check` to say.
"""

from __future__ import annotations

from typing import Any

from dnsteer.spec.model.file import OWN_KEYS, VARIABLE_NAME, SpecFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ANNOTATIONS = ("title", "description", "default", "examples", "deprecated")
"""What editors show of a value; it stays where it is when the value may be written in more ways. So does `x-...`."""
_SCALARS = frozenset(["string", "integer", "number", "boolean"])
_USE = "Variables"
"""The definition of a text with variables."""
_WITHOUT_VARIABLES = ("apiVersion", "requires", "include", "vars")
"""Keys of a file that have none; nor has the name of a backend."""
_MODELS = {"vips": "Vip", "pools": "Pool", "backends": "Backend"}
"""Definitions of what may have defaults, by their keys in `defaults`."""
_NULL = {"type": "null"}


def spec_file_schema() -> dict[str, Any]:
    """The JSON Schema of any file of a spec: the one that a switch has for itself, one that it includes, or a whole spec."""
    schema = SpecFile.model_json_schema(by_alias=True)
    keys, models = schema["properties"], schema["$defs"]
    backend_name = models["Backend"]["properties"]["name"]
    schema["properties"] = keys = {
        key: value if key in _WITHOUT_VARIABLES else _allow_variables(value) for key, value in keys.items()
    }
    schema["$defs"] = models = {name: _allow_variables(model) for name, model in models.items()}
    models["Backend"]["properties"]["name"] = backend_name
    keys["include"] = {**_annotations(keys["include"]), **_included()}
    keys["vars"] = {**_annotations(keys["vars"]), **_variables()}
    for model in models.values():
        if "properties" not in model:  # words: editors would show what they are, and not what the key means
            del model["description"], model["title"]
    _need_no_other_file(schema)
    for kind, model in _MODELS.items():
        _need_no_default(models[model], OWN_KEYS[kind])
    models[_USE] = {
        "type": "string",
        "pattern": rf"(^|[^$])\$\{{{VARIABLE_NAME}\}}",
        "$comment": "without a description: editors would show it instead of that of the key",
    }
    return {"$schema": _DIALECT, **schema}


def variables_schema() -> dict[str, Any]:
    """The JSON Schema of a file of variables: that of a switch, or one that `--vars` names."""
    description = "Variables of a spec by name: values of `${NAME}` in it."
    return {"$schema": _DIALECT, "title": "dnsteer variables", "description": description, **_variables()}


def _included() -> dict[str, Any]:
    """Names of files: a pattern may have `*`, but no `**`, and no variable."""
    name = {"type": "string", "minLength": 1, "not": {"pattern": r"\*\*|\$\{"}}
    return {"anyOf": [{"type": "array", "items": name, "minItems": 1}, name]}


def _variables() -> dict[str, Any]:
    """Scalars by name, without variables of their own; what the program reads as text may look like a number to editors."""
    value = {"type": ["string", "number", "boolean"], "not": {"type": "string", "pattern": r"\$\{"}}
    return {"type": "object", "patternProperties": {f"^{VARIABLE_NAME}$": value}, "additionalProperties": False}


def _need_no_other_file(schema: dict[str, Any]) -> None:
    """Require no key that other files may have: those of the spec, and of its switch."""
    del schema["required"]
    del schema["$defs"]["Switch"]["required"]
    for key in ("pools", "vips"):
        del schema["properties"][key]["minProperties"]


def _need_no_default(model: dict[str, Any], own: tuple[str, ...]) -> None:
    """Require no key that may have a default, and let a null that is spelled out stand for its absence."""
    model["required"] = [key for key in model["required"] if key in own]
    keys = model["properties"]
    keys |= {key: _or_also(value, _NULL) for key, value in keys.items() if key not in own}


def _allow_variables(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema in which each scalar may be a text with variables; such a text has no bounds, pattern or list of words."""
    made = {**schema}
    for key in ("properties", "patternProperties"):
        if key in made:
            made[key] = {name: _allow_variables(each) for name, each in made[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _allow_variables(made[key])
    union = made.pop("oneOf", None) or made.get(
        "anyOf"
    )  # a word may look like a text with variables in both of two ways
    if union:
        made["anyOf"] = _flat([_allow_variables(each) for each in union])
    return _or_also(made, {"$ref": f"#/$defs/{_USE}"}) if _is_bounded_scalar(made) else made


def _is_bounded_scalar(schema: dict[str, Any]) -> bool:
    """Whether *schema* is of scalars, and does not take any text."""
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else {*kinds}
    takes_any_text = "string" in kinds and schema.keys() == {"type", *_annotations(schema)}
    return bool(kinds) and kinds <= _SCALARS and not takes_any_text


def _annotations(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key in _ANNOTATIONS or key.startswith("x-")}


def _or_also(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What *schema* accepts, and what *other* does. Annotations stay at its top, where editors look for them."""
    shown = _annotations(schema)
    rule = {key: value for key, value in schema.items() if key not in shown}
    return {**shown, "anyOf": _flat([rule, other])}


def _flat(union: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The alternatives of a union, those of unions in it among them, each once."""
    found: list[dict[str, Any]] = []
    for each in union:
        found += [one for one in (each["anyOf"] if each.keys() == {"anyOf"} else [each]) if one not in found]
    return found
