"""The record that a change was previewed on: the change is then made on that record, or not at all."""

from __future__ import annotations

import hashlib
import json

from dnsteer.deploy.caller import CALLER
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.state import BridgeRecord
from dnsteer.switch.tools import SwitchError

OUTDATED = "the switch has changed since the preview; nothing was changed"


def basis_hash(record: BridgeRecord | None) -> str:
    """A hash of what a change depends on: the applied state and all maintenance, and what a pending change leads to.

    Gradual changes that are under way count as done: their steps, one a second, change no preview. Raises DamagedError.
    """
    if record is None:
        return ""
    here, pending = _in_the_end(record.number, record.digest, record.overlay), record.pending
    there = _in_the_end(pending.number, pending.digest, pending.overlay) if pending is not None else here
    return hashlib.sha256("\n".join([record.uuid, here, *([there] if there != here else [])]).encode()).hexdigest()


def _in_the_end(number: int, digest: str, overlay: Overlay) -> str:
    done = Overlay(tuple(entry for each in overlay for entry in each.in_the_end))
    return json.dumps([number, digest, done.to_json()])


def refuse_outdated(record: BridgeRecord | None, *, again: bool = False) -> None:
    """Raise SwitchError if the caller has previewed its change on another record.

    Only the first record counts, since later ones are the caller's own doing, as in a gradual drain. With *again* they count
    too: where the first was only read, and nothing was done.
    """
    caller = CALLER.get()
    basis = caller.basis if caller is not None else None
    if basis is None or (basis.found and not again):
        return
    basis.found = basis_hash(record)
    if basis.expected and basis.found != basis.expected:
        basis.outdated = True
        raise SwitchError(OUTDATED)
