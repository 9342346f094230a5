# SPDX-License-Identifier: Apache-2.0
"""Tell neighbours of VIPs and gateways unasked: gratuitous ARP (RFC 5227) and unsolicited advertisements (RFC 4861, 7.2.6).

They leave by OpenFlow packet-out into each network where the switch answers for them too: those about VIPs by all uplinks,
those about gateways by the ports of backends, with the tags of their VLANs. With `vlans: any` untagged: which VLANs there
are is not known.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from math import inf

from dnsteer.agent.followed_state import FollowedState
from dnsteer.agent.held_switch import HeldSwitch, SwitchThread
from dnsteer.agent.supervise import Retry, set_within
from dnsteer.metrics.observer import AgentObserver
from dnsteer.render.templates import active_member, port_name
from dnsteer.spec.bonds import bond_members
from dnsteer.spec.derived import gateway_mac
from dnsteer.spec.model.gratuitous import Gratuitous
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.model.types import Address
from dnsteer.spec.networks import NO_VLAN, networks_of
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.tools import SwitchError

APART = 1.0
"""Seconds between two times."""
_TROUBLE = "the announcements"
_BROADCAST, _ALL_NODES = b"\xff" * 6, bytes.fromhex("333300000001")
_NODES = IPv6Address("ff02::1").packed
_OVERRIDE, _ROUTER = 0x20000000, 0x80000000


def announcement_frame(address: Address, mac: str, *, router: bool, vlan: int = NO_VLAN) -> bytes:
    """The frame that tells neighbours of an address: an ARP announcement, or an advertisement to all nodes."""
    data = _untagged(address, mac, router=router)
    return data[:12] + struct.pack("!HH", 0x8100, vlan) + data[12:] if vlan else data


def _untagged(address: Address, mac: str, *, router: bool) -> bytes:
    own = bytes.fromhex(mac.replace(":", ""))
    if isinstance(address, IPv4Address):
        arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + own + address.packed + bytes(6) + address.packed
        return (_BROADCAST + own + b"\x08\x06" + arp).ljust(60, b"\0")
    flags = _OVERRIDE | (_ROUTER if router else 0)
    rest = struct.pack("!I", flags) + address.packed + b"\x02\x01" + own
    length = 4 + len(rest)
    total = _sum(address.packed + _NODES + struct.pack("!IHBB", length, 0, 0, 58) + b"\x88\x00\x00\x00" + rest)
    header = struct.pack("!IHBB", 6 << 28, length, 58, 255) + address.packed + _NODES
    return _ALL_NODES + own + b"\x86\xdd" + header + b"\x88\x00" + struct.pack("!H", total) + rest


def _sum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def announcement_frames(spec: Spec) -> Iterator[tuple[bytes, Sequence[str]]]:
    """Yield the frame of each gateway, then of each VIP address, in each VLAN, with the ports that it leaves by."""
    switch, networks = spec.switch, networks_of(spec)
    for gateway in switch.gateways:
        for vlan in dict.fromkeys(n.vlan for n in networks if n.gateways):
            ports = [n.port for n in networks if n.gateways and n.vlan == vlan]
            yield announcement_frame(gateway, gateway_mac(switch), router=True, vlan=vlan), ports
    for address in dict.fromkeys(address for vip in spec.vips.values() for address in vip.addresses):
        for vlan in dict.fromkeys(n.vlan for n in networks if n.vips):
            ports = [n.port for n in networks if n.vips and n.vlan == vlan]
            yield announcement_frame(address, switch.mac, router=False, vlan=vlan), ports


def packet_out_lines(spec: Spec, there: Collection[str]) -> list[str]:
    """The same as ovs-ofctl takes them in a bundle, for the ports that are *there*: it refuses all for one that is not."""
    sent = [
        (frame, [_out_by(spec, p, there) for p in ports if p in there]) for frame, ports in announcement_frames(spec)
    ]
    return [
        f"packet-out in_port=controller,packet={frame.hex()},actions={','.join(outputs)}"
        for frame, outputs in sent
        if outputs
    ]


def _out_by(spec: Spec, port: str, there: Collection[str]) -> str:
    """The action that sends by a port, of a bond by its active member."""
    members = tuple(member for member in bond_members(spec.switch, port) if member in there)
    return f"{active_member(members)},IN_PORT" if members else f"output:{port_name(port)}"


def notified_ports(spec: Spec) -> list[str]:
    """The ports whose neighbours are told of something."""
    return [*dict.fromkeys(port for _, ports in announcement_frames(spec) for port in ports)]


def notify_neighbors(client: OpenFlow, spec: Spec) -> None:
    """Send them once by the ports that there are. Raises PermissionError, or SwitchError, also for one that is missing."""
    ports = notified_ports(spec)
    if why := _missing(ports, notify_by_ports(client, spec, ports)):
        raise SwitchError(why)


def notify_by_ports(client: OpenFlow, spec: Spec, ports: Collection[str]) -> set[str]:
    """Send them once by those of *ports* that there are, which are returned. Raises SwitchError or PermissionError."""
    found, told = client.ports(), set[str]()
    there = found.intersection(ports)
    for port in ports:
        members = found.intersection(bond_members(spec.switch, port))
        told |= {port} if members or port in there else set()
        there |= members | ({port} if members else set())
    if messages := packet_out_lines(spec, there):
        client.bundle(messages)
    return told


def _missing(ports: Collection[str], there: Collection[str]) -> str:
    """Which ports are missing, in words; empty: none."""
    missing = [port for port in ports if port not in there]
    return f"the switch has no port {', '.join(missing)}; those at its other ports are told" if missing else ""


class NeighborNotices:
    """Sends what the applied spec wants to be sent."""

    def __init__(self, switch: HeldSwitch) -> None:
        self._switch = switch
        self._followed: FollowedState | None = None
        self._rules: Gratuitous | None = None
        self._left: dict[str, int] = {}
        """How often each port is still to be sent by. One that is missing waits until it is there."""
        self._begun = False
        """Whether all is to be sent, which has not been said yet."""
        self._since = 0.0
        """When something was sent last, or was to be sent once more."""
        self._retry = Retry()
        self.standby = False
        """Whether the switch is on standby, when nothing is sent."""
        self._wake = asyncio.Event()

    def begin(self, followed: FollowedState, *, taking_over: bool = False) -> None:
        """All is to be sent: the agent begins, another state was applied, the tables were repaired, or the switch has taken
        over from another one, where it is done whatever the spec says."""
        self._followed, self._rules = followed, followed.spec.switch.gratuitous
        if taking_over and self._rules is None:
            self._rules = Gratuitous()
        self._left = dict.fromkeys(notified_ports(followed.spec), self._rules.repeat) if self._rules is not None else {}
        self._begun = True
        self._retry.reset()
        self._wake.set()

    async def run(self, work: SwitchThread, is_acting: Callable[[], bool], observer: AgentObserver) -> None:
        """Send until cancelled, while *is_acting*, and no other agent is. *work* does something in the thread that changes
        the switch."""
        clock = asyncio.get_running_loop().time
        while True:
            self._wake.clear()
            refresh, ends = self._rules.refresh if self._rules is not None else 0.0, [inf]
            if self._followed is None or self._rules is None or self.standby or not is_acting():
                self._left = {}
                observer.forget_troubles(_TROUBLE)
            elif refresh and clock() >= self._since + refresh:
                self._since, self._left = clock(), dict.fromkeys(notified_ports(self._followed.spec), 1) | self._left
                self._retry.reset()
            if self._left:
                await self._send_left(work, clock, observer)
                ends.append(self._retry.due_in(clock()))
            if refresh:
                ends.append(max(self._since + refresh - clock(), 0.0))
            pause = min(ends)
            await set_within(self._wake, pause if pause < inf else None)

    async def _send_left(self, work: SwitchThread, clock: Callable[[], float], observer: AgentObserver) -> None:
        """Send what is left by the ports that there are, if it is time."""
        left, followed = self._left, self._followed
        if followed is None or not self._retry.is_due(clock()):
            return
        told, why = set[str](), ""
        try:
            told = await work(partial(self._send, followed, {*left}))
        except (SwitchError, PermissionError) as err:
            why = str(err)
        else:
            why = _missing(left, told)
        if why:
            observer.report_trouble(_TROUBLE, f"neighbours are not told of VIPs and gateways: {why}")
        else:
            observer.end_trouble(_TROUBLE, "neighbours are told again")
            if self._begun and left is self._left:
                self._begun = False
                vips = len({address for vip in followed.spec.vips.values() for address in vip.addresses})
                gateways = len(followed.spec.switch.gateways)
                text = f"told neighbours of {vips} VIP addresses and {gateways} gateways"
                observer.say(text, "announced", addresses=vips + gateways)
        for port in told:
            left[port] -= 1
            if not left[port]:
                del left[port]
        if told:
            self._since = clock()
            self._retry.reset()
            await asyncio.sleep(APART)
        elif left is self._left:
            self._retry.postpone(clock())

    def _send(self, followed: FollowedState, ports: Collection[str]) -> set[str]:
        return notify_by_ports(self._switch.client(followed.bridge), followed.spec, ports)
