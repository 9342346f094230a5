# SPDX-License-Identifier: Apache-2.0
"""What is measured: plain port forwarding, the rendered pipelines, steps in between, and settings of the switch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.datapath.rig import Rig, flows
from dnsteer.checks.load import check_document
from dnsteer.plan.build import build_plan
from dnsteer.spec.read import parse_document

MAC, ROUTER = "02:00:00:00:00:53", "02:00:00:00:00:fe"
VIP = {4: "198.51.100.53", 6: "2001:db8:1::53"}
_BACKEND = {4: "10.53.0.1{}", 6: "2001:db8:53::1{}"}
_BACKENDS = 4
SLOTS = 64


@dataclass(frozen=True)
class Settings:
    """A way to set the switch up: keys of other_config, and which functions for AVX-512 to use."""

    name: str
    keys: dict[str, str] = field(default_factory=dict)
    lookup: bool = False
    whole: bool = False

    def apply(self, rig: Rig) -> None:
        """Set all of it; what other settings may have set goes back to its default."""
        rig.switch.configure({"emc-insert-inv-prob": "", "smc-enable": "", **self.keys})
        if rig.has_vector():
            rig.implementations(self.lookup, self.whole)


_NO_EMC = {"emc-insert-inv-prob": "0"}
SETTINGS = (
    Settings("default"),
    Settings("no-cache", _NO_EMC),
    Settings("smc", {**_NO_EMC, "smc-enable": "true"}),
)
"""As the switch comes; without its cache by 5-tuple (EMC); with the other one (SMC) instead."""
VECTOR = (
    Settings("no-cache, avx512 lookup", _NO_EMC, lookup=True),
    Settings("no-cache, all avx512", _NO_EMC, lookup=True, whole=True),
)
"""In addition, where the build of OVS has these functions (Debian's has not)."""


@dataclass(frozen=True)
class Case:
    """Tables to measure, and how to load them into a rig for queries of an IP version."""

    name: str
    load: Callable[[Rig, int], None]


def spec(forwarding: str, selection: str, slots: int) -> str:
    """Four backends behind a second uplink, so that both MAC addresses are rewritten."""
    backends = "".join(
        f"      - {{name: ns{n}, ipv4: {_BACKEND[4].format(n)}, ipv6: '{_BACKEND[6].format(n)}', "
        f"mac: 02:00:00:00:01:{n:02x}, port: p1}}\n"
        for n in range(_BACKENDS)
    )
    return f"""apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: {MAC}
  gateways: [10.53.0.1, '2001:db8:53::1']
  uplinks: {{p0: {{next_hop: {ROUTER}}}, p1: {{}}}}
pools:
  pool:
    selection: {selection}
    slots: {slots}
    backends:
{backends}vips:
  dns: {{addresses: [{VIP[4]}, '{VIP[6]}'], services: [dns], pool: pool, forwarding: {forwarding}}}
"""


def pipeline(forwarding: str, selection: str, slots: int = SLOTS) -> Case:
    """The tables of a spec."""
    plan = build_plan(check_document(parse_document("bench.yaml", spec(forwarding, selection, slots))))
    many = "" if slots == SLOTS else f" {slots} slots"
    return Case(f"{forwarding} {selection}{many}", lambda rig, _: rig.load(plan))


def by_hand(name: str, lines: Callable[[int], list[str]]) -> Case:
    """One table, written by hand; *lines* gets the IP version."""
    return Case(name, lambda rig, family: rig.load_lines(flows(lines(family))))


_OUT = "output:p1"
BARE = by_hand("port", lambda _: [f"in_port=p0 actions={_OUT}"])
"""All of a port goes out by another: since OVS 2.17 without a look into the packet beyond its EtherType."""
PARSED = by_hand("port and MAC", lambda _: [f"in_port=p0,dl_dst={MAC} actions={_OUT}"])
"""The same with one field matched: the packet is parsed, hashed and looked up."""
CASES = (
    BARE,
    PARSED,
    *(pipeline(forwarding, selection) for forwarding in ("dsr", "nat") for selection in ("source-port", "dp-hash")),
)


def _query(family: int) -> str:
    protocol, destination = ("udp", "nw_dst") if family == 4 else ("udp6", "ipv6_dst")
    return f"{protocol},in_port=p0,dl_dst={MAC},{destination}={VIP[family]},tp_dst=53"


def _macs(n: int) -> str:
    return f"set_field:02:00:00:00:01:{n % _BACKENDS:02x}->eth_dst,set_field:{MAC}->eth_src,"


def _address(family: int, n: int) -> str:
    field_ = "ip_dst" if family == 4 else "ipv6_dst"
    return f"set_field:{_BACKEND[family].format(n % _BACKENDS)}->{field_},"


def _slots(family: int, actions: Callable[[int], str]) -> list[str]:
    mask = (SLOTS - 1) << 1
    return [f"{_query(family)},tp_src={n << 1:#x}/{mask:#x} actions={actions(n)}" for n in range(SLOTS)]


STEPS = (
    BARE,
    PARSED,
    by_hand("VIP and port, 1 flow", lambda f: [f"{_query(f)} actions={_OUT}"]),
    by_hand("the same, all rewritten", lambda f: [f"{_query(f)} actions={_macs(0)}{_address(f, 0)}{_OUT}"]),
    by_hand("64 slots, nothing rewritten", lambda f: _slots(f, lambda _: _OUT)),
    by_hand("64 slots, MACs", lambda f: _slots(f, lambda n: _macs(n) + _OUT)),
    by_hand("64 slots, MACs and address", lambda f: _slots(f, lambda n: _macs(n) + _address(f, n) + _OUT)),
    *(pipeline("nat", "source-port", slots) for slots in (16, SLOTS, 256, 1024)),
)
"""From port forwarding to NAT, each with a little more to do; then NAT as rendered, by number of slots."""
