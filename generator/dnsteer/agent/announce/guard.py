"""A process that withdraws the routes of an agent that was killed: `on_stop: withdraw` holds then too.

It reads from a pipe that the agent holds open. A word tells it to go; the pipe's end, which the kernel makes when the agent
dies, that there is nobody any more who looks after the routes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress

from dnsteer.agent.announce.publish import Publisher, PublishError
from dnsteer.agent.announce.routes import RouteOwner
from dnsteer.spec.model.announce import Announce

_RELEASED = b"released\n"
_PATIENCE, _AGAIN = 30.0, 0.5
"""Seconds that BIRD may be away, and between two attempts."""


class RouteGuard:
    """The guard of a bridge's routes, started by its agent."""

    def __init__(self, owner: RouteOwner, announce: Announce) -> None:
        told = json.dumps([owner.bridge, owner.remote, announce.model_dump(mode="json")])
        # In a session of its own: what ends the agent by its terminal or its process group must not end the guard.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dnsteer.agent.announce.guard"], stdin=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(told.encode() + b"\n")
        self._process.stdin.flush()

    def runs(self) -> bool:
        """Whether it is still there."""
        return self._process.poll() is None

    def release(self) -> None:
        """Let it go without a deed."""
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
