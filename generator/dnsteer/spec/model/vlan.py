# SPDX-License-Identifier: Apache-2.0
"""The VLAN of a network: its ID in the tag of IEEE 802.1Q, or none."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from dnsteer.spec.model.part import number_hint
from dnsteer.spec.model.types import wrong_value

UNTAGGED = "untagged"
"""In place of a VLAN ID: the frames have no tag."""
MAX_VLAN = 4094
_WHY_NOT = {
    0: f"0 is a tag with a priority alone: write {UNTAGGED} for frames without a VLAN",
    4095: "4095 is reserved (IEEE 802.1Q, 9.6)",
}


def _vlan(value: Any) -> int | str:
    if value == UNTAGGED:
        return UNTAGGED
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and 1 <= value <= MAX_VLAN:
        return int(value)
    if isinstance(value, str) and value.lower() in (UNTAGGED, "none", "no", "native", ""):
        hint = f"write {UNTAGGED}"
    elif isinstance(value, list | dict) or (isinstance(value, str) and not value.isdecimal()):
        hint = "one VLAN: frames with two tags (QinQ, 802.1ad) are not served: take the outer one off in front"
    else:
        hint = (_WHY_NOT.get(value, "") if whole else "") or number_hint(value)
    raise wrong_value(f"a VLAN ID from 1 to {MAX_VLAN}, or {UNTAGGED}", hint)


Vlan = Annotated[
    int | Literal["untagged"],
    BeforeValidator(_vlan),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MAX_VLAN},
                {"type": "string", "enum": [UNTAGGED]},
            ]
        }
    ),
]
