"""The zones that the lab's name servers serve, those that health checks ask for among them, and queries for dnsperf."""

from __future__ import annotations

from collections.abc import Mapping

from dns.serial import Serial

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


def queries_text() -> str:
    """1024 queries for dnsperf: every name by both types, but one in twenty for a name that does not exist.

    A power of two: dnsperf deals queries out to its sockets in turn, and whole turns give each the same number.
    """
    lines: list[str] = []
    for n in range(HOSTS):
        lines += [f"{'missing' if n % 10 == 0 else 'h'}{n}.{ZONE} A", f"h{n}.{ZONE} AAAA"]
    return "\n".join(lines) + "\n"


def checked_zones(spec: Spec) -> Mapping[str, str]:
    """The zones whose SOA health checks ask for, besides ZONE: name with the final dot -> text in master file format.

    Names are in lower case, since zones whose names differ in case are one. The serial of a zone is the highest that a check
    wants of it (RFC 1982), else 1.
    """
    asked = [effective_query(pool, check) for pool in spec.pools.values() for check in pool.health or []]
    serials = dict[str, list[int]]()
    for query in asked:
        name = query.name.lower()
        zone = query.type == "SOA" and query.rdclass == "IN" and name not in (".", f"{ZONE}.")
        if zone and not name.startswith(RANDOM_LABEL):
            wanted = serials.setdefault(name, [])
            if query.serial_at_least is not None:
                wanted.append(query.serial_at_least)
    return {name: _text(name, max(wanted, key=Serial, default=1)) for name, wanted in serials.items()}


def _text(name: str, serial: int) -> str:
    return f"$TTL 300\n{name} SOA ns.{ZONE}. hostmaster.{ZONE}. {serial} 3600 600 86400 300\n{name} NS ns.{ZONE}.\n"
