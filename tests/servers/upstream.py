"""The Internet of the tests: an NSD for the root, one for what is below it, and a resolver for servers that only forward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.servers.network import GATEWAY, PRIMARY, UPSTREAM, root_addresses
from tests.servers.resolvers import Forwarder
from tests.servers.server import NameServer, running
from tests.servers.zones import TOP, TOP_TEXT, ZONE, Root, zone_text


class Upstream(NameServer):
    """An NSD with its addresses and zones."""

    name = "upstream"
    packages = ("nsd",)
    program, options = "/usr/sbin/nsd", "-d -P ''"
    copies = ("/etc/nsd", "/var/lib/nsd")
    run_folder = ("nsd", "nsd")

    def __init__(self, folder: Path, root: Root, addresses: Sequence[str], zones: Mapping[str, str]) -> None:
        super().__init__(folder, root, space=UPSTREAM)
        self.addresses, self.zones = addresses, zones

    def configure(self) -> None:
        lines = ["remote-control:", "    control-enable: no", "server:", "    rrl-ratelimit: 0"]
        lines += [f"    ip-address: {address}" for address in self.addresses]
        for name, text in self.zones.items():
            file = f"/etc/nsd/{name.replace('.', '-')}.zone"
            self.add(file, text)
            lines += ["zone:", f"    name: {name}", f"    zonefile: {file}", "    provide-xfr: 0.0.0.0/0 NOKEY"]
        self.add("/etc/nsd/nsd.conf.d/zones.conf", "\n".join(lines) + "\n")

    def _own_address(self) -> str:
        return self.addresses[0]


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
