# SPDX-License-Identifier: Apache-2.0
"""Settings whose switch a test cannot have: of the kernel's datapath, by what was read of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dnsteer.plan.bridge import wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.spec.model.spec import Flavor
from dnsteer.switch import datapaths
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.switch.setting_limits import SettingsInput
from dnsteer.switch.settings import SettingLevel, deviations
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
    found = [d.detail for d in deviations(seen(flavor, tc_policy=policy), *SettingLevel)]
    command = "ovs-vsctl remove Open_vSwitch . other_config tc-policy"
    detail = f"other_config:tc-policy is {policy}: nothing is offloaded to the NIC; to change it: {command}"
    assert found == ([detail] if warned else [])


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("10000", None),
        ("9999", SettingLevel.WARNED),
        ("500", SettingLevel.WARNED),
        ("499", SettingLevel.NAMED),
        ("0", SettingLevel.NAMED),
        ("-1", SettingLevel.NAMED),
        ("soon", None),
    ],
)
def test_a_short_idle_time_is_a_deviation(value: str, level: SettingLevel | None) -> None:
    assert [d.level for d in deviations(seen(Flavor.OVS_NETDEV, max_idle=value), *SettingLevel)] == (
        [level] if level else []
    )


def test_levels_that_are_not_asked_for_are_left_out() -> None:
    crippled = seen(Flavor.OVS_NETDEV, max_idle="1")
    assert [*deviations(crippled, SettingLevel.WARNED)] == [*deviations(crippled, SettingLevel.SET)] == []
    assert len([*deviations(replace(crippled, no_megaflows=True), SettingLevel.NAMED)]) == 2


HEAD = "recirc_id(0),in_port({}),eth_type(0x0800),ipv4(dst=192.0.2.53,proto=17{}),udp(dst=53), packets:1, bytes:60"
TUNNEL = "actions:set(tunnel(dst=192.0.2.1,ttl=64,flags(df))),p9,p1"


@pytest.mark.parametrize(
    ("lines", "disabled"),
    [
        ([HEAD.format("p0", ",ttl=64") + ", actions:p1"], True),
        ([HEAD.format("p0", ",ttl=64") + ", actions:p1", HEAD.format("p0", "") + ", actions:p1"], False),
        ([HEAD.format("p0", "") + f", {TUNNEL}"], False),
        ([HEAD.format("vm7", ",ttl=64") + ", actions:p1"], False),
        ([], False),
    ],
    ids=["exact", "some are not", "mirrored into a tunnel", "of another port", "none"],
)
def test_whether_the_switch_makes_megaflows(lines: list[str], disabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the flows of all datapaths that it has; what a flow's actions say tells nothing."""
    asked: list[tuple[str, ...]] = []

    class Control:
        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> Control:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def run(self, command: str, *args: str) -> str:
            asked.append((command, *args))
            known = {
                "upcall/show": "  flows         : (current 3)",
                "dpctl/dump-dps": "netdev@ovs-netdev\nsystem@ovs-system\n",
            }
            dumped = "\n".join(lines) if args[1:] == ("netdev@ovs-netdev", "filter=udp") else ""
            return known.get(command, dumped)

    monkeypatch.setattr(datapaths, "Unixctl", Control)
    monkeypatch.setattr(datapaths, "control_socket", lambda remote: remote)
    assert datapaths.megaflows_disabled("unix:x", {"p0", "p1"}, 1.0) is disabled
    assert ("dpctl/dump-flows", "--names", "system@ovs-system", "filter=udp6") in asked
