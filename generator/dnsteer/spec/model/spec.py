# SPDX-License-Identifier: Apache-2.0
"""The spec as the operator writes it: a switch, pools of backends, and VIPs. docs/spec.md is generated from here."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    WithJsonSchema,
    model_validator,
)

from dnsteer.spec.model.access import AccessRules
from dnsteer.spec.model.announce import Announce, OfVip
from dnsteer.spec.model.balance import PoolBalance
from dnsteer.spec.model.bond import Bond
from dnsteer.spec.model.bringup import BringUp
from dnsteer.spec.model.client_prefix import ClientPrefix
from dnsteer.spec.model.console import Console
from dnsteer.spec.model.extension import Extension, HashFields
from dnsteer.spec.model.gratuitous import Gratuitous
from dnsteer.spec.model.health import Health, HoldMax, SlowStart
from dnsteer.spec.model.limits import SwitchLimits, VipLimits
from dnsteer.spec.model.lint import Lint
from dnsteer.spec.model.next_hop import Router
from dnsteer.spec.model.own_traffic import OwnTraffic
from dnsteer.spec.model.part import (
    ByName,
    Count,
    Device,
    MayBeEmpty,
    Part,
    Percent,
    TextOrMapping,
    bounds,
    duration,
    number_hint,
    text_schema,
    whole,
)
from dnsteer.spec.model.probe import Probe
from dnsteer.spec.model.tracking import Tracking
from dnsteer.spec.model.tunnel import Tunnel
from dnsteer.spec.model.types import AUTO_MAC, Interface, IPAny, IPv4, IPv6, Mac, MacOrAuto, Name, Prefix, wrong_value
from dnsteer.spec.model.vlan import Vlan


class Backup(Part):
    """The pool that helps, and when."""

    pool: Name = Field(description="The pool whose backends join, with their weights there.")
    below: Count = Field(
        default=1, description="They join while fewer than this many of the pool's own backends are in service."
    )

    def __str__(self) -> str:
        return f"{self.pool} below {self.below}"


def _name_alone(value: Any) -> Any:
    if isinstance(value, str):
        return {"pool": value}
    if not isinstance(value, dict | Backup):
        raise wrong_value("the name of a pool, or a mapping with pool and below", "for example {pool: spare, below: 2}")
    return value


BackupPool = Annotated[Backup, BeforeValidator(_name_alone), TextOrMapping()]


class Flavor(str, Enum):
    """Which Open vSwitch runs the bridge."""

    OVS_DOCA = "ovs-doca"
    OVS_DPDK = "ovs-dpdk"
    OVS_NETDEV = "ovs-netdev"
    OVS_KERNEL = "ovs-kernel"


class Hardware(str, Enum):
    """What forwards the packets that are offloaded."""

    BLUEFIELD_2 = "bluefield-2"
    BLUEFIELD_3 = "bluefield-3"


DatapathType = Literal["netdev", "doca"]


class Selection(str, Enum):
    """How a packet finds its slot."""

    SOURCE_PORT = "source-port"
    SOURCE_ADDRESS = "source-address"
    DP_HASH = "dp-hash"
    CLIENT = "client"
    SPRAY = "spray"

    @property
    def by_bits(self) -> bool:
        """Whether bits of a header's field are the slot: no hash, and no extension."""
        return self in (Selection.SOURCE_PORT, Selection.SOURCE_ADDRESS)


class Forwarding(str, Enum):
    """How a packet reaches its backend."""

    DSR = "dsr"
    NAT = "nat"
    CT_NAT = "ct-nat"
    IPIP = "ipip"
    SIIT = "siit"
    VXLAN = "vxlan"
    GENEVE = "geneve"
    GRE = "gre"


class Protocol(str, Enum):
    """Transport protocol of a service."""

    UDP = "udp"
    TCP = "tcp"


class State(str, Enum):
    """Whether a backend takes queries."""

    UP = "up"
    DOWN = "down"


MAX_PORT = 65535
PortNumber = Annotated[int, whole(1, MAX_PORT), bounds(1, MAX_PORT)]
MIN_WORKERS, MAX_WORKERS = 2, 64
"""Bounds of the servers of one backend. One alone is a backend without workers; of 64 each has 4 of a pool's usual slots."""
MAX_KEPT = 4096
"""The most backends that `keep_at_least` may keep, as many as may have a slot."""
Weight = Annotated[int, whole(0, 65535), bounds(0, 65535)]

