# SPDX-License-Identifier: Apache-2.0
"""Several backends in one `drain`, `undrain`, `down`, `up` or `weight`: one change of the switch, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.specs import many_vips

from dnsteer.cli.output import Exit
from tests.packet.command import Ran, fresh, nothing_changes, on, spec_file
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import Switch


def out_now(switch: Switch) -> list[tuple[str, str, str]]:
    return [(a["pool"], a["backend"], a["kind"]) for a in overlay(switch)]


def moved_pools(done: Ran) -> list[str]:
    return [move["pool"] for move in done.json["moves"]]


def test_backends_of_two_pools_move_together(applied: Switch) -> None:
    both = ("farm/ns1", "spare/sp1")
    done = on(applied)("drain", *both, "--note", "rack 7", "--json", "--yes")
    assert done.code == 0, done.err
    assert moved_pools(done) == ["farm", "spare"]
    assert done.json["backends"] == [
        {"pool": "farm", "backend": "ns1", "slots": 32},
        {"pool": "spare", "backend": "sp1", "slots": 16},
    ]
    assert "backend" not in done.json  # of one alone it says which
    assert out_now(applied) == [("farm", "ns1", "drain"), ("spare", "sp1", "drain")]
    entries = overlay(applied)
    assert (
        len({tuple(a[key] for key in ("since", "by", "note")) for a in entries}) == 1 and entries[0]["note"] == "rack 7"
    )
    again = on(applied)("drain", *both, "--yes")
    assert (again.code, again.out) == (0, "br-dns: nothing to change; farm/ns1 and spare/sp1 are drained already\n")
    back = on(applied)("undrain", *both)
    assert back.code == 0 and len(back.out.splitlines()) == 2 and out_now(applied) == []
    assert on(applied)("undrain", *both).out.endswith("farm/ns1 is not drained; spare/sp1 is not drained\n")


@pytest.mark.parametrize(
    "line",
    ["drain farm/ns1 farm/nsX", "down spare/sp1 other/ns1", "undrain farm/ns1 farm", "weight farm/ns1 spare/spX 3"],
)
def test_one_wrong_name_changes_nothing(applied: Switch, line: str) -> None:
    with nothing_changes(applied):
        assert on(applied)(*line.split(), "--yes").code == Exit.ERROR


def test_the_confirmation_counts_all_backends_together(applied: Switch) -> None:
    with nothing_changes(applied):
        done = on(applied)("drain", "spare/sp1", "spare/sp2")
    assert done.code == 1 and "no backend would be left" in done.err


def test_one_weight_is_set_for_several_backends(applied: Switch) -> None:
    done = on(applied)("weight", "farm/ns1", "farm/ns3", "4", "--json", "--yes")
    assert done.code == 0, done.err
    assert [(a["backend"], a["weight"]) for a in overlay(applied)] == [("ns1", 4), ("ns3", 4)]
    assert on(applied)("weight", "farm/ns1", "farm/ns3", "--undo", "--yes").code == 0 and overlay(applied) == []


def test_a_gradual_drain_covers_backends_of_two_pools(applied: Switch) -> None:
    done = on(applied)("drain", "farm/ns1", "spare/sp1", "--over", "1s", "--yes")
    assert done.code == 0, done.err
    assert {a.get("gone", 1000) for a in overlay(applied)} == {1000}
    assert "farm/ns1, spare/sp1: 100 % drained" in done.err


def test_lines_about_many_backends_and_ports_are_bounded(applied: Switch, tmp_path: Path) -> None:
    fresh(applied)
    text, most = many_vips(2, pools=2, backends=16), 400
    for ports in (0, 40):
        vfs = f"  ports: {{{', '.join(f'vf{n}: ' for n in range(ports))}}}\n  uplinks"
        spec = spec_file(tmp_path, text.replace("  uplinks", vfs))
        done = on(applied)("apply", spec, "--yes")
        assert done.code == 0 and max(map(len, done.err.splitlines())) < most, done.err
    assert "br-dns: add port vf0; add port vf1; " in done.err and "add port vf6 and 33 more" in done.err
    names = [f"pool{p}/ns{b}" for p in range(2) for b in range(1, 16)]
    back = on(applied)("undrain", *names)
    assert "; pool0/ns1 is not drained; " in back.out and "pool0/ns7 is not drained and 23 more" in back.out
    weighed = on(applied)("weight", *names, "--undo")
    assert "pool0/ns7 has the spec's weight already and 23 more" in weighed.out
    gradual = on(applied)("drain", *names, "--over", "1s", "--yes")
    assert "pool0/ns7 and 23 more: 100 % drained" in gradual.err
    again = on(applied)("drain", *names, "--yes")
    assert again.out.endswith("pool0/ns7 and 23 more are drained already\n")
    for done in (back, weighed, gradual, again):
        assert done.code == 0 and max(map(len, (done.out + done.err).splitlines())) < most, done.out + done.err
