# SPDX-License-Identifier: Apache-2.0
"""Findings about QUIC: what becomes of a connection whose client gets another source port."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.spec import derived
from dnsteer.spec.model.spec import Pool, Selection

QUIC_BY_PORT = Code("DNS080", Severity.WARNING, "QUIC connections change servers with their client's source port")


@finder(QUIC_BY_PORT)
def quic_by_port(context: LintContext) -> Iterator[LintFinding]:
    """Report each pool of several backends with QUIC services, whose slots the source port chooses."""
    spec = context.spec
    for name, pool in spec.pools.items():
        if len(pool.backends) < 2 or not _goes_by_port(pool):
            continue
        vips = [(vip, derived.endpoints(spec.vips[vip])) for vip in spec.vips if spec.vips[vip].pool == name]
        asked = [f"{vip} (udp/{e.port})" for vip, endpoints in vips for e in endpoints if derived.is_quic(e)]
        if not asked:
            continue
        more = f" and {len(asked) - 1} more" if len(asked) > 1 else ""
        text = (
            f"pool {name}: the client's source port chooses the slot of QUIC to VIP {asked[0]}{more}: a connection whose "
            "port changes on the way (a NAT that forgot it) or in the client (migration) reaches a server that does not "
            "know it"
        )
        advice = "selection: source-address, or client with the extension; or give QUIC a VIP with a pool of its own"
        yield context.finding(QUIC_BY_PORT, ("pools", name, "selection"), text, advice)


def _goes_by_port(pool: Pool) -> bool:
    if pool.selection is Selection.CLIENT:
        return "src_port" in derived.hash_fields(pool)
    return pool.selection in (Selection.SOURCE_PORT, Selection.DP_HASH)