MIN_SLOTS, MAX_SLOTS = 2, 4096
"""Bounds of a pool's number of slots. 4096 slots need 12 of the 15 usable source-port bits."""

AUTO = "auto"
"""What a key says that is left to dnsteer, as if it were left out."""


def _slots(value: Any) -> int | None:
    if value is None:
        return None
    ok = isinstance(value, int) and not isinstance(value, bool) and MIN_SLOTS <= value <= MAX_SLOTS
    if not ok or value & (value - 1):
        expected = f"a power of two from {MIN_SLOTS} to {MAX_SLOTS}, or {AUTO}"
        hint = number_hint(value)
        if ok:
            hint = f"slots are addressed by whole bits: {1 << value.bit_length() - 1} or {1 << value.bit_length()}"
        raise wrong_value(expected, hint)
    return int(value)


Slots = Annotated[
    int | None,
    BeforeValidator(_slots),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "integer",
                    "enum": [1 << n for n in range(MIN_SLOTS.bit_length() - 1, MAX_SLOTS.bit_length())],
                },
                {"type": "string", "enum": [AUTO]},
            ]
        }
    ),
]


def _passes(value: Any) -> int | str:
    if value == AUTO or (isinstance(value, int) and not isinstance(value, bool) and value in (1, 2)):
        return cast("int | str", value)
    raise wrong_value(f"1, 2 or {AUTO}", number_hint(value))


Passes = Annotated[
    Literal[1, 2, "auto"],
    BeforeValidator(_passes),
    WithJsonSchema({"anyOf": [{"type": "integer", "enum": [1, 2]}, {"type": "string", "enum": [AUTO]}]}),
]
MAX_RULES = 100_000_000

SHORTHANDS: dict[str, tuple[tuple[Protocol, int], ...]] = {
    "dns": ((Protocol.UDP, 53), (Protocol.TCP, 53)),
    "dot": ((Protocol.TCP, 853),),
    "doq": ((Protocol.UDP, 853),),
    "doh": ((Protocol.TCP, 443),),
    "doh3": ((Protocol.UDP, 443),),
}
"""What a service's short name stands for. Ports: RFC 1035, 7858 (DoT), 9250 (DoQ), 8484 (DoH), 9114 (HTTP/3)."""


class Service(Part):
    """A transport protocol and port of a VIP, and with NAT the port that the backends listen on."""

    protocol: Protocol = Field(description="Transport protocol.")
    port: PortNumber = Field(description="Port that clients ask.")
    target_port: PortNumber | None = Field(
        default=None, description="Port that the backends listen on; NAT only. The same as `port` when left out."
    )


def _shorthand(value: Any) -> Any:
    if isinstance(value, str) and value in SHORTHANDS:
        return value
    hint = f"write {value.lower()}" if isinstance(value, str) and value.lower() in SHORTHANDS else ""
    raise wrong_value(
        "dns, dot, doq, doh, doh3 or a mapping with protocol and port",
        hint or "for example {protocol: udp, port: 5353}",
    )


Shorthand = Annotated[Literal["dns", "dot", "doq", "doh", "doh3"], BeforeValidator(_shorthand)]
ServiceEntry = Annotated[
    Annotated[Service, Tag("mapping")] | Annotated[Shorthand, Tag("word")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict | Service) else "word"),
]


class Interfaces(Device):
    """A port by which answers may come in."""

    answers: Interface | None = Field(
        default=None,
        description="Uplink by which answers that come in here leave. Left out: this uplink if it has a next hop, "
        "else the first uplink that has one.",
    )
    vlan: Vlan | None = Field(
        default=None,
        examples=[100],
        description="VLAN of its network: frames come with this VLAN ID in their tag, and leave so. At an uplink it is the "
        "VLAN of the queries, and of the answers that leave there. `untagged`, or left out: frames without a tag.",
    )


class Uplink(Interfaces, Bond):
    """A port towards the network, or a bond of ports: queries come in here, and backends may sit behind it."""

    next_hop: Router | None = Field(
        default=None,
        description="The router that answers leave to: its MAC address, or its addresses (`{ipv4: 198.51.100.1, ipv6: "
        "fe80::1}`), at which `dnsteer agent` finds out its MAC address and follows it. Needed where answers pass the "
        "switch: NAT, and DSR backends on ports of their own.",
    )


