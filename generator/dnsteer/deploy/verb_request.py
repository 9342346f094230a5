# SPDX-License-Identifier: Apache-2.0
"""A verb that a part of the agent asks for, as on the command line: carried out by the code of the control socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class VerbRequest:
    """A verb with its arguments. *by* is who asks, for the record; *files* what the files hold that the arguments name.

    *expected* is the fingerprint of the record that was previewed (`deploy.agreement`): on another one nothing is done.
    """

    argv: tuple[str, ...]
    by: str
    expected: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def is_gradual(self) -> bool:
        """Whether it takes as long as its `--over` says: a preview does not."""
        return "--dry-run" not in self.argv and any(word.startswith("--over=") for word in self.argv)


@dataclass(frozen=True)
class VerbOutcome:
    """What a verb ended with: its exit code, its standard output, and all that it *said*, errors included.

    *found* is the fingerprint of the record that it worked on.

    *outdated*: nothing was done, since the record is another one than expected.
    """

    code: int
    out: str = ""
    said: str = ""
    found: str = ""
    outdated: bool = False


RunVerb = Callable[[VerbRequest], Awaitable[VerbOutcome]]
"""Carries a verb out; must run to its end, so it is awaited by a task of its own."""
