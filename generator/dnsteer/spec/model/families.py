# SPDX-License-Identifier: Apache-2.0
"""The two address families, and the ways to reach a backend by them. Without pydantic, for the quick verbs."""

from __future__ import annotations

from typing import Literal

Family = Literal["ipv4", "ipv6"]
FAMILIES: tuple[Family, Family] = ("ipv4", "ipv6")
FAMILY_NAMES: dict[str, str] = {"ipv4": "IPv4", "ipv6": "IPv6"}
Reach = Literal["ipv4", "ipv6", "any"]
"""Which address a backend must have to be reached: of one family, or of either."""
ANY: Literal["any"] = "any"
