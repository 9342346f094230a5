# SPDX-License-Identifier: Apache-2.0
"""Peers of the rig that hold back a flood from one network, each with the limit that it has for that.

Beside them stand the same peers without a limit (`peers.py`), and a switch that drops the flood's network by one flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.rig.junk import DENIED_24
from bench.rig.network import FAMILIES
from bench.rig.peers import Dnsdist, Dnsteer, Nftables, Peer, spec_text

PREFIX_RATE, PREFIX_BURST = 1000, 100
"""Queries a second that clients of one prefix may send, many times what each good client of the rig does."""
VIP_RATE = 10_000
"""Queries a second that all clients together may send to the VIP."""
_LENGTHS = {4: 24, 6: 56}
"""Of the prefixes whose clients share a rate."""


class DnsteerDenied(Dnsteer):
    """dnsteer that denies the flood's network, which is one flow that drops it."""

    def load(self, denied: Sequence[str]) -> None:
        """Start a switch with that network in the list too."""
        super().load([*denied, *({DENIED_24} - set(denied))])


class DnsteerQueries(Dnsteer):
    """dnsteer with a limit of the VIP's queries (`limits.queries`), which drops those of all clients alike."""

    def spec(self, denied_file: str = "") -> str:
        """The spec with the limit."""
        return spec_text(denied_file, f"limits: {{queries: {VIP_RATE}/s}}")


class DnsteerClients(Dnsteer):
    """dnsteer with a limit of each bucket of clients (`limits.clients`), which the last bits of their prefix choose."""

    def spec(self, denied_file: str = "") -> str:
        """The spec with the limit."""
        return spec_text(denied_file, f"limits: {{clients: {{rate: {PREFIX_RATE}/s, burst: {PREFIX_BURST}}}}}")


class NftablesLimited(Nftables):
    """nftables without state that drops what is beyond the rate of a client's prefix, by a set with limits."""

    def sets(self) -> str:
        """A set of each family, whose elements are prefixes with their limit."""
        return "".join(
            f"  set seen{v} {{ type ipv{v}_addr; flags dynamic,timeout; timeout 10s; size 65535; }}\n" for v in FAMILIES
        )

    def limits(self) -> str:
        """A rule of each family."""
        masks = {4: "255.255.255.0", 6: "ffff:ffff:ffff:ff00::"}
        return "".join(
            f"    {word} daddr {FAMILIES[v].vip} meta l4proto {{ tcp, udp }} th dport 53 "
            f"update @seen{v} {{ {word} saddr & {masks[v]} limit rate over {PREFIX_RATE}/second burst {PREFIX_BURST} "
            "packets } drop\n"
            for v, word in ((4, "ip"), (6, "ip6"))
        )


class DnsdistLimited(Dnsdist):
    """dnsdist that drops what is beyond the rate of a client's prefix, by MaxQPSIPRule."""

    LIMIT = f"addAction(MaxQPSIPRule({PREFIX_RATE}, {_LENGTHS[4]}, {_LENGTHS[6]}, {PREFIX_BURST}), DropAction())"


LIMITED: Mapping[str, type[Peer]] = {
    "dnsteer-denied": DnsteerDenied,
    "dnsteer-queries": DnsteerQueries,
    "dnsteer-clients": DnsteerClients,
    "nftables-limited": NftablesLimited,
    "dnsdist-limited": DnsdistLimited,
}
