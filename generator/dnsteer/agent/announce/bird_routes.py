# SPDX-License-Identifier: Apache-2.0
"""The routes of VIPs in BIRD: the file that it includes, a static protocol of each family, and the command to read it."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from threading import Lock

from dnsteer.agent.announce.bird import Bird, BirdAwayError, BirdError, BirdRefusedError
from dnsteer.render.atomic_files import replace_files
from dnsteer.spec.model.announce import Announce, RouteSettings
from dnsteer.spec.model.types import Network
from dnsteer.switch.control_socket import canonical_remote

_OWNER = re.compile(r"# Routes of bridge (.+) in OVSDB at (.+)")
_ROUTE = re.compile(r"^\s*route (\S+/\d+) ", re.M)
FAMILIES = (4, 6)
"""IP versions, in the order of their protocols."""
Routes = Mapping[Network, RouteSettings]


@dataclass(frozen=True)
class RouteOwner:
    """Whose routes a file has: those of a bridge, in the OVSDB of a switch."""

    bridge: str
    remote: str

    @property
    def line(self) -> str:
        return f"# Routes of bridge {self.bridge} in OVSDB at {self.remote}"

    def is_same(self, other: RouteOwner) -> bool:
        """Whether both are the same bridge, however its OVSDB is spelled."""
        return self.bridge == other.bridge and canonical_remote(self.remote) == canonical_remote(other.remote)


def protocols(announce: Announce) -> list[str]:
    """The names of the protocols in the file."""
    return [f"{announce.protocol}{family}" for family in FAMILIES]


def file_text(owner: RouteOwner, announce: Announce, routes: Routes) -> str:
    """The file. The same routes give the same text."""
    lines = [owner.line, "# dnsteer agent writes this file: what is changed here is lost."]
    for family, name in zip(FAMILIES, protocols(announce), strict=True):
        lines += [f"protocol static {name} {{", f"  ipv{family};"]
        of_family = sorted((prefix for prefix in routes if prefix.version == family), key=_order)
        lines += [f"  {_route(prefix, routes[prefix])}" for prefix in of_family]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _order(prefix: Network) -> tuple[int, int]:
    return int(prefix.network_address), prefix.prefixlen


def _route(prefix: Network, how: RouteSettings) -> str:
    # A blackhole: BIRD needs no way to the VIP, which only has to be announced.
    attributes = [] if how.med is None else [f"bgp_med = {how.med};"]
    for community in how.communities:
        parts = community.split(":")
        kind = "bgp_community" if len(parts) == 2 else "bgp_large_community"
        attributes.append(f"{kind}.add(({','.join(parts)}));")
    more = f" {{ {' '.join(attributes)} }}" if attributes else ""
    return f"route {prefix} blackhole{more};"


def owner_of(content: str) -> RouteOwner | None:
    """Whose routes a file has; None where it is not a file of dnsteer's."""
    found = _OWNER.match(content)
    return RouteOwner(found[1], found[2]) if found is not None else None


def routes_in(content: str) -> set[Network]:
    """The prefixes that a file of dnsteer's announces."""
    return {ip_network(found) for found in _ROUTE.findall(content)}


_MODE = 0o644
"""BIRD reads it as a user of its own."""

_PATIENCE, _LOOK = 2.0, 0.05
"""Seconds that BIRD may take for a change, and between two looks."""
_MAX = 4
_READ_ONLY = (
    "under systemd the agent may write only where its unit says (ReadWritePaths), to directories that were there when it "
    "was started: if BIRD has made this one since, systemctl restart dnsteer-agent"
)


class PublishError(Exception):
    """BIRD does not have the routes; the message says why and what to do."""


class ForeignFileError(PublishError):
    """The file is somebody else's."""


class BirdNotRunningError(PublishError):
    """No BIRD runs there."""


