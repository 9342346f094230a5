"""The pipeline: every OpenFlow table and every register, as constants that code, templates and docs read.

To change the pipeline, change this list and the one template of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """An OpenFlow table: what it matches, what it does, where packets go next."""

    number: int
    name: str
    matches: str
    does: str
    next: tuple[str, ...]


@dataclass(frozen=True)
class Register:
    """A field of the register file. *bits* are inclusive; it is live from table *first* to table *last*."""

    name: str
    number: int
    bits: tuple[int, int]
    first: str
    last: str
    meaning: str

    @property
    def field(self) -> str:
        """The register as ovs-ofctl spells it in matches and set_field."""
        return f"reg{self.number}"

    @property
    def nxm(self) -> str:
        """The register's bits as ovs-ofctl spells them in move actions."""
        low, high = self.bits
        return f"NXM_NX_REG{self.number}[{low}..{high}]" if (low, high) != (0, 31) else f"NXM_NX_REG{self.number}[]"


TABLES: tuple[Table, ...] = (
    Table(
        0, "ingress", "port, ethertype, destination MAC",
        "tells neighbour requests, echo requests, queries (to the balancer's MAC) and answers (to the gateways' MAC) apart",
        ("neighbor", "echo", "protect", "return", "extension"),
    ),
    Table(
        5, "neighbor", "ARP request and neighbour solicitation for a VIP or gateway",
        "answers them out of the port that they came in by", ("advertise",),
    ),
    Table(
        6, "advertise", "neighbour advertisement in the making",
        "sets the fields that exist only in an advertisement", (),
    ),
    Table(8, "echo", "echo request for a VIP or gateway", "answers it out of the port that it came in by", ()),
    Table(
        10, "protect", "protocol, low bits of the destination port",
        "drops what no service has before more is looked at (deny lists and meters will stand here)", ("vip",),
    ),
    Table(
        20, "vip", "destination address, protocol and port",
        "pool, forwarding mode and, for source-port selection, the slot; what the extension serves goes there",
        ("slot", "egress"),
    ),
    Table(30, "slot", "pool and slot", "backend; pools selected by dp-hash ask their group", ("forward",)),
    Table(40, "forward", "forwarding mode, pool and backend", "rewrites towards the backend", ("egress",)),
    Table(
        50, "return", "source address, protocol and port of an answer",
        "rewrites the source back to the VIP, fragments included", ("fragment", "egress"),
    ),
    Table(
        55, "fragment", "source address of a fragment of an answer after the connection tracker",
        "drops what it did not translate", ("egress",),
    ),
    Table(
        58, "extension", "destination MAC of what the extension gives back",
        "sends it to the port of its backend, or answers out", (),
    ),
    Table(60, "egress", "path and port to leave by", "MAC addresses of the uplink, output", ()),
    Table(
        63, "state", "nothing: no packet comes here",
        "the cookie of its one flow tells which spec and overlay the tables were made from", (),
    ),
)  # fmt: skip

REGISTERS: tuple[Register, ...] = (
    Register("pool", 0, (0, 31), "vip", "forward", "number of the pool and family"),
    Register("slot", 1, (0, 31), "vip", "slot", "slot of the packet"),
    Register("backend", 2, (0, 31), "slot", "forward", "number of the backend"),
    Register("mode", 3, (0, 31), "vip", "forward", "forwarding mode: 1 dsr, 2 nat"),
    Register("path", 4, (0, 31), "ingress", "egress", "1 query, 2 answer"),
    Register("side", 6, (0, 31), "ingress", "echo", "1 when the packet came in by an uplink"),
    Register("transport", 7, (0, 31), "vip", "forward", "1 UDP, 2 TCP: the counters of forward then count queries"),
    Register("out", 5, (0, 31), "ingress", "egress", "number of the port to leave by; 0: the port it came in by"),
    *(
        Register(f"looked{n}", 12 + n, (0, 31), "ingress", "egress", "never matched: what is copied here was looked at")
        for n in range(4)
    ),
)

LOOKED = "NXM_NX_XXREG3"
"""The four registers `looked` as one of 128 bits."""
LOOKS: dict[str, tuple[str, int]] = {
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
"""Fields that flows can look at without matching them: name and bits."""

PATH_QUERY, PATH_ANSWER = 1, 2
MODE = {"dsr": 1, "nat": 2}
TRANSPORT = {"udp": 1, "tcp": 2}
OUT_SAME = 0
SIDE_UPLINK = 1

COOKIE_TAG = 0xD453
"""Upper 16 bits of every cookie of ours."""
COOKIE_MASK = 0xFFFF000000000000
GROUP_BASE, GROUP_LAST = 53_000_000, 53_000_000 + 0xFFFF
"""OpenFlow group numbers of ours; groups carry no cookie."""


@dataclass(frozen=True)
class Pipeline:
    """Tables and registers by name, checked when built."""

    tables: dict[str, Table] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)


def build_pipeline(tables: tuple[Table, ...], registers: tuple[Register, ...]) -> Pipeline:
    """Check and index tables and registers.

    Raises ValueError when a number or name occurs twice, a table leads backwards or to an unknown one, or two registers
    overlap while both are live or leave their 32 bits.
    """
    by_name = {t.name: t for t in tables}
    if len(by_name) != len(tables) or len({t.number for t in tables}) != len(tables):
        raise ValueError("a table's name or number occurs twice")
    for table in tables:
        for name in table.next:
            if name not in by_name or by_name[name].number <= table.number:
                raise ValueError(f"table {table.name} cannot lead to {name}")
    regs = {r.name: r for r in registers}
    if len(regs) != len(registers):
        raise ValueError("a register's name occurs twice")
    for i, one in enumerate(registers):
        low, high = one.bits
        if not (0 <= low <= high <= 31 and 0 <= one.number <= 15):
            raise ValueError(f"register {one.name} has bits outside of a 32-bit register")
        if by_name[one.first].number > by_name[one.last].number:
            raise ValueError(f"register {one.name} ends before it begins")
        for other in registers[:i]:
            share = one.number == other.number and low <= other.bits[1] and other.bits[0] <= high
            begin = max(by_name[one.first].number, by_name[other.first].number)
            end = min(by_name[one.last].number, by_name[other.last].number)
            if share and begin <= end:
                raise ValueError(f"registers {one.name} and {other.name} overlap")
    return Pipeline(by_name, regs)


PIPELINE = build_pipeline(TABLES, REGISTERS)
