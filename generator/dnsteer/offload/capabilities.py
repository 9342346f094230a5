# SPDX-License-Identifier: Apache-2.0
"""The model of a capability profile: what the hardware under an Open vSwitch flavor takes, each statement with its source.

`ovs/profiles/*.yaml` are such profiles, `ovs/profiles/schema.json` is the JSON Schema of the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.offload.packet_path import Certainty as Certainty
from dnsteer.offload.packet_path import Verdict
from dnsteer.spec.errors import Path
from dnsteer.spec.model.part import DataPart
from dnsteer.spec.model.types import wrong_value

ActionPlace = Literal["last", "not-last"]
PortKind = Literal["in-port", "internal", "other-eswitch"]
Text = Annotated[str, Field(min_length=1)]


def _word(value: Any) -> Any:
    """Return a field's value, which must be a number or a word, unchanged."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise wrong_value("a number or a word")
    return value


def _bits(value: Any) -> int:
    """Parse a mask, given as a number or as text such as `0xff`."""
    if isinstance(value, bool) or not isinstance(value, int | str) or not re.match(r"(0x[0-9a-f]+|\d+)\Z", str(value)):
        raise wrong_value("a mask such as 0xff")
    return int(str(value), 0)


Value = Annotated[int | str, BeforeValidator(_word)]
MaskBits = Annotated[int, BeforeValidator(_bits), WithJsonSchema({"type": ["integer", "string"]})]

LimitName = Literal[
    "match_bytes_per_rule",
    "match_bytes_per_wide_rule",
    "split_depth",
    "dp_hash_bits",
    "dp_hash_with_conntrack",
    "meters_per_flow",
    "sample_with_meter",
    "sample_with_recirculation",
    "vlan_tags",
    "vlan_pushes",
    "vlan_pops",
    "geneve_options",
    "outputs",
    "actions",
    "conntrack_zones",
    "conntrack_connections",
    "counters",
    "rules",
    "masks",
    "insertions_per_second",
]
"""The last six are limits on all flows together, the others on one flow.

conntrack_connections and insertions_per_second are only for readers: a spec does not say how many connections there are or
how fast flows are added. All others are compared with what a spec needs.
"""


class Outcome(DataPart):
    """What a statement says: the verdict, and how many hardware rules and tables the thing takes beyond the flow's own."""

    verdict: Verdict = Field(description="whether hardware takes it")
    rules: int = Field(0, ge=0, description="hardware rules in addition to the flow's own")
    tables: int = Field(0, ge=0, description="hardware tables that packets pass in addition")
    about: str = Field("", description="for readers of the data: what was checked, what contradicts it")


class Case(Outcome):
    """What is different under a condition. All conditions given must hold; the first case that holds decides."""

    mask: Literal["exact", "partial"] | None = Field(None, description="the field is matched or written so")
    value: tuple[Value, ...] = Field((), description="the field's value is one of these, as a number or as shown")
    value_not: tuple[Value, ...] = Field((), description="the field's value is none of these")
    beyond: MaskBits | None = Field(None, description="the mask has bits outside of these")
    flags: tuple[str, ...] = Field((), description="one of these flags counts, set or not")
    plus: tuple[str, ...] = Field((), description="one of these flags must be set")
    having: tuple[str, ...] = Field((), description="the flow also matches one of these fields")
    proto: tuple[int, ...] = Field((), description="the flow is of one of these IP protocols")
    proto_not: tuple[int, ...] = Field((), description="the flow is not known to be of one of these IP protocols")
    proto_other: tuple[int, ...] = Field(
        (), description="the flow is known to be of an IP protocol that is none of these"
    )
    family: Literal["ipv4", "ipv6", "other"] | None = Field(None, description="the flow is of this family")
    fragments: tuple[str, ...] = Field((), description="the flow is of these fragments: no, first, later")
    recirculated: bool | None = Field(None, description="the flow is, or is not, for a further pass")
    place: ActionPlace | None = Field(None, description="the action is, or is not, the last of its list")
    next_not: tuple[str, ...] = Field((), description="the action that follows directly is none of these")
    to: PortKind | None = Field(None, description="the action sends to a port of this kind")
    args: tuple[str, ...] = Field((), description="the action has one of these arguments")
    without: str = Field("", description="this key of other_config is not true")
    note: Text = Field(description="what the operator is told")
    source: str = Field("", description="where this is from, where it is not from where the entry is")
    certainty: Certainty | None = Field(None, description="how sure this is, where it is not as sure as the entry")


class Entry(Outcome):
    """A match field or action: whether hardware takes it, under which conditions, and how that is known."""

    cases: tuple[Case, ...] = ()
    note: str = Field("", description="what the operator is told")
    source: Text = Field(description="a key of sources")
    certainty: Certainty


class Limit(DataPart):
    """A limit. *value* is the most that works, null when nobody has published it; *verdict* is what happens beyond it."""

    value: int | None
    verdict: Verdict | Literal["split"] = Field("no", description="what becomes of a flow beyond it")
    unit: Text = Field(description="what is counted")
    note: str = Field("", description="what the operator is told")
    about: str = Field("", description="for readers of the data")
    source: Text
    certainty: Certainty


class Source(DataPart):
    """Where something can be read: a title and the exact place."""

    title: Text
    place: Text


class Profile(DataPart):
    """All that is known of one flavor. Names may end in `.*`; what is not listed falls under other_match, other_action."""

    name: Text
    title: Text
    flavor: Literal["ovs-doca", "ovs-dpdk", "ovs-kernel", "ovs-netdev"]
    layer: Text = Field(description="what dump-flows calls dp:")
    hardware: bool = Field(description="whether there is hardware at all")
    sources: dict[str, Source]
    slow_path: Entry = Field(description="actions that ovs-vswitchd itself takes, on every flavor")
    other_match: Entry
    other_action: Entry
    matches: dict[str, Entry]
    actions: dict[str, Entry]
    limits: dict[LimitName, Limit] = Field(
        description="what bounds flows; conntrack_connections and insertions_per_second are for readers alone"
    )

    def entries(self) -> Iterator[tuple[Path, Entry]]:
        """Yield all entries with their paths in the document."""
        yield ("slow_path",), self.slow_path
        yield ("other_match",), self.other_match
        yield ("other_action",), self.other_action
        for part, entries in (("matches", self.matches), ("actions", self.actions)):
            for key, entry in entries.items():
                yield (part, key), entry

    def match(self, key: str) -> Entry:
        """Return the entry for matching the field *key*; other_match if it is not listed."""
        return _find(self.matches, key, self.other_match)

    def action(self, name: str) -> Entry:
        """Return the entry for the action *name*; other_action if it is not listed."""
        return _find(self.actions, name, self.other_action)

    def cite(self, source: str) -> str:
        """Return a source's title and place; its key if the profile does not list it."""
        found = self.sources.get(source)
        return f"{found.title}: {found.place}" if found is not None else source

    def limit(self, name: LimitName) -> int | None:
        """Return the value of a limit; None if the profile has no such limit or its value is unknown."""
        found = self.limits.get(name)
        return found.value if found is not None else None


def _find(entries: Mapping[str, Entry], key: str, other: Entry) -> Entry:
    """Return the entry of *key*, else of the longest `NAME.*` that covers it, else *other*."""
    found = entries.get(key)
    while found is None and key:
        key = key.rpartition(".")[0]
        found = entries.get(f"{key}.*") if key else None
    return found if found is not None else other
