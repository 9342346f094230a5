# SPDX-License-Identifier: Apache-2.0
"""Numbers of things in messages."""

from __future__ import annotations

import pytest

from dnsteer.spec.errors import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("mask",), "0 masks"),
        (1, ("mask",), "1 mask"),
        (1000, ("mask",), "1,000 masks"),
        (2, ("entry", "entries"), "2 entries"),
    ],
)
def test_counts_use_singular_and_plural(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text
