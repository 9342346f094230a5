"""The zones that health checks ask for, which the lab's name servers serve besides their own."""

from __future__ import annotations

from collections.abc import Mapping

from dnsteer.lab.names import ZONE
from dnsteer.spec.effective_query import effective_query
from dnsteer.spec.model.query import RANDOM_LABEL
from dnsteer.spec.model.spec import Spec


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
