"""The record that a change was previewed on: the change is then made on that record, or not at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from dnsteer.deploy.caller import CALLER
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.state import PENDING_KEY, BridgeRecord
from dnsteer.switch.tools import SwitchError

OUTDATED = "the switch has changed since the preview; nothing was changed"


@dataclass
class Basis:
    """What a verb rests on. *expected* is the fingerprint of the record that was previewed; empty for the preview itself.

    *found* is the fingerprint of the record that the verb found first, *outdated* whether it was another than expected.
    """

    expected: str = ""
    found: str = ""
    outdated: bool = False


def fingerprint(record: BridgeRecord | None) -> str:
    """A hash of what a change depends on: the applied state and all maintenance.

    Gradual changes that are under way count as done: their steps, one a second, change no preview. Raises DamagedError.
    """
    if record is None:
        return ""
    overlay = Overlay(tuple(done for entry in record.overlay for done in entry.in_the_end))
    value = [record.uuid, record.number, record.digest, overlay.to_json(), record.ids.get(PENDING_KEY, "")]
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def refuse_outdated(record: BridgeRecord | None, *, again: bool = False) -> None:
    """Raise SwitchError if the caller has previewed its change on another record.

    Later records are its own doing, as with a gradual drain; unless *again*, where nothing was done after the first.
    """
    caller = CALLER.get()
    basis = caller.basis if caller is not None else None
    if basis is None or (basis.found and not again):
        return
    basis.found = fingerprint(record)
    if basis.expected and basis.found != basis.expected:
        basis.outdated = True
        raise SwitchError(OUTDATED)
