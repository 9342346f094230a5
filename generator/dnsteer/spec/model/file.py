# SPDX-License-Identifier: Apache-2.0
"""A file of a spec as the operator writes it: what the spec has, and keys that put it together of several files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from dnsteer.spec.model.part import Part
from dnsteer.spec.model.spec import Backend, Pool, Spec, Vip

VARIABLE_NAME = "[A-Za-z_][A-Za-z0-9_]*"
"""What a variable may be called, as a regular expression."""

OWN_KEYS: dict[str, tuple[str, ...]] = {
    "vips": ("addresses",),
    "pools": ("backends",),
    "backends": ("name", "ipv4", "ipv6"),
}
"""Keys that no two VIPs, pools or backends have in common, so that they have no default."""


def _optional(field: FieldInfo) -> tuple[Any, Any]:
    return field.rebuild_annotation(), Field(
        default=None,
        alias=field.alias,
        description=field.description,
        examples=field.examples,
        json_schema_extra=field.json_schema_extra,
    )


def _defaults_of(name: str, model: type[Part], about: str) -> type[Part]:
    """A model of the keys of *model* that may have a default, each of which may be left out."""
    fields = {
        key: _optional(field)
        for key, field in model.model_fields.items()
        if (field.alias or key) not in OWN_KEYS[about]
    }
    made: type[Part] = create_model(name, __base__=Part, __module__=__name__, __doc__=f"Defaults of {about}.", **fields)  # type: ignore[call-overload]
    return made


VipDefaults = _defaults_of("VipDefaults", Vip, "vips")
PoolDefaults = _defaults_of("PoolDefaults", Pool, "pools")
BackendDefaults = _defaults_of("BackendDefaults", Backend, "backends")


class Defaults(Part):
    """Values of keys that VIPs, pools and backends leave out, in all files of the spec."""

    vips: VipDefaults = Field(default=None, description="For VIPs: any key but `addresses`.")  # type: ignore[valid-type]
    pools: PoolDefaults = Field(default=None, description="For pools: any key but `backends`.")  # type: ignore[valid-type]
    backends: BackendDefaults = Field(  # type: ignore[valid-type]
        default=None, description="For the backends of all pools: any key but `name`, `ipv4` and `ipv6`."
    )


_Value = Annotated[Any, WithJsonSchema({"type": ["string", "integer", "boolean"]})]


class SpecFile(Spec):
    """A file of a spec, or a spec of one file."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"title": "dnsteer spec, version 1"})

    requires: str | None = Field(
        default=None,
        examples=[">=0.1"],
        description="The versions of dnsteer that know what this file has, such as `>=0.1` or `>=0.2, <1`; any other "
        "refuses the spec.",
    )
    include: list[str] | None = Field(
        default=None,
        examples=[["pools.yaml", "sites/*.yaml"]],
        description="Other files of the spec, relative to this one; `*` stands for names in a folder. They have the same "
        "keys as this one, and each thing is written once in all of them, so that their order does not matter.",
    )
    vars: dict[Annotated[str, Field(pattern=f"^{VARIABLE_NAME}$")], _Value] | None = Field(
        default=None,
        examples=[{"uplink_mac": "02:00:00:00:00:01"}],
        description="Variables by name: text, numbers, `true` or `false`. `${NAME}` stands for one, as a value or within a "
        "text. The file `vars/NAME.yaml` beside the spec, for a switch of that name, goes before them, and `--vars FILE` "
        "before that.",
    )
    defaults: Defaults | None = Field(
        default=None, description="Values for keys that VIPs, pools and backends leave out, in all files of the spec."
    )
