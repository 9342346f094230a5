"""Who asks for a page, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.console.sessions import ConsoleSession
from dnsteer.console.tokens import Role, Token


@dataclass(frozen=True)
class Visitor:
    """Somebody with a token, by a session or with the request itself; or anybody, where no tokens are asked for."""

    token: Token | None = None
    session: ConsoleSession | None = None

    @property
    def name(self) -> str:
        """The token's name; empty for anybody."""
        return self.token.name if self.token is not None else ""

    @property
    def role(self) -> Role:
        """What they may do."""
        return self.token.role if self.token is not None else "read"

    @property
    def may_change(self) -> bool:
        """Whether their token is one for changes, and they signed in with it: forms need a session."""
        return self.role == "change" and self.session is not None

    @property
    def csrf(self) -> str:
        """The word that forms of the session carry; empty without one."""
        return self.session.csrf if self.session is not None else ""


ANYBODY = Visitor()
