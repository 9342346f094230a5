# SPDX-License-Identifier: Apache-2.0
"""Settings other than flows and groups that can stop or change traffic, as one list: `SETTINGS`.

To add a setting is one entry there: it is then read, named by `verify` and `status`, and put right by `apply` where it is
dnsteer's. The docs' table is made from the list (docs/settings.md). Which values stop so much that they are no choice of
somebody's: setting_limits.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from dnsteer.plan.bridge import TUNNEL_PORTS, full_mtu
from dnsteer.plan.sizes import flow_limit
from dnsteer.spec.model.spec import Flavor
from dnsteer.switch import setting_limits as limits
from dnsteer.switch.setting_limits import TABLE_NAMES, HarmfulValues, SettingsInput

_PASSIVE = ("ptcp:", "pssl:", "punix:")
_NORMAL_ONLY = "dnsteer's flows ignore it: frames keep the tags that they came with"
OTHERS = "ports of others"
"""A setting that is no column: ports of the bridge that are not in the spec."""
MEGAFLOWS = "megaflows"
"""A setting that is no column either: whether the switch makes any."""
_PLURAL = (OTHERS, MEGAFLOWS)
WAITS = "switch waits"
"""The kind of difference that a switch makes which forwards nothing until it is restored."""
_SAMPLES = "every datapath flow also samples packets, which hardware may not offload"
_OF_AGENT = ("admin_state", "link_state", "mtu")


class Place(Enum):
    """What a setting belongs to: tables of OVSDB, and the bridge and its ports by OpenFlow."""

    SWITCH = "Open_vSwitch"
    BRIDGE = "Bridge"
    TABLE = "Flow_Table"
    PORT = "Port"
    INTERFACE = "Interface"
    OPENFLOW = "OpenFlow, bridge"
    OPENFLOW_PORT = "OpenFlow, port"
    CONTROL = "ovs-vswitchd, control socket"


class SettingLevel(Enum):
    """How a deviating setting is treated: a difference that apply corrects, a difference, or a warning."""

    SET = "set"
    NAMED = "named"
    WARNED = "warned"


@dataclass(frozen=True)
class Setting:
    """One setting. *name* is its column, or column:key; or what ovs-ofctl calls it.

    *default* is the value of a setting that was never changed, and the one that is wanted. *does* is the effect of another
    value, *matters* whether another value is reported. *mend* is the command that restores the default, where it does not
    follow from the rest; {bridge} and {name} stand for the bridge and the object that has the setting. *word* is what
    `ovs-ofctl mod-port` takes, *bit* what its dump of a port shows. *numbers* fill the places in *does* and *mend*. SET is
    possible for booleans of the bridge and for what OpenFlow sets. *harmful* are values that count as NAMED and not as
    WARNED. *burst* is a column that belongs to the value.
    """

    place: Place
    name: str
    does: str
    level: SettingLevel = SettingLevel.WARNED
    default: str = ""
    mend: str = ""
    word: str = ""
    bit: str = ""
    kind: str = ""
    matters: Callable[[str, SettingsInput, str], bool] = lambda _value, _seen, _name: True
    numbers: Callable[[SettingsInput, str], Mapping[str, int]] = lambda _seen, _name: {}
    harmful: HarmfulValues | None = None
    burst: str = ""

    def arguments(self, name: str) -> tuple[str, ...]:
        """The ovs-ofctl command and arguments that correct it, after the bridge."""
        return ("mod-port", name, self.word) if self.place is Place.OPENFLOW_PORT else (self.name, self.word)

    def command(self, bridge: str, name: str, numbers: Mapping[str, object]) -> str:
        """The command that corrects it."""
        if self.mend:
            return self.mend.format(bridge=bridge, name=name, **numbers)
        if self.word:
            first, *rest = self.arguments(name)
            return " ".join(["ovs-ofctl -O OpenFlow15", first, bridge, *rest])
        column, _, key = self.name.partition(":")
        record = {Place.SWITCH: ".", Place.BRIDGE: bridge}.get(self.place, name)
        if key:
            return f"ovs-vsctl remove {self.place.value} {record} {column} {key}"
        if self.default:
            return f"ovs-vsctl set {self.place.value} {record} {column}={self.default}"
        return f"ovs-vsctl clear {self.place.value} {record} {column}"


def _hardware(_value: str, seen: SettingsInput, _name: str) -> bool:
    return seen.spec.switch.flavor is not Flavor.OVS_NETDEV


def _too_few(value: str, seen: SettingsInput, _name: str) -> bool:
    return not value.isdigit() or int(value) < seen.datapath_flows()


def _flow_limits(seen: SettingsInput, _name: str) -> Mapping[str, int]:
    needed = seen.datapath_flows()
    return {"needed": needed, "limit": flow_limit(needed)}


def _mtu(seen: SettingsInput, name: str) -> Mapping[str, int]:
    return {"mtu": full_mtu(seen.spec, name)}


def _small(value: str, seen: SettingsInput, name: str) -> bool:
    return value.isdigit() and int(value) < full_mtu(seen.spec, name)


def _is_not_of_tunnels(_value: str, seen: SettingsInput, _name: str) -> bool:
    """Whether neither the spec's tunnels need it, nor those that apply takes away together with it."""
    return not seen.want.hwaddr and not any(now.ours and name in TUNNEL_PORTS for name, now in seen.have.ports.items())


