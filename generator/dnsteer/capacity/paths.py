# SPDX-License-Identifier: Apache-2.0
"""The packet paths of a spec, for capacity.

VIPs of one shape have the same paths, so that only the first two of each shape are examined: what differs between them,
their addresses and the names of pools and backends, changes no number of a path. The second has the flows that each further
one has; with those of the first are some that a spec has once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from ipaddress import IPv6Address

from dnsteer.modes import MODES
from dnsteer.offload.capabilities import Profile
from dnsteer.offload.datapath_flow import DatapathFlow, Unreadable
from dnsteer.offload.examine import Examination, JudgedFlow, examine
from dnsteer.offload.owners import Owner
from dnsteer.offload.packet_path import PacketPath
from dnsteer.spec.health_checks import own_slots
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Pool, Spec, Vip
from dnsteer.spec.workers import has_workers
from dnsteer.tables.passes import with_chosen

_NAMES = {"name", "ipv4", "ipv6", "mac"}
_OF_AGENT = {"serves", "health", "panic", "keep_at_least", "slow_start", "hold_max", "balance", "backup"}
"""Keys of pools that change no flow of theirs. The backends of a backup are among the pool's own, standing by."""
_ADDRESSED = ("ipv4.dst", "ipv6.dst", "arp.tip", "nd.target")
_OF_EACH_VIP = ("query", "answer", "fragment")
"""Kinds of packets that are sent for each VIP; of others some are sent for one."""
_EXAMINED = 2
"""VIPs of each shape."""


@dataclass(frozen=True)
class ExaminedPaths:
    """The packet paths of a spec, and about how many datapath flows all their packets create."""

    paths: Sequence[PacketPath]
    flows: int


def paths_of(loaded: Loaded, judge: Profile, progress: Callable[[int], None] = lambda _: None) -> ExaminedPaths:
    """Return the packet paths of *loaded*, judged by the profile *judge*. Raises SwitchError as examine does."""
    loaded = replace(loaded, spec=with_chosen(loaded.spec, MODES))
    alike: dict[Hashable, list[str]] = {}
    for name in loaded.spec.vips:
        alike.setdefault(_shape(loaded.spec, name), []).append(name)
    found = examine(_only(loaded, [n for names in alike.values() for n in names[:_EXAMINED]]), judge, progress=progress)
    names_of = {names[0]: names for names in alike.values()}
    paths = [replace(path, vip=name) for path in found.paths for name in names_of.get(path.vip, ())]
    paths.sort(key=lambda path: Owner(path.vip, path.service, path.family, path.direction))
    more = {names[_EXAMINED - 1]: len(names) - _EXAMINED for names in alike.values() if len(names) > _EXAMINED}
    left_out = sum(_flows_of(found, vip) * times for vip, times in more.items())
    return ExaminedPaths(paths, found.flow_count(found.judged) + round(left_out))


def _flows_of(found: Examination, vip: str) -> float:
    """How many flows there are for a VIP's own packets, its part of those shared with others, and to its addresses."""
    addresses = {int(address) for address in found.loaded.spec.vips[vip].addresses}
    shared: dict[int, list[JudgedFlow]] = defaultdict(list)
    for judged in found.judged:
        owners = {owner.vip for owner in judged.owners}
        # All VIPs of a pool of two passes share the flows of the second.
        again = len(owners) > 1 and any(map(found.has_two_passes, judged.owners)) and _is_recirculated(judged.flow)
        own = vip in owners and judged.kind in _OF_EACH_VIP and not again
        if own or (not owners and _is_to(judged.flow, addresses)):
            shared[len(owners) or 1].append(judged)
    return sum(found.flow_count(flows) / vips for vips, flows in shared.items())


def _is_recirculated(flow: DatapathFlow | Unreadable) -> bool:
    return isinstance(flow, DatapathFlow) and flow.recirculated


def rules_together(spec: Spec, paths: Iterable[PacketPath]) -> int:
    """The hardware rules of several paths: those of a second pass count once for all services of a pool that share them."""
    total, second = 0, dict[Hashable, int]()
    for path in paths:
        total += path.rules - path.shared
        if path.shared:
            name, protocol = spec.vips[path.vip].pool, path.service.partition("/")[0]
            apart = has_workers(spec.pools[name]) or _by_port(path.service) in own_slots(spec, name)
            second[name, path.mode, path.family, path.service if apart else protocol] = path.shared
    return total + sum(second.values())


def _by_port(service: str) -> str:
    """A service of a path, as `udp/53`, in the words of health checks, `53/udp`."""
    protocol, _, port = service.partition("/")
    return f"{port}/{protocol}"


def _is_to(flow: DatapathFlow | Unreadable, addresses: Set[int]) -> bool:
    fields = [flow.get(key) for key in _ADDRESSED] if isinstance(flow, DatapathFlow) else ()
    return any(field is not None and field.exact and int(field.value) in addresses for field in fields)


def _only(loaded: Loaded, vips: Sequence[str]) -> Loaded:
    """The spec with these VIPs alone, and their pools. The extension's program is of all its VIPs: it stays whole."""
    spec = loaded.spec
    if len(vips) == len(spec.vips):
        return loaded
    wanted = set(vips)
    kept = {name: vip for name, vip in spec.vips.items() if name in wanted}
    used = {vip.pool for vip in kept.values()}
    used |= {pool.backup.pool for name in used if (pool := spec.pools[name]).backup is not None}
    pools = {name: pool for name, pool in spec.pools.items() if name in used}
    return replace(loaded, spec=spec.model_copy(update={"vips": kept, "pools": pools}))


def _shape(spec: Spec, name: str) -> Hashable:
    """What the paths of a VIP depend on; another for each VIP where the extension serves some."""
    if spec.switch.extension is not None:
        return name
    vip = spec.vips[name]
    sixes = sum(isinstance(address, IPv6Address) for address in vip.addresses)
    pool = spec.pools[vip.pool]
    # VIPs of two pools share no second pass.
    return len(vip.addresses) - sixes, sixes, _rest(vip), _pool_shape(pool), vip.pool if pool.passes == 2 else ""


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
