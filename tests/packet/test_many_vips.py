# SPDX-License-Identifier: Apache-2.0
"""What verbs print of a switch with 200 VIPs in 50 pools: lists that are counted and bounded, names that stay whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packet.command import SLOW, Ran, on, run, spec_file
from tests.packet.switches import Switch, unexpected

POOLS, VIPS = 50, 200
POOL, VIP = "customer-{:03}-authoritative", "customer-{:03}-nameserver-{}"
HEAD = (
    "apiVersion: dnsteer/v1\nswitch:\n  name: dpu-1\n  flavor: ovs-netdev\n  bridge: br-dns\n  mac: 02:00:00:00:00:53\n"
)


def many(pools: int = POOLS) -> str:
    """A spec of so many pools with four backends and four VIPs each."""
    lines = [HEAD + "  uplinks: {p0: , p1: }\npools:"]
    for i in range(pools):
        lines.append(f"  {POOL.format(i)}:\n    slots: 16\n    backends:")
        lines += [
            f"    - {{name: ns{b}, ipv4: 10.0.{i}.{b}, ipv6: '2001:db8:{i:x}::{b}', mac: '02:00:00:00:{i:02x}:0{b}'}}"
            for b in range(1, 5)
        ]
    lines.append("vips:")
    lines += [
        f"  {VIP.format(v // 4, v % 4)}: {{addresses: [203.0.113.{v + 1}, '2001:db8:ffff::{v + 1:x}'], services: [dns], "
        f"pool: {POOL.format(v // 4)}}}"
        for v in range(4 * pools)
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Switch, Ran]]:
    """A switch with the spec, and what its first apply has printed."""
    with Switch() as private:
        private.expected = [*SLOW]
        yield private, on(private)("apply", spec_file(tmp_path_factory.mktemp("many"), many()), "--yes")
        assert unexpected(private) == []


def test_a_first_apply_of_200_vips_is_summarised(first: tuple[Switch, Ran]) -> None:
    _, done = first
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("br-dns: applied as state 1; ") and lines[0].endswith(" flows added; 2 meters added")
    assert "  200 VIPs added:" in lines and "    and 195 more (-v shows all)" in lines and "  50 pools added:" in lines
    assert len(lines) < 20 and max(map(len, lines)) < 160


def test_a_plan_removing_many_vips_is_summarised(first: tuple[Switch, Ran], tmp_path: Path) -> None:
    spec = spec_file(tmp_path, many(10))
    done = on(first[0])("plan", spec)
    assert done.code == 2
    assert "  160 VIPs removed:" in done.out and len(done.out.splitlines()) < 20
    assert "and 155 more of which this is said (-v shows all)" in done.err and len(done.err.splitlines()) < 10
    every = on(first[0])("apply", spec, "--dry-run", "-v")
    assert sum(" removed" in line for line in every.out.splitlines()) == 160 + 40 + 1  # and that of the flows
    assert len(every.err.splitlines()) == 160
    refused = on(first[0])("apply", spec)
    assert refused.code == 1 and len(refused.err.splitlines()) < 10 and "(--json shows all)" in refused.err
    said = on(first[0])("apply", spec, "--json").json["error"]
    assert sum("removed" in line for line in said.splitlines()) == 160
    assert len(on(first[0])("plan", spec, "--json").json["asks"]) == 160


@pytest.mark.parametrize("verb", ["status --no-rates", "capacity --hardware bluefield-3", "top --once --interval 0.5s"])
def test_names_stay_whole_in_80_columns(
    first: tuple[Switch, Ran], verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("LINES", raising=False)
    words = verb.split()
    if words[0] == "capacity":
        words.insert(1, str(spec_file(tmp_path, many())))
        done = run(*words)
        assert "and 30 more pools: -v" in done.out
    else:
        done = on(first[0])(*words)
        assert VIP.format(0, 1) in done.out
    assert POOL.format(1) in done.out
    assert max(map(len, done.out.splitlines())) <= 80
