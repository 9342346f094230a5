"""IP in IP: the extension sends the query through a tunnel to the backend, which owns the VIP."""

from __future__ import annotations

from dnsteer.modes.base import OwnsVip
from dnsteer.spec import derived
from dnsteer.spec.model.families import Family
from dnsteer.spec.model.spec import Backend, Forwarding


class Ipip(OwnsVip):
    """A tunnel ends at the backend's address of the query's family, or else at its other one."""

    word = Forwarding.IPIP
    program = "ipip"

    def target(self, backend: Backend, family: Family) -> str:
        """The end of the tunnel."""
        return str(derived.tunnel_end(backend, family))
