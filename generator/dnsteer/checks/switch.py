# SPDX-License-Identifier: Apache-2.0
"""Rules that the switch must keep: names and devices of ports, MAC addresses, and the way of the answers."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.checks.bonds import check_bonds
from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.bonds import uplink_ports
from dnsteer.spec.errors import Finding, Path, near
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import FAMILIES, FAMILY_NAMES, Family
from dnsteer.spec.model.next_hop import router_macs
from dnsteer.spec.model.part import Device
from dnsteer.spec.model.spec import Flavor, Forwarding, Spec, Uplink, Vip

_NEEDS = {"dpdk": "dpdk-devargs", "dpdkvhostuserclient": "vhost-server-path", "patch": "peer"}
"""Options without which Open vSwitch does not open a device of a type."""


def check_switch(scope: Scope) -> Iterator[Finding]:
    """All findings of the switch."""
    yield from _datapath_type(scope)
    yield from _ports(scope)
    yield from check_bonds(scope)
    yield from _macs(scope)
    yield from _return_path(scope)


def _datapath_type(scope: Scope) -> Iterator[Finding]:
    switch = scope.spec.switch
    if switch.datapath_type is not None and switch.flavor is not Flavor.OVS_DOCA:
        yield scope.finding(
            ("switch", "datapath_type"),
            f'"{switch.datapath_type}" with flavor {switch.flavor.value}',
            "no such key: the flavor says which datapath the bridge has",
            "only ovs-doca has a choice: leave it out, or set flavor: ovs-doca",
        )


def _ports(scope: Scope) -> Iterator[Finding]:
    switch = scope.spec.switch
    count = len(uplink_ports(switch)) + len(switch.ports)
    if count > derived.MAX_PORTS:
        yield scope.finding(
            ("switch",),
            f"{count} uplinks and ports",
            f"at most {derived.MAX_PORTS}",
            "OpenFlow has no more port numbers for a bridge",
        )
    for name in switch.ports:
        if name in switch.uplinks:
            yield scope.finding(
                ("switch", "ports", name),
                f'"{name}", which is the name of an uplink',
                "each port once",
                "backends may sit behind an uplink: remove this entry and give them its name as their port",
            )
    devices: dict[tuple[str, str], Path] = {}
    for part, ports in (("uplinks", switch.uplinks), ("ports", switch.ports)):
        for name, port in ports.items():
            path: Path = ("switch", part, name)
            if name == switch.bridge:
                yield scope.finding(
                    path,
                    "the bridge's own name",
                    "a name that differs from the bridge's",
                    "Open vSwitch gives the bridge a port of its name",
                )
            if port.answers is not None:
                yield from _answers(scope, (*path, "answers"), port.answers)
            if not isinstance(port, Uplink) or port.members is None:
                yield from _device(scope, path, port, devices)
                continue
            for member, device in port.members.items():
                yield from _device(scope, (*path, "members", member), device, devices)
    extension = switch.extension
    if extension is not None:
        for key, own in (("ingress", extension.ingress), ("egress", extension.egress)):
            yield from _device(scope, ("switch", "extension", key), own, devices)


def _answers(scope: Scope, path: Path, uplink: str) -> Iterator[Finding]:
    switch = scope.spec.switch
    if uplink in switch.ports and uplink not in switch.uplinks:
        yield scope.finding(
            path, f'"{uplink}", which is a port of backends', "the name of an uplink", near("", switch.uplinks)
        )
    elif uplink not in switch.uplinks:
        yield scope.finding(path, f'"{uplink}"', "the name of an uplink", near(uplink, switch.uplinks))
    elif switch.uplinks[uplink].next_hop is None:
        yield scope.finding(
            path,
            f'"{uplink}", which has no next hop',
            "an uplink with next_hop",
            f"give {uplink} a next_hop: the MAC address of the router there",
        )


def _device(scope: Scope, path: Path, port: Device, devices: dict[tuple[str, str], Path]) -> Iterator[Finding]:
    flavor = scope.spec.switch.flavor
    kind = port.type or derived.INTERFACE_TYPE[flavor]
    if flavor is Flavor.OVS_KERNEL and kind.startswith(("dpdk", "afxdp")):
        yield scope.finding(
            (*path, "type"),
            f'"{kind}" with flavor ovs-kernel',
            "a type of the kernel's datapath, such as system",
            "devices of this type exist in userspace only: ovs-dpdk, ovs-doca or ovs-netdev",
        )
        return
    option = _NEEDS.get(kind)
    if option is None:
        return
    value = port.options.get(option)
    if value is None:
        if not (kind == "dpdk" and flavor is Flavor.OVS_DOCA):  # NVIDIA's fork finds the device by the port's name
            yield scope.finding(
                path,
                f"type {kind} and no option {option}",
                f"the option {option}",
                f"Open vSwitch does not open a {kind} device without it: options: {{{option}: ...}}",
            )
        return
    first = devices.setdefault((option, value), path)
    if first != path:
        yield scope.finding(
            (*path, "options", option),
            f'"{value}" a second time',
            "a device of its own for each port",
            f"see {scope.where(first)}",
        )


def _macs(scope: Scope) -> Iterator[Finding]:
    switch = scope.spec.switch
    gateway = "the virtual gateways' MAC"
    hint = "give the station's own address"
    if switch.gateway_mac is None:
        gateway += " (switch.mac with its lowest bit flipped)"
        hint += ", or set switch.gateway_mac to one that is free"
    own = {
        derived.gateway_mac(switch): (gateway, hint),
        switch.mac: ("the balancer's MAC (switch.mac)", "give the station's own"),
    }
    if switch.gateway_mac == switch.mac:
        yield scope.finding(
            ("switch", "gateway_mac"),
            f'"{switch.mac}", the same as switch.mac',
            "a MAC address of its own",
            "the switch tells answers from queries by destination MAC; leave gateway_mac out to get mac with its "
            "lowest bit flipped",
        )
    others: list[tuple[Path, str]] = [
        (("switch", "uplinks", name, "next_hop"), mac)
        for name, up in switch.uplinks.items()
        for mac in router_macs(up.next_hop)
    ]
    for pool_name, pool in scope.spec.pools.items():
        others += [(("pools", pool_name, "backends", i, "mac"), b.mac) for i, b in enumerate(pool.backends)]
    for path, mac in others:
        if mac in own:
            whose, advice = own[mac]
            yield scope.finding(path, f'"{mac}", {whose}', "the MAC address of another station", advice)


def _return_path(scope: Scope) -> Iterator[Finding]:
    """Answers that pass the switch need a gateway to come to, and a next hop to leave to."""
    switch = scope.spec.switch
    needs = families_that_return(scope.spec)
    for family, why in needs.items():
        if not any(derived.family_of(g) == family for g in switch.gateways):
            yield scope.finding(
                ("switch", "gateways"),
                f"no {FAMILY_NAMES[family]} gateway",
                f"an {FAMILY_NAMES[family]} address in switch.gateways",
                f"{why}: give its backends a virtual gateway to route the answers to",
            )
    if needs and not any(up.next_hop is not None for up in switch.uplinks.values()):
        yield scope.finding(
            ("switch", "uplinks"),
            "no uplink with next_hop",
            "an uplink with next_hop",
            f"{next(iter(needs.values()))}: give the MAC address of the router that they leave to",
        )


def families_that_return(spec: Spec) -> dict[Family, str]:
    """For each family in which answers pass the switch, why: the first VIP of which they do."""
    needs: dict[Family, str] = {}
    known: dict[tuple[str, Family, Forwarding], bool] = {}
    for name, vip in spec.vips.items():
        for address in vip.addresses:
            mode = MODES[vip.forwarding]
            family = mode.answers_in(derived.family_of(address))
            if family not in needs and vip.pool in spec.pools and _has_answers_through_switch(spec, vip, family, known):
                how = mode.answers_by or "backends on ports of their own"
                needs[family] = f"answers of VIP {name} pass the switch ({how})"
    return {family: needs[family] for family in FAMILIES if family in needs}


def _has_answers_through_switch(
    spec: Spec, vip: Vip, family: Family, known: dict[tuple[str, Family, Forwarding], bool]
) -> bool:
    key = (vip.pool, family, vip.forwarding)
    if key not in known:
        mode = MODES[vip.forwarding]
        members = derived.members(spec.pools[vip.pool], mode.reach(family))
        known[key] = any(b.weight and mode.answers_pass(spec.switch, b) for b in members)
    return known[key]
