# SPDX-License-Identifier: Apache-2.0
"""Which differences are still there once a spec is applied, where no private switch can make them."""

from __future__ import annotations

import pytest

from dnsteer.status.verify import Drift, left_by_apply

LEFT = [
    Drift("port not open", "port p0", "could not open network device p0 (No such device)"),
    Drift("port gone", "port p0", "its network device is gone"),
    Drift("extension degraded", "extension", "port p1 is down"),
    Drift("extension away", "extension", "no answer"),
    Drift("port down", "port p0", "admin_state is down", of_others=True, of="admin_state"),
]


@pytest.mark.parametrize("drift", LEFT, ids=lambda drift: drift.kind)
def test_differences_that_apply_cannot_repair_are_left(drift: Drift) -> None:
    assert left_by_apply([Drift("flow missing", "VIP dns", "table=20"), drift]) == [drift]


def test_a_port_of_another_type_may_open_once_it_has_its_own() -> None:
    opened = [LEFT[0], Drift("port changed", "port p0", "type is dpkd, should be dpdk")]
    assert left_by_apply(opened) == []
    policed = [LEFT[0], Drift("port changed", "port p0", "qos is q", of_others=True, of="qos")]
    assert left_by_apply(policed) == policed


def test_a_difference_has_its_id_with_another_value_too() -> None:
    first, second = (
        Drift(
            "port changed",
            "port p0",
            f"ingress_policing_rate is {rate}",
            line,
            of_others=True,
            of="ingress_policing_rate",
        )
        for rate, line in ((1000, 7), (2000, 8))
    )
    assert (
        first.as_json("spec.yaml")["id"]
        == second.as_json("spec.yaml")["id"]
        == "port changed, port p0, ingress_policing_rate"
    )
    assert LEFT[0].as_json("spec.yaml")["id"] == "port not open, port p0"
