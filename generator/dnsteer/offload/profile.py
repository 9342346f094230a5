"""Capability profiles: what the hardware under an Open vSwitch flavor takes, as data, each statement with its source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from dnsteer.offload.path import Verdict
from dnsteer.spec.document import Document, read_document
from dnsteer.spec.errors import Finding, Path, SpecError
from dnsteer.spec.part import Part
from dnsteer.spec.structure import near, show_value

Certainty = Literal["documented", "source-code", "test-suite", "inferred", "unknown"]
"""What a statement rests on, surest first."""
LimitName = Literal[
    "match_bytes_per_rule",
    "split_depth",
    "dp_hash_bits",
    "dp_hash_with_conntrack",
    "meters_per_flow",
    "conntrack_zones",
    "conntrack_connections",
    "geneve_options",
    "vlan_tags",
    "outputs",
    "actions",
    "counters",
    "rules",
    "masks",
    "insertions_per_second",
    "recirculations",
]
Place = Literal["last", "not-last"]
Port = Literal["in-port", "internal", "other-eswitch"]
Text = Annotated[str, Field(min_length=1)]

NEWEST: Mapping[str, str] = {"ovs-doca": "ovs-doca-3"}
"""Flavors of which there are several profiles, and the newest."""


class Case(Part):
    """What is different under a condition. Of several conditions all must hold; the first case that holds decides."""

    mask: Literal["exact", "partial"] | None = Field(None, description="the field is matched or written so")
    value: tuple[int | str, ...] = Field((), description="the field's value is one of these, as the switch shows it")
    beyond: int | None = Field(None, description="the mask has bits outside of these")
    flags: tuple[str, ...] = Field((), description="one of these flags counts")
    plus: tuple[str, ...] = Field((), description="one of these flags must be set")
    having: tuple[str, ...] = Field((), description="the flow also matches one of these fields")
    proto: tuple[int, ...] = Field((), description="the flow is of one of these IP protocols")
    proto_not: tuple[int, ...] = Field((), description="the flow is not known to be of one of these IP protocols")
    family: Literal["ipv4", "ipv6"] | None = Field(None, description="the flow is of this family")
    fragments: tuple[str, ...] = Field((), description="the flow is of these fragments (no, first, later, yes)")
    recirculated: bool | None = Field(None, description="the flow is for a further pass")
    place: Place | None = Field(None, description="the action is, or is not, the last of its list")
    next_not: tuple[str, ...] = Field((), description="none of these actions follows directly")
    to: Port | None = Field(None, description="the action sends to a port of this kind")
    args: tuple[str, ...] = Field((), description="the action has one of these arguments")
    verdict: Verdict
    note: Text
    source: str = ""
    certainty: Certainty | None = None


class Entry(Part):
    """A match field or action: whether hardware takes it, under which conditions, and how that is known."""

    verdict: Verdict
    cases: tuple[Case, ...] = ()
    note: str = ""
    source: Text
    certainty: Certainty


class Limit(Part):
    """A limit. *value* is the most that works, null when nobody has published it; *verdict* is what happens beyond it."""

    value: int | None
    verdict: Verdict | Literal["split"] = "no"
    unit: Text
    note: str = ""
    source: Text
    certainty: Certainty


class Source(Part):
    """Where something can be read: a title and the exact place."""

    title: Text
    place: Text


class Profile(Part):
    """All that is known of one flavor. Fields and actions that are not listed fall under `other_match`, `other_action`."""

    name: Text
    title: Text
    flavor: Literal["ovs-doca", "ovs-dpdk", "ovs-kernel", "ovs-netdev"]
    layer: Text = Field(description="what dump-flows calls dp:")
    hardware: bool = Field(description="whether there is hardware at all")
    sources: dict[str, Source]
    slow_path: Entry
    other_match: Entry
    other_action: Entry
    matches: dict[str, Entry]
    actions: dict[str, Entry]
    limits: dict[LimitName, Limit]

    @model_validator(mode="after")
    def _sources(self) -> Profile:
        """Every source that is named is there, and is used."""
        named = {e.source for e in self._entries()} | {c.source for e in self._entries() for c in e.cases if c.source}
        named |= {limit.source for limit in self.limits.values()}
        for name in sorted(named - set(self.sources)):
            raise ValueError(f'a source "{name}" that is not in sources')
        for name in sorted(set(self.sources) - named):
            raise ValueError(f'a source "{name}" that nothing names')
        return self

    def _entries(self) -> list[Entry]:
        own = [self.slow_path, self.other_match, self.other_action]
        return [*own, *self.matches.values(), *self.actions.values()]

    def limit(self, name: LimitName) -> int | None:
        """The value of a limit; None when there is none or it is not known."""
        found = self.limits.get(name)
        return found.value if found is not None else None


class ProfileError(SpecError):
    """A profile that cannot be used, with all findings."""


def profiles_dir() -> FilePath:
    """Where the profiles are: inside the installed package, or at the top of a source checkout."""
    packaged = FilePath(str(resources.files("dnsteer"))) / "profiles"
    return packaged if packaged.is_dir() else FilePath(__file__).resolve().parents[3] / "ovs" / "profiles"


def profile_names() -> list[str]:
    """The names of all profiles."""
    return sorted(file.stem for file in profiles_dir().glob("*.yaml"))


@cache
def profile(name: str) -> Profile:
    """The profile *name*, or of the flavor *name* the newest. Raises ProfileError when there is none or it is broken."""
    return load_profile(profiles_dir() / f"{NEWEST.get(name, name)}.yaml")


def load_profile(file: FilePath) -> Profile:
    """Read *file* and what it is based on. Raises ProfileError with the line, what was found and what was expected."""
    if not file.is_file():
        known = sorted(f.stem for f in file.parent.glob("*.yaml"))
        raise ProfileError(
            str(file), [Finding(0, (), "no such profile", "the name of a profile or flavor", near(file.stem, known))]
        )
    doc = _read(file)
    value = _merged(doc, file, (file.stem,))
    try:
        found = Profile.model_validate(value)
    except ValidationError as err:
        raise ProfileError(str(file), [_finding(dict(item), doc) for item in err.errors(include_url=False)]) from None
    if found.name != file.stem:
        where: Path = ("name",)
        raise ProfileError(
            str(file), [Finding(doc.line(where), where, f'"{found.name}"', f'"{file.stem}", as the file')]
        )
    return found


def _read(file: FilePath) -> Document:
    try:
        doc = read_document(file)
    except SpecError as err:
        raise ProfileError(err.file, err.findings) from None
    if not isinstance(doc.value, dict):
        raise ProfileError(str(file), [Finding(doc.line(()), (), show_value(doc.value), "a mapping")])
    return doc


def _merged(doc: Document, file: FilePath, seen: tuple[str, ...]) -> dict[str, Any]:
    """The document over the profile that it names as its base: entries replace entries, as wholes."""
    value = dict(doc.value)
    name = value.pop("base", None)
    if name is None:
        return value
    path: Path = ("base",)
    base = file.with_name(f"{name}.yaml")
    if name in seen or not base.is_file():
        found = "a base that is based on this profile" if name in seen else show_value(name)
        raise ProfileError(str(file), [Finding(doc.line(path), path, found, "the name of another profile")])
    under = _merged(_read(base), base, (*seen, str(name)))
    for key, own in value.items():
        both = isinstance(own, dict) and isinstance(under.get(key), dict)
        under[key] = {**under[key], **own} if both and key in ("sources", "matches", "actions", "limits") else own
    return under


def _finding(item: Mapping[str, Any], doc: Document) -> Finding:
    """A finding from one of pydantic's errors."""
    kind, loc = str(item["type"]), tuple(item["loc"])
    path: Path = tuple(step for step in loc if step != "[key]")
    line = doc.line(path)
    if kind == "missing":
        key = str(path[-1])
        return Finding(doc.line(path[:-1]), path[:-1], f'no key "{key}"', f'the key "{key}"')
    if kind == "extra_forbidden":
        return Finding(line, path[:-1], f'the unknown key "{path[-1]}"', "a key of this part")
    if kind == "value_error":
        return Finding(line, path, str(item["ctx"]["error"]), "sources and what names them to agree")
    expected = str(item.get("ctx", {}).get("expected", "")).replace("'", "") or str(item["msg"])
    return Finding(line, path, show_value(item["input"]), expected)
