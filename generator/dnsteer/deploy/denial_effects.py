# SPDX-License-Identifier: Apache-2.0
"""What denials by hand cut besides those whom they are for, and where the spec denies or allows the same clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dnsteer.checks.access import denied_services
from dnsteer.slots.denial import Denial
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec import derived
from dnsteer.spec.errors import Path, show_path, some_of
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.access import MAX_ENTRIES, AccessEntry
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.model.types import Network
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.access import access_lists

_LARGE = {4: 8, 6: 16}
"""Prefixes that are shorter than this, by the version of IP, are a large part of all clients."""


def denial_effects(loaded: Loaded, before: Overlay, after: Overlay) -> tuple[list[str], list[str]]:
    """Return warnings about what is denied from now on, and why an operator is asked first.

    Raises SwitchError for a denial that would do nothing, and for one too many.
    """
    new = [denial for denial in after.denials if denial.key not in before.denied]
    for denial in new:
        _refuse_without_effect(loaded, denial)
    entries = sum(one.access.entries + len(one.denials) for one in access_lists(loaded.spec, after.denials))
    if new and entries > MAX_ENTRIES:
        raise SwitchError(f"{entries:,} entries in all access lists; at most {MAX_ENTRIES:,} can be")
    asks = [text for denial in new for text in _large_or_allowed(loaded, denial)]
    if new:
        asks += denied_services(loaded.spec, after.denials)
    warnings = [text for denial in new if (text := _own_addresses(loaded, denial))]
    for denial in before.denials:
        places = denied_by_spec(loaded, denial) if denial.key not in after.denied else []
        if places:
            warnings.append(f"{denial.name} stays denied by the spec ({some_of(places)})")
    return warnings, asks


def denial_warnings(spec: Spec, denials: Sequence[Denial]) -> list[str]:
    """Warnings about denials by hand that meet another spec: they stay, but may do nothing, or too much."""
    gone = [denial for denial in denials if denial.vip and denial.vip not in spec.vips]
    return [
        *(
            f"{denial.title} does nothing while the spec has no such VIP: dnsteer undeny {' '.join(denial.words)}"
            for denial in gone
        ),
        *(denied_services(spec, denials) if denials else ()),
    ]


def _refuse_without_effect(loaded: Loaded, denial: Denial) -> None:
    vips = {name: vip for name, vip in loaded.spec.vips.items() if denial.is_about(name)}
    version, what = denial.network.version, f"VIP {denial.vip}" if denial.vip else "no VIP"
    if all(address.version != version for vip in vips.values() for address in vip.addresses):
        has = "has no address" if denial.vip else "has an address"
        raise SwitchError(f"{denial.name} would do nothing: {what} {has} of IPv{version}")
    ports = sorted({end.port for vip in vips.values() for end in derived.endpoints(vip)})
    if denial.port and denial.port not in ports:
        raise SwitchError(
            f"{denial.name} would do nothing: no service is at port {denial.port}; there are {', '.join(map(str, ports))}"
        )


def _large_or_allowed(loaded: Loaded, denial: Denial) -> Iterator[str]:
    network = denial.network
    if network.prefixlen < _LARGE[network.version]:
        yield f"{network} is one in {1 << network.prefixlen} of all addresses of IPv{network.version}"
    allowed = [
        f"{entry} ({loaded.document.where(path)})"
        for path, entry in _entries_of(loaded, denial, "allow")
        if _is_in(entry.prefix, network)
    ]
    if allowed:
        yield f"{denial.name} has clients that the spec allows, who are denied too: {some_of(allowed)}"


def _own_addresses(loaded: Loaded, denial: Denial) -> str:
    """A warning where own hosts are denied; empty where none are."""
    spec = loaded.spec
    found = [
        f"backend {name}/{backend.name}"
        for name, pool in spec.pools.items()
        for backend in pool.backends
        if any(address is not None and address in denial.network for address in (backend.ipv4, backend.ipv6))
    ]
    found += [f"gateway {address}" for address in spec.switch.gateways or () if address in denial.network]
    found += [f"VIP {name}" for name, vip in spec.vips.items() if any(a in denial.network for a in vip.addresses)]
    if spec.switch.probe is not None:
        mine = (address for address in spec.switch.probe.addresses if address.ip in denial.network)
        found += [f"the agent's probes from {address.ip}" for address in mine]
    if not found:
        return ""
    return (
        f"{denial.name} has {some_of(found)}: answers, probes and ARP pass as before; queries that these hosts send to VIPs "
        "are dropped"
    )


def denied_by_spec(loaded: Loaded, denial: Denial) -> list[str]:
    """Where the spec denies what a denial is about, or a part of it."""
    found = (path for path, entry in _entries_of(loaded, denial, "deny") if overlap(entry.prefix, denial.network))
    return [f"{loaded.document.where(path)} {show_path(path)}" for path in found]


def _entries_of(loaded: Loaded, denial: Denial, key: str) -> Iterator[tuple[Path, AccessEntry]]:
    """The entries of *key* in the lists that queries of a denial meet, for its port, with their paths."""
    for one in access_lists(loaded.spec):
        if not one.vips or any(denial.is_about(name) for name in one.vips):
            for i, entry in enumerate(getattr(one.access, key) or ()):
                if entry.prefix.version == denial.network.version and (
                    not denial.port or entry.port in (None, denial.port)
                ):
                    yield (*one.path, key, i), entry


def _is_in(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def overlap(one: Network, other: Network) -> bool:
    """Whether two prefixes have addresses in common."""
    return _is_in(one, other) or _is_in(other, one)
