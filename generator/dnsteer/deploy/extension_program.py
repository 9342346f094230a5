# SPDX-License-Identifier: Apache-2.0
"""The extension in a deployment: its socket, its program for a recorded state, and its changes in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.target_switch import Progress, TargetSwitch
from dnsteer.extension import handover as hand
from dnsteer.extension.client import ExtensionClient, socket_path
from dnsteer.extension.handover import Handover
from dnsteer.extension.program_diff import ProgramDifference
from dnsteer.modes import MODES
from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.model.spec import Spec
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.slot import SlotTable

_MAX = 10
"""VIPs that are named one by one."""


def extended_pools(spec: Spec) -> tuple[str, ...]:
    """The pools that the extension serves."""
    found = (vip.pool for vip in spec.vips.values() if MODES[vip.forwarding].uses_extension(spec.pools[vip.pool]))
    return tuple(dict.fromkeys(found))


def pools_outside_tables(plan: Plan) -> tuple[int, ...]:
    """Return the numbers of pools whose slots only the extension has, not the tables."""
    here = {table.members.number for table in plan.rows.of(SlotTable)}
    return tuple(m.number for m in plan.members if m.selection != "dp-hash" and m.number not in here)


def extension_client(switch: TargetSwitch, spec: Spec, patience: float = math.inf) -> ExtensionClient:
    """Return the extension at the given socket, or at the spec's."""
    part = spec.switch.extension
    return ExtensionClient(socket_path(switch.extension, part.control if part else ""), min(switch.timeout, patience))


def handover_for(switch: TargetSwitch, state: AppliedState, overlay: Overlay) -> Handover:
    """Plan the extension's handover to a recorded state and an overlay. Raises as `plan_handover`."""
    loaded = load_state(state)
    return hand.plan_handover(build_plan(loaded, overlay), extension_client(switch, loaded.spec), needed=True)


def reload_program(switch: TargetSwitch, bridge: str, *, dry_run: bool, progress: Progress) -> bool:
    """Load the recorded program into an extension that has another. Returns whether it had another.

    Where it has the right one, that is told it once, so that it counts as given. Only for a bridge whose tables are the
    record's. Raises SwitchError or PermissionError.
    """
    with switch.session() as session:
        if not dry_run:
            session.lock(bridge)
        record = session.record_of(bridge)
        if record.pending is not None or not record.extended:
            return False
        state = session.state(record, record.number)
        if not _may_be_another(extension_client(switch, load_state(state).spec).status()):
            return False
        found = handover_for(switch, state, record.overlay)
        if not dry_run:
            progress("the extension was restarted, or another client changed its program: loading the recorded program")
            found.load_new()
        return found.loads


def _may_be_another(status: dict[str, Any]) -> bool:
    """Whether the program may be another than the one that dnsteer loaded."""
    return status.get("loads") == 1 or status.get("consistent") is False or status.get("draining") is True


@dataclass
class ProgramChange:
    """What changes in the extension: names of VIPs, and sentences. *away* is why that is unknown."""

    socket: str
    loads: bool = False
    away: str = ""
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    basis: Any = None

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "socket": self.socket,
            "loads": self.loads,
            "away": self.away or None,
            "added": self.added,
            "removed": self.removed,
            "changed": self.changed,
            "text": self.words,
        }


def change_of(found: Handover) -> ProgramChange:
    """Return what a handover changes."""
    change = ProgramChange(found.client.path, found.loads, str(found.away or ""), basis=found.running)
    if not found.loads:
        return change
    differences = found.differences
    by_kind: dict[str, list[ProgramDifference]] = {}
    for d in differences:
        by_kind.setdefault(d.kind if d.key else "settings", []).append(d)
    for kind, names, verb in (
        ("missing", change.added, "starts serving {}"),
        ("added", change.removed, "stops serving {}"),
        ("changed", change.changed, "changes how it serves {}"),
    ):
        names += dict.fromkeys(d.name for d in by_kind.get(kind, []))
        if names:
            change.words.append(f"the extension {verb.format(_listed(names))}")
    if by_kind.get("settings") and not (change.added or change.removed or change.changed):
        change.words.append(f"the extension: {_listed([f'{d.name} {d.detail}' for d in by_kind['settings']])}")
    if not differences:
        change.words.append("the extension's program is loaded again: hardware does not match it")
    return change


def _listed(names: Sequence[str]) -> str:
    """VIPs, each with its ports: `dns 192.0.2.53 53/udp+tcp`."""
    ports: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        *vip, protocol, port = name.split("/") if name.count("/") == 3 else (name, "", "")
        ports.setdefault((*vip, port), []).append(protocol)
    out = [_one(key, protocols) for key, protocols in ports.items()]
    more = len(out) - _MAX
    return ", ".join(out[:_MAX]) + (f" and {more} more" if more > 0 else "")


def _one(key: Iterable[str], protocols: Sequence[str]) -> str:
    *vip, port = key
    return f"{' '.join(vip)} {port}/{'+'.join(protocols)}" if port else vip[0]


def guarded(work: Callable[[], bool]) -> bool:
    """Do something with the extension; a PermissionError becomes a SwitchError."""
    try:
        return work()
    except PermissionError as err:
        raise SwitchError(f"{err.filename}: {err.strerror}; run as root or as the owner") from None
