"""What verdicts depend on besides the flows: connection tracking, the ports and their eSwitches, widths of the hash."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dnsteer.card.eswitch import Eswitch, eswitch_of
from dnsteer.offload.capabilities import PortKind
from dnsteer.offload.judge import OffloadContext
from dnsteer.plan.bridge import ports_of
from dnsteer.plan.plan import Plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Flavor, Selection, Switch
from dnsteer.tables.return_ import FragmentRow

_INNER = re.compile(r"pf(\d+)(?:hpf|vf\d+|sf\d+)?\Z|.*pf(\d+)(?:hpf|vf\d+|sf\d+)\Z")
"""Names of representors as the kernel makes them (`pf0hpf`, `en3f1pf1sf0`): of which physical function they are."""
_OFFLOADED_TYPES: Mapping[Flavor, frozenset[str]] = {
    Flavor.OVS_DOCA: frozenset(["dpdk", "doca", "dpdkvdpa"]),
    Flavor.OVS_DPDK: frozenset(["dpdk"]),
    Flavor.OVS_KERNEL: frozenset(["system"]),
}
"""Types of ports that the eSwitch has, by flavor."""


def offload_context_of(loaded: Loaded, plan: Plan, *, conntrack: bool, flavor: Flavor | None = None) -> OffloadContext:
    """What verdicts depend on besides the flows. *conntrack*: it is offloaded where it is used.

    *flavor*: another one than the spec's, with what bring-up would set there.
    """
    switch = loaded.spec.switch
    return OffloadContext(
        conntrack=conntrack and uses_conntrack(plan),
        port_kinds=_port_kinds(switch, flavor or switch.flavor),
        eswitches=_eswitches(switch, eswitch_setup(loaded, plan, flavor)),
        local_ports=frozenset(set(ports_of(switch)) - set(switch.uplinks)),
    )


def eswitch_setup(loaded: Loaded, plan: Plan, flavor: Flavor | None = None) -> Eswitch:
    """The eSwitches as bring-up sets them up: whether those of a card become one (multiport)."""
    switch = loaded.spec.switch
    if flavor is not None:
        switch = switch.model_copy(update={"flavor": flavor})
    return eswitch_of(switch, sizes_of(loaded.spec, plan))


def uses_conntrack(plan: Plan) -> bool:
    """Whether the connection tracker is used at all."""
    return any(row.family == "ipv4" for row in plan.rows.of(FragmentRow))


def dp_hash_pools(loaded: Loaded) -> list[str]:
    """The pools whose slots the switch's hash chooses, and that a VIP uses."""
    used = {vip.pool for vip in loaded.spec.vips.values()}
    return [n for n, pool in loaded.spec.pools.items() if pool.selection is Selection.DP_HASH and n in used]


def _port_kinds(switch: Switch, flavor: Flavor) -> dict[str, PortKind]:
    """Ports that no eSwitch has: the bridge's own, and those of another type. Types are for the spec's own flavor."""
    known = _OFFLOADED_TYPES.get(flavor, frozenset()) if flavor is switch.flavor else frozenset()
    others = [
        n for n, p in ports_of(switch).items() if p.type == "internal" or (known and p.type and p.type not in known)
    ]
    return dict.fromkeys([switch.bridge, "LOCAL", *others], "internal")


def _eswitches(switch: Switch, setup: Eswitch) -> dict[str, str]:
    """The eSwitch of each port; none are told apart where there is but one."""
    by_port: dict[str, str] = {}
    for uplink, address in setup.functions.items():
        if setup.multiport:  # it joins the functions of a card; where the card is not known there is taken to be one
            by_port[uplink] = address[:-2]
        else:
            by_port[uplink] = address or uplink
    if len({*by_port.values()} - {""}) < 2:
        return {}
    for name, port in ports_of(switch).items():
        if name in switch.uplinks:
            continue
        by_port[name] = _representor_eswitch(name, port.options.get("dpdk-devargs", ""), by_port, setup)
    return by_port


def _representor_eswitch(name: str, devargs: str, by_port: Mapping[str, str], setup: Eswitch) -> str:
    """The eSwitch of a representor: of the function that its devargs or its name tell, else of the first uplink."""
    for uplink, address in setup.functions.items():
        if address and devargs.lower().removeprefix("pci:").startswith((address, address.removeprefix("0000:"))):
            return by_port[uplink]
    found = _INNER.match(name)
    number = (found[1] or found[2]) if found else ""
    for uplink, address in setup.functions.items():
        if number and (uplink == f"p{number}" or address.endswith(f".{number}")):
            return by_port[uplink]
    return next(iter(by_port.values()))
