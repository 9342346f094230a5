# SPDX-License-Identifier: Apache-2.0
"""How values of the spec are written in messages: as in YAML, never as Python's objects. For every key of every part."""

from __future__ import annotations

import re
import types
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from itertools import pairwise
from typing import Any, Literal, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from dnsteer.deploy.spec_differences import _fields, compare_specs
from dnsteer.spec.model.health import CheckKind, HealthCheck
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.yaml_text import yaml_text
from tests.packet.command import FARM
from tests.strategies import loaded_from

_SCALARS: dict[Any, tuple[Any, Any]] = {
    int: (1, 2),
    float: (0.5, 30.0),
    str: ("a", "b"),
    bool: (True, False),
    IPv4Address: (IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2")),
    IPv6Address: (IPv6Address("2001:db8::1"), IPv6Address("2001:db8::2")),
    IPv4Network: (IPv4Network("192.0.2.0/24"), IPv4Network("198.51.100.0/24")),
    IPv6Network: (IPv6Network("2001:db8::/64"), IPv6Network("2001:db8:1::/64")),
    IPv4Interface: (IPv4Interface("192.0.2.1/24"), IPv4Interface("192.0.2.2/24")),
    IPv6Interface: (IPv6Interface("2001:db8::1/64"), IPv6Interface("2001:db8::2/64")),
}
_REPR = re.compile(r"[<>=(]\w|\w[(=]|None|True|False|\bdict_|'>|object at")
"""What Python's objects look like and YAML does not."""


def values(kind: Any) -> list[Any]:
    """Two values of a type at least, or one where there are no more."""
    while get_origin(kind) is not None and hasattr(kind, "__metadata__"):
        kind = get_args(kind)[0]
    origin, args = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return [*_SCALARS[kind]]
    if kind is type(None):
        return [None]
    if origin is Literal:
        return [*args]
    if origin in (Union, types.UnionType):
        return [value for arg in args for value in values(arg)]
    if origin in (list, tuple, set, frozenset):
        of = values(args[0])
        return [of[:1], of, []]
    if origin is dict:
        return [{"a": value} for value in values(args[1])] + [{}]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [*kind]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        each = [made(kind, **{n: v}) for n, field in kind.model_fields.items() for v in values(field.annotation)]
        return [made(kind), *each]
    raise TypeError(f"no values for {kind!r}: add some here")


def made(kind: type[BaseModel], **given: Any) -> Any:
    """A part with these keys, and with those that it needs."""
    needed = {n: field for n, field in kind.model_fields.items() if field.is_required() and n not in given}
    return kind.model_construct(**given, **{n: values(field.annotation)[0] for n, field in needed.items()})


def parts(kind: Any, found: dict[type[BaseModel], None]) -> dict[type[BaseModel], None]:
    """The types of all parts of a type."""
    for arg in get_args(kind):
        parts(arg, found)
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found:
        found[kind] = None
        for field in kind.model_fields.values():
            parts(field.annotation, found)
    return found


PARTS = [kind for kind in parts(Spec, {}) if kind is not Spec]


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_changes_are_described_by_fields_not_objects(kind: type[BaseModel]) -> None:
    told = 0
    for name, field in kind.model_fields.items():
        several = [made(kind, **{name: value}) for value in values(field.annotation)]
        for old, new in [(made(kind), one) for one in several] + [*pairwise(several)]:
            for found in _fields("changed", "it", old, new, ()):
                told += 1
                assert found.text.startswith(f"it: {field.alias or name}")
                assert not _REPR.search(found.text.replace(" -> ", " ")), found.text
    assert told


def test_every_part_is_among_them() -> None:
    assert {"HealthCheck", "Query", "Expect", "Vip", "Pool", "Switch"} <= {kind.__name__ for kind in PARTS}
    assert len(PARTS) > 20


def test_values_are_written_as_yaml() -> None:
    text = yaml_text(HealthCheck(check=CheckKind.TCP, interval="500ms", jitter="20%"))
    assert text == "{check: tcp, interval: 500ms, jitter: 20%}"
    assert yaml.safe_load(text) == {"check": "tcp", "interval": "500ms", "jitter": "20%"}
    assert [yaml_text(value) for value in (None, True, 30.0, 0.5, CheckKind.DNS, "a: b", [])] == [
        "unset",
        "true",
        "30",
        "0.5",
        "dns",
        "a: b",
        "[]",
    ]


CHECK = {"check": "dns", "query": {"name": "example.org"}, "interval": "500ms", "timeout": "300ms"}


@pytest.mark.parametrize(
    ("was", "now", "texts"),
    [
        ({}, {"panic": "60%"}, ["pool farm: panic 50% -> 60%"]),
        ({"health": CHECK}, {"health": {**CHECK, "interval": "1s"}}, ["pool farm: health.interval 500ms -> 1s"]),
        ({"slow_start": "30s"}, {"slow_start": "1m"}, ["pool farm: slow_start 30s -> 1m"]),
        ({"slow_start": 60}, {"slow_start": "90s"}, ["pool farm: slow_start 1m -> 90s"]),
        ({"hold_max": "90m"}, {"hold_max": "6001s"}, ["pool farm: hold_max 90m -> 6001s"]),
        ({"hold_max": "2h"}, {"hold_max": "100m"}, ["pool farm: hold_max 2h -> 100m"]),
        ({"hold_max": "1.5s"}, {"hold_max": 0}, ["pool farm: hold_max 1.5s -> 0s"]),
        (
            {"health": CHECK},
            {"health": {**CHECK, "query": {"name": "example.org", "expect": {"aa": True}}}},
            ["pool farm: health.query.expect.aa unset -> true"],
        ),
        ({"health": CHECK}, {"health": [CHECK, {"check": "tcp"}]}, ["pool farm: health +{check: tcp}"]),
        (
            {"health": [CHECK, {"check": "tcp"}]},
            {"health": [CHECK, {"check": "tls"}]},
            ["pool farm: health[1].check tcp -> tls"],
        ),
        (
            {},
            {"health": CHECK},
            ["pool farm: health unset -> [{check: dns, query: {name: example.org.}, interval: 500ms, timeout: 300ms}]"],
        ),
    ],
)
def test_nested_changes_are_described_by_key(was: dict[str, Any], now: dict[str, Any], texts: list[str]) -> None:
    specs = []
    for more in (was, now):
        value = yaml.safe_load(FARM)
        value["pools"]["farm"].update(more)
        specs.append(loaded_from(value).spec)
    assert [found.text for found in compare_specs(*specs)] == texts
