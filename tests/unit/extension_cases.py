# SPDX-License-Identifier: Apache-2.0
"""A spec with all that the extension does, behind several uplinks and ports."""

from __future__ import annotations

SPEC = """
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateway_mac: 02:00:00:00:00:aa
  gateways: [10.0.0.1, 2001:db8:a::1]
  uplinks:
    p0:
    p1: {next_hop: 02:00:00:00:01:fe}
    p2: {next_hop: 02:00:00:00:02:fe}
  ports:
    vf0:
    vf1: {answers: p2}
  extension:
    ingress: {port: ext-in, device: sf-in}
    egress: {port: ext-out, device: sf-out}
    ipv4: 10.0.9.4
    ipv6: 2001:db8:a::9:4
    budgets: {vips: 40, slots: 4096, backends: 64}
  bringup: {mtu: 1600}
pools:
  far:
    slots: 16
    backends:
      - {name: four, ipv4: 10.0.0.11, mac: 02:00:00:00:0b:01, port: p1}
      - {name: six, ipv6: 2001:db8:a::12, mac: 02:00:00:00:0b:02, port: vf0, weight: 2}
      - {name: both, ipv4: 10.0.0.13, ipv6: 2001:db8:a::13, mac: 02:00:00:00:0b:03, port: vf1, weight: 2}
      - {name: away, ipv4: 10.0.0.14, ipv6: 2001:db8:a::14, mac: 02:00:00:00:0b:04, port: p0, state: down}
  six:
    slots: 16
    backends:
      - {name: s1, ipv6: 2001:db8:a::21, mac: 02:00:00:00:0b:21, port: vf0}
      - {name: s2, ipv6: 2001:db8:a::22, mac: 02:00:00:00:0b:22, port: p2, weight: 3}
      - {name: s3, ipv6: 2001:db8:a::23, mac: 02:00:00:00:0b:23, port: p2, state: down}
      - {name: s4, ipv4: 10.0.0.24, mac: 02:00:00:00:0b:24, port: p2}
  near:
    selection: client
    slots: 16
    backends:
      - {name: n1, ipv4: 10.0.0.31, ipv6: 2001:db8:a::31, mac: 02:00:00:00:0b:31, port: p1}
      - {name: n2, ipv4: 10.0.0.32, ipv6: 2001:db8:a::32, mac: 02:00:00:00:0b:32, port: vf0}
  ported:
    selection: client
    hash_fields: [src_ip, src_port, dst_port]
    slots: 16
    backends:
      - {name: n1, ipv4: 10.0.0.31, ipv6: 2001:db8:a::31, mac: 02:00:00:00:0b:31, port: p1}
      - {name: n2, ipv4: 10.0.0.32, ipv6: 2001:db8:a::32, mac: 02:00:00:00:0b:32, port: vf0}
  sprayed:
    selection: spray
    slots: 16
    backends:
      - {name: n1, ipv4: 10.0.0.31, ipv6: 2001:db8:a::31, mac: 02:00:00:00:0b:31, port: p1}
      - {name: n3, ipv4: 10.0.0.33, mac: 02:00:00:00:0b:33, port: vf1, weight: 3}
  gone:
    on_all_down: drop
    slots: 2
    backends: [{name: g, ipv4: 10.0.0.41, ipv6: 2001:db8:a::41, mac: 02:00:00:00:0b:41, port: p1, state: down}]
vips:
  tunnels: {addresses: [192.0.2.1, 2001:db8::1], services: [dns], pool: far, forwarding: ipip}
  beside: {addresses: [192.0.2.2, 2001:db8::2], services: [dns], pool: far}
  translated: {addresses: [192.0.2.3], services: [dns], pool: six, forwarding: siit}
  native: {addresses: [2001:db8::3], services: [dns, dot], pool: six, forwarding: nat}
  near: {addresses: [192.0.2.4, 2001:db8::4], services: [dns], pool: near}
  ported: {addresses: [192.0.2.5], services: [dns, doq], pool: ported}
  sprayed: {addresses: [192.0.2.6, 2001:db8::6], services: [{protocol: udp, port: 53}], pool: sprayed}
  in-tunnels: {addresses: [192.0.2.7, 2001:db8::7], services: [doq], pool: near, forwarding: ipip}
  spread: {addresses: [192.0.2.8], services: [{protocol: udp, port: 5353}], pool: sprayed, forwarding: ipip}
  gone: {addresses: [192.0.2.9, 2001:db8::9], services: [dns], pool: gone, forwarding: ipip}
  lost: {addresses: [192.0.2.10], services: [doq], pool: gone, forwarding: siit}
"""
