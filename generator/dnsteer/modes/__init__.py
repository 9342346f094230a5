"""Forwarding modes, a module each. Nothing else asks which mode a VIP has."""

from __future__ import annotations

from dnsteer.modes.base import Mode, NamedVip
from dnsteer.modes.dsr import Dsr
from dnsteer.modes.ipip import Ipip
from dnsteer.modes.nat import Nat
from dnsteer.modes.siit import Siit
from dnsteer.spec.model.spec import Forwarding

__all__ = ["BY_PROGRAM", "MODES", "Mode", "NamedVip"]

MODES: dict[Forwarding, Mode] = {mode.word: mode for mode in (Dsr(), Nat(), Ipip(), Siit())}
BY_PROGRAM: dict[str, Mode] = {mode.program: mode for mode in MODES.values() if mode.program}
"""By the word of the extension's program."""
