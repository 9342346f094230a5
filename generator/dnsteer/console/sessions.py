# SPDX-License-Identifier: Apache-2.0
"""Sessions of browsers: who signed in, in bounded memory of the agent. They end with it."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from dnsteer.console.tokens import Token

MAX_SESSIONS = 256
"""Sessions at once. Of the token that has most, the one that was not used for longest makes room for another."""
MAX_OF_TOKEN = 16
"""Sessions of one token at once; its longest unused one makes room for another, not one of somebody else's."""
LONGEST, IDLE = 12 * 3600.0, 3600.0
"""Seconds after which a session ends: since it began, and since it was used."""


@dataclass
class ConsoleSession:
    """A session: the token that it began with, and the word *csrf* that each form of it carries. Times in seconds."""

    token: Token
    began: float
    used: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))


class Sessions:
    """The sessions, by the hash of their id: what is in memory is no id that a browser could show."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[str, ConsoleSession] = {}

    def begin(self, token: Token) -> str:
        """Begin a session, and return its id for the cookie."""
        self._end_old()
        of = Counter(session.token for session in self._sessions.values())
        if of[token] >= MAX_OF_TOKEN:
            self._end_unused(token)
        elif len(self._sessions) >= MAX_SESSIONS:
            self._end_unused(of.most_common(1)[0][0])
        name, now = secrets.token_urlsafe(32), self._clock()
        self._sessions[_key(name)] = ConsoleSession(token, now, now)
        return name

    def find(self, name: str) -> ConsoleSession | None:
        """The session of an id, which is used now; None if there is none, or not any more."""
        self._end_old()
        session = self._sessions.get(_key(name))
        if session is not None:
            session.used = self._clock()
        return session

    def is_open(self, session: ConsoleSession) -> bool:
        """Whether a session that was found before has not ended. An open page counts as a use of it."""
        self._end_old()
        known = any(session is other for other in self._sessions.values())
        if known:
            session.used = self._clock()
        return known

    def end(self, session: ConsoleSession) -> None:
        """End a session."""
        self._sessions = {key: other for key, other in self._sessions.items() if other is not session}

    def _end_unused(self, token: Token) -> None:
        """End that session of a token that was not used for longest."""
        own = [key for key, session in self._sessions.items() if session.token == token]
        del self._sessions[min(own, key=lambda key: self._sessions[key].used)]

    def _end_old(self) -> None:
        now = self._clock()
        for key, session in list(self._sessions.items()):
            if now - session.began >= LONGEST or now - session.used >= IDLE:
                del self._sessions[key]


def _key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
