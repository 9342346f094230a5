"""Network devices of ports, and mappings by name, as the parts of the spec write them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from dnsteer.spec.model.part import Part
from dnsteer.spec.model.types import DeviceType, Option, OptionKey


class MayBeEmpty:
    """An entry without a value (`p0:`) stands for one that leaves every key out."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(lambda v: {} if v is None else v, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "null"}]}


class ByName:
    """Says in the JSON Schema that a mapping has no keys but those of its pattern; pydantic's schema leaves that open."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "additionalProperties": False}


class Device(Part):
    """What OVSDB needs to open a port's network device."""

    type: DeviceType | None = Field(
        default=None,
        description="Interface type in OVSDB. Left out: `dpdk` for ovs-doca and ovs-dpdk, a system device otherwise.",
    )
    options: Annotated[dict[OptionKey, Option], ByName()] = Field(
        default_factory=dict,
        description="Interface options in OVSDB, such as `dpdk-devargs` (which type `dpdk` needs, except with ovs-doca).",
    )
