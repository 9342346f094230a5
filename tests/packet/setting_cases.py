# SPDX-License-Identifier: Apache-2.0
"""Settings that stop or change traffic and are no flow: how each is changed, what must be said, and what it stops."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.proof.traffic.vectors import Vector, vectors
from tests.packet.switches import BRIDGE, LARGE, Switch, spec_of

SPEC = spec_of(LARGE)
REFERENCE = Reference(SPEC.spec)
VECTORS = list(vectors(SPEC.spec, REFERENCE, 1))


QUERY = next(v for v in VECTORS if v.kind == "query" and "straight 198.51.100.54" in v.name)
PIECE = next(v for v in VECTORS if v.kind == "fragment" and "2001:db8" in v.name)


def leaves(vector: Vector) -> Frame:
    """What must leave for a frame."""
    (frame,) = REFERENCE.expect(vector.port, vector.data).options
    return frame


def passes(switch: Switch, vector: Vector, port: str = "", within: float = 2.0) -> bool:
    """Whether a frame gets through *within* seconds, by the counter of the port that it must leave by.

    With STP the bridge sends a frame of its own every two seconds.
    """
    port = port or leaves(vector).port

    def sent() -> int:
        found = re.search(r"tx pkts=(\d+)", switch.ofctl("dump-ports", port))
        assert found is not None
        return int(found[1])

    before = sent()
    switch.appctl("netdev-dummy/receive", vector.port, vector.data.hex())
    deadline = time.monotonic() + within
    while not (through := sent() > before) and time.monotonic() < deadline:
        time.sleep(0.01)
    return through


@dataclass(frozen=True)
class Case:
    """A setting changed behind dnsteer's back: what must be said, and the frame that it stops, if any."""

    change: Callable[[Switch], object]
    about: str
    said: str
    stops: Vector | None = None
    spec: str = LARGE
    lasting: bool = True
    """Whether the setting outlives the switch."""


def vsctl(*args: str) -> Callable[[Switch], object]:
    return lambda switch: switch.vsctl(*args)


def ofctl(*args: str) -> Callable[[Switch], object]:
    return lambda switch: switch.ofctl(*args)


def port_of(switch: Switch, name: str) -> str:
    return switch.column("Port", name, "_uuid")


def with_mtu(size: int) -> Callable[[Switch], object]:
    def change(switch: Switch) -> None:
        switch.vsctl("set", "Interface", "p0", f"mtu_request={size}")
        deadline = time.monotonic() + 10  # the switch says so a moment after it did so
        while switch.vsctl("get", "Interface", "p0", "mtu").strip() != str(size):
            assert time.monotonic() < deadline, "the MTU stays"

    return change


