"""The two address families."""

from __future__ import annotations

from typing import Literal

Family = Literal["ipv4", "ipv6"]
FAMILIES: tuple[Family, Family] = ("ipv4", "ipv6")
