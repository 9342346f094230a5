# SPDX-License-Identifier: Apache-2.0
"""Access lists in specs of every kind: other forwarding, hashed slots, probes, several uplinks and the extension."""

from __future__ import annotations

import pytest

from dnsteer.checks.load import check_document
from dnsteer.proof.check import prove
from dnsteer.spec.read import parse_document
from tests.packet.switches import EXAMPLES

LIST = """  access:
    deny: [198.18.0.0/18, '2001:2:0:8000::/49', {prefix: 198.19.0.0/16, port: 853}, 203.0.113.0/24]
    allow: [198.18.7.0/24]
"""
OTHERS = sorted(file.stem for file in EXAMPLES.glob("*.yaml") if file.stem != "access")


@pytest.mark.parametrize("name", OTHERS)
def test_lists_work_in_each_example(name: str) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text()
    assert text.count("\n  bridge: ") == 1
    listed = check_document(parse_document(f"{name}.yaml", text.replace("\n  bridge: ", f"\n{LIST}  bridge: ", 1)))
    report = prove(listed, per_service=8)
    assert report.ok, report.failures[:2]
    assert report.recirculations > 0


def test_lists_and_two_passes_of_a_pool_add_up() -> None:
    """One pass for the source, one for the VIP, one for the slot."""
    text = (EXAMPLES / "quickstart.yaml").read_text().replace("    slots: 64", "    passes: 2\n    slots: 64", 1)
    listed = check_document(parse_document("spec.yaml", text.replace("\n  bridge: ", f"\n{LIST}  bridge: ", 1)))
    report = prove(listed, per_service=8)
    assert report.ok, report.failures[:2]
    assert report.recirculations >= 2 * report.packets["query"]
