# SPDX-License-Identifier: Apache-2.0
"""The edits of the overlay behind `deny` and `undeny`, and what a denial cuts besides those whom it is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic_core import PydanticCustomError

from dnsteer.checks.access import denied_services
from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.decision import decision_id
from dnsteer.deploy.overlay_change import Edit
from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.times import stamp
from dnsteer.slots.denial import MAX_DENIALS, Denial
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec import derived
from dnsteer.spec.errors import Path, near, show_path, some_of
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.access import MAX_ENTRIES, AccessEntry
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.model.types import Network, parse_prefix
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.access import access_lists

_LARGE = {4: 8, 6: 16}
"""Prefixes that are shorter than this, by the version of IP, are a large part of all clients."""


def clients_of(text: str) -> Network:
    """The clients that a command names by a prefix or one address. Raises SwitchError."""
    try:
        found = parse_prefix(text)
    except PydanticCustomError as err:
        context = err.context or {}
        hint = f": {context['hint']}" if context.get("hint") else ""
        raise SwitchError(f"found {text!r}; expected {context.get('expected')}{hint}") from None
    if not found.prefixlen:
        raise SwitchError(
            f"{found} is every client over IPv{found.version}; to stop a VIP, take it out of the spec, or have routers "
            "send its queries elsewhere: dnsteer withdraw VIP"
        )
    return found


def deny_clients(clients: Sequence[Network], *, port: int = 0, vip: str = "", lasts: float = 0, note: str = "") -> Edit:
    """Return the edit that denies clients, for *lasts* seconds, 0: until it is ended.

    Who is denied already keeps the start, and the time and note that are not given anew.
    """

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        if vip and vip not in state.vips:
            raise SwitchError(f"there is no VIP {vip!r}; {near(vip, state.vips)}")
        until = stamp(time + timedelta(seconds=lasts)) if lasts else ""
        denials = {denial.key: denial for denial in overlay.denials}
        for network in clients:
            new = Denial(str(network), stamp(time), operator_name(), port, vip, note, until, decision_id())
            found = denials.get(new.key)
            if found is not None:
                again = replace(found, note=note or found.note, until=until or found.until)
                new = replace(again, by=new.by, decision=new.decision) if again != found else found
            denials[new.key] = new
        if len(denials) > MAX_DENIALS:
            raise SwitchError(
                f"{len(denials):,} prefixes denied by hand; at most {MAX_DENIALS:,} can be: join those that lie side by "
                "side, or put them into a file of the spec (switch.access.deny_file)"
            )
        return overlay.with_denials(denials.values())

    return edit


def admit_clients(clients: Sequence[Network], *, port: int = 0, vip: str = "") -> Edit:
    """Return the edit that ends denials. Raises SwitchError for what is not denied by hand."""

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        denials = {denial.key: denial for denial in overlay.denials}
        for network in clients:
            wanted = Denial(str(network), "", "", port, vip)
            if denials.pop(wanted.key, None) is None:
                raise SwitchError(f"{wanted.name} is not denied by hand; {_denied_otherwise(wanted, overlay, state)}")
        return overlay.with_denials(denials.values())

    return edit


def _denied_otherwise(wanted: Denial, overlay: Overlay, state: AppliedState) -> str:
    """What is denied that somebody may mean who names *wanted*, which is not."""
    network = wanted.network
    alike = [a for a in overlay.denials if _overlap(a.network, network)]
    if alike:
        return f"{some_of([a.name for a in alike])} is: dnsteer undeny {' '.join(alike[0].words)}"
    places = _denied_by_spec(load_state(state), wanted)
    if places:
        return f"the spec denies it ({some_of(places)}): change the spec and apply it"
    return f"denied are {some_of([a.name for a in overlay.denials])}" if overlay.denials else "nobody is"


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
        places = _denied_by_spec(loaded, denial) if denial.key not in after.denied else []
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


def _denied_by_spec(loaded: Loaded, denial: Denial) -> list[str]:
    """Where the spec denies what a denial is about, or a part of it."""
    found = (path for path, entry in _entries_of(loaded, denial, "deny") if _overlap(entry.prefix, denial.network))
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


def _overlap(one: Network, other: Network) -> bool:
    return _is_in(one, other) or _is_in(other, one)
