# SPDX-License-Identifier: Apache-2.0
"""dnsteer in its other modes and with other kinds of port, beside `Dnsteer`, which is NAT on packet sockets."""

from __future__ import annotations

from bench.hosts import inside
from bench.rig.network import PORTS, UPLINK
from bench.rig.peers import BALANCER, Dnsteer, spec_text


class DnsteerDsr(Dnsteer):
    """dnsteer: direct server return, whose answers the switch passes on; slots of source ports, packet sockets."""

    def spec(self, denied_file: str = "") -> str:
        """The spec with that mode."""
        return spec_text(denied_file, forwarding="dsr")


class DnsteerDsrKeep(Dnsteer):
    """dnsteer: direct server return that keeps TCP connections by the tracker; UDP without state."""

    def spec(self, denied_file: str = "") -> str:
        """The spec with that mode."""
        return spec_text(denied_file, "keep: connections", forwarding="dsr")


class DnsteerCtNat(Dnsteer):
    """dnsteer: NAT that keeps TCP connections by the tracker; UDP without state."""

    def spec(self, denied_file: str = "") -> str:
        """The spec with that mode."""
        return spec_text(denied_file, forwarding="ct-nat")


class DnsteerAfxdp(Dnsteer):
    """dnsteer: NAT without state, Open vSwitch with ports of type afxdp-nonpmd (AF_XDP without busy polling)."""

    TYPE = "afxdp-nonpmd"

    def spec(self, denied_file: str = "") -> str:
        """The spec with that type of port."""
        return spec_text(denied_file, port_type=self.TYPE)

    def stop(self) -> None:
        """End the switch, and detach its programs, which outlive it."""
        super().stop()
        for device in (UPLINK, *PORTS):
            inside(BALANCER, "ip", "link", "set", "dev", device, "xdp", "off")


class DnsteerAfxdpPmd(DnsteerAfxdp):
    """dnsteer: NAT without state, Open vSwitch with ports of type afxdp, for which a thread polls all the time."""

    TYPE = "afxdp"
