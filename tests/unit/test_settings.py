"""Settings whose switch a test cannot have: of the kernel's datapath, by what was read of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dnsteer.plan.bridge import wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.spec.model.spec import Flavor
from dnsteer.switch.database import Bridge
from dnsteer.switch.settings import Level, SettingsInput, deviations
from tests.packet.switches import SMALL, spec_of


def seen(flavor: Flavor, **config: str) -> SettingsInput:
    loaded = spec_of(SMALL.replace("ovs-netdev", flavor.value).replace("p0:", "p0: {type: dummy}"))
    names = {key.replace("_", "-"): value for key, value in {"hw_offload": "true", **config}.items()}
    have = Bridge("br-dns", {}, "", "secure", (), {}, {})
    return SettingsInput(loaded.spec, build_plan(loaded), wanted_bridge(loaded.spec), have, names, None)


@pytest.mark.parametrize(
    ("flavor", "policy", "warned"),
    [
        (Flavor.OVS_KERNEL, "skip_hw", True),
        (Flavor.OVS_KERNEL, "skip_sw", False),
        (Flavor.OVS_KERNEL, "none", False),
        (Flavor.OVS_DPDK, "skip_hw", False),
    ],
)
def test_a_policy_that_keeps_flows_out_of_the_hardware(flavor: Flavor, policy: str, warned: bool) -> None:
    found = [d.detail for d in deviations(seen(flavor, tc_policy=policy), *Level)]
    command = "ovs-vsctl remove Open_vSwitch . other_config tc-policy"
    detail = f"other_config:tc-policy is {policy}: nothing is offloaded to the NIC; to change it: {command}"
    assert found == ([detail] if warned else [])


@pytest.mark.parametrize(
    ("value", "level"),
    [("10000", None), ("9999", Level.WARNED), ("500", Level.WARNED), ("499", Level.NAMED), ("0", Level.NAMED),
     ("-1", Level.NAMED), ("soon", None)],
)  # fmt: skip
def test_how_short_an_idle_time_may_be(value: str, level: Level | None) -> None:
    assert [d.level for d in deviations(seen(Flavor.OVS_NETDEV, max_idle=value), *Level)] == ([level] if level else [])


def test_levels_that_are_not_asked_for_are_left_out() -> None:
    crippled = seen(Flavor.OVS_NETDEV, max_idle="1")
    assert [*deviations(crippled, Level.WARNED)] == [*deviations(crippled, Level.SET)] == []
    assert len([*deviations(replace(crippled, no_megaflows=True), Level.NAMED)]) == 2
