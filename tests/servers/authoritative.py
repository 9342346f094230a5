# SPDX-License-Identifier: Apache-2.0
"""The authoritative servers that Debian has. What is added to Debian's configuration is the zone."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from tests.servers.server import NameServer
from tests.servers.zones import ZONE, records


class Bind(NameServer):
    """BIND 9. With Debian's configuration it answers recursive queries of its own networks too."""

    name = "BIND"
    packages = ("bind9",)
    program, options = "/usr/sbin/named", "-f -u bind"
    copies = ("/etc/bind", "/var/cache/bind")
    run_folder = ("named", "bind")

    def added(self) -> tuple[str, str]:
        it = self.setting
        kind = f"type secondary; primaries {{ {it.primary}; }};" if it.primary else "type primary;"
        # The expiry of a zone is at least its refresh and retry, for which BIND has lower limits of its own.
        kind += " min-refresh-time 1; min-retry-time 1;" if it.primary else ""
        kind += f" allow-query {{ {it.allows}; }};" if it.allows else ""
        zone = f'zone "{ZONE}" {{ {kind} file "/etc/bind/{ZONE}.zone"; }};\n'
        if it.primary:
            zone = zone.replace("/etc/bind", "/var/cache/bind")
        return "/etc/bind/named.conf.local", zone if it.serves_zone else ""

    def prepare(self) -> None:
        self.copy("/etc/bind/bind.keys").write_text(self.root.bind_keys, encoding="ascii")
        if self.setting.zone and not self.setting.primary:
            self.add(f"/etc/bind/{ZONE}.zone", self.setting.zone)


class Nsd(NameServer):
    """NSD. It limits answers to a network of clients by default."""

    name = "NSD"
    packages = ("nsd",)
    program, options = "/usr/sbin/nsd", "-d -P ''"
    copies = ("/etc/nsd", "/var/lib/nsd")
    run_folder = ("nsd", "nsd")

    def added(self) -> tuple[str, str]:
        it, folder = self.setting, "/var/lib/nsd" if self.setting.primary else "/etc/nsd"
        lines = ["zone:", f"    name: {ZONE}", f"    zonefile: {folder}/{ZONE}.zone"]
        if it.primary:
            lines += [f"    request-xfr: AXFR {it.primary} NOKEY", f"    allow-notify: {it.primary} NOKEY"]
        lines += [f"    allow-query: {it.allows} NOKEY"] if it.allows else []
        return "/etc/nsd/nsd.conf.d/example.conf", "\n".join(lines) + "\n" if it.serves_zone else ""

    def prepare(self) -> None:
        if self.setting.zone and not self.setting.primary:
            self.add(f"/etc/nsd/{ZONE}.zone", self.setting.zone)


class Knot(NameServer):
    """Knot DNS. By default it listens at loopback alone."""

    name = "Knot"
    packages = ("knot",)
    program, user = "/usr/sbin/knotd", ("knot", "net_bind_service setpcap")
    copies = ("/etc/knot", "/var/lib/knot")
    run_folder = ("knot", "knot")

    def added(self) -> tuple[str, str]:
        it = self.setting
        parts = ["server:\n    listen: 0.0.0.0@53\n"]
        zone = f"zone:\n  - domain: {ZONE}\n"
        if it.primary:
            parts.append(f"remote:\n  - id: primary\n    address: {it.primary}\n")
            zone += "    master: primary\n"
        if it.allows:
            parts.append(f"mod-queryacl:\n  - id: near\n    address: {it.allows}\n")
            zone += "    module: mod-queryacl/near\n"
        return "/etc/knot/knot.conf", "".join(parts) + (zone if it.serves_zone else "")

    def prepare(self) -> None:
        if self.setting.zone and not self.setting.primary:
            self.add(f"/var/lib/knot/{ZONE}.zone", self.setting.zone, owner="knot")


class PowerDns(NameServer):
    """PowerDNS with its backend for SQLite. It has no list of who may ask, and goes on to serve a zone that has expired."""

    name = "PowerDNS"
    packages = ("pdns-server", "pdns-backend-sqlite3")
    program, user = "/usr/sbin/pdns_server", ("pdns", "net_bind_service chown")
    options = "--guardian=no --daemon=no --disable-syslog --log-timestamp=no --write-pid=no"
    copies = ("/etc/powerdns", "/var/lib/powerdns")
    run_folder = ("pdns", "pdns")

    def added(self) -> tuple[str, str]:
        text = "launch=gsqlite3\ngsqlite3-database=/var/lib/powerdns/pdns.sqlite3\n"
        secondary = "secondary=yes\nxfr-cycle-interval=1\n" if self.setting.primary else ""
        return "/etc/powerdns/pdns.d/sqlite.conf", text + secondary

    def prepare(self) -> None:
        it, database = self.setting, self.copy("/var/lib/powerdns/pdns.sqlite3")
        schema = Path("/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql").read_text(encoding="utf-8")
        with sqlite3.connect(database) as db:
            db.executescript(schema)
            if it.serves_zone:
                kind, primary = ("SLAVE", it.primary) if it.primary else ("NATIVE", None)
                db.execute("insert into domains (id, name, type, master) values (1, ?, ?, ?)", (ZONE, kind, primary))
            if it.serves_zone and it.zone and not it.primary:
                insert = "insert into records (domain_id, name, type, content, ttl, auth) values (1, ?, ?, ?, ?, 1)"
                db.executemany(insert, records(it.zone))
        shutil.chown(database, "pdns", "pdns")
