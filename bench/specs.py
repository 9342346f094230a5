# SPDX-License-Identifier: Apache-2.0
"""Specs for benchmarks, as YAML text."""

from __future__ import annotations

from dnsteer.spec.model.spec import Flavor


def many_vips(vips: int, pools: int = 100, backends: int = 16, flavor: Flavor = Flavor.OVS_NETDEV) -> str:
    """*vips* VIPs of both families with four services each, over *pools* pools of *backends* backends."""
    lines = [
        "apiVersion: dnsteer/v1",
        "switch:",
        f"  flavor: {flavor.value}",
        "  bridge: br-dns",
        "  mac: 02:00:00:00:00:53",
        "  uplinks: {p0: {next_hop: 02:00:00:00:00:fe}}",
        "pools:",
    ]
    for p in range(pools):
        lines += [f"  pool{p}:", "    backends:"]
        for b in range(backends):
            lines.append(
                f"      - {{name: ns{b}, ipv4: 10.{p}.0.{b + 1}, ipv6: '2001:db8:{p:x}::{b + 1:x}', "
                f"mac: '02:01:00:00:{p:02x}:{b:02x}', weight: {1 + (b + p) % 4}}}"
            )
    lines.append("vips:")
    for v in range(vips):
        lines += [
            f"  vip{v}:",
            f"    addresses: [172.{16 + v // 65536}.{v // 256 % 256}.{v % 256}, '2001:db8:ffff::{v + 1:x}']",
            "    services: [dns, dot, doq, doh]",
            f"    pool: pool{v % pools}",
        ]
    return "\n".join(lines) + "\n"


def one_vip(selection: str, slots: int) -> str:
    """One VIP of both families over four backends."""
    return f"""apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks: {{p0: }}
pools:
  pool:
    selection: {selection}
    slots: {slots}
    backends:
      - {{name: ns1, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: 02:00:00:00:01:01}}
      - {{name: ns2, ipv4: 192.0.2.12, ipv6: '2001:db8::12', mac: 02:00:00:00:01:02}}
      - {{name: ns3, ipv4: 192.0.2.13, ipv6: '2001:db8::13', mac: 02:00:00:00:01:03}}
      - {{name: ns4, ipv4: 192.0.2.14, ipv6: '2001:db8::14', mac: 02:00:00:00:01:04, weight: 2}}
vips:
  dns: {{addresses: [192.0.2.53, '2001:db8::53'], services: [dns], pool: pool}}
"""
