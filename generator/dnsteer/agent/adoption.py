"""Which state is followed, with its probes: another one only once all of it can be followed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from dnsteer.agent.backend_health import Health
from dnsteer.agent.claim import Claim
from dnsteer.agent.kept_world import kept_world
from dnsteer.agent.probe_port import ProbePort
from dnsteer.agent.probes.stream import refuse_unavailable
from dnsteer.agent.probes.targets import Key
from dnsteer.agent.probes.turns import Turns
from dnsteer.agent.probes.udp import Report
from dnsteer.agent.probing import askable, make_probers, start_probes, stop_probes
from dnsteer.agent.supervise import Retry, described
from dnsteer.agent.world import World, read_world
from dnsteer.metrics.observer import AgentObserver
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.flapping import PastFailures, past_failures
from dnsteer.switch.state import AppliedState, BridgeRecord
from dnsteer.switch.tools import SwitchError, UnavailableError

T = TypeVar("T")


class Work(Protocol):
    """Does something in the thread that changes the switch."""

    def __call__(self, do: Callable[[], T], /) -> Awaitable[T]:
        """Return the result of *do*."""


class Adoption:
    """The *world* that is followed, None until there is one.

    *add* takes the results of its probes, *tell* another world as soon as it is followed.
    """

    def __init__(
        self, claim: Claim, health: Health, add: Report, tell: Callable[[World], None], probe_port: ProbePort,
        observer: AgentObserver,
    ) -> None:  # fmt: skip
        self._claim, self._health, self._add, self._tell = claim, health, add, tell
        self._probe_port, self._observer = probe_port, observer
        self.world: World | None = None
        self._followed: World | None = None
        """The last state all of which could be followed: that of the probes."""
        self._probes: list[Turns] = []
        self._refused = 0
        """The number of the state that cannot be followed, 0 if there is none."""
        self._retry = Retry()

    async def follow(self, record: BridgeRecord, overlay: Overlay, work: Work, loop: asyncio.AbstractEventLoop) -> bool:
        """Follow the state that is applied, and return whether another one is followed from now on.

        Where it cannot be, the one before goes on as far as it holds for it, and it is tried again; the first one is
        followed without the checks that cannot be asked. Raises UnavailableError; and any exception where there is none
        before.
        """
        number = record.number
        if self.world is not None and self.world.number == number and not self._refused:
            return False
        if self._refused != number:
            self._retry.worked()
        if not self._retry.due(loop.time()):
            return False
        try:
            world = await work(partial(self._read_world, record))
            await self._probe_port.adopt(world.spec, work, loop.time())
            self._adopt(world, overlay, past_failures(record), loop)
        except UnavailableError:
            raise
        except Exception as err:  # noqa: BLE001  as below
            self._retry.failed(loop.time())
            if self._followed is None:
                await self._begin_in_part(record, overlay, work, loop, err)
                return True
            if self._refused != number:
                self.world, self._refused = kept_world(self._followed, await work(partial(self._state, record))), number
            assert self.world is not None
            self._tell_refused(number, self.world, self._why(err))
            return False
        self._refused = 0
        self._retry.worked()
        self._observer.end_trouble("the state", f"state {number} is followed now")
        return True

    async def _begin_in_part(
        self, record: BridgeRecord, overlay: Overlay, work: Work, loop: asyncio.AbstractEventLoop, err: Exception
    ) -> None:
        """Follow the first state without the checks that cannot be asked. Raises *err* where that is not what is wrong."""
        world = await work(partial(read_world, self._claim.session(), record))
        targets = askable(world.targets)
        if len(targets) == len(world.targets):
            raise err
        asked = {target.pool for target in targets}
        rules = {name: rules for name, rules in world.rules.items() if rules.pool in asked}
        await self._probe_port.adopt(world.spec, work, loop.time())
        self._adopt(replace(world, targets=targets, rules=rules), overlay, past_failures(record), loop)
        self._refused = record.number
        left = dict.fromkeys(target.pool for target in world.targets if target not in targets)
        number, pools = record.number, ", ".join(left)
        text = f"state {number} is followed without checks of {pools} that cannot be asked, and are tried again: "
        self._observer.report_trouble("the state", f"{text}{self._why(err)}", "error")

    def _tell_refused(self, number: int, kept: World, why: str) -> None:
        """State *number* cannot be followed; the pools of the rules that are *kept* are checked as before."""
        names = ", ".join(dict.fromkeys(rules.pool for rules in kept.rules.values()))
        goes_on = f"the checks of the state before go on for {names}" if names else "no pool is the same as before"
        text = (
            f"state {number} cannot be followed, and is tried again: {why}; {goes_on}, and all others stay as they are"
        )
        self._observer.report_trouble("the state", text, "error")

    def _why(self, err: Exception) -> str:
        """What an exception says; one that nobody foresaw is counted."""
        if isinstance(err, SwitchError | PermissionError):
            return str(err)
        self._observer.defect("adopting a state")
        return described(err)

    def stop(self) -> None:
        """End the probes."""
        stop_probes(self._probes)

    def _state(self, record: BridgeRecord) -> AppliedState:
        return self._claim.session().state(record, record.number)

    def _read_world(self, record: BridgeRecord) -> World:
        world = read_world(self._claim.session(), record)
        refuse_unavailable({target.check.check for target in world.targets})
        return world

    def _adopt(
        self, world: World, overlay: Overlay, past: Mapping[Key, PastFailures], loop: asyncio.AbstractEventLoop
    ) -> None:
        probers = make_probers(world.targets, self._add, loop)  # before anything changes: what it reads may be wrong
        stop_probes(self._probes)
        self.world = self._followed = world
        self._health.adopt(world.targets, overlay, loop.time(), past)
        self._probes = start_probes(probers, self._health, loop)
        self._tell(world)
