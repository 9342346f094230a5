# SPDX-License-Identifier: Apache-2.0
"""Workers: several servers of one host, on neighbouring ports. Each becomes a backend of its own once the spec is read.

So slots, weights, health, maintenance and balance treat a worker as any other backend. Only forwarding by NAT and what asks
backends directly look at its port.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dnsteer.spec.model.spec import Backend, Pool, Spec
from dnsteer.spec.worker_names import worker_name


class Worker(Backend):
    """Number *number*, from 0, of the workers of the backend *host_name* of the spec. Its name is made of both."""

    host_name: str
    number: int

    @property
    def port_offset(self) -> int:
        """Its number: worker 0 listens at the target port itself."""
        return self.number

    @property
    def host(self) -> str:
        """The name of the backend in the spec."""
        return self.host_name


def has_workers(pool: Pool) -> bool:
    """Whether a backend of the pool has workers, or is one."""
    return any(b.workers is not None or isinstance(b, Worker) for b in pool.backends)


def with_workers(spec: Spec) -> Spec:
    """Return the spec with a backend for each worker, in place of the one that has them."""
    found = {name: pool for name, pool in spec.pools.items() if any(b.workers for b in pool.backends)}
    if not found:
        return spec
    pools = {
        name: pool.model_copy(update={"backends": [w for b in pool.backends for w in _workers(b)]})
        for name, pool in found.items()
    }
    return spec.model_copy(update={"pools": {**spec.pools, **pools}})


def _workers(backend: Backend) -> Iterator[Backend]:
    if backend.workers is None:
        yield backend
        return
    given = {key: value for key, value in backend if key not in ("name", "workers")}
    for number in range(backend.workers):
        yield Worker.model_construct(
            name=worker_name(backend.name, number), host_name=backend.name, number=number, **given
        )


def positions_in_file(spec: Spec) -> dict[str, Sequence[int]]:
    """Return where each backend of `with_workers` stands in the list that was written, by pool; none for equal lists.

    Behind a pool's own backends are those that its backup adds to it.
    """
    written = {
        name: [i for i, b in enumerate(pool.backends) for _ in range(b.workers or 1)]
        for name, pool in spec.pools.items()
    }
    out: dict[str, Sequence[int]] = {}
    for name, pool in spec.pools.items():
        more = spec.pools.get(pool.backup.pool) if pool.backup is not None else None
        if has_workers(pool) or (more is not None and has_workers(more)):
            added = written[pool.backup.pool] if pool.backup is not None and more is not None else []
            out[name] = [*written[name], *(len(pool.backends) + i for i in added)]
    return out


def named(pool: Pool, name: str) -> list[Backend]:
    """Return the backends that a name stands for: all workers, for that of their host."""
    return [b for b in pool.backends if b.name == name] or [b for b in pool.backends if b.host == name]


def worker_counts(spec: Spec) -> dict[str, dict[str, int]]:
    """Return how many workers each host has, by pool and name of the host; pools without workers are left out."""
    out: dict[str, dict[str, int]] = {}
    for name, pool in spec.pools.items():
        for backend in pool.backends:
            if isinstance(backend, Worker):
                out.setdefault(name, {})[backend.host] = backend.number + 1
    return out
