# SPDX-License-Identifier: Apache-2.0
"""Consoles of switches with many VIPs, of names as long as they may be, or with rates from 0 to millions; made up."""

from __future__ import annotations

import re

from bench.specs import many_vips

from dnsteer.console.page_content import RecordedStates
from dnsteer.spec.model.types import MAX_NAME
from tests.unit.console_cases import Console, entry, known

RATES = (0.0, 999.0, 1e3, 12.3e3, 999e3, 1.2e6, 35e6, 7.3)
"""Queries a second that figures must fit."""


def long_name(word: str, number: int) -> str:
    """A name that is as long as may be."""
    return f"{word}{number:03}{'abcdefghijklmnopqrst' * 4}"[:MAX_NAME]


def with_long_names(text: str) -> str:
    """A spec of `many_vips` whose VIPs, pools and backends have long names, and its VIPs long IPv6 addresses."""
    for word in ("vip", "pool", "ns"):
        text = re.sub(rf"\b{word}(\d+)\b", lambda m: long_name(word, int(m[1])), text)  # noqa: B023
    return text.replace("2001:db8:ffff::", "2001:db8:ffff:ffff:ffff:ffff:ffff:")


def two_hundred_vips() -> Console:
    """200 VIPs in 50 pools: 12 with a backend that fails, 12 with one that is drained. State 2 has changed all VIPs."""
    entries = [entry(f"ns{n % 4}", "health", pool=f"pool{n}", note="no answer within 0.5 s") for n in range(12)]
    entries += [entry("ns1", pool=f"pool{n}", note="CHG-4711") for n in range(20, 32)]
    text = many_vips(200, pools=50, backends=4)
    before = known(text.replace("services: [dns, dot, doq, doh]", "services: [dns]"))
    after = known(text, number=2)
    console = Console(after, *entries)
    console.live._state.states = RecordedStates(
        ("br-dns", (), "2"), (after.state, before.state)
    )  # as if they were read
    for _ in range(3):
        console.reads(**{f"vip{n}": 10.0 ** (n % 7) * (1 + n / 200) for n in range(200)})
    return console


def long_named_vips(vips: int) -> Console:
    """VIPs of long names in 4 pools, of which one has a backend that fails; with the rates of RATES in turn."""
    text = with_long_names(many_vips(vips, pools=4, backends=4))
    pool, backend = long_name("pool", 1), long_name("ns", 1)
    before = known(text.replace("services: [dns, dot, doq, doh]", "services: [dns]"))
    after = known(text, number=2, note="n" * 200)
    console = Console(after, entry(backend, "health", pool=pool, note="no answer within 0.5 s"))
    console.live._state.states = RecordedStates(("br-dns", (), "2"), (after.state, before.state))
    for _ in range(3):
        console.reads(**{long_name("vip", n): RATES[n % len(RATES)] for n in range(vips)})
    return console