def _skips_hardware(value: str, seen: SettingsInput, _name: str) -> bool:
    return value == "skip_hw" and seen.spec.switch.flavor is Flavor.OVS_KERNEL


def _active(value: str, _seen: SettingsInput, _name: str) -> bool:
    return any(not target.startswith(_PASSIVE) for target in value.split(", "))


# fmt: off
SETTINGS: tuple[Setting, ...] = (
    Setting(
        Place.SWITCH, "other_config:flow-restore-wait", "the switch forwards nothing until it is cleared",
        SettingLevel.NAMED, mend="dnsteer restore", kind=WAITS, matters=lambda value, _seen, _name: value == "true",
    ),
    Setting(
        Place.SWITCH, "other_config:flow-limit", "all clients of the spec need {needed} datapath flows: packets "
        "without one take the slow path", mend="ovs-vsctl set Open_vSwitch . other_config:flow-limit={limit}",
        matters=_too_few, numbers=_flow_limits, harmful=limits.FEW_FLOWS,
    ),
    Setting(
        Place.SWITCH, "other_config:max-idle", "ms: a datapath flow without a packet for so long is forgotten (10,000 by "
        "default), and its next packet takes the slow path", matters=limits.forgets_sooner, harmful=limits.SHORT_IDLE,
    ),
    Setting(
        Place.CONTROL, MEGAFLOWS, "each client's address and port makes a datapath flow of its own, whose first packet "
        "takes the slow path", SettingLevel.NAMED, "enabled", mend="ovs-appctl upcall/enable-megaflows",
    ),
    Setting(
        Place.SWITCH, "other_config:hw-offload", "nothing is offloaded to the NIC", default="true",
        mend="ovs-vsctl set Open_vSwitch . other_config:hw-offload=true, then restart ovs-vswitchd", matters=_hardware,
    ),
    Setting(
        Place.SWITCH, "other_config:tc-policy", "nothing is offloaded to the NIC", matters=_skips_hardware,
    ),
    Setting(
        Place.SWITCH, "other_config:vlan-limit", "frames with two VLAN tags may be served too",
        matters=lambda value, _seen, _name: value != "1",
    ),
    Setting(Place.BRIDGE, "stp_enable", "spanning tree blocks ports", SettingLevel.SET, "false"),
    Setting(Place.BRIDGE, "rstp_enable", "spanning tree blocks ports", SettingLevel.SET, "false"),
    Setting(Place.BRIDGE, "mirrors", "frames are mirrored to another port too, which hardware may not offload"),
    Setting(Place.BRIDGE, "netflow", "each client's address and port makes a datapath flow of its own"),
    Setting(Place.BRIDGE, "sflow", _SAMPLES),
    Setting(Place.BRIDGE, "ipfix", _SAMPLES),
    Setting(
        Place.BRIDGE, "controller", "it can change flows, groups and ports; Open vSwitch empties all tables when the first "
        "one comes and when the last one goes", mend="ovs-vsctl del-controller {bridge}, then dnsteer restore",
        matters=_active,
    ),
    Setting(
        Place.BRIDGE, "other_config:hwaddr",
        "it is the MAC address of the bridge's own port; that of the VIPs is switch.mac of the spec",
        matters=_is_not_of_tunnels,
    ),
    Setting(
        Place.BRIDGE, OTHERS, "packets that come in by a port that is not in the spec are dropped",
        mend="ovs-vsctl del-port {bridge} PORT",
    ),
    Setting(
        Place.TABLE, "flow_limit", "flows beyond it are refused, or evict others (overflow_policy): changes may fail",
        harmful=limits.FEWER_THAN_FLOWS,
    ),
    Setting(Place.TABLE, "prefixes", "datapath flows may have other masks than lint computes"),
    Setting(
        Place.INTERFACE, "admin_state", "no packet passes it", SettingLevel.NAMED, "up",
        mend="ovs-ofctl -O OpenFlow15 mod-port {bridge} {name} up", kind="port down",
    ),
    Setting(Place.INTERFACE, "link_state", "no packet passes it until the link is up", default="up",
            mend="check the cable and the device at the other end"),
    Setting(
        Place.INTERFACE, "mtu", "bytes: longer packets are dropped; full TCP segments need {mtu}, answers over UDP 1280",
        mend="ovs-vsctl set Interface {name} mtu_request={mtu}", matters=_small, numbers=_mtu, harmful=limits.SHORT_MTU,
    ),
    Setting(
        Place.INTERFACE, "ingress_policing_rate", "kbit/s: input above it is dropped", default="0",
        harmful=limits.SHORT_RATE, burst="ingress_policing_burst",
    ),
    Setting(
        Place.INTERFACE, "ingress_policing_kpkts_rate", "1,000 packets/s: input above it is dropped", default="0",
        harmful=limits.SHORT_PACKET_RATE, burst="ingress_policing_kpkts_burst",
    ),
    Setting(Place.PORT, "qos", "output above its rate is queued or dropped", harmful=limits.SHORT_QOS),
    Setting(Place.PORT, "tag", _NORMAL_ONLY),
    Setting(Place.PORT, "trunks", _NORMAL_ONLY),
    Setting(Place.PORT, "vlan_mode", _NORMAL_ONLY),
    Setting(
        Place.OPENFLOW, "set-frags", "fragments are not handled as the flows say", SettingLevel.SET, "normal",
        word="normal",
    ),
    Setting(
        Place.OPENFLOW_PORT, "no-receive", "packets received on it are dropped", SettingLevel.SET, "false", word="receive",
        bit="NO_RECV",
    ),
    Setting(
        Place.OPENFLOW_PORT, "no-forward", "packets sent to it are dropped", SettingLevel.SET, "false", word="forward",
        bit="NO_FWD",
    ),
)
# fmt: on
"""All of them. What takes a value of its own from the spec (types, options, names of tables) is not here: see bridge."""


