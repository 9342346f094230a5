# SPDX-License-Identifier: Apache-2.0
"""A root zone of our own, signed, with trust anchors as resolvers read them; and the zone that name servers serve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import dns.dnssec
import dns.rdatatype
import dns.zone
from cryptography.hazmat.primitives.asymmetric import ec

from tests.servers.network import GATEWAY, root_addresses

TOP, ZONE = "org", "example.org"
TOP_TEXT = f"""\
$ORIGIN {TOP}.
$TTL 300
@ SOA ns.{ZONE}. hostmaster.{ZONE}. 1 1800 900 604800 300
@ NS ns.{ZONE}.
{ZONE}. NS ns.{ZONE}.
ns.{ZONE}. A {GATEWAY}
"""


def zone_text(refresh: int = 3600, retry: int = 600, expire: int = 86400) -> str:
    """The zone, in master file format; times in seconds."""
    return f"""\
$ORIGIN {ZONE}.
$TTL 300
@ SOA ns hostmaster 7 {refresh} {retry} {expire} 300
@ NS ns
ns A {GATEWAY}
www A 192.0.2.80
*.check A 192.0.2.81
"""


def records(zone: str) -> list[tuple[str, str, str, int]]:
    """The records of a zone in master file format: name, type, data and TTL, names without the final dot."""
    parsed = dns.zone.from_text(zone, relativize=False)
    return [
        (
            name.to_text(omit_final_dot=True),
            dns.rdatatype.to_text(data.rdtype),
            data.to_text().replace(". ", " ").rstrip("."),
            ttl,
        )
        for name, ttl, data in parsed.iterate_rdatas()
    ]


@dataclass(frozen=True)
class Root:
    """The root zone and its key, in the formats of those who read them."""

    zone: str
    key: str
    """As in /usr/share/dns/root.key: a DNSKEY record, and its DS record as in root.ds."""
    ds: str

    @property
    def bind_keys(self) -> str:
        """As in /etc/bind/bind.keys."""
        flags, protocol, algorithm, *key = self.key.split()[3:]
        return f'trust-anchors {{ . initial-key {flags} {protocol} {algorithm} "{"".join(key)}"; }};\n'


def signed_root() -> Root:
    """A root zone that delegates TOP, which is not signed."""
    servers = root_addresses()
    lines = [f". 518400 IN SOA {next(iter(servers))} nstld.example. 1 1800 900 604800 86400"]
    lines += [f". 518400 IN NS {name}" for name in servers]
    lines += [f"{name} 518400 IN A {address}" for name, address in servers.items()]
    lines += [f"{TOP}. 172800 IN NS ns.{ZONE}.", f"ns.{ZONE}. 172800 IN A {GATEWAY}"]
    zone = dns.zone.from_text("\n".join(lines), origin=".", relativize=False)
    private = ec.generate_private_key(ec.SECP256R1())
    key = dns.dnssec.make_dnskey(private.public_key(), dns.dnssec.Algorithm.ECDSAP256SHA256, flags=0x101)
    dns.dnssec.sign_zone(zone, keys=[(private, key)], lifetime=86400 * 30, dnskey_ttl=172800)
    ds = dns.dnssec.make_ds(".", key, "SHA256")
    return Root(zone.to_text(relativize=False), f". IN DNSKEY {key.to_text()}", f". IN DS {ds.to_text()}")


def write_root_data(root: Root, folder: Path) -> None:
    """The files of Debian's package dns-root-data, with the key of *root*; the hints stay as they are."""
    (folder / "root.key").write_text(root.key + "\n", encoding="ascii")
    (folder / "root.ds").write_text(root.ds + "\n", encoding="ascii")
