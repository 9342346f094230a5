# SPDX-License-Identifier: Apache-2.0
"""Memory and cores: huge pages, their file system, and cores for PMD threads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dnsteer.bringup.inspection.machine import Item, Machine
from dnsteer.bringup.memory import HugePageReservation
from dnsteer.bringup.setup import Setup
from dnsteer.spec.model.bringup import PAGE_SIZES

_SCRIPT = "run 10-hugepages.sh"


def inspect_memory(machine: Machine, setup: Setup, running: bool) -> Iterator[Item]:
    """The items of memory and cores; *running* tells whether ovs-vswitchd runs, and so has its pages already."""
    for pages in setup.memory.pages:
        yield _pages(machine, pages, running)
    if setup.memory.pages:
        yield _total(machine, setup)
        yield _mounted(machine, setup.memory.pages[0].size)
    yield from _cores(machine, setup)


def _pages(machine: Machine, pages: HugePageReservation, running: bool) -> Item:
    """Pages of a node. While no switch runs, pages in use belong to other programs."""
    name = f"huge pages, node {pages.node}"
    folder = f"/sys/devices/system/node/node{pages.node}/hugepages/hugepages-{pages.size}kB"
    if not machine.exists(folder) and pages.node == 0:
        folder = f"/sys/kernel/mm/hugepages/hugepages-{pages.size}kB"
    have, free = machine.number(f"{folder}/nr_hugepages"), machine.number(f"{folder}/free_hugepages")
    if have is None:
        sizes = ", ".join(n.removeprefix("hugepages-") for n in machine.names("/sys/kernel/mm/hugepages")) or "none"
        todo = "set switch.bringup.hugepages to a size that the machine has, and memory to its NUMA nodes"
        return Item(name, "missing", f"no pages of {pages.size} kB; sizes here: {sizes}", todo)
    found = f"{have} of {pages.count} pages of {pages.size} kB" + ("" if free is None else f", {free} free")
    if have >= pages.count and (running or free is None or free >= pages.count):
        return Item(name, "ok", found)
    todo = f"{_SCRIPT}, or reserve them at boot: hugepagesz={pages.size}K hugepages={pages.count}"
    return Item(name, "missing", found, todo)


def _total(machine: Machine, setup: Setup) -> Item:
    found = re.search(r"^MemTotal:\s+(\d+) kB", machine.text("/proc/meminfo") or "", re.M)
    if found is None:
        return Item("memory", "unknown", "/proc/meminfo cannot be read")
    total, need = int(found[1]) // 1024, sum(p.size * p.count for p in setup.memory.pages) // 1024
    text = f"{total} MB, of which {need} MB for huge pages"
    if need > total * 3 // 4:
        return Item("memory", "missing", text, "fewer pages: switch.bringup.hugepages.count, or memory")
    return Item("memory", "ok", text)


def _mounted(machine: Machine, size: int) -> Item:
    name = next(n for n, kb in PAGE_SIZES.items() if kb == size)
    mounts = machine.text("/proc/mounts")
    if mounts is None:
        return Item("hugetlbfs", "unknown", "/proc/mounts cannot be read")
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) > 3 and parts[2] == "hugetlbfs" and f"pagesize={name}" in parts[3].split(","):
            return Item("hugetlbfs", "ok", f"pages of {name} at {parts[1]}")
    return Item("hugetlbfs", "missing", f"none with pages of {name}", _SCRIPT)


def _cores(machine: Machine, setup: Setup) -> Iterator[Item]:
    single = (setup.part.main_core, setup.part.extension_core)
    wanted = sorted({*setup.part.pmd_cores, *(core for core in single if core is not None)})
    if not wanted:
        return
    online = cores_in(machine.text("/sys/devices/system/cpu/online"))
    if online is None:
        yield Item("cores", "unknown", "/sys/devices/system/cpu/online cannot be read")
        return
    gone = [core for core in wanted if core not in online]
    if gone:
        todo = "name cores of this machine in switch.bringup.pmd_cores, main_core and extension_core"
        yield Item("cores", "missing", f"no core {', '.join(map(str, gone))}; there are {_ranges(online)}", todo)
        return
    alone = cores_in(machine.text("/sys/devices/system/cpu/isolated")) or set()
    shared = [core for core in setup.part.pmd_cores if core not in alone]
    others = (
        f"; {', '.join(map(str, shared))} not isolated (isolcpus), so other processes may run there" if shared else ""
    )
    yield Item("cores", "ok", ", ".join(map(str, wanted)) + others)


def cores_in(text: str | None) -> set[int] | None:
    """The cores of a list such as 0-3,5; None when it is no such list."""
    if text is None or not re.fullmatch(r"(\d+(-\d+)?(,\d+(-\d+)?)*)?", text):
        return None
    out: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        out.update(range(int(first), int(last or first) + 1))
    return out


def _ranges(cores: set[int]) -> str:
    return f"{min(cores)} to {max(cores)}" if len(cores) > 1 else ", ".join(map(str, cores)) or "none"