@dataclass(frozen=True)
class Deviation:
    """A deviating setting: whose it is, and what was found."""

    setting: Setting
    bridge: str
    name: str
    found: str
    numbers: Mapping[str, int]
    harmful: bool = False

    @property
    def level(self) -> SettingLevel:
        return SettingLevel.NAMED if self.harmful else self.setting.level

    @property
    def about(self) -> str:
        place = self.setting.place
        if place in (Place.SWITCH, Place.CONTROL):
            return "switch"
        return f"bridge {self.bridge}" if place in (Place.BRIDGE, Place.OPENFLOW) else f"{_noun(place)} {self.name}"

    @property
    def kind(self) -> str:
        return self.setting.kind or f"{self.about.partition(' ')[0]} changed"

    @property
    def is_port(self) -> bool:
        """Whether it is about a port of the spec."""
        return self.setting.place in (Place.PORT, Place.INTERFACE, Place.OPENFLOW_PORT)

    @property
    def detail(self) -> str:
        """What was found, what is wanted, the consequence, and what to do."""
        verb = "are" if self.setting.name in _PLURAL else "is"
        should = f", should be {self.setting.default}" if self.setting.default else ""
        by = "dnsteer apply corrects it; or" if self.setting.level is SettingLevel.SET else "to change it"
        command = self.setting.command(self.bridge, self.name, self.numbers)
        does = self.setting.does.format(**self.numbers)
        return f"{self.setting.name} {verb} {self.found or 'not set'}{should}: {does}; {by}: {command}"

    @property
    def todo(self) -> str:
        """What apply does about it."""
        whose = f"{self.about}: " if self.is_port else ""
        return f"{whose}{self.setting.name} {self.found} -> {self.setting.default}"


