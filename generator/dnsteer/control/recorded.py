"""Work with what a switch's record says: load its specs, write down a change, and end one that was cut off."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer import __version__
from dnsteer.control.where import GRACE, Progress, Switch
from dnsteer.plan.absence import Overlay
from dnsteer.spec.document import parse_document
from dnsteer.spec.errors import SpecError
from dnsteer.spec.load import Loaded, check_document
from dnsteer.switch import database as db
from dnsteer.switch.apply import Applied, Apply
from dnsteer.switch.record import Record
from dnsteer.switch.state import Pending, Standing, State
from dnsteer.switch.tools import SwitchError


def load_state(state: State) -> Loaded:
    """The spec of a recorded state. Raises SwitchError when this version of dnsteer no longer takes it."""
    try:
        return check_document(parse_document(f"{state.file} (state {state.number})", state.text))
    except SpecError as err:
        raise SwitchError(
            f"state {state.number} was applied by dnsteer {state.version}, and {__version__} does not take its spec:\n"
            f"{err.text()}"
        ) from None


@dataclass
class Journal:
    """Writes a change of one bridge into its record. *state* has number 0 when it is new.

    *wanted* is whether the record is to be written even when nothing of the switch changes.
    """

    record: Record
    bridge: str
    state: State
    overlay: Overlay
    wanted: bool
    pending: Pending | None = None
    name: str = ""

    @property
    def stale(self) -> bool:
        """Whether the record says something else than what is wanted."""
        return self.wanted

    @property
    def _standing(self) -> Standing:
        standing = self.record.standing(self.bridge)
        if standing is None:
            raise SwitchError(f"bridge {self.bridge} was removed meanwhile")
        return standing

    def begin(self) -> None:
        """Write down what is about to happen."""
        self.pending = self.record.begin(self._standing, self.state, self.overlay)

    def commit(self) -> None:
        """Write down that it happened."""
        assert self.pending is not None
        standing = self._standing
        self.record.commit(standing, self.pending, self.state)
        if self.name and self.name != standing.name:
            self.record.name_switch(standing, self.name)

    def take_back(self) -> None:
        """Write down that it did not happen."""
        if self.pending is not None:
            self.record.take_back(self._standing)


def apply_state(
    switch: Switch, record: Record, state: State, overlay: Overlay, progress: Progress, loaded: Loaded | None = None
) -> Applied:
    """Make the switch what a recorded state and an overlay say, whatever it is now, and write that down."""
    loaded = loaded or load_state(state)
    bridge = loaded.spec.switch.bridge
    with db.Database(switch.remote, switch.timeout) as base:
        journal = Journal(record, bridge, state, overlay, wanted=True)
        work = Apply(loaded, overlay, base, switch.client(bridge), journal, progress, GRACE)
        return work.carry_out(work.prepare(adopt=True))


def settle(switch: Switch, record: Record, standing: Standing, progress: Progress) -> Standing:
    """End a change that was cut off, or take it back: whichever of the two the tables are. How the bridge stands then.

    The lock must be held.
    """
    pending = standing.pending
    if pending is None:
        return standing
    found = switch.client(standing.bridge).marker()
    done = found == pending.marker
    if pending.number == standing.number and (done or found == standing.marker):
        # Only the overlay: the tables are all that changed, and they are whole.
        progress(f"a change that was cut off is {'complete' if done else 'undone'}: its record is put right")
        if done:
            record.commit(standing, pending)
        else:
            record.take_back(standing)
    elif done or standing.number:
        number, overlay = (pending.number, pending.overlay) if done else (standing.number, standing.overlay)
        progress(f"a change was cut off; the switch becomes state {number}, which its tables are" if done else
                 f"a change was cut off; the switch stays with state {number}")  # fmt: skip
        apply_state(switch, record, record.state(standing, number), overlay, progress)
    else:
        record.take_back(standing)
    after = record.standing(standing.bridge)
    if after is None:
        raise SwitchError(f"bridge {standing.bridge} was removed meanwhile")
    return after
