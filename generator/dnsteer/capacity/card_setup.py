# SPDX-License-Identifier: Apache-2.0
"""The setup that capacity is computed for: the hardware, its link, and how the spec uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dnsteer.capacity.frame_sizes import TAG, DnsSizes
from dnsteer.capacity.model import Model, all_rows
from dnsteer.capacity.paths import rules_together
from dnsteer.capacity.readings import SwitchState
from dnsteer.card.published import TrackingBy
from dnsteer.offload.packet_path import PacketPath
from dnsteer.plan.build import build_plan
from dnsteer.plan.extension.pipes import entries, pipes_of
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Flavor, Hardware
from dnsteer.spec.networks import has_vlans

LINK_GBPS = 100.0
ARM_CORES = 1
"""Cores that Open vSwitch forwards with by default: one per NUMA node (DOCA documentation, multi-PMD configuration), and
the cards have one node."""


class NoHardwareError(ValueError):
    """Neither the spec nor the caller names the hardware."""


@dataclass(frozen=True)
class CardSetup:
    """The hardware and how it is used. *entries*: all hardware rules, including entries of the extension's pipes."""

    hardware: Hardware
    flavor: Flavor
    link_gbps: float = LINK_GBPS
    arm_cores: int = ARM_CORES
    counters: bool = True
    entries: int = 0
    sizes: DnsSizes = field(default_factory=DnsSizes)

    @cached_property
    def model(self) -> Model:
        return Model(self.hardware, all_rows())

    def states(self, path: PacketPath, frame: float) -> list[SwitchState]:
        """Return the switch's state for each pass of the path's packets: one, or one for each hop with the extension."""
        states = [(hop.tables, hop.rewrites) for hop in path.hops] or [(path.depth, path.rewrites)]
        return [
            SwitchState(max(1, depth), self.entries, self.counters, rewrites, path.conntrack, frame)
            for depth, rewrites in states
        ]

    def state(self, path: PacketPath, frame: float) -> SwitchState:
        """Return the state of the pass with the most tables."""
        return max(self.states(path, frame), key=lambda state: state.depth)

    def tracker(self, path: PacketPath) -> TrackingBy:
        """Return which connection tracker the path's packets use."""
        if not path.conntrack:
            return "none"
        if self.flavor is Flavor.OVS_KERNEL:
            return "ovs-kernel-hw" if path.offloaded == "yes" else "ovs-kernel-sw"
        return "ovs-dpdk-hw" if path.offloaded == "yes" else "ovs-dpdk-sw"


def card_setup(
    loaded: Loaded,
    paths: Sequence[PacketPath],
    *,
    hardware: Hardware | None = None,
    flavor: Flavor | None = None,
    arm_cores: int = ARM_CORES,
    counters: bool = True,
    sizes: DnsSizes | None = None,
) -> CardSetup:
    """Return the setup of a spec with the given paths. Without *hardware* or *flavor* the spec's own is used.

    Raises NoHardwareError as hardware_of does.
    """
    switch = loaded.spec.switch
    return CardSetup(
        hardware=hardware_of(loaded, hardware),
        flavor=flavor or switch.flavor,
        link_gbps=float(switch.link_gbps or LINK_GBPS),
        arm_cores=arm_cores,
        counters=counters,
        entries=rules_together(loaded.spec, (path for path in paths if path.offloaded != "no"))
        + _extension_entries(loaded, paths),
        sizes=replace(sizes or DnsSizes(), tag=TAG if has_vlans(loaded.spec) else 0),
    )


def _extension_entries(loaded: Loaded, paths: Sequence[PacketPath]) -> int:
    """Return the entries of the extension's pipes; 0 if no offloaded path goes through the extension."""
    if not any(path.hops and path.offloaded != "no" for path in paths):
        return 0
    part = build_plan(loaded).extension
    return entries(pipes_of(part)) if part is not None else 0


def hardware_of(loaded: Loaded, hardware: Hardware | None) -> Hardware:
    """Return *hardware*, or the spec's if it is None. Raises NoHardwareError if neither is given."""
    found = hardware or loaded.spec.switch.hardware
    if found is None:
        known = ", ".join(card.value for card in Hardware)
        raise NoHardwareError(
            f"{loaded.file}: $.switch has no key hardware, and --hardware is not given; known are {known}"
        )
    return found
