# SPDX-License-Identifier: Apache-2.0
"""Bonds by LACP in OVSDB: each is a bridge of its own with Open vSwitch's bond, and a patch port to the balancer's bridge.

Open vSwitch bonds have no OpenFlow number, so flows cannot name them: the bridge of a bond forwards as a learning switch
between its patch port and its bond. A bond that differs is made anew as a whole, which its partner negotiates anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dnsteer.plan.bridge import WantedBridge, WantedLag, WantedPort
from dnsteer.plan.lag_settings import CONFIG, LACP, MODE, NO_VLAN, OF_KEY, UPLINK_KEY
from dnsteer.spec.bonds import lag_names
from dnsteer.switch.bridge_rows import Interface, Lag
from dnsteer.switch.state import OWNER_KEY


def read_lag(row: Any, interfaces: Mapping[str, Interface]) -> Lag:
    """The bond of a bridge with dnsteer's mark. *interfaces* are all of the bridge."""
    name = str(row.external_ids[UPLINK_KEY])
    found = lag_names(name)
    ports = {port.name: port for port in row.ports}
    bond, own, peer = ports.get(found.bond), ports.get(row.name), interfaces.get(found.peer)
    members = {i.name: interfaces[i.name] for i in bond.interfaces} if bond is not None else {}
    wrong = {
        "the bond is not there": bond is None,
        "the patch port is not there": peer is None or (peer.type, dict(peer.options)) != ("patch", {"peer": name}),
        f"bond_mode is not {MODE}": bond is not None and bond.bond_mode != [MODE],
        f"lacp is not {LACP}": bond is not None and bond.lacp != [LACP],
        "lacp-time is not fast": bond is not None and any(bond.other_config.get(k) != v for k, v in CONFIG.items()),
        "the bridge's own port is flooded": own is not None and list(own.trunks) != [NO_VLAN],
        "fail_mode is secure": row.fail_mode == ["secure"],
    }
    wanted = [WantedPort(i.name, f"member of {name}", i.type or "system", dict(i.options)) for i in members.values()]
    current = {i.name: i.lacp_current == [True] for i in bond.interfaces} if bond is not None else {}
    return Lag(
        WantedLag(name, tuple(sorted(wanted, key=lambda port: port.name))),
        row.datapath_type or "system",
        ", ".join(text for text, is_so in wrong.items() if is_so),
        members,
        current,
    )


def difference(want: WantedBridge, wanted: WantedLag, have: Mapping[str, Lag]) -> str:
    """How a bond differs from what it should be, in words; empty: it does not."""
    now = have.get(wanted.name)
    if now is None:
        return "is not there"
    if now.differs:
        return now.differs
    if now.datapath_type != want.datapath_type:
        return f"datapath_type is {now.datapath_type}, should be {want.datapath_type}"
    if _members(now.lag) != _members(wanted):
        return f"its members are {_shown(now.lag)}, should be {_shown(wanted)}"
    return ""


def _members(lag: WantedLag) -> list[tuple[str, str, dict[str, str]]]:
    return sorted((port.name, port.type, dict(port.options)) for port in lag.members)


def _shown(lag: WantedLag) -> str:
    shown = (" ".join((n, kind, *(f"{k}={v}" for k, v in sorted(o.items())))) for n, kind, o in _members(lag))
    return ", ".join(shown) or "none"


def in_the_way(want: WantedBridge, have: Mapping[str, Lag]) -> Iterator[Lag]:
    """The bonds that must go before what is wanted can be made: they differ, or have a port that gets another place."""
    wanted = {lag.name: lag for lag in want.lags}
    elsewhere = {port.name: "" for port in want.ports} | {m.name: lag.name for lag in want.lags for m in lag.members}
    for name, now in have.items():
        differs = name in wanted and difference(want, wanted[name], have)
        if differs or any(elsewhere.get(member, name) != name for member in now.interfaces):
            yield now


def make_lag(api: Any, txn: Any, of: str, datapath_type: str, lag: WantedLag, mtus: Mapping[str, int | None]) -> None:
    """Make the bridge of a bond, and all in it. *mtus* are those that members ask for, in bytes."""
    names = lag_names(lag.name)
    txn.add(api.add_br(names.bridge, may_exist=True, datapath_type=datapath_type))
    txn.add(api.db_set("Bridge", names.bridge, ("external_ids", {OWNER_KEY: "bond", OF_KEY: of, UPLINK_KEY: lag.name})))
    txn.add(api.db_set("Port", names.bridge, ("vlan_mode", "trunk"), ("trunks", [NO_VLAN])))
    txn.add(api.add_port(names.bridge, names.peer, may_exist=True))
    txn.add(api.db_set("Interface", names.peer, ("type", "patch"), ("options", {"peer": lag.name})))
    # A tuple: ovsdbapp puts rows in the place of commands in a list, which are not those of the next try.
    members = tuple(
        txn.add(
            api.db_create(
                "Interface", name=m.name, type=m.type, options=dict(m.options), mtu_request=mtus.get(m.name) or []
            )
        )
        for m in lag.members
    )
    bond = txn.add(
        api.db_create("Port", name=names.bond, interfaces=members, bond_mode=MODE, lacp=LACP, other_config=dict(CONFIG))
    )
    txn.add(api.db_add("Bridge", names.bridge, "ports", bond))


def remove_lags(api: Any, txn: Any, lags: Iterable[Lag]) -> None:
    """Remove the bridges of bonds, with all in them."""
    for now in lags:
        txn.add(api.del_br(lag_names(now.lag.name).bridge, if_exists=True))
