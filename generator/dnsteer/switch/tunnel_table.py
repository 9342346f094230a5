# SPDX-License-Identifier: Apache-2.0
"""The routes of tunnels in a running ovs-vswitchd, and the addresses of the bridge's own port that they need.

Routes of a bridge are all dnsteer's. Open vSwitch takes none whose source address it has not found at the bridge's own port.
Addresses are given without their networks, so that nothing of the machine's own goes that way.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass

from dnsteer.plan.tunnel_routes import TunnelRoute, TunnelRoutes
from dnsteer.spec.errors import counted, some_of
from dnsteer.switch.tools import NotPermittedError, SwitchError, UnavailableError
from dnsteer.switch.unixctl import Unixctl, control_socket

_PATIENCE = 5.0
_NOTICED = 2.0
"""Seconds in which Open vSwitch has noticed a new address: the kernel tells it."""


@dataclass(frozen=True)
class FoundRoutes:
    """The routes of tunnels that a switch lacks, and those that are *left* of other ones; *why* they cannot be read."""

    missing: tuple[TunnelRoute, ...] = ()
    left: tuple[TunnelRoute, ...] = ()
    why: str = ""

    @property
    def differs(self) -> bool:
        """Whether a route is to be added or removed."""
        return bool(self.missing or self.left)

    @property
    def todo(self) -> str:
        """What must change, in words."""
        parts = [
            f"{word} {counted(len(routes), 'route')} of tunnels ({some_of(route.prefix for route in routes)})"
            for word, routes in (("add", self.missing), ("remove", self.left))
            if routes
        ]
        return ", ".join(parts)

    @property
    def warning(self) -> str:
        """The warning that they cannot be read; empty if they can."""
        if not self.why:
            return ""
        return f"the routes of tunnels are not known ({self.why}); apply on the switch itself"


class TunnelTable:
    """The table of routes of the ovs-vswitchd that uses the OVSDB at *remote*, as far as it is for one *bridge*.

    An answer may take *timeout* seconds, and at most 5. Raises SwitchError or its kinds where it cannot be reached.
    """

    def __init__(self, remote: str, timeout: float, bridge: str) -> None:
        self._remote, self._timeout, self._bridge = remote, min(timeout, _PATIENCE), bridge

    def compare(self, wanted: TunnelRoutes | None) -> FoundRoutes:
        """Return what there is beside what is *wanted*; None: no route. Raises nothing."""
        try:
            with self._control() as control:
                have = self._routes(control)
        except SwitchError as err:
            return FoundRoutes(why=str(err))
        routes = wanted.routes if wanted is not None else ()
        want = set(routes)
        return FoundRoutes(tuple(r for r in routes if r not in have), tuple(r for r in have if r not in want))

    def add(self, wanted: TunnelRoutes) -> tuple[TunnelRoute, ...]:
        """Add the routes that are missing, and tell the switch the gateways' MAC addresses. Returns those that were added.

        What fails leaves none of them. A route to the same address by another gateway is replaced.
        """
        added: list[TunnelRoute] = []
        with self._control() as control:
            have = self._routes(control)
            try:
                for route in wanted.routes:
                    if route in have:
                        continue
                    if any(other.prefix == route.prefix for other in have):
                        control.run("ovs/route/del", route.prefix)
                    self._add(control, route, wanted.addresses)
                    added.append(route)
                for gateway, mac in wanted.neighbors:
                    control.run("tnl/neigh/set", self._bridge, gateway, mac)
            except SwitchError:
                for route in added:
                    control.run("ovs/route/del", route.prefix)
                raise
        return tuple(added)

    def remove(self, routes: Iterable[TunnelRoute]) -> None:
        """Remove routes."""
        with self._control() as control:
            have = self._routes(control)
            for route in routes:
                if route in have:
                    control.run("ovs/route/del", route.prefix)

    def _add(self, control: Unixctl, route: TunnelRoute, addresses: Iterable[str]) -> None:
        """Add a route; where the switch has no address for it, give the bridge's own port its addresses first."""
        arguments = "ovs/route/add", route.prefix, self._bridge, route.gateway
        try:
            control.run(*arguments)
        except UnavailableError:
            raise
        except SwitchError:
            for address in addresses:
                _give_address(address, self._bridge)
            until = time.monotonic() + _NOTICED
            while True:
                try:
                    control.run(*arguments)
                    return
                except UnavailableError:
                    raise
                except SwitchError as err:
                    if time.monotonic() > until:
                        raise SwitchError(
                            f"no route for the tunnel to {route.prefix.partition('/')[0]}: {err}. Has {self._bridge} the "
                            f"address {route.source} (ip address show dev {self._bridge})?"
                        ) from None
                time.sleep(0.05)

    def _routes(self, control: Unixctl) -> list[TunnelRoute]:
        """The routes of the bridge. A line is such as "User: 203.0.113.1/32 dev br0 GW 192.0.2.1 SRC 192.0.2.2"."""
        found = []
        for line in control.run("ovs/route/show").splitlines():
            words = line.split()
            if words[:1] != ["User:"] or "dev" not in words:
                continue
            named = dict(zip(words[2::2], words[3::2], strict=False))
            if named.get("dev") == self._bridge:
                found.append(TunnelRoute(words[1], named.get("GW", ""), named.get("SRC", "")))
        return found

    def _control(self) -> Unixctl:
        if not self._remote.startswith("unix:"):
            raise UnavailableError(f"ovs-vswitchd's control socket cannot be reached through {self._remote}")
        try:
            path = control_socket(self._remote)
            return Unixctl(path, self._timeout)
        except UnavailableError:
            raise UnavailableError(f"there is no control socket of ovs-vswitchd next to {self._remote}") from None
        except PermissionError as err:
            raise NotPermittedError(f"{err.filename}: {err.strerror}; run as root or as the owner") from None


def _give_address(address: str, device: str) -> None:
    """Give a network device an address. Raises SwitchError with what `ip` says."""
    six = [] if ":" not in address else ["nodad"]
    argv = ["ip", "address", "replace", address, "dev", device, "noprefixroute", *six]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    except FileNotFoundError:
        raise SwitchError("no program ip: install iproute2") from None
    except (OSError, subprocess.TimeoutExpired) as err:
        raise SwitchError(f"{' '.join(argv)}: {err}") from None
    if done.returncode:
        raise SwitchError(f"{' '.join(argv)}: {done.stderr.strip()}")
