# SPDX-License-Identifier: Apache-2.0
"""The resolvers that Debian has. What is added to Debian's configuration lets others than the machine itself ask."""

from __future__ import annotations

from tests.servers import authoritative
from tests.servers.network import ADDRESS, FORWARDER, NETWORK
from tests.servers.server import NameServer


class BindResolver(authoritative.Bind):
    """BIND 9 as a resolver: it answers the networks that it is in, and needs nothing added."""

    name = "BIND"

    def added(self) -> tuple[str, str]:
        return "/etc/bind/named.conf.local", ""

    def prepare(self) -> None:
        self.copy("/etc/bind/bind.keys").write_text(self.root.bind_keys, encoding="ascii")


class Unbound(NameServer):
    """Unbound. By default it listens at loopback alone, and refuses others without repeating their question."""

    name = "Unbound"
    packages = ("unbound",)
    before = ("/usr/libexec/unbound-helper root_trust_anchor_update",)
    program, options = "/usr/sbin/unbound", "-d -p"
    copies = ("/etc/unbound", "/var/lib/unbound")

    def added(self) -> tuple[str, str]:
        lines = f"server:\n    interface: 0.0.0.0\n    access-control: {NETWORK} allow\n"
        return "/etc/unbound/unbound.conf.d/network.conf", lines


class Forwarder(Unbound):
    """The resolver upstream of those that only forward."""

    def added(self) -> tuple[str, str]:
        lines = f"server:\n    interface: {FORWARDER}\n    access-control: 0.0.0.0/0 allow\n"
        return "/etc/unbound/unbound.conf.d/network.conf", lines

    def _own_address(self) -> str:
        return FORWARDER


class Recursor(NameServer):
    """PowerDNS Recursor. By default it listens at loopback alone, and does not answer addresses that are not private."""

    name = "PowerDNS Recursor"
    packages = ("pdns-recursor",)
    program, user = "/usr/sbin/pdns_recursor", ("pdns", "net_bind_service chown")
    options = "--daemon=no --write-pid=no --disable-syslog --log-timestamp=no"
    copies = ("/etc/powerdns",)
    run_folder = ("pdns-recursor", "pdns")

    def added(self) -> tuple[str, str]:
        return "/etc/powerdns/recursor.d/network.conf", "local-address=0.0.0.0\n"


class KnotResolver(NameServer):
    """Knot Resolver. By default it listens at loopback alone; it has no list of who may ask."""

    name = "Knot Resolver"
    packages = ("knot-resolver",)
    before = ("cd /var/lib/knot-resolver", "export SYSTEMD_INSTANCE=1")
    program, user = "/usr/sbin/kresd", ("knot-resolver", "net_bind_service setpcap")
    options = "-c /usr/lib/*/knot-resolver/distro-preconfig.lua -c /etc/knot-resolver/kresd.conf -n"
    copies = ("/etc/knot-resolver", "/var/lib/knot-resolver", "/var/cache/knot-resolver")
    run_folder = ("knot-resolver/control", "knot-resolver")

    def added(self) -> tuple[str, str]:
        return "/etc/knot-resolver/kresd.conf", f"net.listen('{ADDRESS}', 53, {{ kind = 'dns' }})\n"


class Dnsmasq(NameServer):
    """dnsmasq, with the options of Debian's service. It answers the networks that it is in, and forwards their queries."""

    name = "dnsmasq"
    packages = ("dnsmasq-base",)
    program, options = "/usr/sbin/dnsmasq", "-k -u dnsmasq --local-service"
    copies = ("/etc/resolv.conf",)

    def added(self) -> tuple[str, str]:
        return "/etc/resolv.conf", f"nameserver {FORWARDER}\n"

    def prepare(self) -> None:
        self.copy("/etc/resolv.conf").write_text("", encoding="ascii")
