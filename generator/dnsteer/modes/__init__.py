"""Forwarding modes, a module each. Nothing else asks which mode a VIP has."""

from __future__ import annotations

from dnsteer.modes.base import Mode, NamedVip
from dnsteer.modes.dsr import Dsr
from dnsteer.modes.ipip import Ipip
from dnsteer.modes.nat import Nat
from dnsteer.modes.siit import Siit
from dnsteer.spec.model.spec import Forwarding

__all__ = ["MODES", "Mode", "NamedVip"]

MODES: dict[Forwarding, Mode] = {mode.word: mode for mode in (Dsr(), Nat(), Ipip(), Siit())}
