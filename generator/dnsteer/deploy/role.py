# SPDX-License-Identifier: Apache-2.0
"""Make a switch the active one, or keep it on standby: then it answers neither ARP nor neighbour solicitations.

Everything else stays: a standby switch goes on forwarding what neighbours still send to it, and probing its backends.
The flows for it are apart from the tables, with a cookie of their own, so a change of role is two lines in one bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.recorded_spec import spec_of
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now, stamp
from dnsteer.render.flows import Flow, parse_flow
from dnsteer.render.templates import port_name
from dnsteer.spec.derived import family_of
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.model.types import Address
from dnsteer.spec.neighbors import Neighbor, neighbors_of
from dnsteer.switch.openflow import STANDBY_COOKIE, Key, OpenFlow
from dnsteer.switch.role import Role, RoleName, RoleSession, is_standby, role_of, this_boot
from dnsteer.switch.session import Session
from dnsteer.switch.state import ROLE_KEY, BridgeRecord, DamagedError
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError
from dnsteer.tables.order import PIPELINE

_PRIORITY = 65_100
_SOLICITATION = "icmp6,icmp_type=135,icmp_code=0"
_OURS = f"cookie={STANDBY_COOKIE:#x}/-1"
_ADDRESSES = PIPELINE.holding("addresses").number


@dataclass(frozen=True)
class RoleChange:
    """What was or would be changed on *bridge*. *failed* is what the switch said to it.

    *spec* is the applied one, None where it cannot be read.
    """

    bridge: str
    before: Role | None
    after: Role | None
    spec: Spec | None
    failed: SwitchError | None = None


def standby_flows(spec: Spec | None, number: int = _ADDRESSES) -> list[Flow]:
    """The flows that keep a switch from answering for its VIPs and gateways. Where probes come from stays known.

    Without a spec, which cannot be read then, it answers for nothing at all. *number* is that of the table that answers.
    """
    return [parse_flow(line) for line in _lines(spec, number)]


def _lines(spec: Spec | None, number: int) -> Iterator[str]:
    head = f"cookie={STANDBY_COOKIE:#x}, table={PIPELINE.first.number}, priority="
    onward = f"goto_table:{number}"
    probe = spec.switch.probe if spec is not None else None
    for address in [own.ip for own in probe.addresses] if probe is not None else []:
        yield f"{head}{_PRIORITY + 1},{_request_for(address)} actions={onward}"
    if spec is not None and probe is not None:
        for neighbor in neighbors_of(spec):
            for match, actions in _asking(neighbor, probe.port, onward):
                yield f"{head}{_PRIORITY + 1},{match} actions={actions}"
    for match in ("arp", _SOLICITATION):
        yield f"{head}{_PRIORITY},{match} actions=drop"


def _asking(neighbor: Neighbor, probe: str, onward: str) -> Iterator[tuple[str, str]]:
    """The matches and actions by which a neighbour's MAC address is found out on standby too."""
    asked, heard, address = f"in_port={port_name(probe)}", f"in_port={port_name(neighbor.port)}", neighbor.address
    if neighbor.family == "ipv6":
        yield f"icmp6,{asked},icmp_type=135,icmp_code=0,nd_target={address}", f"output:{port_name(neighbor.port)}"
        return
    yield f"arp,{asked},arp_tpa={address},arp_op=1", onward
    yield f"arp,{heard},arp_spa={address},arp_op=2", onward
    yield f"arp,{heard},arp_spa={address},arp_tpa={address},arp_op=1", onward


def _request_for(address: Address) -> str:
    """Return what matches neighbour requests for an address."""
    return f"arp,arp_tpa={address}" if family_of(address) == "ipv4" else f"{_SOLICITATION},nd_target={address}"


def role_flows(record: BridgeRecord, remote: str, spec: Spec | None) -> list[Flow]:
    """The flows of the recorded role. Raises DamagedError."""
    return standby_flows(spec) if is_standby(record, remote) else []