NEEDED = sizes_of(SPEC.spec, build_plan(SPEC)).total
TO = leaves(QUERY).port
DPDK = re.sub(r"^(    vf\d):$", r"\1: {type: dummy}", LARGE, flags=re.M).replace("p0: {", "p0: {type: dummy, ")
DPDK = DPDK.replace("ovs-netdev", "ovs-dpdk").replace("    selection: dp-hash\n", "")
"""The same in a flavor with hardware, on ports that a private switch has."""
JUMBO = LARGE.replace("  mac: 02:00:00:00:00:53\n", "  mac: 02:00:00:00:00:53\n  bringup: {mtu: 9000}\n", 1)
OURS = {
    "stp_enable": Case(vsctl("set", "Bridge", BRIDGE, "stp_enable=true"), "bridge br-dns", "stp_enable is true", QUERY),
    "rstp_enable": Case(
        vsctl("set", "Bridge", BRIDGE, "rstp_enable=true"), "bridge br-dns", "rstp_enable is true", QUERY
    ),
    "set-frags": Case(ofctl("set-frags", "drop"), "bridge br-dns", "set-frags is drop", PIECE, lasting=False),
    "set-frags nx-match": Case(
        ofctl("set-frags", "nx-match"), "bridge br-dns", "set-frags is nx-match", PIECE, lasting=False
    ),
    "no-receive": Case(ofctl("mod-port", "p0", "no-receive"), "port p0", "no-receive is true", QUERY, lasting=False),
    "no-forward": Case(ofctl("mod-port", TO, "no-forward"), f"port {TO}", "no-forward is true", QUERY, lasting=False),
}
OTHERS = {
    "flow-limit": Case(
        vsctl("set", "Open_vSwitch", ".", f"other_config:flow-limit={NEEDED - 1}"),
        "switch",
        f"other_config:flow-limit is {NEEDED - 1}: all clients of the spec need {NEEDED} datapath flows",
    ),
    "max-idle": Case(
        vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=2000"),
        "switch",
        "other_config:max-idle is 2000: ms: a datapath flow without a packet for so long is forgotten",
    ),
    "mtu": Case(
        with_mtu(1400), "port p0", "mtu is 1400: bytes: longer packets are dropped; full TCP segments need 1500"
    ),
    "hw-offload": Case(
        vsctl("set", "Open_vSwitch", ".", "other_config:hw-offload=false"),
        "switch",
        "other_config:hw-offload is false, should be true",
        spec=DPDK,
    ),
    "vlan-limit": Case(
        vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=2"), "switch", "other_config:vlan-limit is 2"
    ),
    "mirrors": Case(
        lambda s: s.vsctl(
            "--",
            "--id=@m",
            "create",
            "Mirror",
            "name=watch",
            "select_all=true",
            f"output_port={port_of(s, 'vf1')}",
            "--",
            "set",
            "Bridge",
            BRIDGE,
            "mirrors=@m",
        ),
        "bridge br-dns",
        "mirrors is watch",
    ),
    "netflow": Case(
        vsctl(
            "--", "--id=@n", "create", "NetFlow", 'targets="127.0.0.1:9"', "--", "set", "Bridge", BRIDGE, "netflow=@n"
        ),
        "bridge br-dns",
        "netflow is 127.0.0.1:9",
    ),
    "sflow": Case(
        vsctl("--", "--id=@n", "create", "sFlow", 'targets="127.0.0.1:9"', "--", "set", "Bridge", BRIDGE, "sflow=@n"),
        "bridge br-dns",
        "sflow is 127.0.0.1:9",
    ),
    "ipfix": Case(
        vsctl("--", "--id=@n", "create", "IPFIX", 'targets="127.0.0.1:9"', "--", "set", "Bridge", BRIDGE, "ipfix=@n"),
        "bridge br-dns",
        "ipfix is 127.0.0.1:9",
    ),
    "controller": Case(
        vsctl("set-controller", BRIDGE, "tcp:127.0.0.1:9"), "bridge br-dns", "controller is tcp:127.0.0.1:9"
    ),
    "hwaddr": Case(
        vsctl("set", "Bridge", BRIDGE, "other_config:hwaddr=02:00:00:00:00:99"),
        "bridge br-dns",
        "other_config:hwaddr is 02:00:00:00:00:99",
    ),
    "ports of others": Case(vsctl("add-port", BRIDGE, "vf9"), "bridge br-dns", "ports of others are vf9"),
    "flow_limit": Case(vsctl("set", "Flow_Table", "vip", "flow_limit=5000"), "table vip", "flow_limit is 5000"),
    "prefixes": Case(vsctl("set", "Flow_Table", "vip", "prefixes=nw_src"), "table vip", "prefixes is nw_src"),
    "ingress_policing_rate": Case(
        vsctl("set", "Interface", "p0", "ingress_policing_rate=100000"),
        "port p0",
        "ingress_policing_rate is 100000, should be 0",
    ),
    "ingress_policing_kpkts_rate": Case(
        vsctl("set", "Interface", "p0", "ingress_policing_kpkts_rate=100"),
        "port p0",
        "ingress_policing_kpkts_rate is 100, should be 0",
    ),
    "qos": Case(
        vsctl("--", "--id=@q", "create", "QoS", "type=linux-htb", "--", "set", "Port", "p0", "qos=@q"),
        "port p0",
        "qos is linux-htb",
    ),
    "tag": Case(vsctl("set", "Port", "p0", "tag=100"), "port p0", "tag is 100"),
    "trunks": Case(vsctl("set", "Port", "p0", "trunks=100,200"), "port p0", "trunks is 100, 200"),
    "vlan_mode": Case(
        vsctl("set", "Port", "p0", "vlan_mode=native-untagged"), "port p0", "vlan_mode is native-untagged"
    ),
}
CRIPPLING = {
    "flow-limit": Case(
        vsctl("set", "Open_vSwitch", ".", f"other_config:flow-limit={NEEDED // 2 - 1}"),
        "switch",
        f"other_config:flow-limit is {NEEDED // 2 - 1}: all clients of the spec need {NEEDED} datapath flows",
    ),
    "max-idle": Case(
        vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=1"), "switch", "other_config:max-idle is 1: ms: "
    ),
    "mtu": Case(with_mtu(1279), "port p0", "mtu is 1279: bytes: longer packets are dropped"),
    "flow_limit": Case(
        vsctl("set", "Flow_Table", "vip", "flow_limit=4", "overflow_policy=evict"),
        "table vip",
        "flow_limit is 4: flows",
    ),
    "ingress_policing_rate": Case(
        vsctl("set", "Interface", "p0", "ingress_policing_rate=1"), "port p0", "ingress_policing_rate is 1, should be 0"
    ),
    "ingress_policing_burst": Case(
        vsctl("set", "Interface", "p0", "ingress_policing_rate=1000000", "ingress_policing_burst=11"),
        "port p0",
        "ingress_policing_rate is 1000000 burst 11, should be 0",
    ),
    "ingress_policing_kpkts_rate": Case(
        vsctl("set", "Interface", "p0", "ingress_policing_kpkts_rate=1"), "port p0", "ingress_policing_kpkts_rate is 1,"
    ),
    "qos": Case(
        vsctl(
            "--",
            "--id=@q",
            "create",
            "QoS",
            "type=linux-htb",
            "other_config:max-rate=1000",
            "--",
            "set",
            "Port",
            "p0",
            "qos=@q",
        ),
        "port p0",
        "qos is linux-htb max-rate 1000",
    ),
    "qos queue 0": Case(
        vsctl(
            "--",
            "--id=@o",
            "create",
            "Queue",
            "other_config:max-rate=1000",
            "--",
            "--id=@q",
            "create",
            "QoS",
            "type=linux-htb",
            "other_config:max-rate=10000000000",
            "queues:0=@o",
            "--",
            "set",
            "Port",
            "p0",
            "qos=@q",
        ),
        "port p0",
        "qos is linux-htb max-rate 10000000000 queue 0 max-rate 1000",
    ),
    "qos egress-policer": Case(
        vsctl(
            "--",
            "--id=@q",
            "create",
            "QoS",
            "type=egress-policer",
            "other_config:cir=1000",
            "other_config:cbs=2048",
            "--",
            "set",
            "Port",
            "p0",
            "qos=@q",
        ),
        "port p0",
        "qos is egress-policer cir 1000",
    ),
}
"""Values of the same that leave so little of the traffic that they are differences."""
DOWN = Case(ofctl("mod-port", "p0", "down"), "port p0", "admin_state is down, should be up", QUERY)
IGNORED = {
    "mcast_snooping_enable": "Bridge br-dns mcast_snooping_enable=true",
    "forward-bpdu": "Bridge br-dns other_config:forward-bpdu=true",
    "protected": "Port p0 protected=true",
    "bfd": "Interface p0 bfd:enable=true",
    "lldp": "Interface p0 lldp:enable=true",
}
