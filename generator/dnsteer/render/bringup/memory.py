"""Huge pages and DPDK's memory: how much, on which NUMA node, and why."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.render.bringup import sources
from dnsteer.spec.bringup import PAGE_SIZES, BringUp, Hugepages
from dnsteer.spec.model import Flavor, Hardware, Switch

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


@dataclass(frozen=True)
class Pages:
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
    pages: tuple[Pages, ...]


def buffer_bytes(mtu: int) -> int:
    """Size of a packet buffer of OVS-DPDK: the frame with two VLAN tags in whole kB, head room and bookkeeping."""
    return -(-(mtu + 26) // 1024) * 1024 + 960


def memory_of(switch: Switch) -> Memory:
    """The memory of a switch; none where its flavor has no DPDK."""
    if switch.flavor not in (Flavor.OVS_DOCA, Flavor.OVS_DPDK):
        return Memory((), "", "", ())
    part = switch.bringup or BringUp()
    pages = part.hugepages or Hugepages()
    doca = switch.flavor is Flavor.OVS_DOCA
    if part.memory:
        taken, why, source = tuple(part.memory), f"{_list(part.memory)} MB by node", sources.SPEC
    elif doca:
        taken, why, source = (), "", ""
    else:
        mb, why = _buffers(part.mtu or _USUAL_MTU)
        taken, source = (mb,), sources.OVS_MEMORY
    return Memory(taken, why, source, _pages(switch, pages, taken, why, source))


def _pages(switch: Switch, pages: Hugepages, taken: tuple[int, ...], why: str, source: str) -> tuple[Pages, ...]:
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
            out.append(Pages(node, size, count, why, source))
    return tuple(out)


def _buffers(mtu: int) -> tuple[int, str]:
    """Memory for the packet buffers of ports with *mtu* in MB, in steps of 256, and the calculation."""
    count, each = _MBUFS if mtu >= _USUAL_MTU else _FEW_MBUFS, buffer_bytes(mtu)
    need = -(-count * each // 2**20)
    mb = -(-(need + _OWN_MB) // 256) * 256
    return mb, f"{count:,} packet buffers of {each} bytes for an MTU of {mtu} are {need} MB, and DPDK's own"


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
