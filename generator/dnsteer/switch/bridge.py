# SPDX-License-Identifier: Apache-2.0
"""The bridge and its ports in OVSDB: differences from a spec, setting it up, and undoing that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dnsteer.plan.bridge import TUNNEL_PORTS, WantedBridge, WantedLag, WantedPort
from dnsteer.spec.bonds import lag_names
from dnsteer.spec.errors import Path, some_of
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.tunnels import tunnel_kinds
from dnsteer.switch import database as db
from dnsteer.switch.bridge_rows import Bridge, Interface, Lag
from dnsteer.switch.lags import difference, in_the_way, make_lag, remove_lags
from dnsteer.switch.openflow import PROTOCOL
from dnsteer.switch.setting_limits import SettingsInput
from dnsteer.switch.settings import Deviation, SettingLevel, deviations
from dnsteer.switch.state import OWNER_KEY
from dnsteer.switch.tools import SwitchError

_BRIDGE: Path = ("switch", "bridge")
FAIL_MODE = "secure"
NOT_NAMED = "tables are not named"
"""Without it the switch itself adds a flow that forwards everything."""


@dataclass(frozen=True)
class BridgeDifference:
    """A difference between OVSDB and the spec: its kind and detail for verify, what to do for apply.

    *first* tells whether flows can only be sent afterwards. *by* is what apply does it by.
    """

    kind: str
    about: str
    detail: str
    todo: str
    path: Path
    first: bool = True
    by: str = "OVSDB"


def bridge_differences(spec: Spec, want: WantedBridge, have: Bridge | None) -> list[BridgeDifference]:
    """Return all that must change in OVSDB."""
    if have is None:
        todo = f"create bridge {want.name} with {some_of(p.name for p in want.ports)}"
        missing = BridgeDifference("bridge missing", f"bridge {want.name}", "is not there", todo, _BRIDGE)
        return [missing, *_of_lags(want, {})]
    return [*_of_bridge(want, have), *_of_ports(spec, want, have), *_of_lags(want, have.lags)]


def _of_bridge(want: WantedBridge, have: Bridge) -> Iterator[BridgeDifference]:
    about = f"bridge {want.name}"
    if not have.ours:
        yield BridgeDifference(
            "bridge changed", about, "does not carry dnsteer's mark", f"adopt bridge {want.name}", _BRIDGE
        )
    settings = [
        ("datapath_type", have.datapath_type or "system", want.datapath_type, ("switch", "flavor")),
        ("fail_mode", have.fail_mode or "standalone", FAIL_MODE, _BRIDGE),
    ]
    for name, now, wanted, path in settings:
        if now != wanted:
            todo = f"{name} {now} -> {wanted}"
            yield BridgeDifference("bridge changed", about, f"{name} is {now}, should be {wanted}", todo, path)
    if want.hwaddr and _hwaddr(have) != want.hwaddr:
        now = _hwaddr(have) or "not set"
        detail = f"other_config:hwaddr is {now}, should be {want.hwaddr}: tunnels have it as their source"
        todo = f"MAC address of {want.name} -> {want.hwaddr}"
        yield BridgeDifference("bridge changed", about, detail, todo, ("switch", "tunnel"))
    if lacks_protocol(have):
        detail = f"protocols lack {PROTOCOL}, which groups and bundles need"
        yield BridgeDifference("bridge changed", about, detail, f"add {PROTOCOL} to protocols", _BRIDGE)
    if _unnamed(want, have) or _names_of_old_numbers(want, have):
        yield BridgeDifference("bridge changed", about, NOT_NAMED, "name the tables", _BRIDGE, first=False)


def _of_ports(spec: Spec, want: WantedBridge, have: Bridge) -> Iterator[BridgeDifference]:
    for port in want.ports:
        now = have.ports.get(port.name)
        about, path = f"port {port.name}", path_of_port(spec, port.name)
        if now is None:
            yield BridgeDifference("port missing", about, "is not on the bridge", f"add port {port.name}", path)
            continue
        if now.port != port.name:
            detail = f"is part of the bond {now.port}; to change it: ovs-vsctl del-port {want.name} {now.port}"
            yield BridgeDifference("port changed", about, detail, f"interface {port.name} of bond {now.port}", path)
            continue
        if not now.ours:
            yield BridgeDifference(
                "port changed", about, "does not carry dnsteer's mark", f"adopt port {port.name}", path
            )
        if (now.type or "system") != port.type:
            detail = f"type is {now.type or 'system'}, should be {port.type}"
            yield BridgeDifference("port changed", about, detail, f"type of port {port.name}", path)
        if dict(now.options) != dict(port.options):
            detail = f"options are {_shown(now.options)}, should be {_shown(port.options)}"
            yield BridgeDifference("port changed", about, detail, f"options of port {port.name}", path)
        if port.mac and now.mac != port.mac:
            detail = f"MAC address is {now.mac or 'its own'}, should be {port.mac}"
            yield BridgeDifference("port changed", about, detail, f"MAC address of port {port.name}", path)
    wanted = {p.name for p in want.ports}
    for name, now in have.ports.items():
        if now.ours and name not in wanted:
            detail = "is not in the spec, but carries dnsteer's mark"
            yield BridgeDifference("port added", f"port {name}", detail, f"remove port {name}", (), first=False)


def has_tunnel_ports(have: Bridge) -> bool:
    """Whether a bridge has ports of tunnels that are dnsteer's."""
    return any(port.ours and name in TUNNEL_PORTS for name, port in have.ports.items())


