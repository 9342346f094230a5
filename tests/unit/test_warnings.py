# SPDX-License-Identifier: Apache-2.0
"""Warnings about a spec: one line for each kind, all of them with -v and in JSON; and hints that can be followed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from dnsteer.plan.pool_slots import uneven_shares
from dnsteer.spec.errors import Finding, warning_lines
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import MAX_SLOTS
from tests.unit.commands import Command
from tests.unit.spec_text import load

POOLS = 50
HEAD = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0:
"""
THIRDS = "{{name: a, ipv4: 10.0.{0}.1, mac: '02:00:00:00:{0:02x}:01', weight: {1}}}"


def pool(number: int, slots: int | None = 64, weight: int = 2) -> str:
    size = f"slots: {slots}, " if slots else ""
    other = THIRDS.format(number, 1).replace("name: a", "name: b").replace(".1,", ".2,").replace(":01'", ":02'")
    return f"  pool{number}: {{{size}backends: [{THIRDS.format(number, weight)}, {other}]}}\n"


def farm(*pools: str, ports: int = 0) -> str:
    unused = "  ports: {" + ", ".join(f"vf{n}: " for n in range(ports)) + "}\n" if ports else ""
    vips = "".join(
        f"  v{n}: {{addresses: [192.0.2.{n + 1}], services: [dns], pool: {text.split(':')[0].strip()}}}\n"
        for n, text in enumerate(pools)
    )
    return f"{HEAD}{unused}pools:\n{''.join(pools)}vips:\n{vips}"


def shares(loaded: Loaded) -> list[str]:
    return [w.text("spec.yaml") for w in uneven_shares(loaded)]


# Many of a kind.


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A spec with fifty pools whose shares are off, and three ports that nobody uses."""
    file = tmp_path / "spec.yaml"
    file.write_text(farm(*(pool(n, slots=4) for n in range(POOLS)), ports=3))
    return file


VERBS = {
    "render": ["-o", "OUT"],
    "bringup": ["-o", "OUT"],
    "check": ["--sample", "1"],
    "explain": ["--cookie", "0xd453010000000000"],
    "lint": ["--flavor", "ovs-doca"],
    "capacity": ["--hardware", "bluefield-3", "--frame", "64"],
}


def options(verb: str, folder: Path) -> list[str]:
    return [str(folder / "out") if o == "OUT" else o for o in VERBS[verb]]


@pytest.mark.parametrize("verb", ["render", "explain", "check"])
def test_each_kind_of_warning_is_one_line(verb: str, many: Path, command: Command) -> None:
    _, _, said = command(verb, str(many), *options(verb, many.parent))
    line = many.read_text().splitlines().index(pool(0, slots=4).rstrip("\n")) + 1
    ports = next(n for n, text in enumerate(many.read_text().splitlines(), 1) if text.startswith("  ports:"))
    assert said.splitlines() == [
        f"warning: {many}:{ports}: 3 ports that no backend uses: vf0, vf1, vf2",
        "    hint: -v shows each of them",
        f"warning: {many}:{line}: {POOLS} pools with shares that are more than 10 % off their weights': "
        f"pool0, pool1, pool2, pool3 and {POOLS - 4} more",
        "    hint: -v shows each of them",
    ]


@pytest.mark.parametrize("verb", ["render", "explain", "lint", "capacity", "bringup", "check"])
def test_all_warnings_are_in_verbose_and_json_output(verb: str, tmp_path: Path, command: Command) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(farm(pool(0), pool(1, slots=4), ports=1))
    code, _, said = command(verb, str(file), *options(verb, tmp_path), "-v")
    warned = [line for line in said.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 2
    assert "vf0" in warned[0] and "$.pools.pool1: found 4 slots" in warned[1]
    as_json = command(verb, str(file), *options(verb, tmp_path), "--json")
    assert (as_json[0], as_json[2]) == (code, "")
    found = json.loads(as_json[1])["spec_warnings"]
    texts = [f"{w['file']}:{w['line']}: {w['path']}: found {w['found']}; expected {w['expected']}" for w in found]
    assert [f"warning: {text}" for text in texts] == warned
    assert all(w["hint"] for w in found)


def test_a_single_warning_of_a_kind_is_shown_in_full() -> None:
    alone = Finding(3, ("pools", "a"), "x", "y", "z", "pools of a kind")
    other = Finding(4, ("pools", "b"), "x", "y", "z")
    assert warning_lines([alone, other, other], "f") == [alone.text("f"), other.text("f"), other.text("f")]


# How many slots would do.


def followed(text: str, slots: int) -> Loaded:
    """The spec of one pool with another number of slots."""
    value = yaml.safe_load(text)
    for each in value["pools"].values():
        each["slots"] = slots
    return load(yaml.safe_dump(value, sort_keys=False))


@pytest.mark.parametrize("slots", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("weight", [2, 7, 30])
def test_the_number_of_slots_that_is_advised_mends_it(slots: int, weight: int) -> None:
    text = farm(pool(0, slots, weight))
    for said in shares(load(text)):
        advised = re.search(r"hint: if the difference matters: slots: (\d+) \(within (\d\.\d|10\.0)%\)", said)
        assert advised is not None, said
        assert int(advised[1]) > slots
        assert shares(followed(text, int(advised[1]))) == []
        if int(advised[1]) // 2 > slots:
            assert shares(followed(text, int(advised[1]) // 2)) != [], "fewer would have done"


def test_at_the_maximum_no_hint_asks_for_more_slots() -> None:
    (said,) = shares(load(farm(pool(0, MAX_SLOTS, 6000))))
    assert said.splitlines()[1] == (
        f"    hint: the most that it can have is {MAX_SLOTS}: give the backends weights that are nearer to each other, or "
        "split the pool"
    )


def test_the_nearest_slot_count_is_named_where_none_is_enough() -> None:
    text = farm(pool(0, 16, 6000))
    (said,) = shares(load(text))
    nearest = re.search(
        r"hint: slots: (\d+) comes nearest \(within ([\d.]+)%\), and the most that it can have is 4096", said
    )
    assert nearest is not None, said
    (then,) = shares(followed(text, int(nearest[1])))
    assert f"{float(nearest[2]):.1f}%" in then


def test_a_number_of_slots_that_gains_nothing_is_not_named() -> None:
    (a, c), b = (THIRDS.format(0, 65535).replace("name: a", f"name: {n}") for n in "ac"), THIRDS.format(0, 1)
    c = c.replace(".1,", ".3,").replace(":01'", ":03'")
    b = b.replace("name: a", "name: b").replace(".1,", ".2,").replace(":01'", ":02'")
    (said,) = shares(load(farm(f"  pool0: {{slots: 64, backends: [{a}, {b}, {c}]}}\n")))
    assert "-100.0% against its weight" in said
    assert "hint: the most that it can have is 4096: give the backends weights" in said


def test_the_hash_of_the_switch_has_fewer() -> None:
    text = farm(pool(0, 256, 200).replace("slots", "selection: dp-hash, slots"))
    (said,) = shares(load(text))
    assert "the most that it can have is 256" in said
    assert "slots: 512" not in said


def test_a_number_must_do_for_both_families() -> None:
    """One family has two backends of weights 2 and 1, the other all three, of which the third weighs 7."""
    six = "[{name: a, ipv4: 10.0.0.1, ipv6: 'fd00::1', mac: '02:00:00:00:00:01', weight: 2}, "
    six += "{name: b, ipv4: 10.0.0.2, ipv6: 'fd00::2', mac: '02:00:00:00:00:02'}, "
    six += "{name: c, ipv6: 'fd00::3', mac: '02:00:00:00:00:03', weight: 40}]"
    text = farm(f"  pool0: {{slots: 16, backends: {six}}}\n").replace("[192.0.2.1]", "[192.0.2.1, 'fd00::53']")
    (said,) = shares(load(text))
    advised = re.search(r"slots: (\d+)", said.splitlines()[1])
    assert advised is not None
    assert shares(followed(text, int(advised[1]))) == []


PROBED = """\
  probe: {{addresses: [{0}]}}
