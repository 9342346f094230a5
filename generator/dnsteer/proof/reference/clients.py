# SPDX-License-Identifier: Apache-2.0
"""Which clients share a rate: the bucket of each, from the limits of the spec (docs/rate-limits.md).

Whether a packet comes faster than a rate is not predicted: in `dnsteer check` all pass.
"""

from __future__ import annotations

from dnsteer.spec.model.limits import ClientLimits
from dnsteer.spec.model.spec import Spec


class ClientReference:
    """The limits of clients of a spec."""

    def __init__(self, spec: Spec) -> None:
        found = {name: vip.limits.clients for name, vip in spec.vips.items() if vip.limits is not None}
        self.of_vips: dict[str, ClientLimits] = {name: one for name, one in found.items() if one is not None}

    def bucket(self, vip: str, client: bytes) -> int | None:
        """The bucket of a client's queries to a VIP: its prefix as a number, modulo the buckets. None: it has no limit."""
        limit = self.of_vips.get(vip)
        if limit is None:
            return None
        length = limit.prefix.ipv4 if len(client) == 4 else limit.prefix.ipv6
        return (int.from_bytes(client, "big") >> 8 * len(client) - length) % limit.buckets
