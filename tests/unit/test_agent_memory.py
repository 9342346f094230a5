"""What a look that failed says about the tables of the switch."""

from __future__ import annotations

import pytest

from dnsteer.agent.held_switch import SwitchMemory
from dnsteer.switch.state import DamagedError
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError


@pytest.mark.parametrize("kind", [UnavailableError, UnwrittenError, DamagedError, PermissionError])
def test_what_is_not_about_the_tables_withdraws_nothing(kind: type[Exception]) -> None:
    memory = SwitchMemory()
    for before in (None, "", "2 differences from the record"):
        memory.fault = before
        memory.not_looked(kind("no room in OVSDB"))
        assert memory.fault == before


def test_tables_that_cannot_be_repaired() -> None:
    memory = SwitchMemory()
    memory.not_looked(SwitchError("the switch refused the changes"))
    assert memory.fault == "its tables cannot be made as they were applied: the switch refused the changes"
