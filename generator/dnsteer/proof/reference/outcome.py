"""Frames, and what must become of them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """A frame that leaves by a port."""

    port: str
    data: bytes


@dataclass(frozen=True)
class Expectation:
    """What must leave: exactly one of the options, or nothing when there are none; and why.

    Where the extension may choose among several, *backends* has the backend of each option, and frames of the same
    *hash_key* must all reach the same backend.
    """

    options: frozenset[Frame]
    why: str
    slot: int | None = None
    backend: str | None = None
    hash_key: Hashable = None
    backends: tuple[tuple[Frame, str], ...] = ()


def dropped(why: str) -> Expectation:
    """Nothing leaves."""
    return Expectation(frozenset(), why)


def sure(port: str, data: bytes, why: str) -> Expectation:
    """This frame leaves."""
    return Expectation(frozenset((Frame(port, data),)), why)
