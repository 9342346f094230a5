# SPDX-License-Identifier: Apache-2.0
"""`apply` as a function, and flows of others, for tests of what it does to a switch."""

from __future__ import annotations

from collections.abc import Callable

from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.send import ApplyResult
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.loaded import Loaded
from dnsteer.status.verify import Drift, find_drift
from tests.packet.switches import BRIDGE, VIP_TABLE
from tests.packet.switches import Switch as Private

FOREIGN_FLOWS = (
    f"cookie=0x5, {VIP_TABLE}, idle_timeout=900, send_flow_rem priority=9,icmp,in_port=1 actions=drop",
    f"cookie=0x6, {VIP_TABLE}, hard_timeout=900, importance=3, priority=8,udp,tp_dst=99 actions=output:1",
    "cookie=0x7, table=200, priority=5,tcp actions=group:7",
)
FOREIGN_GROUP = "group_id=7,type=all,bucket=bucket_id:0,actions=output:1"


def apply(
    loaded: Loaded,
    remote: str,
    *,
    openflow: str | None = None,
    adopt: bool = False,
    timeout: float = 10,
    progress: Callable[[str], None] = lambda _: None,
) -> ApplyResult:
    """Deploy, and what was done to the switch."""
    return deploy(
        FileSource(loaded), TargetSwitch(remote, openflow, timeout), Options(adopt=adopt, grace=0), progress=progress
    ).result


def differences(spec: Loaded, switch: Private) -> list[Drift]:
    """What `verify` finds, but for links that are too short for tunnels."""
    return [found for found in find_drift(spec, switch.database) if found.of != "mtu"]


def add_foreign(switch: Private, bridge: str = BRIDGE) -> None:
    """Give the bridge flows and a group that are not ours."""
    switch.ofctl("add-group", FOREIGN_GROUP, bridge=bridge)
    for flow in FOREIGN_FLOWS:
        switch.ofctl("add-flow", flow.replace("send_flow_rem ", "send_flow_rem,"), bridge=bridge)
    assert set(FOREIGN_FLOWS) <= switch.flows(bridge)
