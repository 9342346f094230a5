# SPDX-License-Identifier: Apache-2.0
"""Capability profiles from ovs/profiles: find one by flavor or name, merge it over its base, and report errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from dnsteer.offload.capabilities import Profile
from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path, SpecError, near, show_value
from dnsteer.spec.yaml_reader import read_yaml

JUDGED_AS: Mapping[str, str] = {"ovs-netdev": "ovs-doca"}
"""Flavors without hardware, and the flavor that the spec would use on a card: lint judges by it by default."""
_MERGED = ("sources", "matches", "actions", "limits")


class ProfileError(SpecError):
    """A profile that cannot be used, with all findings."""


def profiles_dir() -> FilePath:
    """Return the directory of the profiles: inside the installed package, or ovs/profiles of a source checkout."""
    packaged = FilePath(str(resources.files("dnsteer"))) / "profiles"
    return packaged if packaged.is_dir() else FilePath(__file__).resolve().parents[3] / "ovs" / "profiles"


def profile_names() -> list[str]:
    """Return the names of all profiles."""
    return sorted(file.stem for file in profiles_dir().glob("*.yaml"))


def newest() -> dict[str, str]:
    """Return the newest profile of each flavor that has several, which are named FLAVOR-N."""
    found: dict[str, tuple[int, str]] = {}
    for name in profile_names():
        flavor, _, number = name.rpartition("-")
        if number.isdecimal():
            found[flavor] = max(found.get(flavor, (0, "")), (int(number), name))
    return {flavor: name for flavor, (_, name) in found.items()}


@cache
def profile(name: str) -> Profile:
    """Return the profile *name*, or the newest of the flavor *name*. Raises ProfileError if it is missing or invalid."""
    return load_profile(profiles_dir() / f"{newest().get(name, name)}.yaml")


def load_profile(file: FilePath) -> Profile:
    """Read *file* and its base profiles. Raises ProfileError with the line, what was found and what was expected."""
    if not file.is_file():
        known = [*newest(), *sorted(f.stem for f in file.parent.glob("*.yaml"))]
        finding = Finding(0, (), "no such profile", "the name of a profile or flavor", near(file.stem, known))
        raise ProfileError(str(file), [finding])
    doc = _read(file)
    value = _merged(doc, file, (file.stem,))
    try:
        found = Profile.model_validate(value)
    except ValidationError as err:
        findings = dict.fromkeys(_finding(dict(item), doc) for item in err.errors(include_url=False))
        raise ProfileError(str(file), findings) from None
    if wrong := [*_disagreements(found, doc, file.stem)]:
        raise ProfileError(str(file), wrong)
    return found


def _read(file: FilePath) -> Document:
    try:
        doc = read_yaml(file)
    except SpecError as err:
        raise ProfileError(err.file, err.findings) from None
    if not isinstance(doc.value, dict):
        raise ProfileError(str(file), [Finding(doc.line(()), (), show_value(doc.value), "a mapping")])
    return doc


def _merged(doc: Document, file: FilePath, bases: tuple[str, ...]) -> dict[str, Any]:
    """Return the document merged over its base profile: an entry replaces the base's entry completely."""
    value = dict(doc.value)
    name = value.pop("base", None)
    if name is None:
        return value
    path: Path = ("base",)
    base = file.with_name(f"{name}.yaml")
    if name in bases or not base.is_file():
        found = f'"{name}", which is based on this profile' if name in bases else show_value(name)
        raise ProfileError(str(file), [Finding(doc.line(path), path, found, "the name of another profile")])
    under = _merged(_read(base), base, (*bases, str(name)))
    for key, own in value.items():
        both = isinstance(own, dict) and isinstance(under.get(key), dict)
        under[key] = {**under[key], **own} if both and key in _MERGED else own
    return under


def _disagreements(found: Profile, doc: Document, name: str) -> Iterator[Finding]:
    """Yield inconsistencies: a name unlike the file's, missing or unused sources, verdicts without a note."""
    at: Path = ("name",)
    if found.name != name:
        yield Finding(doc.line(at), at, f'"{found.name}"', f'"{name}", as the file')
    named: dict[str, Path] = {}
    for path, entry in found.entries():
        named.setdefault(entry.source, (*path, "source"))
        named.update(
            {c.source: (*path, "cases", i, "source") for i, c in enumerate(entry.cases) if c.source not in named}
        )
        if entry.verdict != "yes" and not entry.note:
            yield Finding(doc.line(path), path, f'no note for the verdict "{entry.verdict}"', "a note that says why")
    for key, limit in found.limits.items():
        named.setdefault(limit.source, ("limits", key, "source"))
    named.pop("", None)
    for source, path in named.items():
        if source not in found.sources:
            yield Finding(doc.line(path), path, f'"{source}"', "a key of sources", near(source, found.sources))
    for source in doc.value.get("sources", {}):
        if source not in named:
            at = ("sources", source)
            yield Finding(
                doc.line(at), at, "a source that nothing names", "statements that rest on it, or no such source"
            )


def _finding(item: Mapping[str, Any], doc: Document) -> Finding:
    kind = str(item["type"])
    path: Path = tuple(step for step in item["loc"] if step not in ("[key]", "int", "str"))
    if kind == "missing":
        key = str(path[-1])
        return Finding(doc.line(path[:-1]), path[:-1], f'no key "{key}"', f'the key "{key}"')
    if kind == "extra_forbidden":
        return Finding(doc.line(path), path[:-1], f'the unknown key "{path[-1]}"', "a key of ovs/profiles/schema.json")
    expected = str(item.get("ctx", {}).get("expected", "")).replace("'", "") or str(item["msg"])
    return Finding(doc.line(path), path, show_value(item["input"]), expected)
