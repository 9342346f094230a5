# SPDX-License-Identifier: Apache-2.0
"""Which states somebody has rolled back from, as the record says it."""

from __future__ import annotations

import pytest

from dnsteer.deploy.rollback import rolled_back
from dnsteer.switch.state import AppliedState


def state(number: int, restores: int = 0, rolls_back: int = 0) -> AppliedState:
    return AppliedState(
        "spec.yaml", "", "", "", "", "", (), {}, number=number, restores=restores, rolls_back=rolls_back
    )


@pytest.mark.parametrize(
    ("states", "left"),
    [
        ([state(1), state(2), state(3, 1, 2)], {2}),
        ([state(1), state(2), state(3, 1, 2), state(4, 2)], set()),  # a redo
        ([state(1), state(2), state(3, 1, 2), state(4, 2), state(5, 1, 4)], {2, 4}),
        ([state(1), state(2), state(3), state(4, 2, 3), state(5, 1, 4), state(6, 4)], {3}),  # a redo of one of two
        ([state(1), state(2), state(3, 1, 2), state(4), state(5, 2, 4)], {4}),  # brought back from before another
        ([state(5, 2, 4), state(6, 1, 5)], {5}),  # the states before are not kept any more
    ],
)
def test_rolled_back_states_are_found_in_the_history(states: list[AppliedState], left: set[int]) -> None:
    assert rolled_back(reversed(states)) == left
