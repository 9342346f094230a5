# SPDX-License-Identifier: Apache-2.0
"""The zone that the lab's name servers serve, and queries for it."""

from __future__ import annotations

from dnsteer.lab.names import ZONE

HOSTS = 512
"""Names with addresses: h0 to h511."""
LARGE = f"large.{ZONE}"
"""A TXT record of more than 3000 bytes: its UDP answer comes in fragments where EDNS allows 4096 bytes."""
WHOAMI = f"whoami.{ZONE}"
"""A TXT record that says which server answered."""


def zone_text(server: str) -> str:
    """The zone as *server* serves it, in master file format. Only `whoami` differs between servers."""
    lines = [
        f"$ORIGIN {ZONE}.",
        "$TTL 300",
        f"@ SOA ns.{ZONE}. hostmaster.{ZONE}. 1 3600 600 86400 300",
        f"@ NS ns.{ZONE}.",
        "ns A 198.18.255.53",
        f'whoami TXT "{server}"',
        "large TXT " + " ".join(f'"{n:02d} {"x" * 240}"' for n in range(13)),
    ]
    for n in range(HOSTS):
        lines += [f"h{n} A 198.19.{n >> 8}.{n & 255}", f"h{n} AAAA 2001:2:0:ffff::{n:x}"]
    return "\n".join(lines) + "\n"


def queries_text() -> str:
    """1024 queries for dnsperf: every name by both types, but one in twenty for a name that does not exist.

    A power of two: dnsperf deals queries out to its sockets in turn, and whole turns give each the same number.
    """
    lines: list[str] = []
    for n in range(HOSTS):
        lines += [f"{'missing' if n % 10 == 0 else 'h'}{n}.{ZONE} A", f"h{n}.{ZONE} AAAA"]
    return "\n".join(lines) + "\n"
