# SPDX-License-Identifier: Apache-2.0
"""Specs for bring-up: one of each flavor, and what they are changed into."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from dnsteer.bringup.files import NAMES, bringup_files
from dnsteer.bringup.setup import Setup, setup_of
from dnsteer.render.files import write_files
from tests.unit.spec_text import load

DOCA = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-doca
  hardware: bluefield-3
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1]
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
    p1:
  ports:
    pf0vf0:
  bringup:
    pci: {p0: 0000:03:00.0, p1: 0000:03:00.1}
    functions:
      - {uplink: p0, number: 10, mac: 02:00:00:00:0a:01, trust: true}
      - {uplink: p1, number: 10}
    mtu: 9000
pools:
  resolvers:
    slots: 128
    backends:
      - {name: r1, ipv4: 10.53.0.11, mac: 02:00:00:00:02:01, port: p1}
      - {name: r2, ipv4: 10.53.0.12, mac: 02:00:00:00:02:02, port: pf0vf0}
vips:
  resolver: {addresses: [198.51.100.53], services: [dns, dot], pool: resolvers, forwarding: nat}
"""
DPDK = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-dpdk
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0: {options: {dpdk-devargs: "0000:03:00.0"}}
pools:
  ns:
    slots: 64
    backends:
      - {name: a, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01}
      - {name: b, ipv4: 192.0.2.12, mac: 02:00:00:00:01:02}
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: ns}
"""
KERNEL = DPDK.replace("ovs-dpdk", "ovs-kernel").replace('{options: {dpdk-devargs: "0000:03:00.0"}}', "")
NETDEV = KERNEL.replace("ovs-kernel", "ovs-netdev")
ALL = {"ovs-doca": DOCA, "ovs-dpdk": DPDK, "ovs-kernel": KERNEL, "ovs-netdev": NETDEV}


@cache
def setup(text: str, *changes: tuple[str, str]) -> Setup:
    """The setup of a spec, with words replaced."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return setup_of(load(text))


def written(folder: Path, text: str, *changes: tuple[str, str]) -> Path:
    """The files of a spec, in a folder, and none of another."""
    write_files(bringup_files(setup(text, *changes)), folder, stale=NAMES)
    return folder


def settings(text: str, *changes: tuple[str, str]) -> dict[str, str]:
    """Keys of other_config and their values."""
    return {s.key: s.value for s in setup(text, *changes).settings}


def analyzed(unit: Path) -> tuple[int, str]:
    """Exit code and complaints of `systemd-analyze verify`, which knows the units beside this one and the system's."""
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit.name],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"SYSTEMD_UNIT_PATH": f"{unit.parent}:", "PATH": "/usr/bin:/bin"},
    )
    return done.returncode, done.stderr
