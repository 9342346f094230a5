# SPDX-License-Identifier: Apache-2.0
"""The description of a pipeline table: what it matches and does, its registers, and the rows that its template renders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast, get_args

from dnsteer.spec.errors import DefinitionError

if TYPE_CHECKING:
    from dnsteer.tables.context import Context
    from dnsteer.tables.rows import Rows

FIELDS: dict[str, tuple[str, int]] = {
    "eth_dst": ("NXM_OF_ETH_DST", 48),
    "eth_src": ("NXM_OF_ETH_SRC", 48),
    "arp_op": ("NXM_OF_ARP_OP", 16),
    "arp_spa": ("NXM_OF_ARP_SPA", 32),
    "arp_tpa": ("NXM_OF_ARP_TPA", 32),
    "arp_sha": ("NXM_NX_ARP_SHA", 48),
    "arp_tha": ("NXM_NX_ARP_THA", 48),
    "ip_proto": ("NXM_OF_IP_PROTO", 8),
    "ip_ttl": ("NXM_NX_IP_TTL", 8),
    "ip_src": ("NXM_OF_IP_SRC", 32),
    "ip_dst": ("NXM_OF_IP_DST", 32),
    "ipv6_src": ("NXM_NX_IPV6_SRC", 128),
    "ipv6_dst": ("NXM_NX_IPV6_DST", 128),
    "udp_src": ("NXM_OF_UDP_SRC", 16),
    "udp_dst": ("NXM_OF_UDP_DST", 16),
    "tcp_src": ("NXM_OF_TCP_SRC", 16),
    "tcp_dst": ("NXM_OF_TCP_DST", 16),
    "icmp_type": ("NXM_OF_ICMP_TYPE", 8),
    "icmp_code": ("NXM_OF_ICMP_CODE", 8),
    "icmpv6_type": ("NXM_NX_ICMPV6_TYPE", 8),
    "icmpv6_code": ("NXM_NX_ICMPV6_CODE", 8),
}
"""Packet fields by their name in templates (`@udp_src[]`): their name in ovs-ofctl's move actions, and width in bits."""
SCRATCH = "NXM_NX_XXREG3"
"""The four scratch registers as one of 128 bits: copying a field there unwildcards it."""

Traffic = Literal[
    "neighbors",
    "echo",
    "errors",
    "queries",
    "sources",
    "listed",
    "clients",
    "second_pass",
    "tracked",
    "to_extension",
    "from_extension",
    "answers",
    "own",
    "fragments",
]
"""The kinds of packets that pass tables: ARP requests and neighbour solicitations; echo requests; ICMP errors; queries to a
backend,
while an access list looks at their source, where one has allowed it, while the bucket of their client is found, in the
second pass of those that have two, in that of connections that are kept, and to the extension; packets that the extension
returns; answers; traffic of backends' own; fragments of
answers, after the connection tracker."""
ALL_TRAFFIC: tuple[Traffic, ...] = get_args(Traffic)
Contents = Literal["addresses", "services", "slots", "connections", "backends", "exits", "state"]
"""What other modules look for in a table: the addresses that the switch answers for; the services of VIPs; the slots of
pools; the backends of connections that are kept; the rewrites for backends; the output ports of packets that the extension
returns; the digest of the applied state."""
ALL_CONTENTS: tuple[Contents, ...] = get_args(Contents)


class TemplateError(DefinitionError):
    """A template that cannot be rendered: an unknown name, a jump back, a table without template, a line that is no flow."""


@dataclass(frozen=True)
class Register:
    """A register of 32 bits, live from the table that owns it to the table *until*.

    *values* names the values that flows write and match; in templates `@path.query` is the value `query` of `path`.
    """

    name: str
    number: int
    meaning: str
    until: str
    values: Mapping[str, int] = field(default_factory=dict)

    @property
    def field(self) -> str:
        """The register's name in ovs-ofctl matches and set_field."""
        return f"reg{self.number}"

    @property
    def nxm(self) -> str:
        """The register's name in ovs-ofctl move actions, without bits."""
        return f"NXM_NX_REG{self.number}"


