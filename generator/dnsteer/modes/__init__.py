"""Forwarding modes, a module each. Nothing else asks which mode a VIP has."""

from __future__ import annotations

from dnsteer.modes.base import Mode
from dnsteer.modes.dsr import Dsr
from dnsteer.modes.ipip import Ipip
from dnsteer.modes.nat import Nat
from dnsteer.modes.siit import Siit
from dnsteer.spec.model.spec import Forwarding

MODES: dict[Forwarding, Mode] = {mode.word: mode for mode in (Dsr(), Nat(), Ipip(), Siit())}
