# SPDX-License-Identifier: Apache-2.0
"""Frames, and the result expected for each."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """A frame, and the port by which it enters or leaves."""

    port: str
    data: bytes


@dataclass(frozen=True)
class Expectation:
    """What must leave: exactly one of *options*, or *every* one once, or nothing when it is empty; and why.

    If the extension may choose among several backends, *backends* has the backend of each option, and frames of the same
    *hash_key* must all reach the same backend.
    """

    options: frozenset[Frame]
    why: str
    slot: int | None = None
    backend: str | None = None
    hash_key: Hashable = None
    backends: tuple[tuple[Frame, str], ...] = ()
    every: bool = False

    @property
    def count(self) -> int:
        """How many frames must leave."""
        return len(self.options) if self.every else min(1, len(self.options))


def expect_drop(why: str) -> Expectation:
    """Expect that nothing leaves."""
    return Expectation(frozenset(), why)


def expect_frame(port: str, data: bytes, why: str) -> Expectation:
    """Expect that exactly this frame leaves."""
    return Expectation(frozenset((Frame(port, data),)), why)