pools:
  farm:
    health: {1}
    backends:
      - {{name: a, ipv4: 10.0.1.1, ipv6: "2001:db8::1", mac: '02:00:00:00:00:01'}}
      - {{name: b, ipv4: 10.0.2.1, ipv6: "2001:db8::2", mac: '02:00:00:00:00:02'}}
vips:
  dns: {{addresses: [192.0.2.1], services: [dns], pool: farm}}
"""


@pytest.mark.parametrize(
    ("addresses", "health", "found"),
    [
        ("10.0.1.9/24", "{}", ["10.0.2.1"]),
        ("10.0.1.9/24, 10.0.2.9/24", "{}", []),
        ("10.0.3.9/24", "[{check: tcp}]", ["10.0.1.1", "10.0.2.1"]),
        ("10.0.3.9/24", "[{check: tcp, via: network}, {check: command, command: [a]}]", []),
        ("10.0.3.9/24", "[{check: tcp, via: network}, {check: dns}]", ["10.0.1.1", "10.0.2.1"]),
    ],
)
def test_backends_in_no_network_of_the_port_for_probes(addresses: str, health: str, found: list[str]) -> None:
    warned = [w for w in load(HEAD + PROBED.format(addresses, health)).warnings if "switch.probe" in w.found]
    assert [w.found.partition(",")[0] for w in warned] == found


def test_backends_of_tunnels_may_be_anywhere() -> None:
    text = HEAD + PROBED.format("10.0.3.9/24", "{}")
    text = text.replace("pool: farm}", "pool: farm, forwarding: ipip}").replace(
        "pools:\n",
        "  extension: {ingress: {port: ei}, egress: {port: eo}, ipv4: 10.9.0.1, ipv6: '2001:db8:9::1'}\npools:\n",
    )
    assert not [w for w in load(text).warnings if "switch.probe" in w.found]
