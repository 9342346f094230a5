# SPDX-License-Identifier: Apache-2.0
"""All that bring-up sets up for a spec, with notes for the operator: templates render it, the check compares with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dnsteer import __version__
from dnsteer.bringup.memory import Memory, memory_of
from dnsteer.bringup.other_config import ConfigKey, other_config_settings
from dnsteer.card.eswitch import Eswitch, eswitch_of
from dnsteer.plan import min_fragment
from dnsteer.plan.bridge import WantedBridge, wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import Sizes, sizes_of
from dnsteer.render.program import program_text
from dnsteer.spec import derived
from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.bringup import BringUp
from dnsteer.spec.model.spec import Flavor, Hardware, Switch


@dataclass(frozen=True)
class Setup:
    """What the machine needs. *file* is the spec's name, *notes* what the operator should know or supply.

    *program* is what the extension starts with; empty where nothing of it is to be set up. *min_fragment* are the bytes
    from which on the connection tracker must take an IPv4 fragment; None where no answers pass it.
    """

    file: str
    switch: Switch
    part: BringUp
    bridge: WantedBridge
    sizes: Sizes
    memory: Memory
    eswitch: Eswitch
    settings: tuple[ConfigKey, ...]
    notes: tuple[str, ...]
    program: str = ""
    min_fragment: int | None = None

    @property
    def flavor(self) -> Flavor:
        return self.switch.flavor


def setup_of(loaded: Loaded) -> Setup:
    """What a valid spec needs of its machine."""
    spec = loaded.spec
    switch, part = spec.switch, spec.switch.bringup or BringUp()
    plan = build_plan(loaded)
    sizes = sizes_of(spec, plan)
    memory, eswitch = memory_of(switch), eswitch_of(switch, sizes)
    file, program = Path(loaded.file).name, ""
    if plan.extension is not None and switch.flavor is not Flavor.OVS_NETDEV:
        about = f"Program of the extension for {file}, by dnsteer bringup {__version__}; spec digest {plan.digest[:16]}"
        program = program_text(plan.extension, about)
    return Setup(
        file,
        switch,
        part,
        wanted_bridge(spec),
        sizes,
        memory,
        eswitch,
        other_config_settings(switch, sizes, memory, eswitch),
        tuple(notes_of(switch, sizes, eswitch)),
        program,
        min_fragment.required_size(plan, wanted_bridge(spec).datapath_type),
    )


COUNTERS_2024 = 65_536
"""Rules that a release of 2024 has counters for."""


def notes_of(switch: Switch, sizes: Sizes, eswitch: Eswitch) -> Iterator[str]:
    """The notes on a switch."""
    yield from _functions(eswitch)
    yield from _extension(switch, eswitch)
    if switch.flavor in (Flavor.OVS_DOCA, Flavor.OVS_DPDK):
        yield from _threads(switch)
    if switch.flavor is not Flavor.OVS_DOCA:
        return
    if switch.hardware in (Hardware.BLUEFIELD_2, Hardware.BLUEFIELD_3):
        yield (
            "a BlueField's own configuration (mlnx_bf_configure) puts the uplinks on bridges of its own at boot: set "
            'CREATE_OVS_BRIDGES="no" and OVS_DOCA="yes" in /etc/mellanox/mlnx-ovs.conf'
        )
    if sizes.hashed and sizes.tracked:
        yield (
            f"pool {sizes.hashed[0]} needs hw-offload-ct-size 0, and fragments: restore needs the connection tracker: "
            "before DOCA 3.0 both together can crash Open vSwitch (issue 4287011); set fragments: drop, or "
            "selection: source-port"
        )
    if sizes.hashed and sizes.kept:
        yield (
            f"pool {sizes.hashed[0]} needs hw-offload-ct-size 0, and keep: connections needs the connection tracker: before "
            "DOCA 3.0 both together can crash Open vSwitch (issue 4287011); leave keep out, or set selection: source-port"
        )
    if sizes.hashed and sizes.recirculated:
        yield (
            f"pool {sizes.hashed[0]} needs hw-offload-ct-size 0, and pool {sizes.recirculated[0]} passes the connection "
            "tracker: before DOCA 3.0 both together can crash Open vSwitch (issue 4287011); set passes: 1, or "
            "selection: source-port"
        )
    if sizes.hashed and sizes.listed:
        yield (
            f"pool {sizes.hashed[0]} needs hw-offload-ct-size 0, and access lists and limits of clients need the connection "
            "tracker: before DOCA 3.0 both together can crash Open vSwitch (issue 4287011); leave them out, or set "
            "selection: source-port"
        )
    if sizes.total > COUNTERS_2024:
        yield (
            f"{sizes.total:,} rules are more than the {COUNTERS_2024:,} that a release of 2024 has counters for: use a "
            "newer one, or fewer slots"
        )


def _functions(eswitch: Eswitch) -> Iterator[str]:
    if not eswitch.needed:
        return
    unknown = [name for name, address in eswitch.functions.items() if not address]
    if unknown:
        yield (
            f"the PCI address of {', '.join(unknown)} is not in the spec (switch.bringup.pci): it is taken from the network "
            "interface of that name, for which the scripts wait"
        )
    if eswitch.multiport and len(eswitch.cards) > 1:
        yield (
            f"the uplinks are on {len(eswitch.cards)} NICs ({', '.join(eswitch.cards)}): multiport joins the functions of "
            "one NIC only, so that what goes from one NIC to the other is forwarded by the CPU"
        )
    if eswitch.multiport:
        yield "multiport needs the firmware setting LAG_RESOURCE_ALLOCATION=1 (mlxconfig, then a power cycle)"
    if eswitch.scalable:
        yield (
            "scalable functions need the firmware settings PF_BAR2_ENABLE=0 PER_PF_NUM_SF=1 PF_TOTAL_SF and PF_SF_BAR_SIZE "
            "(mlxconfig, then a power cycle)"
        )


def _extension(switch: Switch, eswitch: Eswitch) -> Iterator[str]:
    if switch.extension is None:
        return
    if switch.flavor is Flavor.OVS_NETDEV:
        yield (
            "flavor ovs-netdev has no scalable functions: the extension runs there on its software model, in the lab "
            "(dnsteer lab), and nothing of it is set up here"
        )
        return
    places = ", ".join(f"{f.role}: function {f.number} of {f.uplink}" for f in eswitch.scalable if f.role)
    yield f"the extension opens two trusted scalable functions ({places}); none of it has run on a BlueField"


def _threads(switch: Switch) -> Iterator[str]:
    part = switch.bringup or BringUp()
    if not part.pmd_cores:
        yield (
            "pmd_cores is not given: Open vSwitch starts one PMD thread on each NUMA node that has a port, on a core that "
            "it chooses"
        )
        return
    kind = derived.INTERFACE_TYPE[switch.flavor]
    single = [n for n, p in uplink_devices(switch).items() if (p.type or kind) == "dpdk" and "n_rxq" not in p.options]
    if len(part.pmd_cores) > 1 and single:
        yield (
            f"there are {len(part.pmd_cores)} PMD cores, and uplink {single[0]} has one receive queue, which one core "
            f"serves: options: {{n_rxq: {len(part.pmd_cores)}}}"
        )
