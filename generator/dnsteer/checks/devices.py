# SPDX-License-Identifier: Apache-2.0
"""Types and options of network devices that Open vSwitch does not have: it says so only when a port is added."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.part import Device
from dnsteer.spec.model.spec import Flavor

TYPES = (
    "system",
    "internal",
    "tap",
    "patch",
    "dpdk",
    "dpdkvhostuser",
    "dpdkvhostuserclient",
    "dpdkvdpa",
    "doca",
    "afxdp",
    "afxdp-nonpmd",
    "dummy",
    "dummy-internal",
    "dummy-pmd",
    "bareudp",
    "erspan",
    "geneve",
    "gre",
    "gtpu",
    "ip6erspan",
    "ip6gre",
    "lisp",
    "srv6",
    "stt",
    "vxlan",
)
"""Interface types of Open vSwitch 2.17 to 3.6, of NVIDIA's OVS-DOCA, and of its test devices."""
_OPTIONS = (
    "dpdk-devargs",
    "dpdk-lsc-interrupt",
    "dpdk-vf-mac",
    "n_rxq",
    "n_rxq_desc",
    "n_txq",
    "n_txq_desc",
    "rx-flow-ctrl",
    "tx-flow-ctrl",
    "flow-ctrl-autoneg",
    "rx-steering",
    "vhost-server-path",
    "tx-retries-max",
    "vhost-max-queue-pairs",
    "peer",
    "xdp-mode",
    "use-need-wakeup",
    "remote_ip",
    "local_ip",
    "in_key",
    "out_key",
    "key",
    "dst_port",
    "tos",
    "ttl",
    "df_default",
    "csum",
    "exts",
    "egress_pkt_mark",
    "packet_type",
    "seq",
    "erspan_ver",
    "erspan_idx",
    "erspan_dir",
    "erspan_hwid",
    "tx_pcap",
    "rxq_pcap",
    "pcap",
    "stream",
    "pstream",
    "sw-meter",
)
"""Names that are right, so that they are not taken for others."""
_SW_METER = re.compile(r"pps:[1-9]\d{0,9}:[1-9]\d{0,9}")
_ALIKE_TYPES, _ALIKE_OPTIONS = 0.75, 0.88
"""How alike a name is to a known one, as difflib has it, so that it is that one misspelt; options are all alike."""


def check_devices(scope: Scope) -> Iterator[Finding]:
    """All findings of types and options that are nearly those of Open vSwitch."""
    for path, device in _devices(scope):
        if device.type is not None and device.type not in TYPES and (meant := _meant(device.type, TYPES, _ALIKE_TYPES)):
            yield scope.finding(
                (*path, "type"),
                f'"{device.type}"',
                "a type of interface that Open vSwitch has",
                f'did you mean "{meant}"?',
            )
        for name in device.options:
            if name not in _OPTIONS and (meant := _meant(name, _OPTIONS, _ALIKE_OPTIONS)):
                yield scope.finding(
                    (*path, "options", name),
                    f'"{name}"',
                    "an option that Open vSwitch reads",
                    f'did you mean "{meant}"?',
                )
        yield from _software_meter(scope, path, device)


def _software_meter(scope: Scope, path: Path, device: Device) -> Iterator[Finding]:
    """Check NVIDIA's limit of the packets of a port that ovs-vswitchd handles in software."""
    found, flavor = device.options.get("sw-meter"), scope.spec.switch.flavor
    where = (*path, "options", "sw-meter")
    if found is None:
        return
    if flavor is not Flavor.OVS_DOCA:
        yield scope.finding(
            where,
            f"sw-meter with flavor {flavor.value}",
            "no such option: only OVS-DOCA reads it",
            "leave it out; upstream's limit of a port is ingress_policing_kpkts_rate, which dnsteer does not set",
        )
    elif not _SW_METER.fullmatch(str(found)):
        yield scope.finding(
            where,
            f'"{found}"',
            "pps:RATE:BURST, in packets a second and packets",
            "for example pps:200000:32: packets of this port that hardware does not forward, beyond these, are dropped",
        )


def unknown_types(scope: Scope) -> Iterator[Finding]:
    """Warnings about other types that are not known here: a release of Open vSwitch may have them."""
    for path, device in _devices(scope):
        if device.type is not None and device.type not in TYPES and not _meant(device.type, TYPES, _ALIKE_TYPES):
            yield scope.finding(
                (*path, "type"),
                f'"{device.type}", which no known release of Open vSwitch has',
                "a type such as system or dpdk",
                "apply fails if the switch does not have it; to see what it has: ovs-vsctl get Open_vSwitch . iface_types",
                "ports of a type that no known release of Open vSwitch has",
            )


def _devices(scope: Scope) -> Iterator[tuple[Path, Device]]:
    switch = scope.spec.switch
    for part, ports in (("uplinks", switch.uplinks), ("ports", switch.ports)):
        for name, port in ports.items():
            yield ("switch", part, name), port
    for name, uplink in switch.uplinks.items():
        for member, device in (uplink.members or {}).items():
            yield ("switch", "uplinks", name, "members", member), device
    if switch.extension is not None:
        yield ("switch", "extension", "ingress"), switch.extension.ingress
        yield ("switch", "extension", "egress"), switch.extension.egress


def _meant(word: str, known: Sequence[str], alike: float) -> str:
    """Return the known name that *word* is with other dashes or misspelt; empty for none."""
    plain = word.replace("_", "-").lower()
    for name in known:
        if name.replace("_", "-") == plain:
            return name
    ratio, name = max((_likeness(plain, name.replace("_", "-")), name) for name in known)
    return name if ratio >= alike else ""


def _likeness(one: str, other: str) -> float:
    if sorted(one) == sorted(other):
        return 1.0  # two characters in each other's place
    return difflib.SequenceMatcher(None, one, other).ratio()