def role_lines(flows: Iterable[Flow], have: Mapping[Key, Flow]) -> list[str]:
    """Bundle lines that turn the flows of a role that a switch has into these."""
    wanted = {flow.key: flow for flow in flows}
    return [
        *(f"flow delete_strict {flow.spec()}" for key, flow in have.items() if key not in wanted),
        *(f"flow add {flow.line()}" for key, flow in wanted.items() if have.get(key) != flow),
    ]


def bring_role(session: Session, client: OpenFlow, bridge: str, spec: Spec | None, *, dry_run: bool = False) -> bool:
    """Bring the flows of the recorded role to the switch. Return whether they differed.

    The record is read before the flows, and again once they were changed. A role is recorded before its flows are brought:
    so of several that do this at once, the last one brings those of the last role.
    """
    differed, record = False, session.record_of(bridge)
    while lines := _lines_for(client, _flows_now(client, spec) if is_standby(record, session.remote) else []):
        differed = True
        if dry_run:
            break
        client.bundle(lines)
        brought, record = record, session.record_of(bridge)
        if record.ids.get(ROLE_KEY) == brought.ids.get(ROLE_KEY):
            break
    return differed


def _flows_now(client: OpenFlow, spec: Spec | None) -> list[Flow]:
    """Return the flows of a switch on standby for the tables that it has.

    Those of another version may have other numbers: the table that answers is the one with flows for the probes' addresses.
    """
    probe = spec.switch.probe if spec is not None else None
    if probe is None:
        return standby_flows(spec)
    found = {flow.table for flow in client.dump(only=_request_for(probe.addresses[0].ip)).flows.values()}
    return standby_flows(spec, found.pop() if len(found) == 1 else _ADDRESSES)


def _lines_for(client: OpenFlow, flows: Iterable[Flow]) -> list[str]:
    return role_lines(flows, client.dump(only=_OURS).standby)


def change_role(
    switch: TargetSwitch, bridge: str | None, name: RoleName | None, *, dry_run: bool = False
) -> RoleChange:
    """Make the switch active or standby, or, without a *name*, one that has no role. Raises SwitchError.

    The lock of changes is not taken: taking over does not wait for an apply. Where the switch does not answer the role is
    recorded all the same, and `dnsteer agent` makes it so later; the result says that.
    """
    with RoleSession(switch.remote, switch.timeout) as session:
        record = session.record_of(bridge)
        spec = _applied_spec(session, record)
        try:
            before = role_of(record)
        except DamagedError:
            before = None  # this one replaces it
        role = _new_role(switch, name) if name is not None else None
        if role is not None and before is not None and (before.name, before.boot) == (role.name, role.boot):
            role = before
        done = RoleChange(record.bridge, before, role, spec)
        if dry_run:
            return done
        client = switch.client(record.bridge)
        try:
            if role != before or (role is None and ROLE_KEY in record.ids):
                session.record_role(record, role)
        except UnwrittenError:  # such as of a full disk: it does not answer at least until the agent looks
            if name == "standby" and (lines := _lines_for(client, _flows_now(client, spec))):
                client.bundle(lines)
            raise
        try:
            bring_role(session, client, record.bridge, spec)
        except SwitchError as err:
            return replace(done, failed=err)
        return done


def first_role(switch: TargetSwitch, record: BridgeRecord | None) -> str:
    """The role of a switch that is to be on standby from its first apply on, as it is recorded; empty if it has one."""
    if record is not None and ROLE_KEY in record.ids:
        return ""
    return _new_role(switch, "standby").to_json()


def _new_role(switch: TargetSwitch, name: RoleName) -> Role:
    """A role that is told now."""
    boot = this_boot() if switch.remote.startswith("unix:") else ""
    return Role(name, stamp(now()), operator_name(), boot)


def _applied_spec(session: Session, record: BridgeRecord) -> Spec | None:
    """The spec that is applied, None where it cannot be read: a peer that has taken over does not wait for its repair."""
    try:
        if record.number:
            return spec_of(session.state(record, record.number))
    except UnavailableError:
        raise
    except SwitchError:
        return None
    raise SwitchError(
        f"no spec was applied to bridge {record.bridge} by this version; apply one first: dnsteer apply SPEC --standby"
    )
