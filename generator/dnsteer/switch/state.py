# SPDX-License-Identifier: Apache-2.0
"""Values that are recorded of a switch: applied states, and the record of a bridge. Damage is found when read."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dnsteer import __version__
from dnsteer.slots.maintenance import NO_OVERLAY, Maintenance, Overlay, marker
from dnsteer.slots.membership import Membership, from_value, to_value
from dnsteer.switch.other_versions import program_of
from dnsteer.switch.tools import SwitchError

OWNER_KEY = "dnsteer"
"""external_ids key that marks a bridge or port as ours; its value is the kind."""
DIGEST_KEY, VERSION_KEY, TIME_KEY = "dnsteer-spec", "dnsteer-version", "dnsteer-applied"
STATE_KEY, OVERLAY_KEY, PENDING_KEY = "dnsteer-state", "dnsteer-overlay", "dnsteer-pending"
FORMAT_KEY = "dnsteer-format"
"""external_ids key of the bridge: the format of its record, and after a space the version of dnsteer that began with it.

This key, and those of the state's number and digest, of who applied it and when, are the same in every format."""
RECORD_FORMAT = 1
"""The format of records that this version reads and writes. One that says none has format 1.

The next number is due where an older version would misread what is written: not for a key that it need not know."""
DECISIONS_KEY = "dnsteer-decisions"
"""external_ids key of the bridge: the decisions that wrote the overlay's entries."""
EXTENSION_KEY = "dnsteer-extension"
"""external_ids key of the bridge: the state that is applied has VIPs that the extension serves."""
CAPTURE_KEY = "dnsteer-capture"
"""external_ids key of the bridge, and of the ports and mirrors that a capture makes for its time."""
WITHDRAWN_KEY = "dnsteer-withdrawn"
"""external_ids key of the bridge: VIPs that people have withdrawn from routing."""
ROUTES_KEY = "dnsteer-announced"
"""external_ids key of the bridge: where BIRD may have routes to its VIPs."""
FAILURES_KEY = "dnsteer-failures"
"""external_ids key of the bridge: checks that have failed again and again lately."""
KNOWN_KEY = "dnsteer-agent"
"""external_ids key of the bridge: the essentials of what its agent knows, for those on other machines."""
ROLE_KEY = "dnsteer-role"
"""external_ids key of the bridge: whether this switch is the active one of several, or on standby."""
NAME_KEY = "dnsteer-switch"
"""external_ids key of the table Open_vSwitch: the switch's name."""

STILL_PENDING = "the change is still pending in the record ({}): the next command that can write the record removes it"
"""What is said where a change was not made, and that cannot be written, for the reason given."""
NOT_FORWARDING = "flow-restore-wait is set: the switch does not forward until it is cleared: dnsteer restore"
REMOVED = "bridge {} was removed in the meantime"
"""What is said when a bridge is gone that was there."""

_ADVICE = (
    "it was changed by hand. No rollback to it is possible; if it is the applied state, apply the spec "
    "to record a new one"
)


class DamagedError(SwitchError):
    """A record is damaged. For a state *number* is its number, 0 if unknown; *word* is what lists of states call it."""

    number = 0
    word = "damaged"


class RecordFormatError(DamagedError):
    """A record is in a format that this version does not know. What can be read may be shown; nothing may be written."""

    word = "not readable"


class BusyError(SwitchError):
    """Another dnsteer holds the bridge's lock."""


