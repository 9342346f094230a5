# SPDX-License-Identifier: Apache-2.0
"""Which state is followed, with its probes: another one only once all of it can be followed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from dnsteer.agent.backend_health import Health
from dnsteer.agent.followed_state import FollowedState, carry_over, read_followed_state
from dnsteer.agent.held_switch import SwitchThread
from dnsteer.agent.probe_port import ProbePort
from dnsteer.agent.probes.schedule import ProbeSchedule, make_probers, probeable_targets, start_probes, stop_probes
from dnsteer.agent.probes.stream import refuse_unavailable
from dnsteer.agent.probes.udp import Report
from dnsteer.agent.role import Claim
from dnsteer.agent.supervise import Retry, describe_error
from dnsteer.metrics.observer import AgentObserver
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.agent_record import PastFailures, TargetKey, past_failures
from dnsteer.switch.state import AppliedState, BridgeRecord
from dnsteer.switch.tools import SwitchError, UnavailableError


class StateFollower:
    """Follows the state that is applied: *followed*, None until there is one.

    *add* takes the results of its probes, *tell* another state as soon as it is followed.
    """

    def __init__(
        self,
        claim: Claim,
        health: Health,
        add: Report,
        tell: Callable[[FollowedState], None],
        probe_port: ProbePort,
        observer: AgentObserver,
    ) -> None:
        self._claim, self._health, self._add, self._tell = claim, health, add, tell
        self._probe_port, self._observer = probe_port, observer
        self.followed: FollowedState | None = None
        self._complete: FollowedState | None = None
        """The last state all of which could be followed: that of the probes."""
        self._probes: list[ProbeSchedule] = []
        self._refused = 0
        """The number of the state that cannot be followed, 0 if there is none."""
        self._retry = Retry()

    async def follow(
        self, record: BridgeRecord, overlay: Overlay, work: SwitchThread, loop: asyncio.AbstractEventLoop
    ) -> bool:
        """Follow the state that is applied, and return whether another one is followed from now on.

        Where it cannot be, the one before goes on as far as it holds for it, and it is tried again; the first one is
        followed without the checks that cannot be asked. Raises UnavailableError; and any exception where there is none
        before.
        """
        number = record.number
        if self.followed is not None and self.followed.number == number and not self._refused:
            return False
        if self._refused != number:
            self._retry.reset()
        if not self._retry.is_due(loop.time()):
            return False
        try:
            followed = await work(partial(self._read_state, record))
            await self._probe_port.adopt(followed.spec, work, loop.time())
            self._adopt(followed, overlay, past_failures(record), loop)
        except UnavailableError:
            raise
        except Exception as err:  # noqa: BLE001  as below
            self._retry.postpone(loop.time())
            if self._complete is None:
                await self._begin_in_part(record, overlay, work, loop, err)
                return True
            if self._refused != number:
                self.followed, self._refused = (
                    carry_over(self._complete, await work(partial(self._read_applied, record))),
                    number,
                )
            assert self.followed is not None
            self._tell_refused(number, self.followed, self._why(err))
            return False
        self._refused = 0
        self._retry.reset()
        self._observer.end_trouble("the state", f"state {number} is followed now")
        return True

    async def _begin_in_part(
        self,
        record: BridgeRecord,
        overlay: Overlay,
        work: SwitchThread,
        loop: asyncio.AbstractEventLoop,
        err: Exception,
    ) -> None:
        """Follow the first state without the checks that cannot be asked. Raises *err* where that is not what is wrong."""
        followed = await work(partial(read_followed_state, self._claim.session(), record))
        targets = probeable_targets(followed.targets)
        if len(targets) == len(followed.targets):
            raise err
        asked = {target.pool for target in targets}
        rules = {name: rules for name, rules in followed.rules.items() if rules.pool in asked}
        await self._probe_port.adopt(followed.spec, work, loop.time())
        self._adopt(replace(followed, targets=targets, rules=rules), overlay, past_failures(record), loop)
        self._refused = record.number
        left = dict.fromkeys(target.pool for target in followed.targets if target not in targets)
        number, pools = record.number, ", ".join(left)
        text = f"state {number} is followed without checks of {pools} that cannot be asked, and are tried again: "
        self._observer.report_trouble("the state", f"{text}{self._why(err)}", "error")

    def _tell_refused(self, number: int, kept: FollowedState, why: str) -> None:
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
        return describe_error(err)

    def stop(self) -> None:
        """End the probes."""
        stop_probes(self._probes)

    def _read_applied(self, record: BridgeRecord) -> AppliedState:
        return self._claim.session().state(record, record.number)

    def _read_state(self, record: BridgeRecord) -> FollowedState:
        followed = read_followed_state(self._claim.session(), record)
        refuse_unavailable({target.check.check for target in followed.targets})
        return followed

    def _adopt(
        self,
        followed: FollowedState,
        overlay: Overlay,
        past: Mapping[TargetKey, PastFailures],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        probers = make_probers(followed.targets, self._add, loop)  # before anything changes: what it reads may be wrong
        stop_probes(self._probes)
        self.followed = self._complete = followed
        self._health.adopt(followed.targets, overlay, loop.time(), past)
        self._probes = start_probes(probers, self._health, loop)
        self._tell(followed)
