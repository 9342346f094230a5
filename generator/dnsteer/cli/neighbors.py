# SPDX-License-Identifier: Apache-2.0
"""The end of an apply whose spec gives neighbours by address: without an agent their MAC addresses are found out once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dnsteer.cli.output import err
from dnsteer.cli.running_switch import progress
from dnsteer.spec.errors import escape, some_of
from dnsteer.switch.tools import SwitchError

if TYPE_CHECKING:
    from dnsteer.deploy.target_switch import TargetSwitch
    from dnsteer.spec.model.spec import Spec


@dataclass(frozen=True)
class Resolved:
    """The MAC addresses that were found out, by address; *problem* says what is left, and what to do; empty: nothing."""

    macs: dict[str, str]
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """What an apply adds to its JSON."""
        return {"neighbors": self.macs, "neighbors_problem": self.problem} if self.macs or self.problem else {}

    def print_words(self) -> None:
        """Say it on standard error."""
        if self.macs:
            told = some_of(f"{address} is at {mac}" for address, mac in self.macs.items())
            err.print(f"note: asked once, since no agent works here: {escape(told)}")
        if self.problem:
            err.print(f"error: {escape(self.problem)}")


def resolve_neighbors(switch: TargetSwitch, spec: Spec, json: bool) -> Resolved:
    """Find out at which MAC addresses neighbours answer now, and bring that to the switch. An agent does it by itself.

    Those of which the record has a MAC address keep it where they do not answer, or cannot be asked.
    """
    from dnsteer.spec.neighbors import neighbors_of

    followed, bridge = [n for n in neighbors_of(spec) if not n.mac], spec.switch.bridge
    if not followed or switch.follows_neighbors:
        return Resolved({})
    with switch.session() as session:
        known = session.record_of(bridge).overlay.macs or {}
    left = [n for n in followed if n.address not in known]
    names = some_of(dict.fromkeys(n.title for n in left), "; ")
    if not switch.remote.startswith("unix:"):
        why = f"no MAC address is known of {names}: neighbours are asked on the switch's own machine; "
        return Resolved({}, why + "start dnsteer agent there, or apply there" if left else "")
    from dnsteer.agent.resolve import PATIENCE, resolve_once
    from dnsteer.deploy.neighbor_change import change_neighbors
    from dnsteer.lab import names as lab_names
    from dnsteer.lab.topology import macs_of_neighbors

    try:
        # The lab's port for probes is in a namespace of its own, and what is at the other end is known.
        in_lab = switch.remote == lab_names.db_target()
        answers = macs_of_neighbors(spec) if in_lab else resolve_once(spec, followed)
        macs = {address: mac for address, mac in answers.items() if mac != known.get(address)}
        if macs:
            change_neighbors(switch, bridge, macs, progress(json))
    except (SwitchError, PermissionError) as problem:
        why = f"the MAC addresses of {names} cannot be found out: {problem}; then apply again, or start dnsteer agent"
        return Resolved({}, why if left else "")
    silent = [n.title for n in left if n.address not in macs]
    why = f"no answer within {PATIENCE:g} s from {some_of(dict.fromkeys(silent), '; ')}: what is for them is dropped; "
    why += "is the address right? Then apply again, or start dnsteer agent, which goes on asking"
    return Resolved(macs, why if silent else "")
