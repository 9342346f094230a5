"""All that bring-up sets up for a spec, as one value: templates render it, the check compares with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dnsteer import __version__
from dnsteer.bringup.memory import Memory, memory_of
from dnsteer.bringup.notes import notes_of
from dnsteer.bringup.other_config import ConfigKey, other_config_settings
from dnsteer.card.eswitch import Eswitch, eswitch_of
from dnsteer.plan import min_fragment
from dnsteer.plan.bridge import WantedBridge, wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import Sizes, sizes_of
from dnsteer.render.program import program_text
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.bringup import BringUp
from dnsteer.spec.model.spec import Flavor, Switch


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
        """The flavor of Open vSwitch."""
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
