# SPDX-License-Identifier: Apache-2.0
"""Where the files of access lists are, as a line of the effective spec: so the agent can read them again.

Paths that the effective spec has otherwise are relative to where somebody ran `apply`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dnsteer.spec.errors import Path

_LINE = "# lists "


@dataclass(frozen=True)
class FollowedList:
    """A file whose entries are in access lists of a spec.

    *name* is what parts of the spec call it, *file* its absolute path on the machine *host*; its links may not lead out of
    the folder *within*. *sha256* is that of the text that was read. *lists* are the paths of the lists that it belongs to,
    such as `switch.access.deny`. *held* is the SHA-256 of another text that is not to be applied by itself; empty: of none.
    """

    name: str
    file: str
    within: str
    host: str
    sha256: str
    lists: tuple[Path, ...]
    held: str = ""

    @property
    def place(self) -> tuple[object, ...]:
        """What of it says where it is and what for, whatever it holds."""
        return self.name, self.file, self.within, self.lists


def list_lines(lists: Sequence[FollowedList]) -> list[str]:
    """The line of the effective spec about these files; none without files."""
    return [_LINE + json.dumps([_as_value(one) for one in lists])] if lists else []


def _as_value(one: FollowedList) -> dict[str, Any]:
    value = {"name": one.name, "file": one.file, "within": one.within, "host": one.host, "sha256": one.sha256}
    return {**value, "lists": one.lists, **({"held": one.held} if one.held else {})}


def is_list_line(line: str) -> bool:
    """Whether a line of an effective spec says where files of lists are."""
    return line.startswith(_LINE)


def followed_lists(text: str) -> tuple[FollowedList, ...]:
    """The files of lists of an effective spec; none of any other text."""
    begin = 0
    while text.startswith("#", begin):  # the text may be of many lines
        end = text.find("\n", begin)
        line, begin = text[begin:end], end + 1
        if is_list_line(line):
            with suppress(ValueError, TypeError, KeyError):  # of a text that somebody has written by hand
                return tuple(_from_value(one) for one in json.loads(line.removeprefix(_LINE)))
        if not begin:
            break
    return ()


def _from_value(value: dict[str, Any]) -> FollowedList:
    return FollowedList(**{**value, "lists": tuple(tuple(path) for path in value["lists"])})