class Port(Interfaces):
    """A port of one or more backends: a host function's representor, a virtual machine, a container."""


class Switch(Part):
    """The switch and its ports."""

    name: Name | None = Field(
        default=None,
        description="Name of the switch that this spec is for. The first `apply` gives the switch this name; from then on "
        "a spec with another name, or none, is refused.",
    )
    pair: Name | None = Field(
        default=None,
        examples=["site-a"],
        description="Name of the pair that this switch and its standby are: metrics and alerts take switches with one name "
        "for a pair. Left out: the lowest address of the VIPs, which changes with them, on one switch before the other, "
        "and by which two pairs with the same VIPs are not told apart.",
    )
    flavor: Flavor = Field(description="Which Open vSwitch runs the bridge; this decides what can be offloaded.")
    datapath_type: DatapathType | None = Field(
        default=None,
        description="The bridge's datapath type in OVSDB, with ovs-doca: `netdev`, or `doca`, which only newer releases of "
        "OVS-DOCA have. Left out: `netdev`.",
    )
    hardware: Hardware | None = Field(
        default=None,
        description="The card that forwards offloaded packets, for `dnsteer capacity`. Left out: none is named.",
    )
    link_gbps: Annotated[int, whole(1, 800), bounds(1, 800)] | None = Field(
        default=None,
        examples=[100],
        description="Speed of an uplink in Gb/s, for `dnsteer capacity`. Left out: 100, as the measurements were made.",
    )
    bridge: Interface = Field(
        examples=["br-dns"], description="Name of the bridge. `dnsteer` creates it and owns its settings."
    )
    mac: Mac = Field(description="The balancer's MAC address: routers send queries for the VIPs to it.")
    gateway_mac: Mac | None = Field(
        default=None,
        description="MAC address of the virtual gateways. It must differ from `mac`, because the switch tells answers from "
        "queries by the destination MAC. Left out: `mac` with its lowest bit flipped.",
    )
    gateways: list[IPAny] = Field(
        default_factory=list,
        description="Virtual gateway addresses, one per backend network and family. Backends whose answers pass the "
        "switch use them as their default route; the switch answers ARP and neighbour solicitations for them.",
    )
    routed: Annotated[list[Prefix] | None, Field(min_length=1)] = Field(
        default=None,
        examples=[["192.0.2.0/24", "2001:db8:53::/64"]],
        description="What routers send to the balancer's MAC: the prefixes that hold the VIPs. Somebody behind a router "
        "chooses only the bits below them, which tables look at a few at a time, so that a scan makes few megaflows. Left "
        "out: what the agent announces, and the /24 or /64 around each VIP that it does not.",
    )
    vlans: Literal["untagged", "any"] = Field(
        default="untagged",
        description="Which frames VIPs and gateways answer. `untagged`: frames without a VLAN ID (a tag that has only a "
        "priority does not count); frames with one are dropped, ARP requests too. `any`: frames of every VLAN, each with "
        "its tag; not together with the key `vlan` of uplinks, ports and backends, which says which VLANs are served.",
    )
    uplinks: Annotated[dict[Interface, Annotated[Uplink, MayBeEmpty()]], Field(min_length=1), ByName()] = Field(
        description="Ports towards the network, by name."
    )
    ports: Annotated[dict[Interface, Annotated[Port, MayBeEmpty()]], ByName()] = Field(
        default_factory=dict, description="Ports of backends, by name."
    )
    extension: Extension | None = Field(
        default=None,
        description="The program for selection `client` and `spray` and forwarding `ipip` and `siit`, which Open vSwitch "
        "cannot express.",
    )
    probe: Probe | None = Field(
        default=None,
        description="The port of `dnsteer agent` for probes that take the path of clients (`via: datapath`).",
    )
    limits: SwitchLimits | None = Field(
        default=None, description="How much the switch answers itself, and copies. Left out: the defaults of its keys."
    )
    gratuitous: Annotated[Gratuitous | None, MayBeEmpty()] = Field(
        default=None,
        description="Gratuitous ARP and unsolicited neighbour advertisements of the VIPs and gateways, for sites without a "
        "routing protocol. Left out: none are sent.",
    )
    announce: Announce | None = Field(
        default=None,
        description="BGP: `dnsteer agent` announces the VIPs while they work, and withdraws those that do not. Left out: it "
        "announces nothing.",
    )
    access: AccessRules | None = Field(
        default=None,
        description="Whose queries are dropped, for all VIPs. A query must pass this list and that of its VIP. Left out: "
        "nobody's.",
    )
    follow_lists: Annotated[float, duration(0, 86400), text_schema("10s")] = Field(
        default=10.0,
        description="How long `dnsteer agent` waits, after a change of a `deny_file` or `allow_file` that it has applied, "
        "before it applies the next one. `0`: it applies none, and `dnsteer apply` does.",
    )
    repair: Literal["on", "report"] = Field(
        default="on",
        description="What `dnsteer agent` does when flows, groups, ports or settings are not as applied. `on`: puts them "
        "right. `report`: only says so.",
    )
    console: Console | None = Field(
        default=None, description="What the web console of `dnsteer agent` may do. Left out: it only reads."
    )
    rules: Annotated[int, whole(1, MAX_RULES), bounds(1, MAX_RULES)] | None = Field(
        default=None,
        examples=[50_000],
        description="Hardware rules for queries above which pools with `passes: auto` go to two passes. Left out: 100,000, "
        "half of Open vSwitch's own limit of datapath flows; both cards with published figures hold more. With fewer "
        "queries a second than half the rules, many make a datapath flow anew, since idle ones leave: then name less.",
    )
    own_traffic: OwnTraffic = None
    tracking: Annotated[Tracking | None, MayBeEmpty()] = Field(
        default=None,
        description="How connections of VIPs with `keep: connections` are remembered. Left out: the defaults of its keys.",
    )
    tunnel: Tunnel | None = Field(
        default=None,
        description="Where tunnels begin. Needed with forwarding `vxlan`, `geneve` and `gre`, and only then.",
    )
    bringup: BringUp | None = Field(default=None, description="The machine, for `dnsteer bringup`.")


