"""Make a switch the active one, or keep it on standby: then it answers neither ARP nor neighbour solicitations.

Everything else stays: a standby switch goes on forwarding what neighbours still send to it, and probing its backends.
The flows for it are apart from the tables, with a cookie of their own, so a change of role is two lines in one bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.recorded import spec_of
from dnsteer.deploy.target_switch import TargetSwitch, now, stamp
from dnsteer.render.flows import Flow, parse_flow
from dnsteer.spec.derived import family_of
from dnsteer.spec.model.families import Family
from dnsteer.spec.model.spec import Spec
from dnsteer.switch.openflow import STANDBY_COOKIE, OpenFlow
from dnsteer.switch.role import Role, RoleName, RoleSession, role_of, this_boot
from dnsteer.switch.state import DamagedError
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.order import PIPELINE

_PRIORITY = 65_100
_SOLICITATION = "icmp6,icmp_type=135,icmp_code=0"
_OURS = f"cookie={STANDBY_COOKIE:#x}/-1"


@dataclass(frozen=True)
class RoleChange:
    """What was or would be changed on *bridge*. *spec* is the applied one, *failed* what the switch said to it."""

    bridge: str
    before: Role | None
    after: Role | None
    spec: Spec
    failed: SwitchError | None = None


def standby_flows(spec: Spec) -> list[Flow]:
    """The flows that keep a switch from answering for its VIPs and gateways. Where probes come from stays known."""
    return [parse_flow(line) for line in _lines(spec)]


def _lines(spec: Spec) -> Iterator[str]:
    head = f"cookie={STANDBY_COOKIE:#x}, table={PIPELINE.tables['ingress'].number}, priority="
    onward = f"goto_table:{PIPELINE.tables['neighbor'].number}"
    own = [address.ip for address in spec.switch.probe.addresses] if spec.switch.probe is not None else []
    for address in own:
        family: Family = family_of(address)
        match = f"arp,arp_tpa={address}" if family == "ipv4" else f"{_SOLICITATION},nd_target={address}"
        yield f"{head}{_PRIORITY + 1},{match} actions={onward}"
    for match in ("arp", _SOLICITATION):
        yield f"{head}{_PRIORITY},{match} actions=drop"


def set_standby(client: OpenFlow, flows: Iterable[Flow]) -> bool:
    """Bring these flows to the switch, and remove others of their kind. Return whether anything changed."""
    wanted = {flow.key: flow for flow in flows}
    have = client.dump(only=_OURS).standby
    gone = [flow for key, flow in have.items() if key not in wanted]
    new = [flow for key, flow in wanted.items() if have.get(key) != flow]
    if gone or new:
        client.bundle([
            *(f"flow delete_strict {flow.spec()}" for flow in gone), *(f"flow add {flow.line()}" for flow in new)
        ])  # fmt: skip
    return bool(gone or new)


def change_role(
    switch: TargetSwitch, bridge: str | None, name: RoleName | None, *, dry_run: bool = False
) -> RoleChange:
    """Make the switch active or standby, or, without a *name*, one that has no role. Raises SwitchError.

    A switch that goes on standby stops answering first, one that becomes active is recorded first. The lock of changes is
    not taken: taking over does not wait for an apply. Where the switch does not answer the role is recorded all the same,
    and `dnsteer agent` makes it so later; the result says that.
    """
    with RoleSession(switch.remote, switch.timeout) as session:
        record = session.record_of(bridge)
        if not record.number:
            raise SwitchError(f"no spec was applied to bridge {record.bridge} by this version; apply one first")
        spec = spec_of(session.state(record, record.number))
        try:
            before = role_of(record)
        except DamagedError:
            before = None  # this one replaces it
        boot = this_boot() if switch.remote.startswith("unix:") else ""
        role = Role(name, stamp(now()), operator_name(), boot) if name is not None else None
        if role is not None and before is not None and (before.name, before.boot) == (role.name, role.boot):
            role = before
        if dry_run:
            return RoleChange(record.bridge, before, role, spec)
        failed: SwitchError | None = None

        def bring(flows: Iterable[Flow]) -> None:
            nonlocal failed
            try:
                set_standby(switch.client(record.bridge), flows)
            except SwitchError as err:
                failed = err

        if name == "standby":
            bring(standby_flows(spec))
        if role != before:
            session.record_role(record, role)
        if name != "standby":
            bring(())
        return RoleChange(record.bridge, before, role, spec, failed)
