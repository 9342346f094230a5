"""Forwarding modes, a module each; no code elsewhere depends on which mode a VIP has."""

from __future__ import annotations

from collections.abc import Iterable

from dnsteer.modes.base import Mode, NamedVip
from dnsteer.modes.dsr import Dsr
from dnsteer.modes.ipip import Ipip
from dnsteer.modes.nat import Nat
from dnsteer.modes.siit import Siit
from dnsteer.spec.model.spec import Forwarding

__all__ = ["BY_PROGRAM", "MODES", "Mode", "NamedVip"]


def _by_word(modes: Iterable[Mode]) -> dict[Forwarding, Mode]:
    """The modes by the spec's word. Raises ValueError where one is missing, or a number or a program's word occurs twice."""
    found = {mode.word: mode for mode in modes}
    missing = [word.value for word in Forwarding if word not in found]
    if missing:
        raise ValueError(f"no module in dnsteer/modes for forwarding {', '.join(missing)}")
    for what in ("number", "program"):
        used = [value for mode in found.values() if (value := getattr(mode, what))]
        if len(set(used)) != len(used):
            raise ValueError(f"two forwarding modes have the same {what}: {used}")
    return found


MODES = _by_word((Dsr(), Nat(), Ipip(), Siit()))
BY_PROGRAM: dict[str, Mode] = {mode.program: mode for mode in MODES.values() if mode.program}
"""By the word of the extension's program."""
