# SPDX-License-Identifier: Apache-2.0
"""Withdraw routes that nobody keeps: those that an earlier spec had elsewhere, and those of an agent that was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress

from dnsteer.agent.announce.bird_routes import ForeignFileError, Publisher, PublishError, RouteOwner
from dnsteer.spec.model.announce import Announce
from dnsteer.switch.agent_record import AgentRecordSession, recorded_route_locations, route_location
from dnsteer.switch.state import BridgeRecord, DamagedError
from dnsteer.switch.tools import SwitchError


class FormerRoutes:
    """Where BIRD may have routes of earlier specs. The record says it to an agent that is started later."""

    def __init__(self) -> None:
        self._known: list[Announce] = []

    def forget(self) -> None:
        """Forget what is known: another agent acts."""
        self._known = []

    def withdraw(self, record: BridgeRecord, owner: RouteOwner, announce: Announce | None) -> list[str]:
        """Withdraw routes elsewhere than *announce* says, and record where some are left. Return what has failed, in words.

        What shares the file or the protocols with the present location is tried once, before that has routes.
        """
        here = route_location(announce) if announce is not None else None
        left, wrong = [], []
        recorded: list[Announce] | None = None
        try:
            recorded = recorded_route_locations(record)
        except DamagedError as err:
            wrong.append(str(err))
        known = [*(recorded or []), *(each for each in self._known if each not in (recorded or []))]
        for location in known:
            if location != here and (why := _withdraw(owner, location)):
                wrong.append(why)
                if here is None or not _share(location, here):
                    left.append(location)
        self._known = [*left, *([here] if here is not None else [])]
        if self._known != recorded:
            try:
                with AgentRecordSession(owner.remote) as session:
                    session.record_route_locations(record, self._known)
            except SwitchError as err:
                wrong.append(f"where VIPs are announced could not be recorded: {err}")
        return wrong


def _share(one: Announce, other: Announce) -> bool:
    """Whether to withdraw what is at one location takes away routes at the other."""
    return one.include == other.include or (one.control, one.protocol) == (other.control, other.protocol)


def _withdraw(owner: RouteOwner, location: Announce) -> str:
    """Withdraw the routes at a location. Return why they are still there; empty: they are not."""
    try:
        Publisher(owner, location).withdraw(waits=True)
    except ForeignFileError:
        return ""  # it has become somebody else's
    except PublishError as err:
        return f"routes in {location.include} are not withdrawn: {err}"
    return ""


_RELEASED = b"released\n"
_PATIENCE, _AGAIN = 30.0, 0.5
"""Seconds that BIRD may be away, and between two attempts."""


class RouteGuard:
    """A process that withdraws the routes of an agent that was killed: `on_stop: withdraw` holds then too.

    It reads from a pipe that the agent holds open. A word tells it to end; the end of the pipe, which the kernel makes when
    the agent dies, that nobody looks after the routes.
    """

    def __init__(self, owner: RouteOwner, announce: Announce) -> None:
        told = json.dumps([owner.bridge, owner.remote, announce.model_dump(mode="json")])
        # In a session of its own: what ends the agent by its terminal or its process group must not end the guard.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dnsteer.agent.announce.stale_routes"], stdin=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(told.encode() + b"\n")
        self._process.stdin.flush()

    def is_running(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def release(self) -> None:
        """Let the process end without withdrawing anything."""
        with suppress(OSError, subprocess.TimeoutExpired):  # it is gone already, or goes later
            self._process.communicate(_RELEASED, timeout=5)


def main() -> None:
    """Wait for the end of the agent."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # systemd ends a unit's other processes with its main one
    bridge, remote, announce = json.loads(sys.stdin.buffer.readline())
    publisher = Publisher(RouteOwner(bridge, remote), Announce.model_validate(announce))
    if sys.stdin.buffer.read() == _RELEASED:
        return
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            publisher.withdraw()
            return
        except PublishError as err:
            print(f"dnsteer: the agent was killed, and its VIPs are not withdrawn: {err}", file=sys.stderr)
        time.sleep(_AGAIN)


if __name__ == "__main__":
    main()