@dataclass(frozen=True)
class AppliedState:
    """A spec that was applied: its text, by whom, when and why. *number* counts up from 1; 0: not recorded yet.

    *vips* has the pool of each VIP. *ended* is the maintenance that ended with it, as its spec no longer has their backends.
    *extended* are the pools that the extension serves, *elsewhere* the numbers of those whose slots it alone has.
    *decision* is the id of the decision that applied it, empty where that is not known. *workers* has the number of workers
    of each backend that has some, by pool and name. A rollback has *restores*, the number of the state whose spec it brought
    back, else 0. *rolls_back* is the number of the state that was applied before it, if it brought back an older spec than
    that; else 0: it is no rollback, or one to a later state. *rereads* is the number of the state that people made, of
    whose lists the agent has read the files again; else 0.
    """

    file: str
    text: str
    digest: str
    version: str
    time: str
    by: str
    members: tuple[Membership, ...]
    vips: Mapping[str, str]
    note: str = ""
    number: int = 0
    ended: tuple[Maintenance, ...] = ()
    extended: tuple[str, ...] = ()
    elsewhere: tuple[int, ...] = ()
    decision: str = ""
    workers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    restores: int = 0
    rolls_back: int = 0
    rereads: int = 0

    def to_ids(self) -> dict[str, str]:
        """As external_ids."""
        members = _pack(json.dumps(to_value(self.members), separators=(",", ":")))
        spec = _pack(self.text)
        out = {
            "format": str(RECORD_FORMAT),
            STATE_KEY: str(self.number),
            "file": self.file,
            DIGEST_KEY: self.digest,
            VERSION_KEY: self.version,
            TIME_KEY: self.time,
            "by": self.by,
            "note": self.note,
            "spec": spec,
            "members": members,
            "vips": _pack(json.dumps(dict(self.vips))),
        }
        if self.ended:
            out["ended"] = Overlay(self.ended).to_json()
        if self.extended:  # else the record is as it was before there were extensions
            out["extension"] = _pack(json.dumps([self.extended, self.elsewhere]))
        if self.decision:
            out["decision"] = self.decision
        if self.restores:
            out |= {"restores": str(self.restores), "rolls-back": str(self.rolls_back)}
        if self.rereads:
            out["rereads"] = str(self.rereads)
        if self.workers:
            out["workers"] = _pack(json.dumps(self.workers, separators=(",", ":")))
        return {**out, "sum": _sum(out)}

    @staticmethod
    def from_ids(ids: Mapping[str, str], what: str) -> AppliedState:
        """Read external_ids. Raises DamagedError, and RecordFormatError."""
        form = ids.get("format", "1")
        if is_number(form) and int(form) != RECORD_FORMAT:  # before the checksum, which may be another one
            number = ids.get(STATE_KEY, "")
            err = RecordFormatError(_other_format(what, int(form), ids.get(VERSION_KEY, "")))
            err.number = int(number) if is_number(number) else 0
            raise err
        try:
            if ids["sum"] != _sum(ids):
                raise ValueError("its checksum does not match")
            pools, numbers = json.loads(_unpack(ids["extension"])) if "extension" in ids else ((), ())
            workers = json.loads(_unpack(ids["workers"])) if "workers" in ids else {}
            return AppliedState(
                file=ids["file"],
                text=_unpack(ids["spec"]),
                digest=ids[DIGEST_KEY],
                version=ids[VERSION_KEY],
                time=ids[TIME_KEY],
                by=ids["by"],
                note=ids["note"],
                number=int(ids[STATE_KEY]),
                members=tuple(from_value(json.loads(_unpack(ids["members"])))),
                vips=json.loads(_unpack(ids["vips"])),
                ended=Overlay.from_json(ids.get("ended", "[]")).entries,
                extended=tuple(map(str, pools)),
                elsewhere=tuple(map(int, numbers)),
                decision=ids.get("decision", ""),
                workers={pool: {host: int(n) for host, n in hosts.items()} for pool, hosts in workers.items()},
                restores=int(ids.get("restores", "0")),
                rolls_back=int(ids.get("rolls-back", "0")),
                rereads=int(ids.get("rereads", "0")),
            )
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError, zlib.error, binascii.Error) as err:
            why = f"it lacks {err}" if isinstance(err, KeyError) else str(err)
            raise DamagedError(f"{what} is damaged ({why}): {_ADVICE}") from None


def _other_format(what: str, found: int, version: str) -> str:
    """What is said of a record in the format *found*, which dnsteer *version* wrote, and what to do."""
    writer = program_of(version)
    if found > RECORD_FORMAT:
        advice = f"upgrade dnsteer on this machine and restart its agent, or use {writer}"
    else:
        advice = f"use {writer} for this switch, or upgrade first to a version that knows both formats"
    return (
        f"{what} has format {found}, written by {writer}, and this is dnsteer {__version__}, which knows format "
        f"{RECORD_FORMAT}: {advice}. Until then forwarding stays as it is; dnsteer status and history show what can be read"
    )


def is_number(text: str) -> bool:
    """Whether *text* is a number of a state."""
    return text.isascii() and text.isdigit() and len(text) < 10