class Backend(Part):
    """A DNS server."""

    name: Name = Field(examples=["ns1"], description="Name, unique in the pool; slots are assigned by this name.")
    ipv4: IPv4 | None = Field(default=None, description="Its IPv4 address; without it, it takes no IPv4 queries.")
    ipv6: IPv6 | None = Field(default=None, description="Its IPv6 address; without it, it takes no IPv6 queries.")
    mac: MacOrAuto = Field(
        description="Its MAC address, or that of the router on the way to it (not with DSR); with `vxlan`, `geneve` and "
        "`gre` that of its interface at the end of the tunnel. `auto`: the one at which its "
        "address answers (the IPv4 address, if it has both), which `dnsteer agent` finds out and follows; the address is "
        "in a network of `switch.probe` then."
    )
    port: Interface | None = Field(
        default=None,
        description="Port or uplink that it sits behind. Left out: the uplink that the query came in by (one-armed).",
    )
    vlan: Vlan | None = Field(
        default=None,
        examples=[200],
        description="VLAN of its network behind that port or uplink, where it is another one than the port's own. "
        "`untagged`: frames without a tag. Left out: that of the port or uplink.",
    )
    weight: Weight = Field(
        default=1, description="Its share of the queries, relative to the weights of the other backends; 0: no queries."
    )
    state: State = Field(
        default=State.UP, description="`down` moves its slots, and only these, to the other backends of the pool."
    )
    workers: Annotated[int, whole(MIN_WORKERS, MAX_WORKERS), bounds(MIN_WORKERS, MAX_WORKERS)] | None = Field(
        default=None,
        description="NAT only: how many servers this host has. Number I of them, from 0, listens at each service's "
        "`target_port` plus I, and is a backend of its own named NAME.I, with this weight. Left out: one, at `target_port`.",
    )

    _follows_mac: bool = PrivateAttr(default=False)

    @property
    def follows_mac(self) -> bool:
        """Whether its MAC address is found out, whether or not that has been done."""
        return self._follows_mac or self.mac == AUTO_MAC

    def with_found_mac(self, mac: str) -> Backend:
        """Return the same with the MAC address that was found out, empty for none yet."""
        out = self.model_copy(update={"mac": mac})
        out._follows_mac = True
        return out

    @property
    def port_offset(self) -> int:
        """What is added to the target ports of services to get the ports that it listens on."""
        return 0

    @property
    def host(self) -> str:
        """The name that the spec gives it: its own, unless it is one of several workers."""
        return self.name


