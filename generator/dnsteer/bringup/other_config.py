# SPDX-License-Identifier: Apache-2.0
"""The keys of other_config: their values for one spec, the reason and the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dnsteer.bringup import sources
from dnsteer.bringup.memory import Memory
from dnsteer.card.eswitch import Eswitch
from dnsteer.plan.bridge import ports_of
from dnsteer.plan.sizes import Sizes, flow_limit
from dnsteer.spec.bonds import uplink_devices, uplink_ports
from dnsteer.spec.model.bringup import BringUp
from dnsteer.spec.model.spec import Flavor, Switch

MAX_IDLE = 60_000
FILLED = 80
"""The share of a pipe, in percent, at which OVS-DOCA makes it larger (doca-congestion-threshold)."""
_MIN_PIPE = 64
_MIN_TRACKED, _MAX_TRACKED, _EACH_TRACKED = 4096, 64_000, 1024
_MANY_RULES = 10_000
_NO_DEVICE = "-a 0000:00:00.0"


@dataclass(frozen=True)
class ConfigKey:
    """A key of other_config. *at_start*: Open vSwitch reads it only when it starts."""

    key: str
    value: str
    why: str
    source: str
    at_start: bool = False


def other_config_settings(switch: Switch, sizes: Sizes, memory: Memory, eswitch: Eswitch) -> tuple[ConfigKey, ...]:
    """All keys, in the order in which they are set."""
    part = switch.bringup or BringUp()
    doca, dpdk = switch.flavor is Flavor.OVS_DOCA, switch.flavor is Flavor.OVS_DPDK
    out: list[ConfigKey] = []
    if doca:
        out.append(ConfigKey("doca-init", "true", "the flavor is ovs-doca", sources.DOCA, True))
    if doca or dpdk:
        out += _dpdk(part, memory, doca)
    if switch.flavor is not Flavor.OVS_NETDEV:
        out.append(_offload(switch.flavor))
    if doca:
        out += _doca(switch, sizes, eswitch)
    out += _flows(sizes, switch.flavor)
    if sizes.plain and dpdk:
        why = "plain DNS: hardly a packet has ports that were seen before, so a cache by ports costs and does not help"
        out.append(ConfigKey("emc-insert-inv-prob", "0", why, sources.MEASURED))
    if part.pmd_cores:
        cores = ", ".join(map(str, sorted(part.pmd_cores)))
        source = sources.DOCA_PMD if doca else sources.OVS
        out.append(ConfigKey("pmd-cpu-mask", _mask(part.pmd_cores), f"PMD threads on core {cores}", source, doca))
    return tuple(out)


def _dpdk(part: BringUp, memory: Memory, doca: bool) -> Iterator[ConfigKey]:
    why = (
        "OVS-DOCA needs DPDK; its releases before upstream's set this by themselves"
        if doca
        else "the flavor is ovs-dpdk"
    )
    yield ConfigKey("dpdk-init", "true", why, sources.UPSTREAM_2026 if doca else sources.OVS, True)
    extra = f"{_NO_DEVICE} {part.dpdk_extra}" if part.dpdk_extra else _NO_DEVICE
    why = "DPDK opens no device by itself: each port of the spec names its own"
    why += f"; the rest is {sources.SPEC}" if part.dpdk_extra else ""
    yield ConfigKey("dpdk-extra", extra, why, f"{sources.UPSTREAM_2026}; {sources.HBN}", True)
    if memory.taken:
        taken = ",".join(map(str, memory.taken))
        yield ConfigKey("dpdk-socket-mem", taken, f"MB on each NUMA node: {memory.why}", memory.source, True)
    if part.main_core is not None:
        why = f"DPDK's housekeeping on core {part.main_core}, away from PMD threads"
        yield ConfigKey("dpdk-lcore-mask", _mask([part.main_core]), why, sources.OVS, True)


def _offload(flavor: Flavor) -> ConfigKey:
    by = {
        Flavor.OVS_DOCA: ("DOCA Flow", sources.DOCA),
        Flavor.OVS_DPDK: ("DPDK's rte_flow, where the NIC's driver has it", sources.OVS),
        Flavor.OVS_KERNEL: ("TC flower", sources.OVS),
    }
    how, source = by[flavor]
    return ConfigKey("hw-offload", "true", f"the NIC forwards what it can, by {how}", source, True)


def _doca(switch: Switch, sizes: Sizes, eswitch: Eswitch) -> Iterator[ConfigKey]:
    tracking = _tracking(sizes)
    yield tracking
    if sizes.tracks_ipv6 and tracking.value != "0":
        why = "packets of IPv6 pass the connection tracker, whose connections hardware takes of IPv4 alone otherwise"
        yield ConfigKey("hw-offload-ct-ipv6-enabled", "true", why, sources.SOURCE_2024, True)
    what, rules = sizes.largest
    size = max(_MIN_PIPE, 1 << (-(-rules * 100 // FILLED) - 1).bit_length())
    yield ConfigKey(
        "ctl-pipe-size",
        str(size),
        f"first size of a hardware table: the largest here has {rules:,} rules of one mask ({what}); it would grow when "
        f"{FILLED} % full, and growing holds up the forwarding of new flows",
        f"{sources.SOURCE_2024}; NVIDIA's own values are 64 (HBN) and 1024 (DPF)",
    )
    yield ConfigKey(
        "pmd-quiet-idle",
        "true",
        "queries pass in hardware, so that a PMD thread is idle nearly always; then it rests",
        sources.DPF,
        True,
    )
    uplinks = len(uplink_devices(switch))
    count = uplinks + len(ports_of(switch)) - len(uplink_ports(switch))
    if count > uplinks:
        why = f"{count} ports, each with memory zones of its own; DPDK's own limit is for few"
        yield ConfigKey("dpdk-max-memzones", "50000", why, sources.DPF, True)
    if not eswitch.multiport and uplinks > 1:
        why = f"{uplinks} uplinks, each with an eSwitch of its own"
        yield ConfigKey("doca-eswitch-max", str(uplinks), why, sources.SPECTRUM_X, True)


def _tracking(sizes: Sizes) -> ConfigKey:
    key = "hw-offload-ct-size"
    if sizes.hashed:
        why = (
            f"pool {sizes.hashed[0]} selects by dp-hash, whose rules are refused while connection tracking is offloaded"
        )
        return ConfigKey(key, "0", why, f"{sources.SOURCE_2024}; {sources.SUITE}", True)
    if sizes.kept:
        why = f"the connections of VIPs that keep them, of which the tracker remembers at most {sizes.kept:,}"
        return ConfigKey(key, str(max(_MIN_TRACKED, sizes.kept)), why, f"{sources.OURS}; {sources.DOCA_ISSUE}", True)
    if sizes.listed and not sizes.tracked:
        why = (
            "queries pass the connection tracker, which keeps no connection of them, for access lists or limits of clients; "
            "before DOCA 3.0, 0 with such flows can crash Open vSwitch"
        )
        return ConfigKey(key, str(_MIN_TRACKED), why, f"{sources.OURS}; {sources.DOCA_ISSUE}", True)
    if sizes.recirculated and not sizes.tracked:
        why = (
            f"queries to pool {sizes.recirculated[0]} pass the connection tracker, which keeps no connection of them, into "
            "their second pass (passes: 2); before DOCA 3.0, 0 with such flows can crash Open vSwitch"
        )
        return ConfigKey(key, str(_MIN_TRACKED), why, f"{sources.OURS}; {sources.DOCA_ISSUE}", True)
    if not sizes.tracked:
        why = "no flow of this spec tracks connections; the memory is better used"
        return ConfigKey(key, "0", why, f"{sources.OURS}; {sources.BLUEFIELD} says 0 as well", True)
    count = min(_MAX_TRACKED, max(_MIN_TRACKED, _EACH_TRACKED * sizes.tracked))
    why = (
        f"fragments of IPv4 answers of {sizes.tracked} backend addresses pass the connection tracker (fragments: restore); "
        "fragments themselves are not offloaded, so few connections are enough; before DOCA 3.0, 0 with such flows can "
        "crash Open vSwitch"
    )
    return ConfigKey(key, str(count), why, f"{sources.OURS}; {sources.DOCA_ISSUE}", True)


def _flows(sizes: Sizes, flavor: Flavor) -> Iterator[ConfigKey]:
    limit = flow_limit(sizes.total)
    why = f"{sizes.total:,} flows carry all clients, and as many again while slots move; the rest is for packets to no VIP"
    note = " (read at the start, and the number of counters)" if flavor is Flavor.OVS_DOCA else ""
    source = sources.UPSTREAM_2026 if flavor is Flavor.OVS_DOCA else sources.OVS
    yield ConfigKey("flow-limit", str(limit), why + note, source, flavor is Flavor.OVS_DOCA)
    if flavor is Flavor.OVS_NETDEV:
        return
    yield ConfigKey(
        "max-idle",
        str(MAX_IDLE),
        "ms: a slot that gets one query a minute stays in hardware; all slots together are never more than the flows above",
        f"{sources.HBN}; {sources.DPF} has 20000",
    )
    many = sizes.total > _MANY_RULES
    why = "ms: counters of offloaded flows may be 2000 ms old anyway (offloaded-stats-delay); more often tells no more"
    if many:
        why = f"ms: so often at least the counters of {sizes.total:,} rules are read; more often keeps the NIC busy with it"
    yield ConfigKey("max-revalidator", "5000" if many else "2000", why, sources.DPF if many else sources.OVS)


def _mask(cores: list[int]) -> str:
    return f"{sum(1 << core for core in cores):#x}"
