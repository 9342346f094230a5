# SPDX-License-Identifier: Apache-2.0
"""Find out MAC addresses of neighbours once, for an apply without an agent."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from contextlib import closing

from dnsteer.agent.neighbor_follower import EACH, Asker, own_macs
from dnsteer.agent.neighbor_table import NeighborTable
from dnsteer.agent.probe_port import forget_neighbors, set_up_probe_port
from dnsteer.slots.maintenance import is_station
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.neighbors import Neighbor
from dnsteer.switch.tools import SwitchError

PATIENCE = 3.0
"""Seconds until all must have answered."""


def resolve_once(spec: Spec, neighbors: Sequence[Neighbor], patience: float = PATIENCE) -> dict[str, str]:
    """Set the port for probes up, and ask; return the MAC addresses of those that answer in time, by address.

    Raises SwitchError where the port is not there, or cannot be set up.
    """
    probe = spec.switch.probe
    assert probe is not None
    set_up_probe_port(spec)
    try:
        asker = Asker(probe)
    except OSError as err:
        raise SwitchError(f"port {probe.port}: {err}") from None
    forget_neighbors(probe.port)
    found: dict[str, str] = {}
    wanted, own = {n.address for n in neighbors}, own_macs(spec)
    with closing(asker), closing(NeighborTable()) as table:
        table.ask_for_all()
        ends, ask_at = time.monotonic() + patience, 0.0
        while wanted - found.keys() and time.monotonic() < ends:
            if time.monotonic() >= ask_at:
                asker.ask([n for n in neighbors if n.address not in found])
                ask_at = time.monotonic() + EACH
            select.select([table.socket], [], [], 0.1)
            for entry in table.read():
                is_answer = entry.port == asker.port and entry.address in wanted and entry.fresh
                if is_answer and is_station(entry.mac) and entry.mac not in own:
                    found[entry.address] = entry.mac
    return found
