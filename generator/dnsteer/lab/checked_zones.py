"""The zones that health checks ask for, which the lab's name servers serve besides their own."""

from __future__ import annotations

from collections.abc import Mapping

from dns.serial import Serial

from dnsteer.lab.names import ZONE
from dnsteer.spec.health_checks import effective_query
from dnsteer.spec.model.health import RANDOM_LABEL
from dnsteer.spec.model.spec import Spec


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
