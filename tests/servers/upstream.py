# SPDX-License-Identifier: Apache-2.0
"""The Internet of the tests: an NSD for the root, one for what is below it, and a resolver for servers that only forward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.servers.authoritative import Nsd
from tests.servers.network import GATEWAY, PRIMARY, UPSTREAM, root_addresses
from tests.servers.resolvers import Forwarder
from tests.servers.server import NameServer, running
from tests.servers.zones import TOP, TOP_TEXT, ZONE, Root, zone_text


class Upstream(Nsd):
    """An NSD with its addresses and zones, without limits."""

    def __init__(self, folder: Path, root: Root, addresses: Sequence[str], zones: Mapping[str, str]) -> None:
        super().__init__(folder, root, space=UPSTREAM)
        self.addresses, self.zones = addresses, zones

    def added(self) -> tuple[str, str]:
        # Of two in one namespace only one could have the port for commands.
        lines = ["remote-control:", "    control-enable: no", "server:", "    rrl-ratelimit: 0"]
        lines += [f"    ip-address: {address}" for address in self.addresses]
        for name in self.zones:
            lines += ["zone:", f"    name: {name}", f"    zonefile: {_file(name)}", "    provide-xfr: 0.0.0.0/0 NOKEY"]
        return "/etc/nsd/nsd.conf.d/zones.conf", "\n".join(lines) + "\n"

    def prepare(self) -> None:
        for name, text in self.zones.items():
            self.add(_file(name), text)

    def _own_address(self) -> str:
        return self.addresses[0]


def _file(zone: str) -> str:
    return f"/etc/nsd/{zone.strip('.') or 'root'}.zone"


@contextmanager
def internet(folder: Path, root: Root) -> Iterator[None]:
    """The root, the zones below it, and a resolver."""
    top = Upstream(folder / "root", root, list(root_addresses().values()), {".": root.zone})
    with (
        running(top),
        running(Upstream(folder / "zones", root, [GATEWAY], {TOP: TOP_TEXT, ZONE: zone_text()})),
        running(Forwarder(folder / "forwarder", root, space=UPSTREAM)),
    ):
        yield


def primary(folder: Path, root: Root, zone: str) -> AbstractContextManager[NameServer]:
    """Where a secondary gets the zone from."""
    return running(Upstream(folder, root, [PRIMARY], {ZONE: zone}))
