# SPDX-License-Identifier: Apache-2.0
"""What differs between two specs, in words: every change is named, by its object and with both values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from dnsteer.deploy.spec_differences import SpecDifference, compare_specs
from dnsteer.spec.errors import show_path
from dnsteer.spec.loaded import Loaded
from tests.packet.command import FARM
from tests.strategies import loaded_from, specs

BASE: dict[str, Any] = yaml.safe_load(FARM)
Edit = Callable[[dict[str, Any]], object]


def after(edit: Edit) -> list[SpecDifference]:
    """The differences that an edit of the spec makes."""
    value = copy.deepcopy(BASE)
    edit(value)
    return compare_specs(loaded_from(BASE).spec, loaded_from(value).spec)


def backend(value: dict[str, Any], index: int = 0, pool: str = "farm") -> dict[str, Any]:
    found: dict[str, Any] = value["pools"][pool]["backends"][index]
    return found


NEW_VIP = {"addresses": ["198.51.100.9"], "services": ["doh"], "pool": "spare"}
NEW_BACKEND = {"name": "ns9", "ipv4": "192.0.2.19", "ipv6": "2001:db8::19", "mac": "02:00:00:00:01:09", "weight": 4}
CASES: list[tuple[str, Edit, str, str, tuple[str, ...]]] = [
    (
        "vip added",
        lambda s: s["vips"].update(web=NEW_VIP),
        "vip added",
        "VIP web",
        ("198.51.100.9", "doh", "spare", "dsr"),
    ),
    ("vip removed", lambda s: s["vips"].pop("other"), "vip removed", "VIP other", ("192.0.2.54",)),
    (
        "address added",
        lambda s: s["vips"]["dns"]["addresses"].append("192.0.2.59"),
        "vip changed",
        "VIP dns",
        ("+192.0.2.59",),
    ),
    ("address removed", lambda s: s["vips"]["dns"]["addresses"].pop(), "vip changed", "VIP dns", ("-2001:db8::53",)),
    ("service", lambda s: s["vips"]["other"]["services"].remove("dot"), "vip changed", "VIP other", ("-dot",)),
    (
        "service by port",
        lambda s: s["vips"]["other"]["services"].append({"protocol": "udp", "port": 5353}),
        "vip changed",
        "VIP other",
        ("+udp/5353",),
    ),
    (
        "pool of a vip",
        lambda s: s["vips"]["other"].update(pool="farm"),
        "vip changed",
        "VIP other",
        ("pool spare -> farm",),
    ),
    ("echo", lambda s: s["vips"]["dns"].update(echo=False), "vip changed", "VIP dns", ("echo",)),
    ("weight", lambda s: backend(s, 1).update(weight=3), "backend changed", "backend farm/ns2", ("weight 2 -> 3",)),
    ("state", lambda s: backend(s, 3).update(state="up"), "backend changed", "backend farm/ns4", ("state down -> up",)),
    (
        "address of a backend",
        lambda s: backend(s).update(ipv4="192.0.2.99"),
        "backend changed",
        "backend farm/ns1",
        ("192.0.2.11", "192.0.2.99"),
    ),
    (
        "mac",
        lambda s: backend(s).update(mac="02:00:00:00:01:77"),
        "backend changed",
        "backend farm/ns1",
        ("02:00:00:00:01:77",),
    ),
    (
        "port of a backend",
        lambda s: backend(s).update(port="p1"),
        "backend changed",
        "backend farm/ns1",
        ("port", "p1"),
    ),
    (
        "backend added",
        lambda s: s["pools"]["farm"]["backends"].append(NEW_BACKEND),
        "backend added",
        "backend farm/ns9",
        ("192.0.2.19", "2001:db8::19", "weight 4"),
    ),
    ("backend removed", lambda s: s["pools"]["farm"]["backends"].pop(0), "backend removed", "backend farm/ns1", ()),
    ("slots", lambda s: s["pools"]["farm"].update(slots=64), "pool changed", "pool farm", ("slots 32 -> 64",)),
    (
        "selection",
        lambda s: s["pools"]["spare"].update(selection="dp-hash"),
        "pool changed",
        "pool spare",
        ("selection source-port -> dp-hash",),
    ),
    (
        "on_all_down",
        lambda s: s["pools"]["spare"].update(on_all_down="drop"),
        "pool changed",
        "pool spare",
        ("keep -> drop",),
    ),
    ("uplink removed", lambda s: s["switch"]["uplinks"].pop("p1"), "uplink removed", "uplink p1", ()),
    ("uplink added", lambda s: s["switch"]["uplinks"].update(p2=None), "uplink added", "uplink p2", ()),
    (
        "next hop",
        lambda s: s["switch"]["uplinks"].update(p1={"next_hop": "02:00:00:00:00:fe"}),
        "uplink changed",
        "uplink p1",
        ("next_hop", "02:00:00:00:00:fe"),
    ),
    ("port added", lambda s: s["switch"].update(ports={"vf0": None}), "port added", "port vf0", ()),
    ("name", lambda s: s["switch"].update(name="dpu-2"), "switch changed", "switch", ("name dpu-1 -> dpu-2",)),
    ("mac of the switch", lambda s: s["switch"].update(mac="02:00:00:00:00:99"), "switch changed", "switch", ("mac",)),
]


@pytest.mark.parametrize(("edit", "kind", "about", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_one_edit_is_one_sentence(edit: Edit, kind: str, about: str, words: tuple[str, ...]) -> None:
    (found,) = after(edit)
    assert (found.kind, found.about) == (kind, about)
    assert found.text.startswith(about)
    for word in words:
        assert word in found.text
    path = show_path(found.path) if found.path else ""
    assert found.as_json() == {"kind": kind, "object": about, "text": found.text, "path": path}
    assert bool(found.path) == (not kind.endswith("removed"))
    assert about.split()[-1].rpartition("/")[2] in path or "backends[" in path or not path
    assert not any(mark in found.text for mark in "{}<>[]=") or "->" in found.text


def test_a_pool_added_and_removed() -> None:
    def edit(value: dict[str, Any]) -> None:
        value["pools"]["new"] = value["pools"].pop("spare")
        value["vips"]["other"]["pool"] = "new"

    kinds = {(d.kind, d.about) for d in after(edit)}
    assert kinds == {("pool added", "pool new"), ("pool removed", "pool spare"), ("vip changed", "VIP other")}


def test_several_edits_are_all_named() -> None:
    chosen = [c for c in CASES if c[0] in ("vip added", "weight", "slots", "uplink added", "backend removed")]

    def edit(value: dict[str, Any]) -> None:
        for case in chosen:
            case[1](value)

    # The weight is that of the backend at its place before one was removed.
    chosen.sort(key=lambda c: c[0] == "backend removed")
    found = after(edit)
    assert {(d.kind, d.about) for d in found} == {(c[2], c[3]) for c in chosen}
    assert next(d.kind for d in found) == "vip added"  # what clients see comes first


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs(), specs())
def test_words_there_are_just_when_specs_differ(one: Loaded, other: Loaded) -> None:
    assert compare_specs(one.spec, one.spec) == []
    found = compare_specs(one.spec, other.spec)
    assert bool(found) == (one.spec != other.spec)
    assert all(d.kind and d.about and d.text for d in found)
    assert len({d.text for d in found}) == len(found)


def test_without_an_earlier_spec_all_is_added() -> None:
    found = compare_specs(None, loaded_from(BASE).spec)
    assert {d.about for d in found} == {"VIP dns", "VIP other", "pool farm", "pool spare"}
    assert {d.kind for d in found} == {"vip added", "pool added"}