_HWADDR = "other_config:hwaddr"


def _hwaddr(have: Bridge) -> str:
    return have.settings.get(_HWADDR, "")


def _of_lags(want: WantedBridge, have: Mapping[str, Lag]) -> Iterator[BridgeDifference]:
    for lag in want.lags:
        differs = difference(want, lag, have)
        if differs:
            made = "make" if lag.name not in have else "make anew, which interrupts it,"
            todo = f"{made} bond {lag.name} by LACP of {', '.join(port.name for port in lag.members)}"
            yield BridgeDifference("bond changed", f"bond {lag.name}", differs, todo, ("switch", "uplinks", lag.name))
    wanted = {lag.name for lag in want.lags}
    for name in have:
        if name not in wanted:
            detail = "is not in the spec, but carries dnsteer's mark"
            yield BridgeDifference("bond added", f"bond {name}", detail, f"remove bond {name} by LACP", (), first=False)


def path_of_port(spec: Spec, port: str) -> Path:
    """Return the path of the port in the spec."""
    if any(port == kind.port for kind in tunnel_kinds(spec).values()):
        return ("switch", "tunnel")
    if spec.switch.probe is not None and port == spec.switch.probe.port:
        return ("switch", "probe")
    for name, uplink in spec.switch.uplinks.items():
        if port in (uplink.members or ()):
            return ("switch", "uplinks", name, "members", port)
    return ("switch", "uplinks" if port in spec.switch.uplinks else "ports", port)


def _shown(options: Mapping[str, str]) -> str:
    return " ".join(f"{k}={v}" for k, v in sorted(options.items())) or "none"


def lacks_protocol(have: Bridge) -> bool:
    """Whether the bridge's protocols lack the OpenFlow version that dnsteer uses."""
    return bool(have.protocols) and PROTOCOL not in have.protocols


def other_datapath(want: WantedBridge, have: Bridge) -> bool:
    """Whether the bridge has another datapath type. If the switch does not support that, it has no tables."""
    return (have.datapath_type or "system") != want.datapath_type


def disturbs_tables(want: WantedBridge, have: Bridge) -> bool:
    """Whether `set_up_bridge` changes an existing bridge in a way that loses flows.

    With another fail mode or datapath type the switch drops all flows and groups. A port that is opened anew gets a new
    number, which the flows do not know.
    """
    if have.fail_mode != FAIL_MODE or other_datapath(want, have):
        return True
    if any(_moved(lag, have) for lag in want.lags):
        return True
    there = [(have.ports[p.name], p) for p in want.ports if p.name in have.ports]
    return any((now.type or "system") != p.type or dict(now.options) != dict(p.options) for now, p in there)


def setting_differences(seen: SettingsInput) -> list[BridgeDifference]:
    """Return all settings other than flows, groups and ports that apply must change."""
    return [
        BridgeDifference(
            d.kind,
            d.about,
            d.detail,
            d.todo,
            path_of(seen.spec, d),
            first=False,
            by="OpenFlow" if d.setting.word else "OVSDB",
        )
        for d in deviations(seen, SettingLevel.SET)
    ]


def path_of(spec: Spec, deviation: Deviation) -> Path:
    """Return the path in the spec of the object that a setting belongs to."""
    if deviation.is_port:
        return path_of_port(spec, deviation.name)
    return _BRIDGE if deviation.about.startswith("bridge ") else ()


def _unnamed(want: WantedBridge, have: Bridge) -> dict[int, str]:
    """Return the tables whose names differ."""
    return {n: name for n, name in want.table_names.items() if n not in have.tables or have.tables[n].name != name}


