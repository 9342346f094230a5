"""What a running switch does by its record: the spec that is applied and who is out, and whether its tables are those."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.deploy.settle import as_settled, load_state
from dnsteer.deploy.target_switch import WAITS, Switch
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.record import Record
from dnsteer.switch.state import State
from dnsteer.switch.tools import SwitchError, UnavailableError


@dataclass(frozen=True)
class Live:
    """The state of a bridge that is applied, and the overlay on it. *name* is the switch's; *warnings* are for people."""

    bridge: str
    name: str
    state: State
    loaded: Loaded
    overlay: Overlay
    warnings: tuple[str, ...]


def read_live(switch: Switch, bridge: str | None) -> Live:
    """Read the record of the bridge, or of the only one there is; of a change that was cut off, the side the tables are on.

    Raises SwitchError when no state is recorded or the record is damaged, UnavailableError when the switch cannot be
    reached. Changes nothing.
    """
    warnings = []
    with Record(switch.remote, switch.timeout) as record:
        standing = as_settled(switch, record.the_bridge(bridge))
        if not standing.number:
            raise SwitchError(f"{standing.bridge}: no state is recorded; apply the spec with this version of dnsteer")
        state, overlay = record.state(standing, standing.number), standing.overlay
    try:
        if switch.client(standing.bridge).marker() != standing.marker:
            warnings.append(
                "the tables are not what the record says: packets may go elsewhere; dnsteer restore makes them that again"
            )
    except UnavailableError as err:
        warnings.append(f"whether the tables are what the record says is not known: {err}")
    if standing.waits:
        warnings.append(WAITS)
    return Live(standing.bridge, standing.name, state, load_state(state), overlay, tuple(warnings))
