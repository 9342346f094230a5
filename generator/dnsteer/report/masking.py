# SPDX-License-Identifier: Apache-2.0
"""Leave addresses, notes or people out of a report that others may read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum

from dnsteer.slots.denial import Denial
from dnsteer.slots.maintenance import OF_THE_AGENT, Maintenance
from dnsteer.switch.state import AppliedState
from dnsteer.view.masking import replace_addresses

LEFT_OUT = "(left out)"


class Maskable(str, Enum):
    """What can be left out of a report."""

    ADDRESSES = "addresses"
    NOTES = "notes"
    PEOPLE = "people"
    SPEC = "spec"


_KEPT = frozenset({"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "255.255.255.255", "0.0.0.0", "::", "127.0.0.1", "::1"})
"""Masks and addresses that are nobody's."""


class AddressMask:
    """Puts `IPv4-1`, `IPv6-2`, `MAC-3` in place of addresses, in any text; the same word for the same address."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._numbers: Counter[str] = Counter()

    def __call__(self, text: str) -> str:
        """The text without addresses."""
        return replace_addresses(text, self._word)

    def _word(self, kind: str, address: str) -> str:
        if address in _KEPT:
            return address
        if address not in self._words:
            self._numbers[kind] += 1
            self._words[address] = f"{kind}-{self._numbers[kind]}"
        return self._words[address]


class PeopleMask:
    """Puts `person 1` in place of who did something; the same words for the same person."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """What stands for a name."""
        return self._words.setdefault(name, f"person {len(self._words) + 1}") if name else ""


@dataclass(frozen=True)
class Masks:
    """Leaves notes or people, if they are among *parts*, out of maintenance and states; the agent's notes stay."""

    parts: frozenset[Maskable]
    person: PeopleMask

    def entry(self, entry: Maintenance) -> Maintenance:
        """An entry without them."""
        of_agent = entry.kind in OF_THE_AGENT
        note = entry.note if of_agent else self._note(entry.note)
        return replace(entry, note=note, by=self.by(entry.by))

    def denial(self, denial: Denial) -> Denial:
        """A denial without them."""
        return replace(denial, note=self._note(denial.note), by=self.by(denial.by))

    def state(self, state: AppliedState) -> AppliedState:
        """A state without them; the folder of its file, which may name somebody, goes too."""
        ended = tuple(map(self.entry, state.ended))
        file = self.file(state.file)
        return replace(state, note=self._note(state.note), by=self.by(state.by), ended=ended, file=file)

    def file(self, file: str) -> str:
        """The name of a file."""
        return file.rpartition("/")[2] if Maskable.PEOPLE in self.parts else file

    def _note(self, note: str) -> str:
        return LEFT_OUT if note and Maskable.NOTES in self.parts else note

    def by(self, name: str) -> str:
        """Who did something."""
        return self.person(name) if Maskable.PEOPLE in self.parts else name
