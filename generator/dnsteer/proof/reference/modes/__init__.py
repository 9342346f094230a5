"""The forwarding modes, one module each, by the spec's word.

To add a mode: a module here with a subclass of `base.Mode`, and its line in MODES.
"""

from __future__ import annotations

from dnsteer.proof.reference.modes.base import Mode
from dnsteer.proof.reference.modes.dsr import Dsr
from dnsteer.proof.reference.modes.ipip import Ipip
from dnsteer.proof.reference.modes.nat import Nat
from dnsteer.proof.reference.modes.siit import Siit
from dnsteer.spec.errors import DefinitionError
from dnsteer.spec.model.spec import Forwarding

__all__ = ["MODES", "Mode"]

MODES: dict[Forwarding, type[Mode]] = {
    Forwarding.SIIT: Siit,
    Forwarding.DSR: Dsr,
    Forwarding.IPIP: Ipip,
    Forwarding.NAT: Nat,
}
"""In the order in which modes try to match an answer: `siit` takes answers to its prefix before `nat` does."""

for _word in Forwarding:
    if _word not in MODES:
        raise DefinitionError(
            f"forwarding {_word.value} has no reference: write dnsteer/proof/reference/modes/{_word.value}.py and add it to "
            "MODES in dnsteer/proof/reference/modes/__init__.py"
        )
