# SPDX-License-Identifier: Apache-2.0
"""What is said of the links of bonds, by what the database says of their members."""

from __future__ import annotations

import pytest

from dnsteer.agent.bonds import _words
from dnsteer.plan.bridge import WantedLag
from dnsteer.status.bonds import view_bonds
from dnsteer.switch.bridge_rows import Bridge, Interface, Lag
from tests.unit.spec_text import SPEC, load


def port(name: str, link: str) -> Interface:
    """A port whose link is in a state; empty: the database does not say."""
    return Interface(name, name, "", {}, 1, "", True, False, {"link_state": link} if link else {})


@pytest.mark.parametrize(
    ("mode", "links", "current", "text", "said"),
    [
        ("active-backup", ("up", "up"), (), "p0 up, active; p1 up", ""),
        ("active-backup", ("down", "up"), (), "p0 down; p1 up, active", "p0 of bond0 is down, p1 is active"),
        ("active-backup", ("", "up"), (), "p0 link unknown, active; p1 up", ""),
        ("active-backup", ("down", "down"), (), "p0 down; p1 down", "p0, p1 of bond0 are down, no member is active"),
        ("lacp", ("up", "up"), ("p0", "p1"), "p0 up, active; p1 up, active", ""),
        ("lacp", ("down", "up"), ("p0", "p1"), "p0 down; p1 up, active", "p0 of bond0 is down, p1 is active"),
        ("lacp", ("up", "up"), (), "p0 up; p1 up", "no member is active of bond0: no partner answers by LACP"),
    ],
)
def test_the_links_of_a_bond_in_words(
    mode: str, links: tuple[str, ...], current: tuple[str, ...], text: str, said: str
) -> None:
    spec = load(SPEC.replace("    p0:\n", f"    bond0: {{members: {{p0: , p1: }}, mode: {mode}}}\n")).spec
    ports = {name: port(name, link) for name, link in zip(("p0", "p1"), links, strict=True)}
    lag = Lag(WantedLag("bond0", ()), "netdev", "", ports, {name: name in current for name in ports})
    here = ({}, {"bond0": lag}) if mode == "lacp" else (ports, {})
    bridge = Bridge("br-dns", {}, "netdev", "secure", (), here[0], {}, {}, here[1])
    (found,) = view_bonds(spec.switch, bridge)
    assert found.text == f"bond0 ({mode}): {text}"
    assert (_words(found) if found.down or not found.active else "") == said
    idle = {"p0 down; p1 down": "no member has a link", "p0 up; p1 up": "no partner answers by LACP"}
    assert found.idle == idle.get(text, "")


def test_without_a_bridge_no_link_is_called_down() -> None:
    spec = load(SPEC.replace("    p0:\n", "    bond0: {members: {p0: , p1: }, mode: lacp}\n")).spec
    (found,) = view_bonds(spec.switch, None)
    assert (found.down, found.active, found.idle) == ((), (), "")
