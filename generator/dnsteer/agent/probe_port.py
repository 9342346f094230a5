# SPDX-License-Identifier: Apache-2.0
"""Keep the port of probes set up. Where it is gone, only the checks through it wait for it: no look, and no failover."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import partial
from ipaddress import IPv6Address
from pathlib import Path

from dnsteer.agent.held_switch import SwitchThread
from dnsteer.agent.supervise import Retry
from dnsteer.metrics.observer import AgentObserver
from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.derived import family_of
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.neighbors import Neighbor, neighbors_of
from dnsteer.switch.tools import SwitchError

_TROUBLE = "the probe port"


class ProbePort:
    """The port of probes that the followed spec has, if it has one."""

    def __init__(self, observer: AgentObserver) -> None:
        self._observer = observer
        self._checked = False
        """Whether it has been set up since the last look."""
        self._retry = Retry()

    def looked(self) -> None:
        """A look is done, which may have made the port anew."""
        self._checked = False
        self._retry.reset()

    async def adopt(self, spec: Spec, work: SwitchThread, time: float) -> None:
        """Set it up as another spec says, before its checks begin."""
        self.looked()
        if spec.switch.probe is None:
            self._observer.forget_troubles(_TROUBLE)
        await self.keep(spec, work, time)

    async def keep(self, spec: Spec, work: SwitchThread, time: float) -> None:
        """Set it up, if that has not been done since the last look; where it fails, it is tried again later."""
        if self._checked or not self._retry.is_due(time):
            return
        try:
            await work(partial(set_up_probe_port, spec))
        except SwitchError as err:
            self._retry.postpone(time)
            self._observer.report_trouble(_TROUBLE, f"the port of probes cannot be set up: {err}", "error")
            return
        self._checked = True
        self._observer.end_trouble(_TROUBLE, "the port of probes is set up")


TABLE = 5353
"""Number of the routing table, and preference of its rules."""
_NEXT_HOP = {"ipv4": "169.254.53.53", "ipv6": "fe80::5353"}


def set_up_probe_port(spec: Spec) -> None:
    """Set the port up; what is there already stays. Raises SwitchError with what `ip` says.

    Addresses are given without their networks, so that nothing but probes takes this port. What comes from them has a
    routing table of its own, with one next hop that has the balancer's MAC address: the kernel asks nobody for a VIP's.
    """
    probe = spec.switch.probe
    if probe is None:
        return
    port = probe.port
    neighbors = neighbors_of(spec)
    if any(a.version == 6 for a in probe.addresses) or any(n.family == "ipv6" for n in neighbors):
        # For this port alone, without addresses by router advertisements.
        _write(f"ipv6/conf/{port}/accept_ra", "0")
        _write(f"ipv6/conf/{port}/disable_ipv6", "0")
    for name in (*uplink_devices(spec.switch), *spec.switch.ports):
        if Path(f"/proc/sys/net/ipv4/conf/{name}").exists():
            # The kernel sees the frames of such a port too, and would answer ARP for the addresses with the port's own MAC.
            _write(f"ipv4/conf/{name}/arp_ignore", "1")
    _ip(f"link set dev {port} up")
    for family in dict.fromkeys(family_of(a.ip) for a in probe.addresses):
        ip, hop = ("-4" if family == "ipv4" else "-6"), _NEXT_HOP[family]
        rules = _ip(f"{ip} rule show")
        for own in (a.ip for a in probe.addresses if family_of(a.ip) == family):
            _ip(f"{ip} address replace {own}/{own.max_prefixlen} dev {port}{' nodad' if family == 'ipv6' else ''}")
            if f"from {own} lookup {TABLE}" not in rules:
                _ip(f"{ip} rule add from {own} lookup {TABLE} pref {TABLE}")
        _ip(f"neigh replace {hop} lladdr {spec.switch.mac} dev {port} nud permanent")
        _ip(f"{ip} route replace default via {hop} dev {port} onlink table {TABLE}")
    _prepare_asking(neighbors, port)


NEIGHBOR_TIMERS = {
    "base_reachable_time_ms": 1000,
    "delay_first_probe_time": 0,
    "retrans_time_ms": 250,
    "ucast_solicit": 2,
    "mcast_resolicit": 3,
    "mcast_solicit": 3,
}
"""How the kernel asks by the port for probes: an answer is fresh for 0.5 to 1.5 s. Then it asks the MAC address that it
knows twice in 0.5 s, and after that everybody. So one that was replaced is noticed within 2.5 s, whatever it announces."""


def _prepare_asking(neighbors: Sequence[Neighbor], port: str) -> None:
    """Set what the kernel needs to ask neighbours by this port: timers, and a route to each."""
    for family in dict.fromkeys(n.family for n in neighbors):
        for timer, value in NEIGHBOR_TIMERS.items():
            _write(f"{family}/neigh/{port}/{timer}", str(value))
    routed = {
        "-4": [f"{n.address} dev {port} scope link" for n in neighbors if n.family == "ipv4"],
        "-6": [
            f"{n.address} dev {port}"
            for n in neighbors
            if n.family == "ipv6" and not IPv6Address(n.address).is_link_local
        ],
    }
    for ip, routes in routed.items():
        if routes:  # by one process: there may be hundreds
            _ip(f"{ip} -batch -", "".join(f"route replace {route} table {TABLE}\n" for route in routes))


def forget_neighbors(port: str) -> None:
    """Make the kernel forget whom it found by this port: what answered a second ago may be gone. Raises SwitchError."""
    for ip in ("-4", "-6"):
        _ip(f"{ip} neigh flush dev {port}")


def _write(setting: str, value: str) -> None:
    file = Path("/proc/sys/net") / setting
    try:
        file.write_text(value)
    except OSError as err:
        raise SwitchError(f"{file}: {err.strerror}") from None


def _ip(command: str, lines: str = "") -> str:
    argv = ["ip", *command.split()]
    try:
        done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=False, timeout=10)
    except FileNotFoundError:
        raise SwitchError("no program ip: install iproute2") from None
    except (OSError, subprocess.TimeoutExpired) as err:
        raise SwitchError(f"ip {command}: {err}") from None
    if done.returncode:
        raise SwitchError(f"ip {command}: {done.stderr.strip()}")
    return done.stdout
