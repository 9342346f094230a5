# SPDX-License-Identifier: Apache-2.0
"""Rules that `switch.bringup` must keep: uplinks that exist, each thing once, and nothing that the flavor does not have."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.errors import Finding, Path, near
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.bringup import PAGE_SIZES, BringUp
from dnsteer.spec.model.spec import Flavor

_AT: Path = ("switch", "bringup")
_DPDK = ("hugepages", "memory", "main_core", "dpdk_extra")
_ESWITCH = ("pci", "multiport", "functions")
# What a flavor has no use for, and why.
_NOT_OF: dict[Flavor, dict[str, str]] = {
    Flavor.OVS_DOCA: {},
    Flavor.OVS_DPDK: {},
    Flavor.OVS_NETDEV: {
        **dict.fromkeys(_DPDK, "this flavor does not use DPDK; ovs-dpdk and ovs-doca do"),
        **dict.fromkeys(
            _ESWITCH, "this flavor forwards everything in software; ovs-doca, ovs-dpdk and ovs-kernel offload"
        ),
        "extension_core": "with this flavor bring-up sets up no extension; it runs on its software model, in the lab",
    },
    Flavor.OVS_KERNEL: {
        **dict.fromkeys(_DPDK, "this flavor does not use DPDK; ovs-dpdk and ovs-doca do"),
        "pmd_cores": "with this flavor the kernel forwards; only ovs-dpdk, ovs-doca and ovs-netdev have PMD threads",
    },
}


def check_bringup(scope: Scope) -> Iterator[Finding]:
    """All findings of the part about the machine."""
    part = scope.spec.switch.bringup
    if part is None:
        return
    flavor = scope.spec.switch.flavor
    for key, why in _NOT_OF[flavor].items():
        if key in part.model_fields_set:
            yield scope.finding((*_AT, key), f"the key with flavor {flavor.value}", "no such key with this flavor", why)
    yield from _uplinks(scope, part)
    yield from _memory(scope, part)
    yield from _cores(scope, part)


def _uplinks(scope: Scope, part: BringUp) -> Iterator[Finding]:
    uplinks = uplink_devices(scope.spec.switch)
    places: list[tuple[Path, str]] = [((*_AT, "pci", name), name) for name in part.pci]
    places += [((*_AT, "functions", i, "uplink"), f.uplink) for i, f in enumerate(part.functions)]
    for path, name in places:
        if name not in uplinks:
            yield scope.finding(path, f'"{name}"', "the name of an uplink", near(name, uplinks))
    first: dict[object, Path] = {}
    for name, address in part.pci.items():
        path = (*_AT, "pci", name)
        if first.setdefault(address, path) != path:
            yield scope.finding(
                path,
                f'"{address}" a second time',
                "a physical function of its own for each uplink",
                f"see {scope.where(first[address])}",
            )
    for i, function in enumerate(part.functions):
        path = (*_AT, "functions", i)
        key = (function.uplink, function.number)
        if first.setdefault(key, path) != path:
            yield scope.finding(
                (*path, "number"),
                f"{function.number} a second time on {function.uplink}",
                "a number of its own",
                f"see {scope.where(first[key])}",
            )


def _memory(scope: Scope, part: BringUp) -> Iterator[Finding]:
    if part.memory and not any(part.memory):
        yield scope.finding((*_AT, "memory"), "no memory on any node", "memory on one NUMA node at least")
    pages, most = part.hugepages, max(part.memory, default=0)
    if pages is None or pages.count is None:
        return
    size = PAGE_SIZES[pages.size]
    if pages.count * size < most * 1024:
        yield scope.finding(
            (*_AT, "hugepages", "count"),
            f"{pages.count} pages of {pages.size}",
            f"at least {-(-most * 1024 // size)}, which memory asks for",
            "more pages, or less memory",
        )


def _cores(scope: Scope, part: BringUp) -> Iterator[Finding]:
    seen: set[int] = set()
    for i, core in enumerate(part.pmd_cores):
        if core in seen:
            yield scope.finding((*_AT, "pmd_cores", i), f"core {core} a second time", "each core once")
        seen.add(core)
    if part.main_core in seen:
        yield scope.finding(
            (*_AT, "main_core"),
            f"{part.main_core}, which is among pmd_cores",
            "a core of its own",
            "DPDK's housekeeping would delay packets; leave main_core out if there is no other core",
        )
    if part.extension_core is None:
        return
    if part.extension_core in seen:
        yield scope.finding(
            (*_AT, "extension_core"),
            f"{part.extension_core}, which is among pmd_cores",
            "a core of its own",
            "a PMD thread never gives its core up; leave extension_core out if there is no other core",
        )
    if scope.spec.switch.extension is None and scope.spec.switch.flavor is not Flavor.OVS_NETDEV:
        yield scope.finding(
            (*_AT, "extension_core"),
            "the key without switch.extension",
            "no such key, or switch.extension",
            "it is the core of the extension's program",
        )
