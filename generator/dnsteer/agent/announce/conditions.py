# SPDX-License-Identifier: Apache-2.0
"""Why a VIP does not work, and whether it stays announced all the same.

Pure functions of the spec, the overlay, health and the state of the switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from dnsteer.agent.backend_health import Health
from dnsteer.agent.probes.targets import slots_name
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.spec.announced import announced_vips
from dnsteer.spec.backups import standby_weights
from dnsteer.spec.health_checks import own_slots
from dnsteer.spec.model.announce import LastResort
from dnsteer.spec.model.spec import Spec, State


def find_obstacles(spec: Spec, overlay: Overlay, health: Health, fault: str | None) -> dict[str, str | None]:
    """Return why each VIP that the spec wants to be announced does not work. Empty text: it does; None: not known yet.

    *fault* is what is wrong with the switch: empty where its tables were found right, None before that.
    """
    out: dict[str, str | None] = {}
    found: dict[tuple[str, int], _PoolNeeds] = {}
    vips = {str(address) for vip in spec.vips.values() for address in vip.addresses}
    for name, settings in announced_vips(spec).items():
        vip, least = spec.vips[name], settings.min_healthy
        if (vip.pool, least) not in found:
            found[vip.pool, least] = _needs_of(spec, vip.pool, least, overlay, health)
        needs = found[vip.pool, least]
        known = [why for why in (fault, needs.lacking) if why]
        unknown = fault is None or not needs.known_of({*map(str, vip.addresses)}, vips)
        out[name] = known[0] if known else None if unknown else ""
    return out


def vips_withheld_by_people(spec: Spec, overlay: Overlay, health: Health) -> set[str]:
    """Return the VIPs that lack backends only since people have some out: that is no failure of theirs."""
    if not any(entry.kept_out_by_people for entry in overlay):
        return set()
    found, free = find_obstacles(spec, overlay, health, ""), find_obstacles(spec, NO_OVERLAY, health, "")
    return {name for name, obstacle in found.items() if obstacle and not free[name]}


@dataclass(frozen=True)
class FailedPoolVips:
    """VIPs of which no backend in service passes the checks of a service: those that *stay* announced all the same, by
    `switch.announce.when_none_pass`, and those that go since nobody *answers*."""

    stay: frozenset[str] = frozenset()
    unanswered: frozenset[str] = frozenset()


def vips_of_failed_pools(spec: Spec, overlay: Overlay, health: Health) -> FailedPoolVips:
    """Return the VIPs of which no backend passes, unless the policy is to withdraw them in any case."""
    policy = spec.switch.announce.when_none_pass if spec.switch.announce is not None else "withdraw"
    if policy == "withdraw":
        return FailedPoolVips()
    found = {
        name: _none_passes(spec, spec.vips[name].pool, settings.min_healthy, overlay, health, policy)
        for name, settings in announced_vips(spec).items()
    }
    stay, unanswered = (frozenset(name for name, is_so in found.items() if is_so is wanted) for wanted in (True, False))
    return FailedPoolVips(stay, unanswered)


def _none_passes(
    spec: Spec, pool: str, least: int, overlay: Overlay, health: Health, policy: LastResort | str
) -> bool | None:
    """Whether the *policy* keeps a pool, if all that it lacks is of services that no backend passes for; None otherwise."""
    serving, keeps = {*serving_backends(spec, pool, overlay)}, None
    for service in ("", *own_slots(spec, pool)):
        slots = slots_name(pool, service)
        passing = serving - health.unhealthy(slots).keys()
        if len(passing) >= least:
            continue
        if passing or not serving:
            return None
        answered = policy != "withdraw_if_unanswered" or bool(serving & health.answering(slots))
        keeps = answered and keeps is not False
    return keeps


@dataclass(frozen=True)
class _PoolNeeds:
    """What a pool, or one of its services that have slots of their own, is *lacking* in healthy backends in service.

    *unsure* is, by service, how many more have to be known to be healthy, and the addresses at which that is not known yet
    of each that may be.
    """

    lacking: str
    unsure: tuple[tuple[int, Sequence[AbstractSet[str]]], ...] = ()

    def known_of(self, own: AbstractSet[str], vips: AbstractSet[str]) -> bool:
        """Whether nothing is lacking for a VIP with its *own* addresses, of those of all *vips*."""
        return all(
            sum(not any(one in own or one not in vips for one in addresses) for addresses in unsure) >= more
            for more, unsure in self.unsure
        )


def _needs_of(spec: Spec, pool: str, least: int, overlay: Overlay, health: Health) -> _PoolNeeds:
    serving = serving_backends(spec, pool, overlay)
    found: list[tuple[int, Sequence[AbstractSet[str]]]] = []
    for service in ("", *own_slots(spec, pool)):
        slots = slots_name(pool, service)
        ill, untested = health.unhealthy(slots), health.untested(slots)
        healthy = [name for name in serving if name not in ill]
        unsure = [untested[name] for name in healthy if name in untested]
        if (more := least - len(healthy) + len(unsure)) > 0:
            found.append((more, unsure))
        if len(healthy) < least:
            each = "; ".join(f"{name}: {ill[name]}" for name in serving if name in ill)
            text = f"pool {slots}: healthy backends in service: {len(healthy)}, needed: {least}"
            return _PoolNeeds(f"{text} ({each})" if each else text)
    return _PoolNeeds("", tuple(found))


def serving_backends(spec: Spec, pool: str, overlay: Overlay) -> list[str]:
    """The backends of a pool that would take queries if all were healthy, and those of its backup that can join."""
    entries = overlay.of(pool)
    out = {entry.backend for entry in entries if entry.kind in ("drain", "down")}
    weights = {entry.backend: entry.weight for entry in entries if entry.kind == "weight"}
    own = {b.name: b.weight for b in spec.pools[pool].backends if b.state is State.UP}
    joining = standby_weights(spec, spec.pools[pool])
    return [
        name
        for name, weight in {**own, **joining}.items()
        if name not in out and (weight if weights.get(name) is None else weights[name])
    ]
