# SPDX-License-Identifier: Apache-2.0
"""The forwarding modes, one module each, by the spec's word.

To add a mode: a module here with a subclass of `ModeReference` (service.py), and its line in MODES.
"""

from __future__ import annotations

from dnsteer.proof.reference.modes.ct_nat import CtNatReference
from dnsteer.proof.reference.modes.dsr import DsrReference
from dnsteer.proof.reference.modes.ipip import IpipReference
from dnsteer.proof.reference.modes.nat import NatReference
from dnsteer.proof.reference.modes.siit import SiitReference
from dnsteer.proof.reference.modes.tunnel import GeneveReference, GreReference, VxlanReference
from dnsteer.proof.reference.service import ModeReference
from dnsteer.spec.errors import DefinitionError
from dnsteer.spec.model.spec import Forwarding

__all__ = ["MODES", "ModeReference"]

MODES: dict[Forwarding, type[ModeReference]] = {
    Forwarding.SIIT: SiitReference,
    Forwarding.DSR: DsrReference,
    Forwarding.IPIP: IpipReference,
    Forwarding.NAT: NatReference,
    Forwarding.CT_NAT: CtNatReference,
    Forwarding.VXLAN: VxlanReference,
    Forwarding.GENEVE: GeneveReference,
    Forwarding.GRE: GreReference,
}
"""In the order in which modes are asked for an answer: `siit` takes answers to its prefix before `nat` does."""

for _word in Forwarding:
    if _word not in MODES:
        raise DefinitionError(
            f"forwarding {_word.value} has no reference: write dnsteer/proof/reference/modes/{_word.value}.py and add it to "
            "MODES in dnsteer/proof/reference/modes/__init__.py"
        )