def _file_of_caller() -> str:
    """Return the file of the module that makes a table, from the package's folder on."""
    frame = sys._getframe(2)  # of the dataclass's __init__
    return f"{str(frame.f_globals['__name__']).replace('.', '/')}.py"


def always(_: Rows) -> bool:
    """Say that a table has flows for every spec."""
    return True


def no_rows(_: Context) -> Iterable[object]:
    """Return no rows: for a table whose flows come from other tables' rows, or are always the same."""
    return ()


def rows_of_modes(_: Context) -> Iterable[object]:
    """Return no rows: for a table whose own types of rows the forwarding modes make."""
    return ()


_UNSAID: tuple[Traffic, ...] = cast("tuple[Traffic, ...]", ("",))


@dataclass(frozen=True)
class Table:
    """An OpenFlow table; the order of the tables sets its number.

    *traffic* is what passes it, by which `goto_table:@next` finds the next table; empty: no packet gets there. *miss* says
    what becomes of packets that no flow of its template matches. *drops* says in a few words why a packet is dropped there,
    for metrics. *holds* is what other modules look for in it. *flows* explains its flows by their shape, for the page of the
    pipeline. *uses* maps names in its template to row types; *rows* makes the table's own rows.
    """

    name: str
    matches: str
    does: str
    traffic: tuple[Traffic, ...] = _UNSAID
    flows: Mapping[str, str] = field(default_factory=dict)
    drops: str = ""
    miss: Literal["drop", "next"] = "drop"
    holds: Contents | None = None
    uses: Mapping[str, type[object]] = field(default_factory=dict)
    rows: Callable[[Context], Iterable[object]] = no_rows
    registers: tuple[Register, ...] = ()
    template: str = ""
    """Name of its template where several tables share one; else the template has the table's own name."""
    is_wanted: Callable[[Rows], bool] = always
    """Whether it has flows, for a table that few specs need and that nothing leads to in others."""
    number: int = -1
    file: str = field(default_factory=_file_of_caller)
    """The module that makes it."""

    @property
    def template_file(self) -> str:
        """Its template, below the folder of all templates."""
        return f"tables/{self.template or self.name}.j2"

    def __post_init__(self) -> None:
        """Refuse a table that lacks what documents it, or has a type of rows of its own and makes none.

        Raises DefinitionError.
        """
        if not self.flows or not all(self.flows.values()):
            empty = ", ".join(shape for shape, text in self.flows.items() if not text)
            what = f"no text for {empty} in flows=" if empty else "no flows="
            raise DefinitionError(
                f"{self.file}: table {self.name} has {what}: say in a sentence what each kind of its flows is for, such as "
                'flows={"udp": "A service of a VIP."}'
            )
        if self.miss == "drop" and not self.drops:
            raise DefinitionError(
                f"{self.file}: table {self.name} drops what none of its flows matches, and has no drops=: say why in a few "
                'words, for metrics, or set miss="next" if such packets go on to the next table'
            )
        if self.traffic is _UNSAID:
            raise DefinitionError(
                f"{self.file}: table {self.name} has no traffic=: say what passes it, of {', '.join(ALL_TRAFFIC)}; "
                "() for nothing"
            )
        if unknown := [repr(kind) for kind in self.traffic if kind not in ALL_TRAFFIC]:
            raise DefinitionError(
                f"{self.file}: table {self.name} has {', '.join(unknown)} in traffic=; expected {', '.join(ALL_TRAFFIC)}"
            )
        own = [kind.__name__ for kind in self.uses.values() if f"{kind.__module__.replace('.', '/')}.py" == self.file]
        if own and self.rows is no_rows:
            raise DefinitionError(
                f"{self.file}: table {self.name} uses rows of type {', '.join(own)}, and nothing makes them: give it rows=, "
                "or rows=rows_of_modes where the forwarding modes make them"
            )
