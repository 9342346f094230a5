"""Work with what a switch's record says: load its specs, write down a change, and end one that was cut off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pydantic import ValidationError

from dnsteer import __version__
from dnsteer.checks.load import check_document
from dnsteer.deploy.apply import Apply, Prepared, Reach
from dnsteer.deploy.send import Applied
from dnsteer.deploy.target_switch import GRACE, Progress, Switch
from dnsteer.plan.applied_slots import keep_slots, keep_slots_of
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.document import parse_document
from dnsteer.spec.errors import SpecError
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec
from dnsteer.switch import database as db
from dnsteer.switch.record import Record
from dnsteer.switch.state import DIGEST_KEY, OVERLAY_KEY, PENDING_KEY, STATE_KEY, Pending, Standing, State
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError


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
    _goes_on: bool = False
    _unwritten: bool = False

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
        """Write down what is about to happen. Raises UnwrittenError, unless the record says that already."""
        standing, wanted = self._standing, Pending(self.state.number, self.state.digest, self.overlay)
        self._goes_on = standing.pending == wanted
        self._unwritten = False
        try:
            self.pending = self.record.begin(standing, self.state, self.overlay)
        except UnwrittenError:
            # A full disk must not keep the tables from what the record says: after a restart they would stay empty.
            is_so = standing.pending is None and wanted == Pending(standing.number, standing.digest, standing.overlay)
            if not (is_so or self._goes_on):
                raise
            self.pending, self._unwritten = wanted, is_so

    def commit(self) -> None:
        """Write down that it happened."""
        assert self.pending is not None
        standing = self._standing
        if not self._unwritten or (self.name and self.name != standing.name):
            self.record.commit(standing, self.pending, self.state, name=self.name)

    def take_back(self) -> None:
        """Write down that it did not happen. A change that was begun before this one stays begun."""
        if self.pending is not None and not (self._goes_on or self._unwritten):
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
        from dnsteer.extension.client import socket_path

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
        applied = work.carry_out(work.prepare(adopt=True))
    for warning in applied.warnings:
        progress(f"warning: {warning}")
    return applied


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
    if _holds(switch, standing, pending):
        ids |= {STATE_KEY: str(pending.number), DIGEST_KEY: pending.digest, OVERLAY_KEY: pending.overlay.to_json()}
    return replace(standing, ids=ids)


def _holds(switch: Switch, standing: Standing, pending: Pending) -> bool:
    """Whether a change that was cut off is made: the tables are not those of before.

    Where they are neither, since ovs-vswitchd was started anew, nobody can tell how far it came, and it was asked for. A
    first apply alone is left undone then.
    """
    found = switch.client(standing.bridge).marker()
    return found == pending.marker or (found != standing.marker and bool(standing.number))


def settle(switch: Switch, record: Record, standing: Standing, progress: Progress) -> Standing:
    """End a change that was cut off, or take it back: whichever of the two the tables are. How the bridge stands then.

    The lock must be held. Where they are neither, the change is made: see _holds. Raises UnwrittenError when OVSDB cannot be
    written: the change stays begun, and nothing of it is forgotten.
    """
    pending = standing.pending
    if pending is None:
        return standing
    try:
        _settle(switch, record, standing, pending, progress)
    except UnwrittenError as err:
        raise UnwrittenError(
            f"a change that was cut off cannot be ended: {err}; nothing of it is forgotten: the first verb that can write "
            "the record ends it"
        ) from None
    after = record.standing(standing.bridge)
    if after is None:
        raise SwitchError(f"bridge {standing.bridge} was removed meanwhile")
    return after


def _settle(switch: Switch, record: Record, standing: Standing, pending: Pending, progress: Progress) -> None:
    found = switch.client(standing.bridge).marker()
    done, undone = found == pending.marker, found == standing.marker
    only_overlay = pending.number == standing.number
    if only_overlay and (done or undone) and standing.extended:
        _settle_extended(switch, record, standing, done, progress)
    elif only_overlay and done:
        # The tables are all that changed, and they are whole.
        record.commit(standing, pending)
        progress("a change that was cut off is complete: its record is put right")
    elif only_overlay and undone:
        record.take_back(standing)
        progress("a change that was cut off is undone: its record is put right")
    elif done:
        state = record.state(standing, pending.number)
        # First, since it forwards that, whatever becomes of the rest.
        record.commit(standing, pending, state, more_to_do=bool(state.extended))
        progress(f"a change was cut off; the switch has state {pending.number}, which its tables are")
        _apply_again(switch, record, state, pending.overlay, progress)
    elif not standing.number:
        record.take_back(standing)
    elif undone:
        _stay(switch, record, standing, progress)
    else:
        _make(switch, record, standing, pending, progress)


def _stay(switch: Switch, record: Record, standing: Standing, progress: Progress) -> None:
    """Make all what it was before the change."""
    progress(f"a change was cut off; the switch stays with state {standing.number}")
    _apply_again(switch, record, record.state(standing, standing.number), standing.overlay, progress)


def _make(switch: Switch, record: Record, standing: Standing, pending: Pending, progress: Progress) -> None:
    """Make a change of which the tables do not tell how far it came; a new state only where the switch takes it."""
    progress("a change was cut off, and the tables are gone since: making it")
    try:
        _apply_again(switch, record, record.state(standing, pending.number), pending.overlay, progress)
    except (UnavailableError, UnwrittenError):
        raise
    except SwitchError as err:
        if pending.number == standing.number:
            raise
        progress(f"it cannot be made: {err}")
        _stay(switch, record, standing, progress)


def forget(switch: Switch, record: Record, standing: Standing) -> Standing:
    """Let an apply replace a change that cannot be ended; who is out stays out. How the bridge stands then."""
    pending = standing.pending
    if pending is not None and pending.number == standing.number and _holds(switch, standing, pending):
        record.commit(standing, pending)
    else:
        record.take_back(standing)
    return record.the_bridge(standing.bridge)


def _settle_extended(switch: Switch, record: Record, standing: Standing, done: bool, progress: Progress) -> None:
    """The same where the tables are one of the two, but the extension may be half-way."""
    pending = standing.pending
    assert pending is not None
    progress(f"{'ending' if done else 'taking back'} a change that was cut off")
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
