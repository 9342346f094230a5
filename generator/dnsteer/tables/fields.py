"""Packet fields by their name in templates (`@udp_src[]`), each with its name in ovs-ofctl's move actions and its width
in bits."""

from __future__ import annotations

FIELDS: dict[str, tuple[str, int]] = {
    "eth_dst": ("NXM_OF_ETH_DST", 48), "eth_src": ("NXM_OF_ETH_SRC", 48),
    "arp_op": ("NXM_OF_ARP_OP", 16), "arp_spa": ("NXM_OF_ARP_SPA", 32), "arp_tpa": ("NXM_OF_ARP_TPA", 32),
    "arp_sha": ("NXM_NX_ARP_SHA", 48), "arp_tha": ("NXM_NX_ARP_THA", 48),
    "ip_proto": ("NXM_OF_IP_PROTO", 8), "ip_ttl": ("NXM_NX_IP_TTL", 8),
    "ip_src": ("NXM_OF_IP_SRC", 32), "ip_dst": ("NXM_OF_IP_DST", 32),
    "ipv6_src": ("NXM_NX_IPV6_SRC", 128), "ipv6_dst": ("NXM_NX_IPV6_DST", 128),
    "udp_src": ("NXM_OF_UDP_SRC", 16), "udp_dst": ("NXM_OF_UDP_DST", 16),
    "tcp_src": ("NXM_OF_TCP_SRC", 16), "tcp_dst": ("NXM_OF_TCP_DST", 16),
    "icmp_type": ("NXM_OF_ICMP_TYPE", 8), "icmp_code": ("NXM_OF_ICMP_CODE", 8),
    "icmpv6_type": ("NXM_NX_ICMPV6_TYPE", 8), "icmpv6_code": ("NXM_NX_ICMPV6_CODE", 8),
}  # fmt: skip

SCRATCH = "NXM_NX_XXREG3"
"""The four scratch registers as one of 128 bits: copying a field there unwildcards it."""
