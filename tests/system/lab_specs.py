# SPDX-License-Identifier: Apache-2.0
"""Specs that ask more of the lab's network than the examples do, and how specs are applied there."""

from __future__ import annotations

from pathlib import Path

from dnsteer.checks.load import check_document
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.neighbor_change import change_neighbors
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.send import ApplyResult
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.lab import names
from dnsteer.lab.topology import macs_of_neighbors
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.neighbors import is_followed
from dnsteer.spec.read import parse_document
from dnsteer.status.verify import Drift, find_drift

_ALL = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(f for f in _ALL.glob("*.yaml") if f.stem not in ("vlans", "bond", "vxlan"))
"""The examples but for those that the lab refuses: it has no tags, no partner for a bond, and no ends of tunnels."""
EVERYTHING = """
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-all
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, 2001:db8:53::1]
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
    p1: {next_hop: 02:00:00:00:00:fd}
    p2:
  ports:
    vf0:
    vf1:
    spare:
pools:
  mixed:        # one-armed; also in the NAT pool below, so its answers go both ways
    backends:
      - {name: m, ipv4: 10.53.0.11, ipv6: 2001:db8:53::11, mac: 02:00:00:00:05:01}
  far:          # direct server return behind an uplink that no client is behind
    backends:
      - {name: f, ipv4: 10.53.0.12, mac: 02:00:00:00:05:02, port: p2}
  nat:          # two behind one port, two behind one router, one one-armed
    backends:
      - {name: m, ipv4: 10.53.0.11, ipv6: 2001:db8:53::11, mac: 02:00:00:00:05:01}
      - {name: s1, ipv4: 10.53.0.21, ipv6: 2001:db8:53::21, mac: 02:00:00:00:05:03, port: vf0}
      - {name: s2, ipv4: 10.53.0.22, ipv6: 2001:db8:53::22, mac: 02:00:00:00:05:04, port: vf0}
      - {name: r1, ipv4: 10.54.0.31, mac: 02:00:00:00:05:05, port: p2}
      - {name: r2, ipv4: 10.54.0.32, mac: 02:00:00:00:05:05, port: p2}
  other:        # a second server called s1, on a port of its own
    backends:
      - {name: s1, ipv6: 2001:db8:53::41, mac: 02:00:00:00:05:06, port: vf1}
vips:
  dsr: {addresses: [198.51.100.1, "2001:db8:1::1"], services: [dns], pool: mixed}
  far: {addresses: [198.51.100.2], services: [dns, doq], pool: far}
  nat:
    addresses: [198.51.100.3, "2001:db8:1::3"]
    services: [{protocol: udp, port: 53, target_port: 5353}, {protocol: tcp, port: 53, target_port: 5353}, dot]
    pool: nat
    forwarding: nat
  own: {addresses: ["2001:db8:1::4"], services: [dns], pool: other}
"""

EXTENDED = """
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-all
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, 2001:db8:53::1]
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
    p1: {next_hop: 02:00:00:00:00:fd}
  ports:
    vf0:
    vf1:
  extension:
    ingress: {port: ext-in, device: sf0}
    egress: {port: ext-out, device: sf1}
    ipv4: 10.53.0.2
    ipv6: 2001:db8:53::2
  bringup: {mtu: 1600}
pools:
  tunneled:
    selection: client
    hash_fields: [src_ip, src_port]
    slots: 64
    backends:
      - {name: t1, ipv4: 10.53.0.11, mac: 02:00:00:00:05:01, port: p0}
      - {name: t2, ipv6: 2001:db8:53::12, mac: 02:00:00:00:05:02, port: vf0}
      - {name: t3, ipv4: 10.53.0.13, ipv6: 2001:db8:53::13, mac: 02:00:00:00:05:03, port: p1}
      - {name: t4, ipv4: 10.53.0.14, mac: 02:00:00:00:05:04, port: vf0}
  translated:
    slots: 128
    backends:
      - {name: s1, ipv6: 2001:db8:53::21, mac: 02:00:00:00:05:05, port: p0}
      - {name: s2, ipv4: 10.53.0.22, ipv6: 2001:db8:53::22, mac: 02:00:00:00:05:06, port: vf1}
      - {name: s3, ipv6: 2001:db8:53::23, mac: 02:00:00:00:05:07, port: p1}
  sprayed:
    selection: spray
    slots: 64
    backends:
      - {name: d1, ipv4: 10.53.0.31, ipv6: 2001:db8:53::31, mac: 02:00:00:00:05:08, port: p0}
      - {name: d2, ipv4: 10.53.0.32, ipv6: 2001:db8:53::32, mac: 02:00:00:00:05:09, port: vf1}
  both:       # translated and, for IPv6, direct
    selection: client
    slots: 64
    backends:
      - {name: b1, ipv6: 2001:db8:53::41, mac: 02:00:00:00:05:0a, port: p0}
      - {name: b2, ipv6: 2001:db8:53::42, mac: 02:00:00:00:05:0b, port: p1}
vips:
  tunneled: {addresses: [198.51.100.1, "2001:db8:1::1"], services: [dns, dot], pool: tunneled, forwarding: ipip}
  translated: {addresses: [198.51.100.2], services: [dns, dot], pool: translated, forwarding: siit}
  sprayed: {addresses: [198.51.100.3, "2001:db8:1::3"], services: [{protocol: udp, port: 53}], pool: sprayed}
  both4: {addresses: [198.51.100.4], services: [dns], pool: both, forwarding: siit}
  both6: {addresses: ["2001:db8:1::4"], services: [dns], pool: both}
"""
"""All that the extension does, with backends behind uplinks and ports, and devices that are not called as the ports are."""


def apply_in_lab(loaded: Loaded) -> ApplyResult:
    """Apply to the running lab."""
    switch = TargetSwitch(names.db_target(), extension=str(names.EXTENSION_SOCKET))
    done = deploy(FileSource(loaded), switch, Options(grace=0), progress=lambda _: None).result
    if is_followed(loaded.spec):
        change_neighbors(switch, loaded.spec.switch.bridge, macs_of_neighbors(loaded.spec))
    return done


def drift_in_lab(loaded: Loaded) -> list[Drift]:
    """How the running lab differs from the spec."""
    return find_drift(loaded, names.db_target(), extension=str(names.EXTENSION_SOCKET))


def spec_of(text: str) -> Spec:
    """The spec in *text*."""
    return check_document(parse_document("spec.yaml", text)).spec