def _noun(place: Place) -> str:
    return "table" if place is Place.TABLE else "port"


def deviations(seen: SettingsInput, *levels: SettingLevel) -> Iterator[Deviation]:
    """Return all deviating settings of these levels that matter."""
    for setting in SETTINGS:
        if setting.level not in levels and (setting.harmful is None or SettingLevel.NAMED not in levels):
            continue
        for name, value in _values(setting, seen):
            if value != setting.default and setting.matters(value, seen, name):
                harmful = setting.harmful is not None and setting.harmful.test(value, seen, name)
                found = Deviation(setting, seen.have.name, name, value, setting.numbers(seen, name), harmful)
                if found.level in levels:
                    yield found


def _values(setting: Setting, seen: SettingsInput) -> Iterator[tuple[str, str]]:
    """Yield the values of a setting with their owners: empty for the switch and the bridge, else the table or port."""
    return _READERS[setting.place](setting, seen)


def _of_switch(setting: Setting, seen: SettingsInput) -> Iterator[tuple[str, str]]:
    yield "", seen.config.get(setting.name.partition(":")[2], "")


def _of_control_socket(setting: Setting, seen: SettingsInput) -> Iterator[tuple[str, str]]:
    yield "", "disabled" if seen.no_megaflows else setting.default


def _of_bridge(setting: Setting, seen: SettingsInput) -> Iterator[tuple[str, str]]:
    if setting.name == OTHERS:
        yield "", ", ".join(_others(seen))
    else:
        yield "", seen.have.settings.get(setting.name, setting.default)


def _of_tables(setting: Setting, seen: SettingsInput) -> Iterator[tuple[str, str]]:
    for number, table in seen.have.tables.items():
        if number in TABLE_NAMES:
            yield table.name or str(number), table.settings.get(setting.name, setting.default)


def _of_openflow(_setting: Setting, seen: SettingsInput) -> Iterator[tuple[str, str]]:
    if seen.tables is not None and seen.tables.fragments:
        yield "", seen.tables.fragments


def _of_openflow_ports(setting: Setting, seen: SettingsInput) -> Iterator[tuple[str, str]]:
    bits = seen.tables.bits if seen.tables is not None else {}
    for port in seen.want.ports:
        if port.name in bits:
            yield port.name, str(setting.bit in bits[port.name]).lower()


def _of_ports(setting: Setting, seen: SettingsInput) -> Iterator[tuple[str, str]]:
    """Yield what OVSDB says of ports and interfaces that work: what is wrong with others is named by itself."""
    probe = seen.spec.switch.probe
    for port in seen.want.devices if setting.place is Place.INTERFACE else seen.want.ports:
        if setting.name in _OF_AGENT and probe is not None and port.name == probe.port:
            continue  # the agent brings it up, and its queries are short
        now = seen.have.devices.get(port.name)
        if now is None or not now.is_open or now.gone or (setting.name == "link_state" and now.is_down):
            continue
        owner = now.port if setting.place is Place.PORT else port.name
        yield owner, now.settings.get(setting.name) or setting.default


_READERS: Mapping[Place, Callable[[Setting, SettingsInput], Iterator[tuple[str, str]]]] = {
    Place.SWITCH: _of_switch,
    Place.BRIDGE: _of_bridge,
    Place.TABLE: _of_tables,
    Place.PORT: _of_ports,
    Place.INTERFACE: _of_ports,
    Place.OPENFLOW: _of_openflow,
    Place.OPENFLOW_PORT: _of_openflow_ports,
    Place.CONTROL: _of_control_socket,
}


def _others(seen: SettingsInput) -> list[str]:
    """Return ports of the bridge that are not in the spec. Those with dnsteer's mark are differences by themselves.

    What `capture` makes for its time is named as such (captures.capture_warning).
    """
    wanted = {p.name for p in seen.want.ports} | {seen.have.name}
    return sorted(
        name for name, now in seen.have.ports.items() if name not in wanted and not (now.ours or now.of_capture)
    )
