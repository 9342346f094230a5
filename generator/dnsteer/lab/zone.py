"""The zones that the lab's name servers serve, and queries for the one that is asked for under load."""

from __future__ import annotations

from collections.abc import Mapping

from dnsteer.lab.names import ZONE
from dnsteer.spec.effective_query import effective_query
from dnsteer.spec.model.query import RANDOM_LABEL
from dnsteer.spec.model.spec import Spec

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


def checked_zones(spec: Spec) -> Mapping[str, str]:
    """The zones whose SOA health checks ask for, besides ZONE: name with the final dot -> text in master file format."""
    asked = [effective_query(pool, check) for pool in spec.pools.values() for check in pool.health or []]
    found = dict[str, str]()
    for query in asked:
        zone = query.type == "SOA" and query.rdclass == "IN" and query.name not in (".", f"{ZONE}.")
        if zone and not query.name.startswith(RANDOM_LABEL):
            serial = query.serial_at_least or 1
            found[query.name] = (
                f"$TTL 300\n{query.name} SOA ns.{ZONE}. hostmaster.{ZONE}. {serial} 3600 600 86400 300\n"
                f"{query.name} NS ns.{ZONE}.\n"
            )
    return found


def queries_text() -> str:
    """1024 queries for dnsperf: every name by both types, but one in twenty for a name that does not exist.

    A power of two: dnsperf deals queries out to its sockets in turn, and whole turns give each the same number.
    """
    lines: list[str] = []
    for n in range(HOSTS):
        lines += [f"{'missing' if n % 10 == 0 else 'h'}{n}.{ZONE} A", f"h{n}.{ZONE} AAAA"]
    return "\n".join(lines) + "\n"
