# SPDX-License-Identifier: Apache-2.0
"""What `status` says of the extension, from its program's answer."""

from __future__ import annotations

from dnsteer.status.extension_view import ExtensionView

ANSWER = {"state": "running", "vips": 2, "loads": 3}


def test_status_names_entries_hardware_did_not_remove() -> None:
    view = ExtensionView("/run/ext.sock", answer={**ANSWER, "awaiting_removal": 5})
    assert view.text() == (
        "running, 2 services, 3 loads, 5 entries that hardware has not removed yet, socket /run/ext.sock"
    )
    assert view.as_json()["awaiting_removal"] == 5
    assert view.ok


def test_a_program_from_before_removals_were_counted_has_none() -> None:
    view = ExtensionView("/run/ext.sock", answer=ANSWER)
    assert view.text() == "running, 2 services, 3 loads, socket /run/ext.sock"
    assert view.as_json()["awaiting_removal"] == 0
