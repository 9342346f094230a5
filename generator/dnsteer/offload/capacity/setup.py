"""For what capacity is asked: the hardware, its link, and what the spec makes of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dnsteer.offload.capacity.data import TrackingBy
from dnsteer.offload.capacity.frames import Sizes
from dnsteer.offload.capacity.model import Model, all_rows
from dnsteer.offload.capacity.readings import State
from dnsteer.offload.path import Path
from dnsteer.spec.load import Loaded
from dnsteer.spec.model import Flavor, Hardware

LINK_GBPS = 100.0
ARM_CORES = 1
"""Cores that Open vSwitch forwards with when nobody says more: one per NUMA node (DOCA documentation, multi-PMD
configuration), and the cards have one."""


class NoHardwareError(ValueError):
    """Neither the spec nor the caller says for which hardware."""


@dataclass(frozen=True)
class Setup:
    """The hardware and how it is used. *entries* is the number of hardware rules in all."""

    hardware: Hardware
    flavor: Flavor
    link_gbps: float = LINK_GBPS
    arm_cores: int = ARM_CORES
    counters: bool = True
    entries: int = 0
    sizes: Sizes = field(default_factory=Sizes)

    @cached_property
    def model(self) -> Model:
        """What is known of the hardware."""
        return Model(self.hardware, all_rows())

    def state(self, path: Path, frame: float) -> State:
        """What the path's packets meet in the switch."""
        return State(max(1, path.depth), self.entries, self.counters, path.rewrites, path.conntrack, frame)

    def tracker(self, path: Path) -> TrackingBy:
        """Who tracks the path's connections."""
        if not path.conntrack:
            return "none"
        if self.flavor is Flavor.OVS_KERNEL:
            return "ovs-kernel-hw" if path.offloaded == "yes" else "ovs-kernel-sw"
        return "ovs-dpdk-hw" if path.offloaded == "yes" else "ovs-dpdk-sw"


def set_up(
    loaded: Loaded,
    paths: Sequence[Path],
    *,
    hardware: Hardware | None = None,
    arm_cores: int = ARM_CORES,
    counters: bool = True,
    sizes: Sizes | None = None,
) -> Setup:
    """The set-up of a spec whose paths are known. Raises NoHardwareError."""
    switch = loaded.spec.switch
    return Setup(
        hardware=of(loaded, hardware),
        flavor=switch.flavor,
        link_gbps=float(switch.link_gbps or LINK_GBPS),
        arm_cores=arm_cores,
        counters=counters,
        entries=sum(path.rules for path in paths if path.offloaded != "no"),
        sizes=sizes or Sizes(),
    )


def of(loaded: Loaded, hardware: Hardware | None) -> Hardware:
    """The hardware that is asked for, or the spec's. Raises NoHardwareError where there is neither."""
    found = hardware or loaded.spec.switch.hardware
    if found is None:
        known = ", ".join(card.value for card in Hardware)
        raise NoHardwareError(
            f"{loaded.file}: $.switch has no key hardware, and --hardware is not given; known are {known}"
        )
    return found
