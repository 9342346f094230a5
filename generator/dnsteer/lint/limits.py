# SPDX-License-Identifier: Apache-2.0
"""Findings about limits: the datapath flows by clients' buckets, the pass that they take, and those by flags of TCP."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.plan.sizes import client_flows
from dnsteer.spec.errors import counted
from dnsteer.tables.client_limits import client_limits

CLIENT_BUCKETS = Code("DNS075", Severity.NOTE, "Limits of clients make datapath flows by their buckets")
TCP_SYN = Code("DNS076", Severity.NOTE, "A limit of TCP SYN makes datapath flows by flags of TCP")


@finder(CLIENT_BUCKETS)
def bucket_flows(context: LintContext) -> Iterator[LintFinding]:
    """Say of each limit of clients how many meters and datapath flows it makes at most."""
    limits = client_limits(context.spec)
    total = sum(client_flows(context.plan).values())
    for one in limits:
        shared = f" of {len(one.vips)} VIPs" if len(one.vips) > 1 else ""
        others = f" (all {len(limits)} limits together)" if len(limits) > 1 else ""
        yield context.finding(
            CLIENT_BUCKETS,
            one.path,
            f"{one.clients.buckets:,} buckets{shared} are as many meters, and whatever the clients at most "
            f"{counted(total, 'datapath flow')} at all uplinks{others}; each query passes the datapath once more for its "
            "bucket, by the connection tracker without commit: whether hardware takes that is not known from public sources",
            "fewer buckets make fewer flows, and more clients share one",
        )


@finder(TCP_SYN)
def syn_flows(context: LintContext) -> Iterator[LintFinding]:
    """Say of each limit of TCP SYN that packets with other flags have other datapath flows."""
    for name, vip in context.spec.vips.items():
        if vip.limits is not None and vip.limits.tcp_syn is not None:
            yield context.finding(
                TCP_SYN,
                ("vips", name, "limits", "tcp_syn"),
                "SYN and ACK of packets over TCP are in their datapath flow: a slot has two for usual clients, of packets "
                "that begin a connection and of all others, and up to four for who chooses the flags",
                "leave it out where the name servers bear the connections that clients can begin",
            )
