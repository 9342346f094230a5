# SPDX-License-Identifier: Apache-2.0
"""The names of workers. Without pydantic, for the quick verbs."""

from __future__ import annotations

from collections.abc import Mapping

Workers = Mapping[str, Mapping[str, int]]
"""How many workers each backend that has some has, by pool and name of the backend."""


def worker_name(backend: str, number: int) -> str:
    """Return what number *number*, from 0, of a backend's workers is called."""
    return f"{backend}.{number}"


def names_of(workers: Workers, pool: str, backend: str) -> list[str]:
    """Return the backends that a command means: all workers of one that has some, else the one that it names."""
    count = workers.get(pool, {}).get(backend, 0)
    return [worker_name(backend, number) for number in range(count)] or [backend]


def host_of(workers: Workers, pool: str, backend: str) -> str:
    """Return the name of the backend whose worker *backend* is; its own where it is none."""
    name, _, _ = backend.rpartition(".")
    count = workers.get(pool, {}).get(name, 0)
    return name if any(backend == worker_name(name, each) for each in range(count)) else backend