class Publisher:
    """Gives BIRD the routes of one bridge."""

    def __init__(self, owner: RouteOwner, announce: Announce) -> None:
        self._owner, self._announce = owner, announce
        self._file, self._names = Path(announce.include), protocols(announce)
        self._disabled = False
        self._unread = False
        """Whether the file has changed since BIRD has read it."""
        self._lock = Lock()
        """An agent that ends withdraws in another thread than that which may still publish."""
        self.has: set[str] = set()
        """The prefixes that BIRD had routes to when it was asked last; none where it could not be asked."""

    def present(self) -> set[Network]:
        """The prefixes in the file. Raises PublishError where it is somebody else's."""
        return routes_in(self._read() or "")

    def publish(self, routes: Routes) -> list[str]:
        """Write the file, and make BIRD read it. Return what else is wrong, in words.

        Raises PublishError; the file has the routes then all the same, for a BIRD that starts later, unless BIRD finds a
        fault in the file itself.
        """
        with self._lock:
            before = self._read()
            self._write(routes, before)
            with self._bird() as bird:
                if why := self._configure(bird, before, routes, waits=True):
                    raise PublishError(why)
                return self._wrong(bird, routes)

    def withdraw(self, *, waits: bool = False) -> None:
        """See to it that BIRD has no routes, now or when it starts, if it includes the file at all. Raises PublishError.

        It *waits* for an operator's `configure timeout` where somebody tries again; else that counts as confirmed.
        """
        with self._lock:
            before = self._read()
            if before is not None:
                self._write({}, before)
            with suppress(BirdNotRunningError), self._bird() as bird:
                self._configure(bird, file_text(self._owner, self._announce, {}), {}, waits=waits)
                self._wait(bird, {})

    def check(self, routes: Routes) -> list[str]:
        """Return what is wrong with what BIRD has, in words. Raises PublishError."""
        with self._lock, self._bird() as bird:
            return self._wrong(bird, routes)

    @contextmanager
    def _bird(self) -> Iterator[Bird]:
        """A connection to BIRD. It is asked in the end which routes it has, also where something has failed."""
        self.has = set()
        try:
            with Bird(self._announce.control) as bird:
                try:
                    yield bird
                finally:
                    self.has = bird.routes(self._names)
        except BirdAwayError as err:
            raise BirdNotRunningError(str(err)) from None
        except BirdError as err:
            raise PublishError(str(err)) from None

    def _wrong(self, bird: Bird, routes: Routes) -> list[str]:
        """What is wrong with what BIRD has, in words. Raises PublishError where it has other routes."""
        states = bird.states(self._names)
        if len(states) < len(self._names):
            raise PublishError(
                f'BIRD does not include {self._file}: add include "{self._file}*"; to bird.conf, then: birdc configure'
            )
        down = [
            f"protocol {name} of BIRD is {state}: birdc enable {name}"
            for name, state in states.items()
            if state != "up"
        ]
        if down:
            return down
        wanted = self._wait(bird, routes)
        others = bird.others(sorted(wanted), self._names) if wanted else {}
        return [
            f"protocol {name} of BIRD has a route to {prefix} too, which stays when dnsteer withdraws its own: remove it"
            for prefix, name in others.items()
        ]

    def _wait(self, bird: Bird, routes: Routes) -> set[str]:
        """Wait until BIRD has just these routes, and return their prefixes. Raises PublishError."""
        wanted = {*map(str, routes)}
        deadline = time.monotonic() + _PATIENCE
        while (found := bird.routes(self._names)) != wanted:  # it may still be at work
            if time.monotonic() > deadline:
                differ = sorted(found ^ wanted)
                raise PublishError(
                    f"BIRD has read {self._file}, and has other routes than it: {', '.join(differ[:_MAX])}"
                )
            time.sleep(_LOOK)
        return wanted

    def _configure(self, bird: Bird, before: str | None, routes: Routes, *, waits: bool) -> str:
        """Make BIRD read its configuration. Where it refuses, it goes on with the one that it has.

        It *waits*, with a PublishError, while BIRD may undo its configuration: to read it would confirm it. Without routes
        they are gone all the same where BIRD refuses; why it went another way is returned, in words. Raises PublishError.
        """
        if waits and bird.is_unconfirmed():
            return self._postpone(bird, before, routes)
        try:
            bird.configure()
        except BirdRefusedError as err:
            return self._refused(bird, err, before, routes)
        self._unread = False
        if self._disabled:
            for name in self._names:
                bird.ask(f"enable {name}")
            self._disabled = False
        return ""

    def _postpone(self, bird: Bird, before: str | None, routes: Routes) -> str:
        """Leave it to the operator to confirm the configuration. A protocol of which nothing may be announced is disabled
        meanwhile. Returns an empty text where BIRD has all as it should be. Raises PublishError."""
        has = bird.routes(self._names)
        same = not self._unread and before == file_text(self._owner, self._announce, routes)
        if same and has == {*map(str, routes)}:
            return ""
        self._unread = True
        for family, name in zip(FAMILIES, self._names, strict=True):
            has_some = any(ip_network(prefix).version == family for prefix in has)
            if has_some and not any(prefix.version == family for prefix in routes):
                bird.ask(f"disable {name}")
                self._disabled = True
        raise PublishError(
            "BIRD is about to undo its configuration (birdc configure timeout), so routes stay as they were until somebody "
            f"ends that: birdc configure confirm, or undo{'; what has none is disabled' if self._disabled else ''}"
        )

    def _refused(self, bird: Bird, err: BirdRefusedError, before: str | None, routes: Routes) -> str:
        if before is None or str(err).startswith(str(self._file)):
            with suppress(OSError):  # else a BIRD that is started again would not come up
                self._replace(file_text(self._owner, self._announce, {}) if before is None else before)
        if routes:
            raise PublishError(f"BIRD refuses its configuration, so routes stay as they were: {err}") from None
        for name in self._names:  # nothing may be announced, which goes without a configuration too
            with suppress(BirdRefusedError):
                bird.ask(f"disable {name}")
        self._disabled = True
        return f"BIRD refuses its configuration: {err}; all routes are withdrawn by disabling {', '.join(self._names)}"

    def _read(self) -> str | None:
        """The file as it is, None without one. Raises PublishError where it is not of this bridge."""
        try:
            found = self._file.read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as err:
            raise PublishError(f"{self._file}: {getattr(err, 'strerror', None) or err}") from None
        owner = owner_of(found)
        if owner is None and found.strip():
            raise ForeignFileError(
                f"{self._file} is not a file of dnsteer's: name another one by switch.announce.include"
            )
        if owner is not None and not owner.is_same(self._owner):
            raise ForeignFileError(
                f"{self._file} is that of another bridge ({owner.line}): give each its own include and protocol; if that "
                "one is gone, remove the file"
            )
        return found

    def _write(self, routes: Routes, before: str | None) -> None:
        """Write the file, unless it is as it should be. Raises PublishError."""
        wanted = file_text(self._owner, self._announce, routes)
        if before == wanted:
            return
        try:
            self._replace(wanted)
        except OSError as err:
            more = f"; {_READ_ONLY}" if err.errno == errno.EROFS else ""
            raise PublishError(f"{err.filename}: {err.strerror}{more}") from None

    def _replace(self, content: str) -> None:
        replace_files({self._file: content.encode()}, {self._file: _MODE})
