# SPDX-License-Identifier: Apache-2.0
"""dnsteer in its other modes and with other types of port, beside `Dnsteer`, which is NAT on packet sockets."""

from __future__ import annotations

from bench.hosts import inside
from bench.rig.network import PORTS, UPLINK
from bench.rig.peers import BALANCER, Dnsteer, spec_text


class Variant(Dnsteer):
    """dnsteer with another mode, further keys of the VIP, or another type of port."""

    FORWARDING = "nat"
    MORE = ""
    TYPE = ""

    def spec(self, denied_file: str = "") -> str:
        """The spec of the variant."""
        return spec_text(denied_file, self.MORE, self.FORWARDING, self.TYPE)


class DnsteerDsr(Variant):
    """dnsteer: direct server return, whose answers the switch passes on; slots of source ports, packet sockets."""

    FORWARDING = "dsr"


class DnsteerDsrKeep(Variant):
    """dnsteer: direct server return that keeps TCP connections by the tracker; UDP without state."""

    FORWARDING = "dsr"
    MORE = "keep: connections"


class DnsteerCtNat(Variant):
    """dnsteer: NAT that keeps TCP connections by the tracker; UDP without state."""

    FORWARDING = "ct-nat"


class DnsteerAfxdp(Variant):
    """dnsteer: NAT without state, Open vSwitch with ports of type afxdp-nonpmd (AF_XDP without busy polling)."""

    TYPE = "afxdp-nonpmd"

    def stop(self) -> None:
        """End the switch, and detach its programs, which outlive it."""
        super().stop()
        for device in (UPLINK, *PORTS):
            inside(BALANCER, "ip", "link", "set", "dev", device, "xdp", "off")


class DnsteerAfxdpPmd(DnsteerAfxdp):
    """dnsteer: NAT without state, Open vSwitch with ports of type afxdp, for which a thread polls all the time."""

    TYPE = "afxdp"
