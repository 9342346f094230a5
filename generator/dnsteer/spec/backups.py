# SPDX-License-Identifier: Apache-2.0
"""The backends of a pool's backup as members of the pool: they stand by with weight 0 until the agent gives them theirs.

So all flows and probes of them are there, and are proven, before they are needed; then only slots move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Path
from dnsteer.spec.model.spec import Pool, Spec, State

_T = TypeVar("_T")


def with_backups(spec: Spec, *, standby: bool = True) -> Spec:
    """Return the spec with the backends of backups added to their pools; unless they *stand by*, with their weights."""
    if not any(pool.backup for pool in spec.pools.values()):
        return spec
    pools = dict(spec.pools)
    for name, pool in spec.pools.items():
        if pool.backup is None or pool.backup.pool not in spec.pools:
            continue
        more = spec.pools[pool.backup.pool].backends
        added = [b.model_copy(update={"weight": 0}) for b in more] if standby else more
        pools[name] = pool.model_copy(update={"backends": [*pool.backends, *added]})
    return spec.model_copy(update={"pools": pools})


def standby_weights(spec: Spec, pool: Pool) -> Mapping[str, int]:
    """Return the weight that each backend of a pool's backup joins with; without those that the spec has down."""
    if pool.backup is None:
        return {}
    # A pool that is a backup has none itself, so all of these are its own.
    return {b.name: b.weight for b in spec.pools[pool.backup.pool].backends if b.weight and b.state is State.UP}


def with_lines(doc: Document, spec: Spec) -> Document:
    """Return the document of *spec*, in which backends that backups add to pools have the places where they are written."""
    sources: dict[Path, list[tuple[str, int]]] = {}
    for name, pool in spec.pools.items():
        if pool.backup is not None:
            sources.setdefault(("pools", pool.backup.pool, "backends"), []).append((name, len(pool.backends)))

    def added(known: Mapping[Path, _T]) -> dict[Path, _T]:
        """What is known of the backends, also where they are added."""
        out = dict(known)
        for path, value in known.items():
            if len(path) > 3 and isinstance(path[3], int):
                for name, own in sources.get(path[:3], ()):
                    at: Path = ("pools", name, "backends", own + path[3], *path[4:])
                    out[at] = value
        return out

    parts = {(*source, index): doc.part((*source, index)) for source in sources for index in _entries(doc, source)}
    return replace(
        doc,
        lines=added(doc.lines),
        parts=added({**parts, **doc.parts}) if doc.parts else {},
        written_at=added(doc.written_at),
        origins=added(doc.origins),
    )


def _entries(doc: Document, path: Path) -> range:
    """The indices of a list of the document."""
    size = 0
    while (*path, size) in doc.lines:
        size += 1
    return range(size)
