# SPDX-License-Identifier: Apache-2.0
"""The wanted state of a bridge: a spec and an overlay, with the plan, flows and ports computed from them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from dnsteer.deploy.overlay_flows import overlay_flows
from dnsteer.deploy.recorded_spec import is_applied, spec_of
from dnsteer.plan.bridge import WantedBridge, wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.min_fragment import required_size
from dnsteer.plan.plan import Plan
from dnsteer.plan.tracked_zone import ZoneSettings, zone_settings
from dnsteer.plan.tunnel_routes import TunnelRoutes, tunnel_routes
from dnsteer.render.flows import Group, groups_of, lines_of
from dnsteer.render.meters import Meter, meters_of
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.tunnels import tunnel_kinds
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError


@dataclass(frozen=True)
class WantedSwitch:
    """A spec, its overlay, and the state that is *applied* now, if it may differ and can be read.

    What follows from them is computed when it is first asked for.
    """

    loaded: Loaded
    overlay: Overlay
    applied: AppliedState | None = None

    @cached_property
    def applied_spec(self) -> Spec | None:
        """The spec that is applied; None if there is none or this version no longer accepts it."""
        with suppress(SwitchError):
            return spec_of(self.applied) if self.applied is not None else None
        return None

    @property
    def same_spec(self) -> bool:
        """Whether the spec is the one that this version applied last."""
        return is_applied(self.loaded, self.applied)

    @cached_property
    def plan(self) -> Plan:
        return build_plan(self.loaded, self.overlay)

    @cached_property
    def lines(self) -> dict[str, None]:
        """The flows in order, as the switch prints them."""
        return dict.fromkeys(lines_of(self.plan))

    def compute(self) -> None:
        """Compute what takes long, for the time in which the switch prints its tables."""
        _ = self.lines
        if not self.same_spec:
            _ = self.applied_spec

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        return tuple(groups_of(self.plan))

    @cached_property
    def meters(self) -> tuple[Meter, ...]:
        """The meters, which no overlay changes."""
        return tuple(meters_of(self.plan))

    @cached_property
    def bridge(self) -> WantedBridge:
        return wanted_bridge(self.loaded.spec)

    @property
    def smallest_fragment(self) -> int | None:
        """The smallest fragment, in bytes, that the connection tracker must accept; None if it does not matter."""
        return required_size(self.plan, self.bridge.datapath_type)

    @property
    def connection_zone(self) -> ZoneSettings | None:
        """What the tracker's zone of connections that are kept must have; None where none are."""
        return zone_settings(self.loaded.spec)

    @property
    def concerns_tracker(self) -> bool:
        """Whether the spec keeps connections, or that which is applied does."""
        before = None if self.same_spec else self.applied_spec
        return any(derived.keeps_connections(spec) for spec in (self.loaded.spec, before) if spec is not None)

    @cached_property
    def tunnel_routes(self) -> TunnelRoutes | None:
        """The routes that ovs-vswitchd must have for tunnels; None where there are none."""
        return tunnel_routes(self.plan)

    @property
    def concerns_tunnels(self) -> bool:
        """Whether the spec has tunnels, or that which is applied does."""
        before = None if self.same_spec else self.applied_spec
        return any(tunnel_kinds(spec) for spec in (self.loaded.spec, before) if spec is not None)

    def with_overlay(self, state: AppliedState, overlay: Overlay) -> WantedSwitch:
        """Return the same with another overlay, given the *state* of the spec; only what depends on it is computed again.

        The plan is not computed anew, unless other clients are denied, neighbours have other MAC addresses, or the spec has
        an extension, whose program holds slots too.
        """
        new = WantedSwitch(self.loaded, overlay, self.applied)
        now = self.overlay
        if state.extended or (now.denials, now.neighbors) != (overlay.denials, overlay.neighbors):
            return new
        pools = [m for m in state.members if self.overlay.of(m.pool) != overlay.of(m.pool)]
        was, groups_before = overlay_flows(state, self.overlay, pools)
        becomes, groups = overlay_flows(state, overlay, pools)
        gone = {group.number for group in groups_before}
        lines = {line: None for line in self.lines if line not in was}
        new.__dict__.update(  # the cached properties, so that they are not computed
            plan=self.plan,
            lines=lines | becomes,
            groups=(*(group for group in self.groups if group.number not in gone), *groups),
        )
        return new

    def control_socket(self, given: str | None) -> str:
        """Return the extension's socket: *given*, else of the spec, else of the applied spec; empty for none."""
        part = self.loaded.spec.switch.extension
        if part is None and not given and self.applied_spec is not None:
            part = self.applied_spec.switch.extension
        from dnsteer.extension.client import socket_path

        return socket_path(given, part.control if part else "")
