# SPDX-License-Identifier: Apache-2.0
"""The routes of tunnels in a running ovs-vswitchd, and the addresses of the bridge's own port that they need.

Routes of a bridge are all dnsteer's. Open vSwitch takes none whose source address it has not found at the bridge's own port.
Addresses are given without their networks, so that nothing of the machine's own goes that way.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from dnsteer.plan.tunnel_routes import TunnelRoute, TunnelRoutes, with_length
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

    def add(self, wanted: TunnelRoutes) -> Callable[[], None]:
        """Add the routes that are missing, and tell the switch the gateways' MAC addresses. Returns what undoes it.

        A route to the same address by another gateway is replaced. What fails leaves the routes as they were.
        """
        with self._control() as control:
            have = self._routes(control)
            missing = [route for route in wanted.routes if route not in have]
            prefixes = {route.prefix for route in missing}
            undo = partial(self._put_back, missing, [route for route in have if route.prefix in prefixes])
            try:
                for route in missing:
                    self._replace(control, route)
                for gateway, mac in wanted.neighbors:
                    control.run("tnl/neigh/set", self._bridge, gateway, mac)
            except BaseException:
                with suppress(SwitchError):
                    undo()
                raise
        return undo

    def remove(self, routes: Iterable[TunnelRoute], wanted: TunnelRoutes | None) -> None:
        """Remove routes, and their source addresses from the bridge's own port but for those of *wanted* ones."""
        leave = tuple(routes)
        with self._control() as control:
            have = self._routes(control)
            for route in leave:
                if route in have:
                    control.run("ovs/route/del", route.prefix)
        self._take_sources(leave, wanted.routes if wanted is not None else ())

    def _put_back(self, added: Iterable[TunnelRoute], replaced: Iterable[TunnelRoute]) -> None:
        """Remove routes that were added, where they came in place of others with those, and their source addresses."""
        with self._control() as control:
            for route in added:
                self._delete(control, route.prefix)
            for route in replaced:
                self._replace(control, route)
            self._take_sources(added, self._routes(control))

    def _take_sources(self, routes: Iterable[TunnelRoute], others: Iterable[TunnelRoute]) -> None:
        """Take the source addresses of routes from the bridge's own port, but for those that *others* have."""
        for source in {route.source for route in routes} - {route.source for route in others} - {""}:
            with suppress(SwitchError):  # somebody else has taken it, or the port is gone
                _take_address(with_length(source), self._bridge)

    def _delete(self, control: Unixctl, prefix: str) -> None:
        if any(route.prefix == prefix for route in self._routes(control)):
            control.run("ovs/route/del", prefix)

    def _replace(self, control: Unixctl, route: TunnelRoute) -> None:
        """Add a route in place of another; where the switch has no address for it, give the bridge's own port that first."""
        self._delete(control, route.prefix)
        why = self._try(control, route)
        if not why:
            return
        _give_address(with_length(route.source), self._bridge)
        until = time.monotonic() + _NOTICED
        while why := self._try(control, route):
            if time.monotonic() > until:
                raise SwitchError(
                    f"no route for the tunnel to {route.prefix.partition('/')[0]}: {why}. Has {self._bridge} the "
                    f"address {route.source} (ip address show dev {self._bridge})?"
                )
            time.sleep(0.05)

    def _try(self, control: Unixctl, route: TunnelRoute) -> str:
        """Add a route. Returns why it is not there; the switch chooses the source address itself."""
        try:
            control.run("ovs/route/add", route.prefix, self._bridge, route.gateway)
        except UnavailableError:
            raise
        except SwitchError as err:
            return str(err)
        if route in self._routes(control):
            return ""
        # The gateway itself was the source before: both are of one /31 or /127.
        control.run("ovs/route/del", route.prefix)
        with suppress(SwitchError):
            _take_address(with_length(route.gateway), self._bridge)
        return "Open vSwitch takes another source address"

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
    _ip_address("replace", address, device, "noprefixroute", *(["nodad"] if ":" in address else []))


def _take_address(address: str, device: str) -> None:
    """Take an address from a network device. Raises SwitchError with what `ip` says, also where it has none such."""
    _ip_address("del", address, device)


def _ip_address(verb: str, address: str, device: str, *options: str) -> None:
    argv = ["ip", "address", verb, address, "dev", device, *options]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    except FileNotFoundError:
        raise SwitchError("no program ip: install iproute2") from None
    except (OSError, subprocess.TimeoutExpired) as err:
        raise SwitchError(f"{' '.join(argv)}: {err}") from None
    if done.returncode:
        raise SwitchError(f"{' '.join(argv)}: {done.stderr.strip()}")
