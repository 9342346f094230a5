"""The packet paths of a spec, for capacity.

VIPs of one shape have the same paths, so that only the first of each shape is examined: what differs between them, their
addresses and the names of pools and backends, changes no number of a path.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv6Address

from dnsteer.offload.examine import Examination, examine
from dnsteer.offload.owners import Owner
from dnsteer.offload.packet_path import PacketPath
from dnsteer.offload.profile import Profile
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Pool, Spec, Vip

_NAMES = {"name", "ipv4", "ipv6", "mac"}
_OF_AGENT = {"health", "panic", "slow_start", "hold_max"}


@dataclass(frozen=True)
class ExaminedPaths:
    """The packet paths of a spec, and about how many datapath flows all their packets create."""

    paths: Sequence[PacketPath]
    flows: int


def paths_of(loaded: Loaded, judge: Profile, progress: Callable[[int], None] = lambda _: None) -> ExaminedPaths:
    """Return the packet paths of *loaded*, judged by the profile *judge*. Raises SwitchError as examine does."""
    alike: dict[Hashable, list[str]] = {}
    for name in loaded.spec.vips:
        alike.setdefault(_shape(loaded.spec, name), []).append(name)
    found = examine(_only(loaded, [names[0] for names in alike.values()]), judge, progress=progress)
    names_of = {names[0]: names for names in alike.values()}
    paths = [replace(path, vip=name) for path in found.paths for name in names_of[path.vip]]
    paths.sort(key=lambda path: Owner(path.vip, path.service, path.family, path.direction))
    return ExaminedPaths(paths, _flows(found, {first: len(names) for first, names in names_of.items()}))


def _flows(found: Examination, times: dict[str, int]) -> int:
    """All flows, those of each examined VIP as often as there are VIPs like it."""
    own = sum(found.flow_count(flows) * (times[owner.vip] - 1) for owner, flows in found.of_owner.items())
    return found.flow_count(found.judged) + own


def _only(loaded: Loaded, vips: Sequence[str]) -> Loaded:
    """The spec with these VIPs alone, and their pools. The extension's program is of all its VIPs: it stays whole."""
    spec = loaded.spec
    if len(vips) == len(spec.vips):
        return loaded
    kept = {name: spec.vips[name] for name in vips}
    used = {vip.pool for vip in kept.values()}
    pools = {name: pool for name, pool in spec.pools.items() if name in used or _tied(spec)}
    return replace(loaded, spec=spec.model_copy(update={"vips": kept, "pools": pools}))


def _tied(spec: Spec) -> bool:
    """Whether pools are for each other's backends, so that one alone is not what it is among the others."""
    return any(pool.backup is not None or pool.balance is not None for pool in spec.pools.values())


def _shape(spec: Spec, name: str) -> Hashable:
    """What the paths of a VIP depend on; another for each VIP where the extension serves some."""
    if spec.switch.extension is not None:
        return name
    vip = spec.vips[name]
    sixes = sum(isinstance(address, IPv6Address) for address in vip.addresses)
    pool: Hashable = vip.pool if _tied(spec) else _pool_shape(spec.pools[vip.pool])
    return len(vip.addresses) - sixes, sixes, _rest(vip), pool


def _rest(vip: Vip) -> str:
    return vip.model_dump_json(exclude={"addresses", "pool", "announce"})


def _pool_shape(pool: Pool) -> Hashable:
    first: dict[Hashable, int] = {}
    backends = [
        (
            b.model_dump_json(exclude=_NAMES),
            *(address and first.setdefault(address, len(first)) for address in (b.ipv4, b.ipv6)),
        )
        for b in pool.backends
    ]
    return pool.model_dump_json(exclude={*_OF_AGENT, "backends"}), tuple(backends)
