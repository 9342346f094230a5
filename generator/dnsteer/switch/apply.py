"""Bring a running switch to what a spec says: the bridge through OVSDB, then flows and groups in one bundle."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from dnsteer import __version__
from dnsteer.plan.bridge import WantedBridge, WantedPort, wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.render.flows import flows_of, groups_of
from dnsteer.spec.load import Loaded, digest
from dnsteer.switch import database as db
from dnsteer.switch.openflow import Changes, OpenFlow, changes
from dnsteer.switch.tools import SwitchError, Unavailable


@dataclass
class Applied:
    """What an apply did."""

    settings: list[str] = field(default_factory=list)
    flows: Changes | None = None
    recorded: bool = False

    @property
    def changed(self) -> bool:
        """Whether anything of the switch changed."""
        return bool(self.settings) or bool(self.flows) or self.recorded


def openflow_target(remote: str, bridge: str, override: str | None = None) -> str:
    """Where the bridge's OpenFlow management socket is: beside the OVSDB socket, or as told."""
    if override:
        return override
    kind, _, where = remote.partition(":")
    if kind != "unix":
        raise SwitchError(f"for a database at {remote}, say where the bridge's OpenFlow is: --openflow tcp:HOST:PORT")
    return f"unix:{Path(where).parent / f'{bridge}.mgmt'}"


def bridge_changes(base: db.Database, want: WantedBridge, adopt: bool) -> list[str]:
    """What differs between the wanted bridge and OVSDB, in words. Raises SwitchError when the bridge is not ours."""
    have = base.bridge(want.name)
    _refuse_foreign(base, want, have, adopt)
    if have is None:
        return [f"create bridge {want.name} with {', '.join(p.name for p in want.ports)}"]
    out = []
    if not have.ours:
        out.append(f"adopt bridge {want.name}")
    if have.datapath_type != want.datapath_type:
        out.append(f"datapath_type {have.datapath_type or '(system)'} -> {want.datapath_type}")
    if have.fail_mode != "secure":
        out.append(f"fail_mode {have.fail_mode or '(standalone)'} -> secure")
    if {n: have.table_names.get(n) for n in want.table_names} != dict(want.table_names):
        out.append("table names")
    for port in want.ports:
        now = have.ports.get(port.name)
        if now is None:
            out.append(f"add port {port.name}")
        elif not now.ours:
            out.append(f"adopt port {port.name}")
        elif _differs(now, port):
            out.append(f"settings of port {port.name}")
    wanted_names = {p.name for p in want.ports}
    out += [f"remove port {n}" for n, p in have.ports.items() if p.ours and n not in wanted_names]
    return out


def _differs(now: db.Interface, want: WantedPort) -> bool:
    return (now.type or "system") != want.type or dict(now.options) != dict(want.options)


def _refuse_foreign(base: db.Database, want: WantedBridge, have: db.Bridge | None, adopt: bool) -> None:
    if have is not None and not have.ours and not adopt:
        raise SwitchError(
            f"bridge {want.name} exists and is not dnsteer's: it was made by somebody else. Name another bridge in the "
            f"spec, or take it over with --adopt (its ports and flows stay, its fail mode becomes secure)"
        )
    for port in want.ports:
        owner = base.owner_of_port(port.name)
        if owner is not None and owner != want.name:
            raise SwitchError(f"port {port.name} is on bridge {owner}; remove it there first")


def _set_up_bridge(base: db.Database, want: WantedBridge) -> None:
    have = base.bridge(want.name)
    ports = have.ports if have else {}
    names = {p.name for p in want.ports}
    api = base.api
    with base.transaction() as txn:
        txn.add(api.add_br(want.name, may_exist=True, datapath_type=want.datapath_type))
        settings = [("datapath_type", want.datapath_type), ("fail_mode", "secure")]
        txn.add(api.db_set("Bridge", want.name, *settings))
        txn.add(api.db_set("Bridge", want.name, ("external_ids", {db.OWNER_KEY: "bridge"})))
        for name, port in ports.items():
            if port.ours and name not in names:
                txn.add(api.del_port(name, bridge=want.name))
        for wanted in want.ports:
            txn.add(api.add_port(want.name, wanted.name, may_exist=True))
            txn.add(api.db_set("Port", wanted.name, ("external_ids", {db.OWNER_KEY: "port"})))
            txn.add(api.db_set("Interface", wanted.name, ("type", wanted.type)))
            if wanted.name in ports and ports[wanted.name].options:
                txn.add(api.db_clear("Interface", wanted.name, "options"))
            if wanted.options:
                txn.add(api.db_set("Interface", wanted.name, ("options", dict(wanted.options))))


def apply(
    loaded: Loaded,
    remote: str,
    *,
    openflow: str | None = None,
    adopt: bool = False,
    timeout: float = 10,
    progress: Callable[[str], None] = lambda _: None,
) -> Applied:
    """Make the switch at *remote* what the spec says.

    Everything is computed and checked before the first change. The flows and groups then go in one bundle. What a kill
    in between leaves is mended by the next apply, since each starts from what the switch has.
    Raises SwitchError or Unavailable.
    """
    spec = loaded.spec
    plan = build_plan(loaded)
    flows, groups = flows_of(plan), groups_of(plan)
    want = wanted_bridge(spec)
    done = Applied()
    base = db.Database(remote, timeout)
    try:
        client = OpenFlow(openflow_target(remote, want.name, openflow))
        settings = bridge_changes(base, want, adopt)
        if settings:
            progress(f"bridge {want.name}: {'; '.join(settings)}")
            _set_up_bridge(base, want)
            _name_tables(base, want)
            done.settings = settings
        base.wait_for_ports(want.name, [p.name for p in want.ports])
        _wait_for_openflow(client, timeout)
        todo = changes(flows, groups, client.dump())
        if todo:
            progress(f"sending {len(todo)} changes of flows and groups in one bundle")
            client.bundle(todo.bundle())
        done.flows = todo
        done.recorded = _record(base, want.name, loaded, done)
    finally:
        base.close()
    return done


def _name_tables(base: db.Database, want: WantedBridge) -> None:
    """Name the tables, so that ovs-ofctl shows and accepts the names."""
    have = base.bridge(want.name)
    names = have.table_names if have else {}
    api = base.api
    with base.transaction() as txn:
        for number, name in want.table_names.items():
            if names.get(number) != name:
                row = txn.add(api.db_create("Flow_Table", name=name))
                txn.add(api.db_set("Bridge", want.name, ("flow_tables", {number: row})))


def _wait_for_openflow(client: OpenFlow, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    sock = Path(client.target.removeprefix("unix:"))
    while client.target.startswith("unix:") and not sock.is_socket():
        if time.monotonic() > deadline:
            raise Unavailable(f"no OpenFlow socket {sock}; is ovs-vswitchd running in the same run directory?")
        time.sleep(0.01)


def _record(base: db.Database, bridge: str, loaded: Loaded, done: Applied) -> bool:
    have = base.bridge(bridge)
    spec_digest = digest(loaded.spec)
    old = have.external_ids if have else {}
    same = old.get(db.DIGEST_KEY) == spec_digest and old.get(db.VERSION_KEY) == __version__
    if same and not done.settings and not done.flows:
        return False
    record = {
        db.DIGEST_KEY: spec_digest,
        db.VERSION_KEY: __version__,
        db.TIME_KEY: datetime.now(timezone.utc).isoformat(timespec="seconds"),
        db.NAME_KEY: loaded.spec.switch.name or bridge,
    }
    with base.transaction() as txn:
        txn.add(base.api.db_set("Bridge", bridge, ("external_ids", record)))
    return True
