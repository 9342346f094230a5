# SPDX-License-Identifier: Apache-2.0
"""Datapath flows, as the switch shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from ovs.flow.odp import ODPFlow

from dnsteer.switch.masks import Mask, mask_of_match
from dnsteer.switch.megaflow_fields import every_name_is_known, fields_of

_VALUE = re.compile(r"(?<=[=(])(0x[0-9a-f]+|\d[\d.]*|[0-9a-f]*:[0-9a-f:.]*)(?:/([0-9a-fx.:]+))?(?=[,)])")
"""A number or an address that a field has to be, and the mask."""
_UFID = re.compile(r"^ufid:[0-9a-f-]+, ")
_FIRST_PASS = re.compile(r"\brecirc_id\(0(x0)?\)")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_MAX_SHAPES = 4096
_MASKS: dict[str, Mask] = {}  # of matches by their shape: the match without its values


@dataclass(frozen=True)
class Megaflow:
    """A datapath flow as the switch shows it: the match without wildcards, its mask, and the actions.

    *key* is the match with the bits that count only: equal for two megaflows that match the same.
    """

    text: str
    mask: Mask
    actions: str
    key: str

    @property
    def recirculated(self) -> bool:
        return _FIRST_PASS.search(self.key) is None


def read_megaflows(text: str) -> list[Megaflow]:
    """Read all of `dpctl/dump-flows -m`."""
    return [read_megaflow(line) for line in text.splitlines() if "recirc_id(" in line]


def read_megaflow(line: str) -> Megaflow:
    """Read one line of dpctl/dump-flows -m."""
    text, _, actions = line.partition(", actions:")
    match = _UFID.sub("", text).partition(", packets:")[0]
    return Megaflow(text, _mask_of(match), actions.split(", dp-extra-info")[0], _VALUE.sub(_counting_bits, match))


def masks(flows: Iterable[Megaflow]) -> int:
    """Number of distinct masks among datapath flows."""
    return len({flow.mask for flow in flows})


def _mask_of(match: str) -> Mask:
    """Return the mask of a match, cached: thousands of flows differ only in values, and parsing takes 0.2 ms each."""
    shape = _VALUE.sub(_without_value, match)
    found = _MASKS.get(shape)
    if found is None:
        with every_name_is_known():
            found = mask_of_match(tuple(fields_of(dict(ODPFlow(match + ", actions:drop").match))))
        if len(_MASKS) >= _MAX_SHAPES:
            _MASKS.clear()
        _MASKS[shape] = found
    return found


def _without_value(field: re.Match[str]) -> str:
    return f"#/{field[2]}" if field[2] else "#"


def _counting_bits(field: re.Match[str]) -> str:
    value, mask = field.groups()
    if mask is None:
        return str(value)
    if not mask.strip("0x:."):
        return "*"
    return f"{_number(value) & _number(mask):x}/{mask}"


def _number(text: str) -> int:
    """The number that a field's value or mask stands for."""
    if text.startswith("0x") or text.isdigit():
        return int(text, 0)
    if _MAC.fullmatch(text):
        return int(text.replace(":", ""), 16)
    return int(ip_address(text))
