# SPDX-License-Identifier: Apache-2.0
"""Huge pages and DPDK's memory: their size, their NUMA node, and the reason."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.bringup import sources
from dnsteer.spec.model.bringup import PAGE_SIZES, BringUp, Hugepages
from dnsteer.spec.model.spec import Flavor, Hardware, Switch

_MBUFS, _FEW_MBUFS = 262_144, 16_384
"""Packet buffers of a pool that ports share, from an MTU of 1500 on and below."""
_USUAL_MTU = 1500
_OWN_MB = 128
"""What DPDK takes beside the packet buffers: queues and tables."""

# What NVIDIA reserves for OVS-DOCA, in MB.
_DOCA_MB: dict[Hardware | None, tuple[int, str, str]] = {
    None: (8192, "4096 pages of 2 MB, as the documentation asks", sources.DOCA),
    Hardware.BLUEFIELD_3: (6144, "3072 pages of 2 MB, as NVIDIA's DPF gives a BlueField-3", sources.DPF),
    Hardware.BLUEFIELD_2: (1024, "512 pages of 2 MB, as BlueField's own configuration reserves", sources.BLUEFIELD),
}


_ACTION_BYTES = 128
"""Memory that the extension's program asks for each entry with actions (datapath_ext/src/flow.c)."""


@dataclass(frozen=True)
class HugePageReservation:
    """Huge pages of one NUMA node: the size of a page in kB, and how many there must be at least."""

    node: int
    size: int
    count: int
    why: str
    source: str


@dataclass(frozen=True)
class Memory:
    """What Open vSwitch takes at its start on each node, in MB (empty: as it needs), and the pages for it."""

    taken: tuple[int, ...]
    why: str
    source: str
    pages: tuple[HugePageReservation, ...]


def buffer_bytes(mtu: int) -> int:
    """Size of a packet buffer of OVS-DPDK: the frame with two VLAN tags in whole kB, head room and bookkeeping."""
    return -(-(mtu + 26) // 1024) * 1024 + 960


def memory_of(switch: Switch) -> Memory:
    """The memory of a switch, and of its extension; none where neither has DPDK."""
    part = switch.bringup or BringUp()
    pages = part.hugepages or Hugepages()
    extension, extended = _extension(switch)
    if switch.flavor not in (Flavor.OVS_DOCA, Flavor.OVS_DPDK):
        own = (
            HugePageReservation(0, PAGE_SIZES[pages.size], _pages_for(extension, pages), extended, sources.EXTENSION),
        )
        return Memory((), "", "", own if extension else ())
    doca = switch.flavor is Flavor.OVS_DOCA
    if part.memory:
        taken, why, source = tuple(part.memory), f"{_list(part.memory)} MB by node", sources.SPEC
    elif doca:
        taken, why, source = (), "", ""
    else:
        mb, why = _buffers(part.mtu or _USUAL_MTU)
        taken, source = (mb,), sources.OVS_MEMORY
    found = _pages(switch, pages, taken, why, source)
    if extension and pages.count is None:
        first = found[0]
        source = f"{first.source}; {sources.EXTENSION}"
        more = _pages_for(extension, pages)
        found = (
            HugePageReservation(first.node, first.size, first.count + more, f"{first.why}; {extended}", source),
            *found[1:],
        )
    return Memory(taken, why, source, found)


def _pages_for(mb: int, pages: Hugepages) -> int:
    return -(-mb * 1024 // PAGE_SIZES[pages.size])


def _extension(switch: Switch) -> tuple[int, str]:
    """Memory for the extension's program, in MB, in steps of 256, and the calculation; 0 where there is none."""
    if switch.extension is None or switch.flavor is Flavor.OVS_NETDEV:
        return 0, ""
    budgets = switch.extension.budgets
    least = (2 * budgets.slot_entries + 2 * budgets.backend_entries + budgets.vips) * _ACTION_BYTES
    each = 1 << (least - 1).bit_length()
    mb = -(-(2 * (each >> 20) + _OWN_MB) // 256) * 256
    return mb, f"{mb} MB for the extension: {each >> 20} MB of actions at each of its ports, and DPDK's own"


def _pages(
    switch: Switch, pages: Hugepages, taken: tuple[int, ...], why: str, source: str
) -> tuple[HugePageReservation, ...]:
    size = PAGE_SIZES[pages.size]
    if not taken:
        mb, why, source = _DOCA_MB[switch.hardware]
        taken = (mb,)
    out = []
    for node, mb in enumerate(taken):
        count = -(-mb * 1024 // size)
        if pages.count is not None:
            count, why, source = pages.count, f"{pages.count} pages", sources.SPEC
        if mb:
            out.append(HugePageReservation(node, size, count, why, source))
    return tuple(out)


def _buffers(mtu: int) -> tuple[int, str]:
    """Memory for the packet buffers of ports with *mtu* in MB, in steps of 256, and the calculation."""
    count, each = _MBUFS if mtu >= _USUAL_MTU else _FEW_MBUFS, buffer_bytes(mtu)
    need = -(-count * each // 2**20)
    mb = -(-(need + _OWN_MB) // 256) * 256
    return mb, f"{count:,} packet buffers of {each} bytes for an MTU of {mtu} are {need} MB, and DPDK's own"


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
