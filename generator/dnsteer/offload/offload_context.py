# SPDX-License-Identifier: Apache-2.0
"""What verdicts depend on in addition to the flows: connection tracking, the ports' kinds and their eSwitches."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from dnsteer.card.eswitch import Eswitch, eswitch_of
from dnsteer.offload.capabilities import PortKind
from dnsteer.offload.judge import OffloadContext
from dnsteer.plan.bridge import ports_of
from dnsteer.plan.plan import Plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.spec.bonds import uplink_ports
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Flavor, Selection, Switch
from dnsteer.tables.access import ListedServiceRow
from dnsteer.tables.recirculate import RecirculateRow
from dnsteer.tables.return_ import FragmentRow
from dnsteer.tables.vip import ServiceRow

CT_IPV6 = "hw-offload-ct-ipv6-enabled"
"""The key of other_config without which OVS-DOCA offloads no connection of IPv6."""
_INNER = re.compile(r"pf(\d+)(?:hpf|vf\d+|sf\d+)?\Z|.*pf(\d+)(?:hpf|vf\d+|sf\d+)\Z")
"""Kernel names of representors (`pf0hpf`, `en3f1pf1sf0`), with the number of their physical function."""
_OFFLOADED_TYPES: Mapping[Flavor, frozenset[str]] = {
    Flavor.OVS_DOCA: frozenset(["dpdk", "doca", "dpdkvdpa"]),
    Flavor.OVS_DPDK: frozenset(["dpdk"]),
    Flavor.OVS_KERNEL: frozenset(["system"]),
}
"""Port types that are on the eSwitch, by flavor."""


def offload_context_of(
    loaded: Loaded, plan: Plan, *, conntrack: bool, enabled: Container[str] = (), flavor: Flavor | None = None
) -> OffloadContext:
    """Return what verdicts depend on in addition to the flows. *conntrack*: connection tracking, if used, is offloaded.

    *enabled*: keys of other_config that are true.

    *flavor*: judge for this flavor instead of the spec's, with the settings that bring-up would make for it.
    """
    switch = loaded.spec.switch
    return OffloadContext(
        conntrack=conntrack and uses_conntrack(plan),
        port_kinds=_port_kinds(switch, flavor or switch.flavor),
        eswitches=_eswitches(switch, eswitch_setup(loaded, plan, flavor)),
        local_ports=frozenset(set(ports_of(switch)) - set(uplink_ports(switch))),
        enabled=frozenset({CT_IPV6} if CT_IPV6 in enabled else ()),
    )


def eswitch_setup(loaded: Loaded, plan: Plan, flavor: Flavor | None = None) -> Eswitch:
    """Return the eSwitches as bring-up sets them up, and whether it joins those of a card (multiport)."""
    switch = loaded.spec.switch
    if flavor is not None:
        switch = switch.model_copy(update={"flavor": flavor})
    return eswitch_of(switch, sizes_of(loaded.spec, plan))


def uses_conntrack(plan: Plan) -> bool:
    """Whether the plan uses connection tracking.

    That is for IPv4 fragments, kept connections, pools of two passes, lists or limits of clients.
    """
    fragments = any(row.family == "ipv4" for row in plan.rows.of(FragmentRow))
    kept = any(row.zone for row in plan.rows.of(ServiceRow))
    return fragments or kept or bool(plan.rows.of(RecirculateRow) or plan.rows.of(ListedServiceRow))


def needs_ct_ipv6(loaded: Loaded, plan: Plan) -> bool:
    """Whether bring-up makes OVS-DOCA offload connections of IPv6: they are tracked, and no hash forbids it."""
    return sizes_of(loaded.spec, plan).tracks_ipv6 and not dp_hash_pools(loaded)


def dp_hash_pools(loaded: Loaded) -> list[str]:
    """Return the pools with selection dp-hash that a VIP uses."""
    used = {vip.pool for vip in loaded.spec.vips.values()}
    return [n for n, pool in loaded.spec.pools.items() if pool.selection is Selection.DP_HASH and n in used]


def _port_kinds(switch: Switch, flavor: Flavor) -> dict[str, PortKind]:
    """Return ports on no eSwitch: the bridge's, internal ones and, for the spec's own flavor, those of other types.

    A patch port to a bond by LACP is none: it is judged as the port that it stands for.
    """
    known = _OFFLOADED_TYPES.get(flavor, frozenset()) if flavor is switch.flavor else frozenset()
    others = [
        n
        for n, p in ports_of(switch).items()
        if p.type == "internal" or (known and p.type and p.type not in known and p.type != "patch")
    ]
    return dict.fromkeys([switch.bridge, "LOCAL", *others], "internal")


def _eswitches(switch: Switch, setup: Eswitch) -> dict[str, str]:
    """Return the eSwitch of each port; empty if there is only one eSwitch."""
    by_port: dict[str, str] = {}
    for uplink, address in setup.functions.items():
        if setup.multiport:  # joins the functions of a card; uplinks with unknown card are assumed to be on one
            by_port[uplink] = address[:-2]
        else:
            by_port[uplink] = address or uplink
    if len({*by_port.values()} - {""}) < 2:
        return {}
    for name, port in ports_of(switch).items():
        if name in uplink_ports(switch):
            continue
        by_port[name] = _representor_eswitch(name, port.options.get("dpdk-devargs", ""), by_port, setup)
    return by_port


def _representor_eswitch(name: str, devargs: str, by_port: Mapping[str, str], setup: Eswitch) -> str:
    """Return the eSwitch of a representor: of the function in its devargs or its name, else of the first uplink."""
    for uplink, address in setup.functions.items():
        if address and devargs.lower().removeprefix("pci:").startswith((address, address.removeprefix("0000:"))):
            return by_port[uplink]
    found = _INNER.match(name)
    number = (found[1] or found[2]) if found else ""
    for uplink, address in setup.functions.items():
        if number and (uplink == f"p{number}" or address.endswith(f".{number}")):
            return by_port[uplink]
    return next(iter(by_port.values()))
