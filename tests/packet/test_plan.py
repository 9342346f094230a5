# SPDX-License-Identifier: Apache-2.0
"""`plan`: its words, its exit codes, that it changes nothing, and that the moves that it names are those that happen."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dnsteer.cli.output import Exit
from tests.packet.command import FARM, fresh, nothing_changes, on, spec_file
from tests.packet.switches import FORWARD_TABLE, SLOT_TABLE, VIP_TABLE, Switch

PORTS = 65536
BASE: dict[str, Any] = yaml.safe_load(FARM)
Edit = Callable[[dict[str, Any]], object]


def text_of(edit: Edit) -> str:
    value = copy.deepcopy(BASE)
    edit(value)
    return yaml.safe_dump(value, sort_keys=False)


def owners(switch: Switch, address: str) -> list[str]:
    """By the flows: the MAC address that a UDP query from each source port is sent to."""
    flows = switch.flows()
    family = "ipv6_dst" if ":" in address else "nw_dst"
    vip = next(
        f for f in flows if VIP_TABLE in f and f"{family}={address}," in f and re.search(r"\budp", f) and "=53 " in f
    )
    pool = re.search(r"set_field:(0x[0-9a-f]+)->reg0", vip)
    bits = re.search(r"UDP_SRC\[(\d+)\.\.(\d+)\]->NXM_NX_REG1", vip)
    assert pool
    assert bits
    slots, macs = dict[int, str](), dict[str, str]()
    for f in flows:
        m = re.search(rf"{SLOT_TABLE},.*reg0={pool[1]},reg1=(\w+) actions=set_field:(0x[0-9a-f]+)->reg2", f)
        if m:
            slots[int(m[1], 0)] = m[2]
        m = re.search(rf"{FORWARD_TABLE},.*reg0={pool[1]},reg2=(0x[0-9a-f]+),.*set_field:([0-9a-f:]+)->eth_dst", f)
        if m:
            macs[m[1]] = m[2]
    low, high = int(bits[1]), int(bits[2])
    of_slot = {slot: macs[number] for slot, number in slots.items()}
    return [of_slot.get((port >> low) & ((1 << (high - low + 1)) - 1), "nobody") for port in range(PORTS)]


def names(text: str) -> dict[str, str]:
    """Backends by their MAC address."""
    return {b["mac"]: b["name"] for p in yaml.safe_load(text)["pools"].values() for b in p["backends"]} | {
        "nobody": "nobody"
    }


def happened(before: list[str], after: list[str], was: str, now: str) -> Counter[tuple[str, str]]:
    """From whom to whom clients went, in source ports."""
    old, new = names(was), names(now)
    return Counter((old[a], new[b]) for a, b in zip(before, after, strict=True) if old[a] != new[b])


def said(found: dict[str, Any], pool: str = "farm") -> Counter[tuple[str, str]]:
    """The same as a plan says."""
    out = Counter[tuple[str, str]]()
    for move in found["moves"]:
        assert move["moved"] == sum(w["slots"] for w in move["ways"])
        if move["pool"] == pool:
            assert move["share"] == pytest.approx(move["moved"] / move["slots"], abs=1e-4)
            for way in move["ways"]:
                out[way["from"], way["to"]] += way["slots"] * PORTS // move["slots"]
    return out


def backends(value: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = value["pools"]["farm"]["backends"]
    return found


ADDED = {"name": "ns9", "ipv4": "192.0.2.19", "ipv6": "2001:db8::19", "mac": "02:00:00:00:01:09"}
ONLY4 = {"name": "ns9", "ipv4": "192.0.2.19", "mac": "02:00:00:00:01:09", "weight": 9}
EDITS: dict[str, Edit] = {
    "heavier": lambda s: backends(s)[1].update(weight=3),
    "weight 0": lambda s: backends(s)[1].update(weight=0),
    "down": lambda s: backends(s)[0].update(state="down"),
    "up": lambda s: backends(s)[3].update(state="up"),
    "removed": lambda s: backends(s).pop(1),
    "added": lambda s: backends(s).append(ADDED),
    "several": lambda s: (backends(s)[1].update(weight=9), backends(s)[3].update(state="up"), backends(s).pop(0)),
    "all down but one": lambda s: [b.update(state="down") for b in backends(s)[1:]],
    "another order": lambda s: backends(s).reverse(),
    "other address": lambda s: backends(s)[0].update(ipv4="192.0.2.99"),
}


@pytest.mark.parametrize("how", EDITS)
def test_planned_moves_are_the_moves_made(applied: Switch, tmp_path: Path, how: str) -> None:
    text = text_of(EDITS[how])
    file = spec_file(tmp_path, text)
    for address in ("192.0.2.53", "2001:db8::53"):
        fresh(applied)
        assert on(applied)("apply", spec_file(tmp_path)).code == 0
        before = owners(applied, address)
        plan = on(applied)("plan", spec_file(tmp_path, text), "--json")
        assert plan.code == Exit.DIFFERENT
        done = on(applied)("apply", file, "--yes", "--json")
        assert done.code == 0
        real = happened(before, owners(applied, address), FARM, text)
        assert said(plan.json) == real
        assert said(done.json) == real


def test_planned_moves_count_maintenance(applied: Switch, tmp_path: Path) -> None:
    for verb in (("drain", "farm/ns1"), ("down", "farm/ns3")):
        before = owners(applied, "192.0.2.53")
        done = on(applied)(*verb, "--yes", "--json")
        assert said(done.json) == happened(before, owners(applied, "192.0.2.53"), FARM, FARM)
    text = text_of(EDITS["up"])
    before = owners(applied, "192.0.2.53")
    plan = on(applied)("plan", spec_file(tmp_path, text), "--json").json
    assert on(applied)("apply", spec_file(tmp_path, text), "--yes").code == 0
    assert said(plan) == happened(before, owners(applied, "192.0.2.53"), FARM, text)


def test_planned_moves_of_a_single_family_backend(applied: Switch, tmp_path: Path) -> None:
    text = text_of(lambda s: backends(s).append(ONLY4))
    before = owners(applied, "192.0.2.53")
    plan = on(applied)("plan", spec_file(tmp_path, text), "--json").json
    asked = on(applied)("apply", spec_file(tmp_path, text))
    assert on(applied)("apply", spec_file(tmp_path, text), "--yes").code == 0
    real = happened(before, owners(applied, "192.0.2.53"), FARM, text)
    assert sum(real.values()) > PORTS / 2
    assert asked.code == Exit.ERROR
    assert said(plan) == real


def test_another_pool_of_a_vip_needs_confirmation(applied: Switch, tmp_path: Path) -> None:
    text = text_of(lambda s: s["vips"]["dns"].update(pool="spare"))
    with nothing_changes(applied):
        done = on(applied)("apply", spec_file(tmp_path, text))
    assert done.code == Exit.ERROR
    assert "--yes" in done.err


@pytest.mark.parametrize("slots", [8, 16, 64, 128, 1024])
def test_another_slot_count_moves_the_planned_share(applied: Switch, tmp_path: Path, slots: int) -> None:
    text = text_of(lambda s: s["pools"]["farm"].update(slots=slots))
    before = owners(applied, "192.0.2.53")
    plan = on(applied)("plan", spec_file(tmp_path, text), "--json").json
    if plan["asks"]:
        with nothing_changes(applied):
            assert on(applied)("apply", spec_file(tmp_path, text)).code == Exit.ERROR
    assert on(applied)("apply", spec_file(tmp_path, text), *(["--yes"] if plan["asks"] else [])).code == 0
    real = happened(before, owners(applied, "192.0.2.53"), FARM, text)
    assert said(plan) == real
    share = sum(real.values()) / PORTS
    assert 0.1 < share < 0.9
    assert f"pool farm has {slots} slots instead of 32: " in plan["moves"][0]["text"]
    assert plan["asks"] == ([f"pool farm: {100 * share:.3g} % of its clients would move"] if share > 0.5 else [])


def test_plan_prints_changes_as_sentences(applied: Switch, tmp_path: Path) -> None:
    text = text_of(EDITS["heavier"])
    with nothing_changes(applied):
        done = on(applied)("plan", spec_file(tmp_path, text))
        more = on(applied)("plan", spec_file(tmp_path, text), "-v")
    assert done.code == more.code == Exit.DIFFERENT
    assert "backend farm/ns2: weight 2 -> 3" in done.out
    assert re.search(r"\d+ of 32 slots of pool farm move \(.*ns\d -> ns2.*\): [\d.]+ % of its clients", done.out)
    assert done.out.index("weight 2 -> 3") < done.out.index("on the switch:")
    assert "table=" not in done.out
    assert more.out.startswith(done.out.rstrip("\n"))
    flows = [line for line in more.out.splitlines() if SLOT_TABLE in line]
    moved = re.search(r"(\d+) of 32 slots", done.out)
    assert moved
    assert len(flows) == int(moved[1])


def test_json_and_exit_codes(applied: Switch, tmp_path: Path) -> None:
    file = spec_file(tmp_path)
    conf = applied.conf()
    done = on(applied)("plan", file, "--json")
    assert done.code == 0
    assert done.json["ok"] is True
    assert done.json["changed"] is False
    assert (done.json["changes"], done.json["moves"], set(done.json["counts"].values())) == ([], [], {0})
    assert "nothing to change" in on(applied)("plan", file).out
    text = text_of(EDITS["added"])
    done = on(applied)("plan", spec_file(tmp_path, text), "--json")
    assert done.code == Exit.DIFFERENT
    assert done.json["changed"] is True
    assert {c["kind"] for c in done.json["changes"]} == {"backend added"}
    assert {"ok", "changed", "changes", "counts", "warnings"} <= set(done.json)
    (tmp_path / "bad.yaml").write_text("x")
    assert on(applied)("plan", tmp_path / "bad.yaml").code == Exit.ERROR
    assert on(applied)("plan", tmp_path / "none.yaml").code == Exit.ERROR
    assert applied.conf() == conf


def test_plan_changes_nothing(applied: Switch, tmp_path: Path) -> None:
    applied.ofctl("del-flows", FORWARD_TABLE)
    text = spec_file(tmp_path, text_of(EDITS["several"]))
    conf, tables = applied.conf(), applied.tables()
    looks: list[tuple[object, ...]] = [
        ("plan", text),
        ("plan", text, "-v", "--json"),
        ("apply", text, "--dry-run", "--yes"),
        ("drain", "farm/ns1", "--dry-run"),
        ("drain", "farm/ns1", "--over", "60s", "--dry-run"),
        ("down", "farm/ns1", "--dry-run", "--yes"),
        ("undrain", "farm/ns1", "--dry-run"),
        ("up", "farm/ns1", "--dry-run"),
        ("reconcile", "--dry-run"),
        ("history",),
        ("restore", "--dry-run"),
        ("restore", "--arm", "--dry-run"),
        ("show", "current"),
        ("verify", text),
    ]
    for verb in looks:
        done = on(applied)(*verb)
        assert done.code in (0, Exit.DIFFERENT), (verb, done)
    assert applied.conf() == conf
    assert applied.tables() == tables
    assert on(applied)("apply", text, "--yes").code == 0
    conf, tables = applied.conf(), applied.tables()
    assert on(applied)("rollback", "--dry-run").code in (0, Exit.DIFFERENT)
    assert applied.conf() == conf
    assert applied.tables() == tables


def test_a_dry_run_of_a_gradual_drain_says_what_will_move(applied: Switch) -> None:
    done = on(applied)("drain", "farm/ns1", "--over", "60s", "--dry-run")
    assert "would change" in done.out
    assert "8 of 32 slots of pool farm" in done.out


def test_a_switch_that_has_drifted_is_corrected(applied: Switch, tmp_path: Path) -> None:
    applied.ofctl("del-flows", FORWARD_TABLE)
    done = on(applied)("plan", spec_file(tmp_path))
    assert done.code == Exit.DIFFERENT
    assert "the switch has drifted" in done.out


def test_the_first_plan_names_every_object(shared: Switch, tmp_path: Path) -> None:
    fresh(shared)
    done = on(shared)("plan", spec_file(tmp_path), "--json")
    assert done.code == Exit.DIFFERENT
    assert {c["object"] for c in done.json["changes"]} == {"VIP dns", "VIP other", "pool farm", "pool spare"}
    assert shared.bridges() == []