class Pool(Part):
    """Backends that serve the same names."""

    selection: Selection = Field(
        default=Selection.SOURCE_PORT,
        description="How a packet finds its slot. `source-port`: bits of the client's source port, one datapath pass. "
        "`source-address`: bits of the client's address (`client_prefix`): a client stays with its backend, and "
        "with it all clients of its prefix; how even that is depends on the clients (`dnsteer explain --clients`). "
        "`dp-hash`: the switch's hash of the 5-tuple, two passes. With the extension: `client`: a hash of `hash_fields`, so "
        "that a client stays with its backend; `spray`: another slot for each packet (UDP only).",
    )
    client_prefix: Annotated[ClientPrefix | None, MayBeEmpty()] = Field(
        default=None,
        description="Which bits of the client's address `source-address` looks at. Left out: the defaults of its keys.",
    )
    hash_fields: HashFields | None = Field(default=None, description="What `client` hashes. Left out: `[src_ip]`.")
    slots: Slots = Field(
        default=None,
        description="Number of slots, a power of two; each service takes that many hardware rules, unless `passes` is 2. "
        "Left out, or `auto`: 256; 128 if more than 64 services (addresses of VIPs times their protocols and ports) share "
        "the pool, 64 if more than 128 do, but 256 with `passes: 2` and at least 4 for each backend, up to 256 (16 for "
        "`dp-hash` with ovs-doca). Changing the number moves many clients.",
    )
    passes: Passes = Field(
        default="auto",
        description="How often a query passes the datapath, with selection `source-port` and `source-address`. `1`: a "
        "hardware rule for each slot of each service. `2`: first a rule for each service, then one for each slot "
        "of the pool, so that VIPs and slots add up and do not multiply; the switch's connection tracker "
        "recirculates, and whether hardware takes that is not known from public sources. `auto`: 1, unless all "
        "pools together need more than `switch.rules`: then 2 for those with most rules, until it is enough. "
        "`auto` is always 1 with flavor ovs- dpdk, which forwards the second pass by the CPU.",
    )
    on_all_down: Literal["keep", "drop"] = Field(
        default="keep",
        description="What happens when no backend is left: `keep` leaves the slots as they were before the last one left, "
        "`drop` drops the queries, so that clients try another server at once.",
    )
    backends: Annotated[list[Backend], Field(min_length=1)] = Field(description="The DNS servers.")
    serves: Literal["authoritative", "resolver"] | None = Field(
        default=None,
        description="What the servers are, which chooses what health checks ask and expect where they leave it out. "
        "`authoritative`: servers of zones. `resolver`: servers that ask others for their clients. Left out: unknown, so "
        "that `health: {}` tests only that something answers. It switches no checks on.",
    )
    health: Health | None = Field(
        default=None,
        description="Health checks, one or a list, for `dnsteer agent`. A backend is out while one of them fails. Left out: "
        "the agent takes no backend of this pool out.",
    )
    panic: Percent = Field(
        default=50,
        description="Below 100%: while no backend passes its checks, none is taken out, since the fault is more likely in "
        "what checks them. 100%: all may be out, and `on_all_down` says what happens. When a backend fails and more than "
        "this share would be out, those that are healthy again come back at once.",
    )
    keep_at_least: Annotated[int, whole(0, MAX_KEPT), bounds(0, MAX_KEPT)] = Field(
        default=0,
        description="How many backends stay in service to carry the load. Where fewer pass their checks, those that failed "
        "last stay in, and what they are asked is lost. 0: a backend that fails is out while another one passes.",
    )
    slow_start: SlowStart = Field(
        default=0.0, description="Time over which a backend that is healthy again gets its slots back. 0: at once."
    )
    hold_max: HoldMax = Field(
        default=300.0,
        description="A backend that fails again and again stays out longer each time, at most this long.",
    )
    backup: BackupPool | None = Field(
        default=None,
        description="Another pool, whose backends `dnsteer agent` puts into service here too while too few of this pool's "
        "own are. Its name alone: while none is. They leave over `slow_start`.",
    )
    balance: PoolBalance | None = Field(
        default=None,
        description="By what `dnsteer agent` balances the load of the backends while the pool runs. Left out: each has the "
        "slots of its weight, whatever their clients ask.",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_auto(cls, written: Any) -> Any:
        """Take `slots: auto` as if the key were left out."""
        if isinstance(written, dict) and written.get("slots") == AUTO:
            return {key: value for key, value in written.items() if key != "slots"}
        return written


class Vip(Part):
    """Addresses that clients ask, the services there, and the pool that answers."""

    addresses: Annotated[list[IPAny], Field(min_length=1)] = Field(
        description="Unicast addresses of one or both families."
    )
    services: Annotated[list[ServiceEntry], Field(min_length=1)] = Field(
        description="`dns` (UDP and TCP 53), `dot` (TCP 853), `doq` (UDP 853), `doh` (TCP 443), `doh3` (UDP 443), or a "
        "mapping with `protocol` and `port`."
    )
    pool: Name = Field(description="The pool that answers.")
    forwarding: Forwarding = Field(
        default=Forwarding.DSR,
        description="`dsr`: rewrite the destination MAC; the backends own the VIP and answer by themselves. "
        "`nat`: rewrite the destination address too, and the source of the answers, which pass the switch. "
        "`ct-nat`: the same, and a TCP connection stays with the backend it began with, as with `keep`; the tracker sees "
        "both directions. `vxlan`, `geneve`, `gre`: send the query through a tunnel of Open vSwitch "
        "(`switch.tunnel`) to the backend's address (IPv4, if it has both); the backends take it out, own the VIP and "
        "answer by themselves. With the extension: `ipip`: encapsulate the packet in one to the backend's address (IPv4 or "
        "IPv6, whatever the VIP's family); the backends decapsulate it, own the VIP and answer by themselves. `siit`: an "
        "IPv4 VIP of backends that have IPv6 only; both directions are translated.",
    )
    fragments: Literal["restore", "drop"] = Field(
        default="restore",
        description="NAT only: what happens to fragments of large UDP answers. `restore`: they get the VIP as their "
        "source (IPv4 through the switch's connection tracker, which reassembles). `drop`: no connection tracking at all.",
    )
    keep: Literal["connections"] | None = Field(
        default=None,
        description="With `dsr` and `nat`. `connections`: a TCP connection stays with the backend it began with, by the "
        "switch's connection tracker, also when its slot moves: a drain takes new connections only. UDP goes by slots. "
        "Left out: nothing is kept, and open connections move with their slots.",
    )
    echo: bool = Field(default=True, strict=True, description="Answer ICMP and ICMPv6 echo requests to the VIP.")
    errors: Literal["copy", "drop"] | None = Field(
        default=None,
        description="ICMP errors about packets too big for the path to a client. `copy`: each backend gets them, up to "
        "`switch.limits.errors`; only with `dsr`. `drop`: none does. Left out: `copy` with `dsr` and at most 256 backends.",
    )
    limits: VipLimits | None = Field(
        default=None, description="How many packets of clients it takes. Left out: as many as come."
    )
    announce: OfVip | None = Field(
        default=None,
        description="How `switch.announce` announces it. `never`: not at all. Left out: without MED and communities.",
    )
    access: AccessRules | None = Field(
        default=None,
        description="Whose queries to it are dropped, besides those that `switch.access` denies. Left out: nobody's.",
    )


class Spec(Part):
    """One switch's DNS load balancing."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"title": "dnsteer spec, version 1"})

    apiVersion: Annotated[  # noqa: N815 - the field's conventional spelling
        Literal["dnsteer/v1"], WithJsonSchema({"const": "dnsteer/v1", "type": "string"})
    ] = Field(description="Version of this format: `dnsteer/v1`.")
    switch: Switch = Field(description="The switch and its ports.")
    pools: Annotated[dict[Name, Pool], Field(min_length=1), ByName()] = Field(description="Pools of backends, by name.")
    vips: Annotated[dict[Name, Vip], Field(min_length=1), ByName()] = Field(description="Virtual addresses, by name.")
    lint: Lint = Field(default_factory=Lint, description="Settings of `dnsteer lint`.")