def _names_of_old_numbers(want: WantedBridge, have: Bridge) -> list[int]:
    """Return the numbers that have the name of a table which has another number now."""
    names = set(want.table_names.values())
    return [n for n, table in have.tables.items() if table.name in names and n not in want.table_names]


def repair_settings(seen: SettingsInput, base: db.Database, ofctl: Callable[..., str]) -> bool:
    """Correct dnsteer's settings. Returns whether any of them is in OVSDB. Raises SwitchError."""
    in_database = []
    for found in deviations(seen, SettingLevel.SET):
        if found.setting.word:
            ofctl(*found.setting.arguments(found.name))
        else:
            in_database.append((found.setting.name, found.setting.default == "true"))
    if in_database:
        with base.transaction() as txn:
            txn.add(base.api.db_set("Bridge", seen.have.name, *in_database))
    return bool(in_database)


def refuse_foreign(base: db.Database, want: WantedBridge, have: Bridge | None, adopt: bool) -> None:
    """Raise SwitchError if the bridge or a port is not dnsteer's."""
    if have is None:
        holder = base.holder(want.name)
        if holder is not None:
            raise SwitchError(f"{want.name} is a port of bridge {holder}, so no bridge can have that name")
    elif not have.ours and not adopt:
        raise SwitchError(
            f"bridge {want.name} exists, but dnsteer did not make it. Name another bridge in the "
            f"spec, or take it over with --adopt (its ports, flows and groups stay, its fail mode becomes {FAIL_MODE}, "
            "spanning tree ends)"
        )
    own = {want.name, *(lag_names(name).bridge for name in base.lags(want.name))}
    for lag in want.lags:
        names = lag_names(lag.name)
        holder = base.holder(names.bridge)
        if holder is not None and names.bridge not in own:
            raise SwitchError(
                f"bridge {names.bridge} was not made for {want.name}, and the bond {lag.name} by LACP needs one of that "
                "name; remove it, or give the uplink another name"
                if holder == names.bridge
                else f"{names.bridge} is a port of bridge {holder}, and the bond {lag.name} needs a bridge of that name"
            )
        for name in (names.bond, names.peer):
            holder = base.holder(name)
            if holder is not None and holder not in own:
                raise SwitchError(f"port {name} is on bridge {holder}, and the bond {lag.name} needs one of that name")
    for port in want.devices:
        holder = base.holder(port.name)
        if holder is not None and holder not in own:
            raise SwitchError(f"port {port.name} is on bridge {holder}; remove it there first")
        now = have.ports.get(port.name) if have else None
        if now is not None and now.port != port.name:
            raise SwitchError(f"interface {port.name} is part of the bond {now.port}; remove it there first")


def set_up_bridge(base: db.Database, want: WantedBridge, have: Bridge | None) -> None:
    """Create the bridge and its ports, and correct their settings. Removes nothing."""
    api, lags = base.api, base.lags(want.name)
    mtus = {**_mtus(have.ports if have is not None else {}), **_mtus(*(lag.interfaces for lag in lags.values()))}
    with base.transaction() as txn:
        going = list(in_the_way(want, lags))
        remove_lags(api, txn, going)
        txn.add(api.add_br(want.name, may_exist=True, datapath_type=want.datapath_type))
        txn.add(api.db_set("Bridge", want.name, ("fail_mode", FAIL_MODE)))
        txn.add(api.db_set("Bridge", want.name, ("external_ids", {OWNER_KEY: "bridge"})))
        if want.hwaddr:
            txn.add(api.db_set("Bridge", want.name, ("other_config", {"hwaddr": want.hwaddr})))
        if have is not None and lacks_protocol(have):
            txn.add(api.db_set("Bridge", want.name, ("protocols", [*have.protocols, PROTOCOL])))
        for port in want.ports:
            txn.add(api.add_port(want.name, port.name, may_exist=True))
            txn.add(api.db_set("Port", port.name, ("external_ids", {OWNER_KEY: "port"})))
            new = have is None or port.name not in have.ports
            _set_interface(api, txn, port, new=new, mtu=mtus.get(port.name) if new else None)
        mtus |= dict.fromkeys((m.name for lag in want.lags for m in lag.members), want.mtu) if want.mtu else {}
        for lag in want.lags:
            if lag.name not in lags or lags[lag.name] in going:
                for member in _moved(lag, have):
                    txn.add(api.del_port(member, bridge=want.name))
                make_lag(api, txn, want.name, want.datapath_type, lag, mtus)


def _mtus(*interfaces: Mapping[str, Interface]) -> dict[str, int | None]:
    """The MTU, in bytes, that each interface asks for: a device that changes its bridge keeps it."""
    return {name: now.mtu for found in interfaces for name, now in found.items()}


