# SPDX-License-Identifier: Apache-2.0
"""Limits that would let nothing pass."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.errors import Finding
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.limits import least_burst, show_rate


def check_limits(scope: Scope) -> Iterator[Finding]:
    """A burst that is too small for its rate."""
    for name, vip in scope.spec.vips.items():
        limits = vip.limits
        if limits is not None and limits.burst is not None and limits.burst < least_burst(limits.queries):
            yield scope.finding(
                ("vips", name, "limits", "burst"),
                f"{limits.burst:,}",
                f"at least {least_burst(limits.queries):,} packets with {show_rate(limits.queries)}, those of 10 ms",
                "Open vSwitch credits a meter by whole milliseconds, and one that holds less than a millisecond's packets "
                "lets nothing pass any more once it is empty; leave it out for those of 100 ms",
            )