def _sum(ids: Mapping[str, str]) -> str:
    text = "\0".join(f"{k}={v}" for k, v in sorted(ids.items()) if k != "sum")
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _pack(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _unpack(text: str) -> str:
    return zlib.decompress(base64.b64decode(text)).decode()


@dataclass(frozen=True)
class Pending:
    """What a pending change leads to: a recorded state and an overlay."""

    number: int
    digest: str
    overlay: Overlay

    @property
    def marker(self) -> int:
        """The marker in the tables when it is done."""
        return marker(self.digest, self.overlay)

    def to_json(self) -> str:
        """As it is recorded."""
        value = {"state": self.number, "digest": self.digest, "overlay": json.loads(self.overlay.to_json())}
        decisions = self.overlay.decisions()
        return json.dumps({**value, "decisions": decisions} if decisions else value)


def overlay_ids(overlay: Overlay) -> dict[str, str]:
    """The external_ids of the bridge that have the overlay; empty where there is nothing to have."""
    is_there = overlay or overlay.neighbors is not None
    return {OVERLAY_KEY: overlay.to_json() if is_there else "", DECISIONS_KEY: overlay.decisions()}


@dataclass(frozen=True)
class BridgeRecord:
    """The record of a bridge in OVSDB. *flow_tables* has the rows of the recorded states, by their places in the ring.

    *version* is another one after each change of the bridge's row. *name* is the switch's, by the spec, and *system_id* what
    Open vSwitch calls the machine; each is empty where there is none.
    """

    uuid: str
    version: str
    bridge: str
    ids: Mapping[str, str]
    flow_tables: Mapping[int, str]
    system: str
    name: str
    waits: bool
    system_id: str = ""

    @property
    def number(self) -> int:
        """Number of the state that was applied last, 0 when there is none."""
        text = self.ids.get(STATE_KEY, "0")
        if not is_number(text):
            raise self._damaged(STATE_KEY, f"found {text!r}")
        return int(text)

    @property
    def digest(self) -> str:
        """Digest of the spec that was applied last; empty when there is none."""
        return self.ids.get(DIGEST_KEY, "")

    def refuse_other_format(self) -> None:
        """Raise RecordFormatError where this version does not know the format, and DamagedError where it is none."""
        number, _, version = self.ids.get(FORMAT_KEY, "1").partition(" ")
        if not is_number(number):
            raise self._damaged(FORMAT_KEY, f"found {number!r}")
        if int(number) != RECORD_FORMAT:
            raise RecordFormatError(_other_format(f"the record of bridge {self.bridge}", int(number), version))

    @property
    def overlay(self) -> Overlay:
        """The overlay. Raises DamagedError."""
        self.refuse_other_format()
        text = self.ids.get(OVERLAY_KEY, "")
        try:
            overlay = Overlay.from_json(text) if text else NO_OVERLAY
            return overlay.with_decisions(self.ids.get(DECISIONS_KEY, ""))
        except ValueError as err:
            raise self._damaged(OVERLAY_KEY, str(err)) from None

    @property
    def pending(self) -> Pending | None:
        """The pending change, or None. Raises DamagedError."""
        self.refuse_other_format()
        text = self.ids.get(PENDING_KEY, "")
        if not text:
            return None
        try:
            value: dict[str, Any] = json.loads(text)
            number, digest = value["state"], value["digest"]
            if not isinstance(number, int) or not isinstance(digest, str):
                raise ValueError(f"found {text!r}")
            overlay = Overlay.from_json(json.dumps(value["overlay"]))
            return Pending(number, digest, overlay.with_decisions(str(value.get("decisions", ""))))
        except (ValueError, KeyError, TypeError, RecursionError) as err:
            raise self._damaged(PENDING_KEY, str(err)) from None

    @property
    def extended(self) -> bool:
        """Whether the extension serves VIPs of the applied state."""
        return EXTENSION_KEY in self.ids

    @property
    def marker(self) -> int:
        """The marker that the tables should have."""
        return marker(self.digest, self.overlay)

    def _damaged(self, key: str, why: str) -> DamagedError:
        where = f"external_ids:{key} of bridge {self.bridge} in OVSDB"
        return DamagedError(
            f"{where} is damaged ({why}): it was changed by hand. To discard it: "
            f"ovs-vsctl remove bridge {self.bridge} external_ids {key}, then apply the spec"
        )
