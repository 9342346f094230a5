# SPDX-License-Identifier: Apache-2.0
"""The match of a datapath flow by field, each with value and mask, in one form for all kinds of fields."""

from __future__ import annotations

import ipaddress
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ovs.flow import odp
from ovs.flow.decoders import EthMask, IPMask
from ovs.flow.kv import KVDecoders, KVParser


class _Address(IPMask):  # type: ignore[misc]
    """The library's address and mask, with the text: it reads a mask such as 0.0.0.255 as a host mask."""

    def __init__(self, string: str) -> None:
        super().__init__(string)
        self.text = string


odp.IPMask = _Address  # before the library makes its decoders, which it does at the first flow

FLAGS: dict[str, tuple[str, ...]] = {
    "ct_state": ("new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"),
    "tcp_flags": ("fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"),
    "tunnel.flags": ("oam", "df", "csum", "key"),
}
"""Fields that are printed as flags, and the flags' names from bit 0 on."""
FRAGMENT_BITS = 2
"""A fragment field has two bits: whether the packet is a fragment, and whether a later one."""

_WIDTHS = {"in_port": 32, "recirc_id": 32, "tunnel.vxlan.flags": 8, "tunnel.vxlan.vni": 24}
_SIGNED = re.compile(r"([+-])([a-z]+|0x[0-9a-f]+)")
_MASKED = re.compile(r"(0x[0-9a-f]+|\d+)/(0x[0-9a-f]+|\d+)\Z")
"""A value and its mask, as text: of a field that the library does not know, such as OVS-DOCA's nv_mp_pid(0/0)."""
_STRICT = threading.Lock()


@contextmanager
def every_name_is_known() -> Iterator[None]:
    """Make the library accept fields and actions that it does not know, with their content as text.

    Switches know names that the library does not: newer ones, and those of vendors.
    """
    with _STRICT:
        strict, KVDecoders.strict = getattr(KVDecoders, "strict", True), False
        try:
            yield
        finally:
            KVDecoders.strict = strict


@dataclass(frozen=True, order=True)
class Field:
    """A matched (or written) field under the datapath's name, such as `ipv4.src`.

    *value* is a number where the field is one (addresses too), text where it is not (ports, fragments), and of tunnel
    options their number; *mask* are the matched bits of the field's *bits*. *shown* is the value as people write it.
    """

    key: str
    value: int | str
    mask: int
    bits: int
    shown: str = ""

    @property
    def exact(self) -> bool:
        """Whether every bit is matched."""
        return self.mask == (1 << self.bits) - 1

    @property
    def plus(self) -> frozenset[str]:
        """For flag fields: the flags that must be set."""
        return self._flags(int(self.value) & self.mask if isinstance(self.value, int) else 0)

    @property
    def flags(self) -> frozenset[str]:
        """For flag fields: the flags that are matched, set or not."""
        return self._flags(self.mask)

    def _flags(self, bits: int) -> frozenset[str]:
        return frozenset(name for i, name in enumerate(FLAGS.get(self.key, ())) if bits >> i & 1)

    def __str__(self) -> str:
        return f"{self.key}={self.shown}" + ("" if self.exact else f"/0x{self.mask:x}")


def fields_of(match: Mapping[str, Any]) -> Iterator[Field]:
    """Return the fields of a parsed match in its order, without fully wildcarded ones.

    Of a tagged packet, the fields behind the tag keep their names, the tag's are `vlan.tpid`, `vlan.vid`, `vlan.pcp`, and
    those of a second tag `vlan2.*`. Raises ValueError or ParseError when a value is not one that the datapath prints.
    """
    return _fields(match, 1)


def _fields(match: Mapping[str, Any], tag: int) -> Iterator[Field]:
    vlan = "vlan" if tag == 1 else f"vlan{tag}"
    for name, value in match.items():
        if name == "encap":
            yield from _fields(_inside(value), tag + 1)
        elif name == "eth_type" and "encap" in match:
            yield from _flat(f"{vlan}.tpid", value)
        else:
            yield from _flat(vlan if name == "vlan" else name, value)


def _inside(value: Any) -> Mapping[str, Any]:
    """Return the content of an `encap()`. The library leaves nested ones as text."""
    if isinstance(value, str):
        parser = KVParser(value, odp.ODPFlow.match_decoders())
        parser.parse()
        return {kv.key: kv.value for kv in parser.kv()}
    return value if isinstance(value, Mapping) else {}


def _flat(key: str, value: Any) -> Iterator[Field]:
    if key == "packet_type" and isinstance(value, Mapping):
        space, kind = value["ns"], value["id"]
        mask = space.mask << 16 | kind.mask
        if mask:
            yield Field(key, space.value << 16 | kind.value, mask, 32, f"({space.value},0x{kind.value:x})")
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}", inner)
        return
    field = _field(key, value)
    if field.mask:
        yield field


def _field(key: str, value: Any) -> Field:
    if isinstance(value, IPMask):
        text, slash, mask = getattr(value, "text", f"{value.ip}/{value.mask}").partition("/")
        address = ipaddress.ip_address(text)
        whole = (1 << address.max_prefixlen) - 1
        bits = (
            whole
            if not slash
            else int(ipaddress.ip_address(mask))
            if not mask.isdigit()
            else whole & ~(whole >> int(mask))
        )
        return Field(key, int(address), bits, address.max_prefixlen, str(address))
    if isinstance(value, EthMask):
        mask = int(value.mask) if value.mask is not None else 2**48 - 1
        return Field(key, int(value.eth), mask, 48, ":".join(f"{b:02x}" for b in int(value.eth).to_bytes(6, "big")))
    if key in FLAGS:
        return _flags_field(key, str(value))
    if key.endswith(".frag"):
        return Field(key, str(value), 2**FRAGMENT_BITS - 1, FRAGMENT_BITS, str(value))
    if hasattr(value, "max_mask"):
        return Field(key, value.value, value.mask, value.size, str(value.value))
    if isinstance(value, list):  # options of a tunnel
        return Field(key, len(value), 1, 1, "; ".join(map(str, value))) if value else Field(key, 0, 0, 1)
    width = _WIDTHS.get(key, 32)
    if isinstance(value, bool):
        return Field(key, "", 0, width)  # a name without content, such as eth()
    masked = _MASKED.match(value) if isinstance(value, str) else None
    if masked:
        number, mask = (int(part, 16 if part.startswith("0x") else 10) for part in masked.groups())
        return Field(key, number, mask, max(width, mask.bit_length()), masked[1])
    return Field(key, value if isinstance(value, int) else str(value), 2**width - 1, width, str(value))


def _flags_field(key: str, text: str) -> Field:
    names = FLAGS[key]
    bits = len(names)

    def bit(name: str) -> int:
        return int(name, 16) if name.startswith("0x") else 1 << names.index(name)

    value, slash, mask = text.partition("/")
    if slash or text[:1].isdigit():
        return Field(key, int(value, 0), int(mask, 0) if slash else 2**bits - 1, bits, value)
    if text[:1] in ("+", "-"):
        signs = _SIGNED.findall(text)
        on = sum(bit(name) for sign, name in signs if sign == "+")
        return Field(key, on, on | sum(bit(name) for sign, name in signs if sign == "-"), bits, text)
    return Field(key, sum(bit(name) for name in text.split("|") if name), 2**bits - 1, bits, text)
