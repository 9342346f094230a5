# SPDX-License-Identifier: Apache-2.0
"""Clients of a file, and how evenly they share the backends of pools that bits of their addresses select for."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.service import ServiceKey
from dnsteer.proof.reference.wire import MalformedError, parse
from dnsteer.slots.source_address import BackendShare, Client, most_even_prefix, shares_of_clients, unevenness
from dnsteer.spec.errors import counted
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.source import STDIN, shown

_PCAP = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1", b"\x0a\x0d\x0d\x0a")
"""First bytes of pcap files, of either byte order and resolution, and of pcapng."""
_LONGEST = 200
"""Characters of a line; longer ones are no address."""
_BEFORE = {4: 8, 6: 16}
"""Bits of addresses that select no slot, as the spec has it for `client_prefix`."""


class ClientsError(Exception):
    """A file of clients that cannot be read, with the line that is wrong."""


def read_clients(file: Path, services: Collection[ServiceKey], others: Collection[bytes] = ()) -> dict[Client, int]:
    """Return the clients of a file, each with its number of packets; `-` is standard input.

    A file is text, with an address and optionally a number of packets on each line and comments after `#`, or a capture
    (pcap or pcapng), of which packets to one of the *services* count: what else comes to a VIP is no query, such as an
    answer to a server that asks by its VIP. *others* are addresses that are no clients'. Raises ClientsError.
    """
    name = shown(file)
    try:
        with _on_disk(file) as path:
            with path.open("rb") as opened:
                is_capture = opened.read(4) in _PCAP
            found = Counter(_of_capture(name, path, services)) if is_capture else _of_text(name, path)
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else "it is neither text nor a capture"
        raise ClientsError(f"{name}: {reason}") from None
    for other in others:
        found.pop(ip_address(other), None)
    if not found:
        what = "has no packet of a client to a service of the spec" if is_capture else "has no client"
        raise ClientsError(f"{name}: it {what}")
    return dict(found)


@contextmanager
def _on_disk(file: Path) -> Iterator[Path]:
    """The file, or one that has what comes by standard input. Raises OSError, and ClientsError."""
    if file != STDIN:
        yield file
        return
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or stream.closed:
        raise ClientsError(f"{shown(file)}: it is closed: give it a pipe, or name a file")
    with NamedTemporaryFile() as copy:
        shutil.copyfileobj(stream, copy)
        copy.flush()
        yield Path(copy.name)


def _of_text(name: str, file: Path) -> Counter[Client]:
    found: Counter[Client] = Counter()
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            try:
                address, packets = ip_address(words[0]), int(words[1]) if len(words) > 1 else 1
            except ValueError:
                packets = 0
            if packets < 1 or len(words) > 2:
                raise ClientsError(
                    f"{name}:{number}: found {line.strip()[:_LONGEST]!r}; expected an address, and after it its number "
                    "of packets or nothing, such as 198.51.100.7 or 2001:db8::7 120"
                )
            found[address] += packets
    return found


def _of_capture(name: str, file: Path, services: Collection[ServiceKey]) -> Iterator[Client]:
    from scapy.error import Scapy_Exception  # here: it takes long to import
    from scapy.utils import RawPcapReader

    try:
        with RawPcapReader(str(file)) as reader:
            for data, _ in reader:
                try:
                    packet = parse(bytes(data))
                except MalformedError:
                    continue
                if (packet.destination, packet.protocol, packet.dport) in services:
                    yield ip_address(packet.source)
    except (Scapy_Exception, EOFError, ValueError) as err:
        raise ClientsError(f"{name}: it cannot be read as a capture: {err}") from None


@dataclass(frozen=True)
class PoolShares:
    """How given clients of an IP version share a pool's backends; *most_even* is the best prefix length for them."""

    pool: str
    version: int
    prefix: int
    slots: int
    clients: int
    shares: tuple[BackendShare, ...]
    most_even: int
    most_even_excess: float

    @property
    def excess(self) -> float:
        """How much more than its slots the busiest backend gets, relative to them."""
        return unevenness(self.shares)

    def as_json(self) -> dict[str, Any]:
        """The shares as a JSON object."""
        return {**asdict(self), "excess": self.excess}


def shares_of_pools(loaded: Loaded, reference: Reference, clients: Mapping[Client, int]) -> list[PoolShares]:
    """Return the shares of each pool with selection source-address, for each IP version in which it has clients.

    Clients whom access lists deny are none.
    """
    found: dict[tuple[str, int, tuple[str, ...]], PoolShares] = {}
    for service in reference.services.values():
        own = {
            client: n
            for client, n in clients.items()
            if client.version == service.version
            and not reference.access.denial(service.vip, client.packed, service.port)
        }
        pool, owners = loaded.spec.vips[service.vip].pool, tuple(target.name for target in service.slots)
        key = pool, service.version, owners
        if not service.client_prefix or not own or key in found:
            continue
        least = _BEFORE[service.version] + len(owners).bit_length() - 1
        best = most_even_prefix(own, owners, least, service.client_prefix)
        found[key] = PoolShares(
            pool,
            service.version,
            service.client_prefix,
            len(owners),
            len(own),
            tuple(shares_of_clients(own, service.client_prefix, owners)),
            best,
            unevenness(shares_of_clients(own, best, owners)),
        )
    return list(found.values())


def shares_in_words(found: PoolShares) -> Iterator[str]:
    """Yield the lines that show the shares of a pool."""
    clients = counted(found.clients, f"IPv{found.version} client")
    yield f"pool {found.pool}: {clients} by their /{found.prefix}, {found.slots} slots"
    width = max(len(share.backend) for share in found.shares)
    for share in found.shares:
        yield (
            f"  {share.backend:<{width}}  {share.slots:6.1%} of the slots  {share.clients:6.1%} of the clients  "
            f"{share.packets:6.1%} of the packets"
        )
    busiest = max(found.shares, key=lambda share: share.packets / share.slots)
    yield f"  busiest: {busiest.backend}, with {found.excess:.0%} more than its slots"
    if found.most_even_excess < found.excess - 0.01:
        yield (
            f"  most even for these clients: client_prefix: {{ipv{found.version}: {found.most_even}}}, "
            f"{found.most_even_excess:.0%} more"
        )