def _moved(lag: WantedLag, have: Bridge | None) -> list[str]:
    """The members of a bond by LACP that are ports of the balancer's bridge now."""
    ports = have.ports if have is not None else {}
    return [member.name for member in lag.members if member.name in ports]


def _set_interface(
    api: Any, txn: Any, port: WantedPort | Interface, *, new: bool = False, mtu: int | None = None
) -> None:
    txn.add(api.db_set("Interface", port.name, ("type", port.type)))
    if port.mac:
        txn.add(api.db_set("Interface", port.name, ("mac", port.mac)))
    if mtu is not None:
        txn.add(api.db_set("Interface", port.name, ("mtu_request", mtu)))
    if not new:
        txn.add(api.db_clear("Interface", port.name, "options"))
    if port.options:
        txn.add(api.db_set("Interface", port.name, ("options", dict(port.options))))


def finish(base: db.Database, want: WantedBridge, have: Bridge) -> bool:
    """After the flows: remove dnsteer's ports that left the spec, name the tables. Returns whether any changed."""
    api, wanted = base.api, {p.name for p in want.ports}
    leave = [port for name, port in have.ports.items() if port.ours and name not in wanted]
    lags = [lag for name, lag in have.lags.items() if name not in {lag.name for lag in want.lags}]
    old_numbers = _names_of_old_numbers(want, have)
    if not leave and not lags and not old_numbers and not _unnamed(want, have):
        return False  # not even an empty transaction, which would make the switch look at all of its settings
    with base.transaction() as txn:
        for port in leave:
            txn.add(api.del_port(port.port, bridge=want.name, if_exists=True))
            if not want.hwaddr and port.name in TUNNEL_PORTS:
                txn.add(api.db_remove("Bridge", want.name, "other_config", "hwaddr", if_exists=True))
        remove_lags(api, txn, lags)
        for number in old_numbers:  # it may have other settings: they stay
            txn.add(api.db_clear("Flow_Table", have.tables[number].uuid, "name"))
        for number, name in _unnamed(want, have).items():
            if number in have.tables:  # it may have other settings: they stay
                txn.add(api.db_set("Flow_Table", have.tables[number].uuid, ("name", name)))
            else:
                row = txn.add(api.db_create("Flow_Table", name=name))
                txn.add(api.db_set("Bridge", want.name, ("flow_tables", {number: row})))
    return True


def restore_bridge(base: db.Database, want: WantedBridge, before: Bridge | None) -> None:
    """Undo `set_up_bridge`: the bridge as it was before, or no bridge."""
    api, lags = base.api, base.lags(want.name)
    was_there = before.lags if before is not None else {}
    changed = [lag for name, lag in lags.items() if name not in was_there or lag.lag != was_there[name].lag]
    with base.transaction() as txn:
        remove_lags(api, txn, changed)
        if before is None:
            txn.add(api.del_br(want.name, if_exists=True))
            return
        settings: list[tuple[str, Any]] = [
            ("datapath_type", before.datapath_type),
            ("fail_mode", before.fail_mode or []),
            ("protocols", list(before.protocols)),
        ]
        txn.add(api.db_set("Bridge", want.name, *settings))
        if want.hwaddr and _hwaddr(before):
            txn.add(api.db_set("Bridge", want.name, ("other_config", {"hwaddr": _hwaddr(before)})))
        elif want.hwaddr:
            txn.add(api.db_remove("Bridge", want.name, "other_config", "hwaddr", if_exists=True))
        if not before.ours:
            txn.add(api.db_remove("Bridge", want.name, "external_ids", OWNER_KEY, if_exists=True))
        for port in want.ports:
            was = before.ports.get(port.name)
            if was is None:
                txn.add(api.del_port(port.name, bridge=want.name, if_exists=True))
                continue
            if not was.ours:
                txn.add(api.db_remove("Port", port.name, "external_ids", OWNER_KEY, if_exists=True))
            _set_interface(api, txn, was)
        back = {member for lag in want.lags for member in _moved(lag, before)}
        for name in back:
            was = before.ports[name]
            txn.add(api.add_port(want.name, name, may_exist=True))
            if was.ours:
                txn.add(api.db_set("Port", name, ("external_ids", {OWNER_KEY: "port"})))
            _set_interface(api, txn, was, new=True, mtu=was.mtu)
        for name, old in was_there.items():
            if name not in lags or lags[name] in changed:
                make_lag(api, txn, want.name, old.datapath_type, old.lag, _mtus(old.interfaces))
