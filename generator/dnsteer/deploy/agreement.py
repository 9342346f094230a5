# SPDX-License-Identifier: Apache-2.0
"""Whether a change may be made: the operator agrees to it, and the record is the one that it was previewed on."""

from __future__ import annotations

import hashlib
import json

from dnsteer.deploy.caller import CALLER
from dnsteer.deploy.target_switch import Confirm, Progress
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.state import BridgeRecord
from dnsteer.switch.tools import SwitchError

SWITCH_CHANGED = "the switch has changed in the meantime; reading it again"
OUTDATED = "the switch has changed since the preview; nothing was changed"


class Agreement:
    """Whether the operator has agreed to a change. Nothing is locked while somebody thinks, so the switch may change.

    It is then read again, and the operator asked again where the question is another one.
    """

    def __init__(self, confirm: Confirm | None, progress: Progress) -> None:
        self._confirm, self._progress = confirm, progress
        self._agreed: object = None

    def is_given_for(self, question: object) -> bool:
        """Whether the operator has agreed to this *question*; also where there is no question, or no operator to ask."""
        return self._confirm is None or question is None or question == self._agreed

    def ask(self, question: object, reasons: list[str], words: list[str]) -> None:
        """Ask. Raises what *confirm* raises when the operator does not agree."""
        if self._agreed is not None:
            self._progress(SWITCH_CHANGED)
        if self._confirm is not None:
            self._confirm(reasons, words)
        self._agreed = question


def hash_of_record(record: BridgeRecord | None) -> str:
    """A hash of what a change depends on: the applied state and all maintenance, and what a pending change leads to.

    Gradual changes that are under way count as done: their steps, one a second, change no preview. Raises DamagedError.
    """
    if record is None:
        return ""
    here, pending = _in_the_end(record.number, record.digest, record.overlay), record.pending
    there = _in_the_end(pending.number, pending.digest, pending.overlay) if pending is not None else here
    return hashlib.sha256("\n".join([record.uuid, here, *([there] if there != here else [])]).encode()).hexdigest()


def _in_the_end(number: int, digest: str, overlay: Overlay) -> str:
    done = overlay.with_entries(entry for each in overlay for entry in each.in_the_end)
    return json.dumps([number, digest, done.to_json()])


def refuse_outdated(record: BridgeRecord | None, *, again: bool = False) -> None:
    """Raise SwitchError if the caller has previewed its change on another record.

    Only the first record counts, since later ones are the caller's own doing, as in a gradual drain. With *again* they count
    too: where the first was only read, and nothing was done.
    """
    caller = CALLER.get()
    previewed = caller.previewed if caller is not None else None
    if previewed is None or (previewed.found and not again):
        return
    previewed.found = hash_of_record(record)
    if previewed.expected and previewed.found != previewed.expected:
        previewed.outdated = True
        raise SwitchError(OUTDATED)
