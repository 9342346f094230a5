# SPDX-License-Identifier: Apache-2.0
"""Follow neighbours that the spec gives by address: ask by the port for probes, and change the switch where one moved."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address

from dnsteer.agent.followed_state import FollowedState
from dnsteer.agent.held_switch import HeldSwitch, SwitchThread
from dnsteer.agent.neighbor_moves import MOVES, Heard, decide_moves
from dnsteer.agent.neighbor_table import NeighborTable, TableEntry
from dnsteer.agent.supervise import Retry, set_within
from dnsteer.deploy.decision import IDS, deciding
from dnsteer.deploy.neighbor_change import change_neighbors
from dnsteer.metrics.observer import AgentObserver
from dnsteer.slots.maintenance import FoundNeighbor, Overlay
from dnsteer.spec import derived
from dnsteer.spec.model.probe import Probe
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.neighbors import Neighbor, neighbors_of
from dnsteer.switch.tools import SwitchError

EACH = 0.5
"""Seconds between two times that all neighbours are asked: the kernel sends nothing while an answer is fresh."""
_GATHER = 0.02
"""Seconds in which changes are gathered: whoever floods the network with ARP must not keep the agent busy."""
STEADY = 10.0
"""Seconds for which a neighbour must answer as it should until that is said, and between two troubles with it."""
_DISCARD = 9
_TROUBLE, _CHANGE = "the neighbour ", "the neighbours"


class Asker:
    """Makes the kernel ask neighbours: a datagram to each, which the bridge drops, but for whose MAC address it asks."""

    def __init__(self, probe: Probe) -> None:
        self._name = probe.port
        self.port = socket.if_nametoindex(probe.port)
        self._networks = [(own.network, str(own.ip)) for own in probe.addresses]
        self._sockets: dict[str, socket.socket] = {}

    def is_current(self) -> bool:
        """Whether the port is still the one that there was."""
        with suppress(OSError):
            return socket.if_nametoindex(self._name) == self.port
        return False

    def ask(self, neighbors: Iterable[Neighbor]) -> None:
        """Ask each. One that cannot be sent to now is asked again the next time."""
        for n in neighbors:
            address = ip_address(n.address)
            own = next(
                (ip for network, ip in self._networks if address.version == network.version and address in network), ""
            )
            with suppress(OSError):
                to: tuple[str, int] | tuple[str, int, int, int] = (n.address, _DISCARD)
                if address.version == 6:
                    to = (n.address, _DISCARD, 0, self.port if address.is_link_local else 0)
                self._socket(n.family, own).sendto(b"", to)

    def _socket(self, family: str, own: str) -> socket.socket:
        """The socket whose datagrams come from *own*; from the link-local address of the port where that is empty."""
        key = own or family
        if key not in self._sockets:
            made = socket.socket(
                socket.AF_INET6 if family == "ipv6" else socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
            )
            if own:
                made.bind((own, 0))
            self._sockets[key] = made
        return self._sockets[key]

    def close(self) -> None:
        """Close the sockets."""
        for each in self._sockets.values():
            each.close()


@dataclass
class _Trouble:
    """What was said last of a neighbour and when, and when it was so last."""

    text: str = ""
    said: float = -STEADY
    seen: float = 0.0


class NeighborFollower:
    """Follows the neighbours of the applied spec. *heard* has what is known of each, by its address."""

    def __init__(self, switch: HeldSwitch, observer: AgentObserver) -> None:
        self._switch, self._observer = switch, observer
        self._heard: dict[str, Heard] = {}
        self._wake = asyncio.Event()
        self._retry = Retry()
        self._troubles: dict[str, _Trouble] = {}
        self._overlay: Overlay | None = None
        self._recorded: dict[str, str] = {}
        """The MAC addresses in the record: that of the overlay, and what was changed since that was read."""

    def wake(self) -> None:
        """Another state is followed, or the record is another one."""
        self._wake.set()

    async def run(self, work: SwitchThread, acting: Callable[[], tuple[FollowedState, Overlay] | None]) -> None:
        """Follow until cancelled, while *acting*, which returns what is applied, with the overlay of the record."""
        while True:
            known = acting()
            if known is None or not neighbors_of(known[0].spec):
                self._forget()
                await set_within(self._wake, None if known is None else 60.0)
                self._wake.clear()
                continue
            await self._follow(work, acting, known[0])

    def _forget(self) -> None:
        self._heard, self._troubles = {}, {}
        self._observer.forget_troubles(_TROUBLE, _CHANGE)
        self._observer.neighbors_heard({})

    async def _follow(
        self, work: SwitchThread, acting: Callable[[], tuple[FollowedState, Overlay] | None], followed: FollowedState
    ) -> None:
        """Follow the neighbours of one state, as long as it is applied."""
        loop, probe = asyncio.get_running_loop(), followed.spec.switch.probe
        assert probe is not None
        neighbors = neighbors_of(followed.spec)
        began = loop.time()
        self._heard = {n.address: self._heard.get(n.address, Heard(answered=began)) for n in neighbors}
        try:
            asker = Asker(probe)
        except OSError:  # no such port yet: the trouble is that of the port
            await set_within(self._wake, 1.0)
            self._wake.clear()
            return
        table = NeighborTable()
        try:
            table.ask_for_all()
            ask_at = 0.0
            while (known := acting()) is not None and known[0] is followed:
                if loop.time() >= ask_at:
                    if not asker.is_current():
                        return  # the port is another one now
                    asker.ask(neighbors)
                    ask_at = loop.time() + EACH
                self._hear(table.read(), asker.port, loop.time())
                await self._decide(work, followed, known[1], neighbors, loop.time())
                # Only here: what is not read yet would call it again and again.
                loop.add_reader(table.socket, self._wake.set)
                await set_within(self._wake, max(ask_at - loop.time(), 0.01))
                loop.remove_reader(table.socket)
                await asyncio.sleep(_GATHER)
                self._wake.clear()
        finally:
            loop.remove_reader(table.socket)
            table.close()
            asker.close()

    def _hear(self, entries: Iterable[TableEntry], port: int, now: float) -> None:
        for entry in entries:
            heard = self._heard.get(entry.address)
            if heard is None or entry.port != port or not entry.mac:
                continue
            if entry.fresh or entry.mac != heard.mac:
                heard.answered = now
            heard.mac = entry.mac

    async def _decide(
        self, work: SwitchThread, followed: FollowedState, overlay: Overlay, neighbors: list[Neighbor], now: float
    ) -> None:
        """Change the switch where a neighbour has moved, and say what does not work."""
        if overlay is not self._overlay:
            self._overlay, self._recorded = overlay, dict(overlay.macs or {})
        recorded = self._recorded
        decision = decide_moves(neighbors, recorded, self._heard, own_macs(followed.spec), now)
        self._tell(decision.troubles, now)
        self._observer.neighbors_heard({n.address: n.address not in decision.silent for n in neighbors})
        if not decision.macs or not self._retry.is_due(now):
            return
        try:
            id = IDS.next()
            changed = await work(partial(self._change, followed.bridge, decision.macs, id))
        except (SwitchError, PermissionError) as err:
            self._retry.postpone(now)
            self._observer.report_trouble(_CHANGE, f"MAC addresses of neighbours cannot be changed: {err}", "error")
            return
        self._retry.reset()
        self._observer.end_trouble(_CHANGE, "MAC addresses of neighbours can be changed again")
        titles = {n.address: n.title for n in neighbors}
        self._recorded.update(decision.macs)
        for found in changed:
            heard = self._heard[found.address]
            if found.before:
                heard.moves = [*heard.moves[-MOVES:], now]
            self._observer.neighbor_moved(titles[found.address], found, id)

    def _change(self, bridge: str, macs: Mapping[str, str], id: str) -> list[FoundNeighbor]:
        with deciding(id):
            return change_neighbors(self._switch, bridge, macs)

    def _tell(self, troubles: Mapping[str, str], now: float) -> None:
        """Say what does not work, and what does again: once a STEADY at most of each, whatever a forger sends."""
        for address in self._troubles.keys() - self._heard.keys():
            del self._troubles[address]
            self._observer.forget_troubles(_TROUBLE + address)  # the spec does not have it any more
        for address, text in troubles.items():
            trouble = self._troubles.setdefault(address, _Trouble())
            trouble.seen = now
            if text != trouble.text and now - trouble.said >= STEADY:
                trouble.text, trouble.said = text, now
                self._observer.report_trouble(_TROUBLE + address, text)
        for address in self._troubles.keys() - troubles.keys():
            if now - self._troubles[address].seen >= STEADY:
                del self._troubles[address]
                self._observer.end_trouble(_TROUBLE + address, f"neighbour {address} answers as it should again")


def own_macs(spec: Spec) -> set[str]:
    """The MAC addresses of the switch, which no neighbour has."""
    switch = spec.switch
    probe = {derived.probe_mac(switch, switch.probe)} if switch.probe is not None else set[str]()
    return {switch.mac, derived.gateway_mac(switch), *probe}
