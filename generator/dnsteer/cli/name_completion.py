"""What a shell completes on the command line: names of pools, backends, VIPs, bridges and states on record.

Nothing here says anything or fails: where the switch cannot be asked there is nothing to complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from dnsteer.slots.maintenance import Kind
    from dnsteer.switch.session import Session
    from dnsteer.switch.state import AppliedState, BridgeRecord

_PATIENCE = 1.0
"""Seconds for the database: somebody has pressed a key and waits."""
Complete = Callable[[typer.Context, str], list[str]]


def backends(kind: Kind | None = None) -> Complete:
    """Completes POOL/BACKEND; with *kind* those of which the overlay has an entry of that kind."""

    def found(state: AppliedState, record: BridgeRecord) -> Iterator[str]:
        if kind is not None:
            yield from (entry.name for entry in record.overlay if entry.kind == kind)
            return
        yield from _backends(state)

    return _completes(found)


def _backends(state: AppliedState) -> Iterator[str]:
    yield from (f"{members.pool}/{member.name}" for members in state.members for member in members.members)


def _all_names(state: AppliedState, _: BridgeRecord) -> Iterator[str]:
    yield from (members.pool for members in state.members)
    yield from state.vips
    yield from _backends(state)


def _vips_and_backends(state: AppliedState, _: BridgeRecord) -> Iterator[str]:
    yield from state.vips
    yield from _backends(state)


def _completes(names: Callable[[AppliedState, BridgeRecord], Iterable[str]]) -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        def read(session: Session) -> Iterable[str]:
            record = session.record_of(ctx.params.get("bridge"))
            return names(session.state(record, record.number), record)

        given = {word for value in ctx.params.values() if isinstance(value, (list, tuple)) for word in value}
        return [name for name in _read(ctx, read, incomplete) if name not in given]

    return complete


def states(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes numbers of states that are kept, newest first."""

    def read(session: Session) -> Iterable[str]:
        from dnsteer.switch.state import AppliedState

        found = session.states(session.record_of(ctx.params.get("bridge")))
        return (str(state.number) for state in found if isinstance(state, AppliedState))

    return _read(ctx, read, incomplete)


def bridges(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the bridges that are dnsteer's."""
    return _read(ctx, lambda session: session.bridges(), incomplete)


def _read(ctx: typer.Context, names: Callable[[Session], Iterable[str]], incomplete: str) -> list[str]:
    """The names that begin so, of those read from the switch of the command line."""
    from dnsteer.switch.control_socket import default_remote
    from dnsteer.switch.session import Session

    remote = ctx.params.get("db") or os.environ.get("DNSTEER_DB") or default_remote()
    try:
        with Session(str(remote), _PATIENCE) as session:
            return list(dict.fromkeys(name for name in names(session) if name.startswith(incomplete)))
    except Exception:  # noqa: BLE001 - a shell that completes shows no errors
        return []


all_names = _completes(_all_names)
vips = _completes(lambda state, _: state.vips)
vips_and_backends = _completes(_vips_and_backends)
