# SPDX-License-Identifier: Apache-2.0
"""`ct-nat`: translated as by `nat`, each packet in both directions, and TCP connections stay with their backends."""

from __future__ import annotations

from dnsteer.proof.reference.modes.nat import NatReference


class CtNatReference(NatReference):
    """Of what begins a connection, ConnectionReference knows the backend."""

    keeps_connections = True
