# SPDX-License-Identifier: Apache-2.0
"""Notes about limits that drop packets now, for the console, which knows of them what the metrics say."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from dnsteer.view.attention_item import AttentionItem, Command, dnsteer_command

_WORDS = {"queries": "queries", "clients": "its clients", "tcp_syn": "TCP SYN"}


def limit_items(rates: Mapping[Hashable, float | None], options: str) -> Iterator[AttentionItem]:
    """Yield an item for each VIP and kind of limit that drops, by their *rates* in packets a second."""
    for place, rate in rates.items():
        if not rate or not isinstance(place, tuple):
            continue
        vip, kind = place
        look = Command("To see by which buckets and services", dnsteer_command("status", options))
        yield AttentionItem(
            "note",
            f"VIP {vip} drops what comes faster than its limits",
            f"About {float(f'{rate:.1g}'):,.0f} packets/s are dropped by the limit of {_WORDS[kind]}.",
            (look,),
        )
