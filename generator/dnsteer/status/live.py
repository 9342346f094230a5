"""A running switch by its record: the applied spec, its maintenance, and whether the tables match."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.settle import as_settled
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.state import NOT_FORWARDING, AppliedState
from dnsteer.switch.tools import SwitchError, UnavailableError


@dataclass(frozen=True)
class Live:
    """The state of a bridge that is applied, and the overlay on it. *name* is the switch's; *warnings* are for people."""

    bridge: str
    name: str
    state: AppliedState
    loaded: Loaded
    overlay: Overlay
    warnings: tuple[str, ...]


def read_live(switch: TargetSwitch, bridge: str | None) -> Live:
    """Read the record of the bridge, or of the only one; of a pending change, the side that the tables are on.

    Raises SwitchError when no state is recorded or the record is damaged, UnavailableError when the switch cannot be
    reached. Changes nothing.
    """
    warnings = []
    with switch.session() as session:
        record = as_settled(switch, session.record_of(bridge))
        if not record.number:
            raise SwitchError(f"{record.bridge}: no state is recorded; apply the spec with this version of dnsteer")
        state, overlay = session.state(record, record.number), record.overlay
    try:
        if switch.client(record.bridge).marker() != record.marker:
            warnings.append(
                "the tables differ from the record, so packets may take other paths; "
                "dnsteer restore loads the recorded tables"
            )
    except UnavailableError as err:
        warnings.append(f"it is unknown whether the tables match the record: {err}")
    if record.waits:
        warnings.append(NOT_FORWARDING)
    return Live(record.bridge, record.name, state, load_state(state), overlay, tuple(warnings))
