# SPDX-License-Identifier: Apache-2.0
"""Who may ask: lists of prefixes of clients that are denied or allowed. docs/access.md explains it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.model.part import Part, TextOrMapping, bounds, whole
from dnsteer.spec.model.types import PREFIX_EXPECTED, Prefix, parse_prefix, wrong_value

MAX_ENTRIES = 20_000
"""Most entries in all lists of a spec; VIPs that have the same list count once."""
_KEYS = ("prefix", "port")


class AccessEntry(Part):
    """Clients by the prefix of their addresses, and one port or all."""

    prefix: Prefix = Field(
        description="Prefix of clients' addresses, of either family; an address alone is one client."
    )
    port: Annotated[int, whole(1, 65535), bounds(1, 65535)] | None = Field(
        default=None, examples=[853], description="Only queries to this port, UDP and TCP. Left out: to all ports."
    )

    def __str__(self) -> str:
        return str(self.prefix) if self.port is None else f"{self.prefix} port {self.port}"


def _prefix_alone(value: Any) -> Any:
    if isinstance(value, str):
        return AccessEntry.model_construct({"prefix"}, prefix=parse_prefix(value), port=None)
    if not isinstance(value, dict | AccessEntry):
        raise wrong_value(f"{PREFIX_EXPECTED}, or a mapping with {' and '.join(_KEYS)}")
    return value


Entry = Annotated[AccessEntry, BeforeValidator(_prefix_alone), TextOrMapping()]


def _file_name(value: Any) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise wrong_value("the name of a file, relative to that of the spec", "for example lists/denied.txt")
    return value


FileName = Annotated[str, BeforeValidator(_file_name), WithJsonSchema({"type": "string", "minLength": 1})]


class AccessRules(Part):
    """Whose queries are dropped. Of entries that match a query, the one with the longest prefix counts."""

    deny: list[Entry] | None = Field(
        default=None,
        examples=[["192.0.2.0/24", {"prefix": "2001:db8::/32", "port": 853}]],
        description="Clients whose queries are dropped. A prefix that is in `allow` too is denied.",
    )
    allow: list[Entry] | None = Field(
        default=None,
        examples=[["10.0.0.0/8"]],
        description="Clients whose queries pass, though a shorter prefix denies them. Without `deny` the list is closed: "
        "everybody else is denied, of both families.",
    )
    deny_file: FileName | None = Field(
        default=None,
        examples=["lists/denied.txt"],
        description="A file with more entries for `deny`: a prefix a line, after it a port where only that is meant; `#` "
        "begins a comment. The name is relative to the file that has this key.",
    )
    allow_file: FileName | None = Field(default=None, description="The same for `allow`.")

    @property
    def entries(self) -> int:
        """How many entries it has."""
        return len(self.deny or ()) + len(self.allow or ())

    @property
    def is_closed(self) -> bool:
        """Whether everybody is denied who is not allowed."""
        return bool(self.allow) and not self.deny
