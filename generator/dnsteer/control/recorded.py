"""Work with what a switch's record says: load its specs, write down a change, and end one that was cut off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pydantic import ValidationError

from dnsteer import __version__
from dnsteer.control.where import GRACE, Progress, Switch
from dnsteer.plan.absence import Overlay
from dnsteer.plan.kept import keep_slots, keep_slots_of
from dnsteer.spec.document import parse_document
from dnsteer.spec.errors import SpecError
from dnsteer.spec.load import Loaded, check_document
from dnsteer.spec.model import Spec
from dnsteer.switch import database as db
from dnsteer.switch.apply import Apply, Prepared, Reach
from dnsteer.switch.record import Record
from dnsteer.switch.sending import Applied
from dnsteer.switch.state import DIGEST_KEY, OVERLAY_KEY, PENDING_KEY, STATE_KEY, Pending, Standing, State
from dnsteer.switch.tools import SwitchError


def load_state(state: State) -> Loaded:
    """The spec of a recorded state. Raises SwitchError when this version of dnsteer no longer takes it."""
    try:
        loaded = check_document(parse_document(f"{state.file} (state {state.number})", state.text))
        return keep_slots(loaded, state.members)
    except SpecError as err:
        raise SwitchError(
            f"state {state.number} was applied by dnsteer {state.version}, and {__version__} does not take its spec:\n"
            f"{err.text()}"
        ) from None


def spec_of(state: State) -> Spec:
    """The spec of a recorded state, only to compare it. Raises SwitchError when this version no longer takes it."""
    try:
        # Without the checks of what it means, which take as long again: it was applied.
        spec = Spec.model_validate(parse_document(state.file, state.text).value)
    except (SpecError, ValidationError) as err:
        raise SwitchError(f"state {state.number}: {err}") from None
    return keep_slots_of(spec, state.members)


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


class NoJournal:
    """For who only looks, or until the journal is there."""

    stale = False

    def begin(self) -> None:
        """Never to be called."""
        raise AssertionError

    commit = take_back = begin


def reach(
    switch: Switch, spec: Spec, before: Callable[[], Spec | None] = lambda: None, *, needed: bool = True
) -> Reach:
    """How the extension is reached: by what was given, else by the spec, or the one *before*, which may have had one."""

    def path() -> str:
        part = spec.switch.extension
        if part is None and not switch.extension and (old := before()):
            part = old.switch.extension
        from dnsteer.switch.program import socket_path

        return socket_path(switch.extension, part.control if part else "")

    return Reach(path, needed)


def apply_state(
    switch: Switch, record: Record, state: State, overlay: Overlay, progress: Progress, *, needed: bool = True
) -> Applied:
    """Make the switch what a recorded state and an overlay say, whatever it is now, and write that down.

    Unless the extension is *needed*, the tables become that also without it; the result says why its program does not.
    """
    loaded = load_state(state)
    bridge = loaded.spec.switch.bridge
    with db.Database(switch.remote, switch.timeout) as base:
        journal = Journal(record, bridge, state, overlay, wanted=True)
        how = reach(switch, loaded.spec, needed=needed)
        work = Apply(loaded, overlay, base, switch.client(bridge), journal, progress, GRACE, how)
        return work.carry_out(work.prepare(adopt=True))


def look_at_state(switch: Switch, state: State, overlay: Overlay) -> Prepared:
    """What `apply_state` would do. Changes nothing."""
    loaded = load_state(state)
    client, how = switch.client(loaded.spec.switch.bridge), reach(switch, loaded.spec, needed=False)
    with db.Database(switch.remote, switch.timeout) as base:
        return Apply(loaded, overlay, base, client, NoJournal(), reach=how).prepare(adopt=True)


def as_settled(switch: Switch, standing: Standing) -> Standing:
    """How the bridge will stand when a change that was cut off is ended or taken back. Changes nothing."""
    pending = standing.pending
    if pending is None:
        return standing
    ids = {k: v for k, v in standing.ids.items() if k != PENDING_KEY}
    if switch.client(standing.bridge).marker() == pending.marker:
        ids |= {STATE_KEY: str(pending.number), DIGEST_KEY: pending.digest, OVERLAY_KEY: pending.overlay.to_json()}
    return replace(standing, ids=ids)


def settle(switch: Switch, record: Record, standing: Standing, progress: Progress) -> Standing:
    """End a change that was cut off, or take it back: whichever of the two the tables are. How the bridge stands then.

    The lock must be held.
    """
    pending = standing.pending
    if pending is None:
        return standing
    found = switch.client(standing.bridge).marker()
    done = found == pending.marker
    if pending.number == standing.number and (done or found == standing.marker) and standing.extended:
        _settle_extended(switch, record, standing, done, progress)
    elif pending.number == standing.number and (done or found == standing.marker):
        # Only the overlay: the tables are all that changed, and they are whole.
        progress(f"a change that was cut off is {'complete' if done else 'undone'}: its record is put right")
        if done:
            record.commit(standing, pending)
        else:
            record.take_back(standing)
    elif done:
        progress(f"a change was cut off; the switch becomes state {pending.number}, which its tables are")
        state = record.state(standing, pending.number)
        # First, since it forwards that, whatever becomes of the rest.
        record.commit(standing, pending, state, more_to_do=bool(state.extended))
        _apply_again(switch, record, state, pending.overlay, progress)
    elif standing.number:
        progress(f"a change was cut off; the switch stays with state {standing.number}")
        _apply_again(switch, record, record.state(standing, standing.number), standing.overlay, progress)
    else:
        record.take_back(standing)
    after = record.standing(standing.bridge)
    if after is None:
        raise SwitchError(f"bridge {standing.bridge} was removed meanwhile")
    return after


def _settle_extended(switch: Switch, record: Record, standing: Standing, done: bool, progress: Progress) -> None:
    """The same where the tables are one of the two, but the extension may be half-way."""
    pending = standing.pending
    assert pending is not None
    progress(f"a change that was cut off is {'ended' if done else 'taken back'}")
    overlay = pending.overlay if done else standing.overlay
    try:
        _apply_again(switch, record, record.state(standing, standing.number), overlay, progress)
    except SwitchError:
        if done:  # else the record would say what the tables are no longer
            record.commit(standing, pending)
        raise


def _apply_again(switch: Switch, record: Record, state: State, overlay: Overlay, progress: Progress) -> None:
    """Make the tables whole; the extension too, where it answers: without it the others must not be kept from changes."""
    applied = apply_state(switch, record, state, overlay, progress, needed=False)
    if applied.away is not None:
        progress(f"warning: the extension does not have the program of state {state.number}: {applied.away}")
