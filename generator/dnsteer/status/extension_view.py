# SPDX-License-Identifier: Apache-2.0
"""The state and the counters of a switch's extension."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dnsteer.deploy.extension_program import extension_client
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.extension.handover import faults_of
from dnsteer.modes import MODES
from dnsteer.slots.membership import Membership
from dnsteer.spec.errors import counted
from dnsteer.spec.model.families import ANY
from dnsteer.spec.model.spec import Spec
from dnsteer.status.counters import BackendKey, Count, ExtendedServiceKey, Key, Sample
from dnsteer.status.rates import Rates
from dnsteer.switch.tools import SwitchError

_PATIENCE = 3.0
"""Seconds: a status does not wait long for an extension that is stuck."""
_WORD = {"ipv4": "IPv4", "ipv6": "IPv6"}


@dataclass
class ExtensionView:
    """The extension. *away* is why it cannot be asked. *faults* are what it says is wrong with it."""

    socket: str
    away: str = ""
    answer: dict[str, Any] = field(default_factory=dict)
    dropped: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    served: list[ExtendedServiceKey] = field(default_factory=list)
    rates: Rates = field(default_factory=Rates)

    @property
    def state(self) -> str:
        """The state as one word."""
        return "away" if self.away else str(self.answer.get("state", "unknown"))

    @property
    def ok(self) -> bool:
        """Whether it works as recorded, by its own account."""
        return self.state == "running" and not self.faults

    @property
    def awaiting_removal(self) -> int:
        """Entries that hardware refused to remove so far; the program tries again every second."""
        return int(self.answer.get("awaiting_removal") or 0)

    @property
    def warnings(self) -> list[str]:
        """What an operator should know."""
        missed = self.dropped.get("missed", 0)
        strange = [f"the extension dropped {missed} packets that its own pipes had no entry for"] if missed else []
        gone = (
            ["the extension cannot be reached: its VIPs may get no answers; all other VIPs are still served"]
            if self.away
            else []
        )
        return [*gone, *self.faults, *strange]

    def text(self) -> str:
        """In words."""
        if self.away:
            return f"cannot be reached: {self.away}"
        n, loads = self.answer.get("vips", 0), self.answer.get("loads", 0)
        parts = [self.state, f"{n} service{'s' if n != 1 else ''}", f"{loads} load{'s' if loads != 1 else ''}"]
        waiting = self.awaiting_removal
        parts += [f"{counted(waiting, 'entry', 'entries')} that hardware has not removed yet"] if waiting else []
        drops = sum(sum(self.dropped.get(side, {}).values()) for side in ("in", "out"))
        return ", ".join([*parts, *([f"{drops} packets dropped"] if drops else []), f"socket {self.socket}"])

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "socket": self.socket,
            "reachable": not self.away,
            "reason": self.away or None,
            "state": self.state,
            "loads": self.answer.get("loads"),
            "up_seconds": self.answer.get("up_seconds"),
            "used_of_budget": self.answer.get("used_of_budget"),
            "awaiting_removal": self.awaiting_removal,
            "dropped": self.dropped or None,
            "vips": [{"name": s.name, **self.rates.of([s]).as_json()} for s in self.served],
        }


def view_extension(switch: TargetSwitch, spec: Spec) -> ExtensionView:
    """Return its current state."""
    program = extension_client(switch, spec, _PATIENCE)
    try:
        answer = program.status()
        return ExtensionView(program.path, answer=answer, faults=list(faults_of(program, answer)))
    except (SwitchError, PermissionError) as err:
        return ExtensionView(program.path, away=why(err))


def why(err: SwitchError | PermissionError) -> str:
    """Why it cannot be asked."""
    return f"{err.filename}: {err.strerror}" if isinstance(err, PermissionError) else str(err)


def take_extension_counters(
    switch: TargetSwitch, spec: Spec, members: Iterable[Membership]
) -> tuple[Sample, dict[str, Any]]:
    """Return its counters in the form of flow counters, and its drops; nothing if it cannot be reached."""
    try:
        answer = extension_client(switch, spec, _PATIENCE).counters()
        found = dict(_counts(answer, spec, {m.title: m for m in members}, time.monotonic()))
        return found, answer["dropped"]
    except (SwitchError, PermissionError, KeyError, TypeError, AttributeError):
        return {}, {}


def take_extension_slots(
    switch: TargetSwitch, spec: Spec, members: Iterable[Membership]
) -> dict[int, Mapping[int, int]]:
    """Return the packets so far of each slot that it counts, by the number of its pool. Raises SwitchError."""
    pools, found = {m.title: m for m in members}, dict[int, dict[int, int]]()
    program = extension_client(switch, spec, _PATIENCE)
    answer = program.slots()
    try:
        for service in answer["vips"]:
            _, pool = _service(service["name"], spec, pools)
            if pool is not None:
                slots = found.setdefault(pool.number, {})
                for slot, packets in enumerate(service["slots"]):
                    slots[slot] = slots.get(slot, 0) + packets
    except (KeyError, TypeError, AttributeError):
        raise SwitchError(f"{program.name}: found no packets by slot in its answer") from None
    return dict(found)


def _service(name: str, spec: Spec, pools: Mapping[str, Membership]) -> tuple[str, Membership | None]:
    """The protocol of a service, and the pool that has it, of those by their titles."""
    vip_name, _, rest = name.partition("/")
    address, _, end = rest.partition("/")
    protocol, vip = end.partition("/")[0], spec.vips.get(vip_name)
    if vip is None:
        return protocol, None
    reached = MODES[vip.forwarding].reach("ipv6" if ":" in address else "ipv4")
    whole = f"pool {vip.pool}"
    return protocol, pools.get(whole if reached == ANY else f"{whole} {_WORD[reached]}") or pools.get(whole)


def _counts(
    answer: dict[str, Any], spec: Spec, pools: dict[str, Membership], age: float
) -> Iterator[tuple[tuple[Key, str], Count]]:
    for service in answer["vips"]:
        protocol, pool = _service(service["name"], spec, pools)
        yield (ExtendedServiceKey(service["name"], protocol), ""), Count(service["packets"], age, service["bytes"])
        numbers = {m.name: m.number for m in pool.members} if pool else {}
        for target, count in service["backends"].items():
            backend = target.split("/")[1] if "/" in target else target
            if pool is not None and backend in numbers:
                place = f"{service['name']} to {target}"
                key = BackendKey(pool.number, numbers[backend], protocol)
                yield (key, place), Count(count["packets"], age, count["bytes"])
