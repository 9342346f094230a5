# SPDX-License-Identifier: Apache-2.0
"""The specs of recorded states, as this version of dnsteer reads them."""

from __future__ import annotations

from pydantic import ValidationError

from dnsteer import __version__
from dnsteer.checks.load import check_document
from dnsteer.plan.pool_slots import keep_slots, keep_slots_of
from dnsteer.spec.backups import with_backups
from dnsteer.spec.errors import SpecError
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.parts.followed_lists import followed_lists
from dnsteer.spec.read import parse_recorded
from dnsteer.spec.workers import with_workers
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError


def load_state(state: AppliedState) -> Loaded:
    """Return the spec of a recorded state. Raises SwitchError if this version of dnsteer cannot make tables of it."""
    try:
        loaded = check_document(parse_recorded(f"{state.file} (state {state.number})", state.text), recorded=True)
        return keep_slots(loaded, state.members)
    except SpecError as err:
        raise SwitchError(
            f"state {state.number} was applied by dnsteer {state.version}, and {__version__} does not accept its spec:\n"
            f"{err.text()}"
        ) from None


def spec_of(state: AppliedState) -> Spec:
    """Return the spec of a recorded state for comparison only. Raises SwitchError if it is no longer accepted."""
    try:
        # Without the checks of what it means, which take as long again: it was applied.
        spec = with_backups(with_workers(Spec.model_validate(parse_recorded(state.file, state.text).value)))
    except (SpecError, ValidationError) as err:
        raise SwitchError(f"state {state.number}: {err}") from None
    return keep_slots_of(spec, state.members)


def is_applied(loaded: Loaded, applied: AppliedState | None) -> bool:
    """Whether a spec is the one of the applied state, with its lists from the same files, and this version of dnsteer made
    its tables."""
    if applied is None or applied.digest != loaded.digest or applied.version != __version__:
        return False
    of_spec, of_state = ([one.place for one in followed_lists(text)] for text in (loaded.document.text, applied.text))
    return of_spec == of_state
