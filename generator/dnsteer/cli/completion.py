# SPDX-License-Identifier: Apache-2.0
"""Completion for shells: its script by typer's functions, and the names of pools, backends, VIPs, bridges and states.

What completes a name prints nothing and raises nothing: where the switch cannot be asked there is nothing to complete.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dnsteer.cli.output import Exit

if TYPE_CHECKING:
    from dnsteer.slots.maintenance import Kind
    from dnsteer.switch.session import Session
    from dnsteer.switch.state import AppliedState, BridgeRecord


_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_CHANGED = (".bashrc", ".zshrc")
_PATIENCE = 1.0
"""Seconds for the database: somebody has pressed a key and waits."""
Complete = Callable[[typer.Context, str], list[str]]


def verb_of(environ: Mapping[str, str]) -> str | None:
    """The verb of the line that a shell completes, once it is a whole word: its module alone is loaded, which is quicker."""
    line = environ.get("COMP_WORDS") or environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = line.split()
    last = len(words) - (0 if line[-1:].isspace() else 1)  # which word is completed
    number = environ.get("COMP_CWORD", "")
    last = int(number) if number.isdecimal() else last
    return words[1] if len(words) > 1 and last > 1 else None


def print_script(name: str, shell: str) -> int:
    """Print the script of *shell*: typer's own option looks which shell it runs under. Its exit code."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # no verb needs it

    script = get_completion_script(prog_name=name, complete_var=f"_{name.upper()}_COMPLETE", shell=shell)
    sys.stdout.write(script + "\n")
    return 0


def install_here(name: str, shell: str | None) -> int:
    """Install it for *shell*, or for the one that this runs under. Its exit code; what cannot be written is named."""
    from typer.completion import install  # type: ignore[attr-defined]

    if shell is not None and shell not in _SHELLS:
        sys.stderr.write(f"{name}: --install-completion: found {shell!r}; expected one of {', '.join(_SHELLS)}\n")
        return Exit.USAGE
    try:
        home = Path.home()
    except RuntimeError:
        return _refuse(name, "no home directory: HOME is not set")
    if os.environ.get("HOME") == "" or not home.is_absolute() or not home.is_dir():
        return _refuse(name, f"{os.environ.get('HOME')!r}, of the variable HOME, is no directory")
    before = {file: file.read_bytes() for file in (home / n for n in _CHANGED) if os.access(file, os.R_OK)}
    try:
        _, path = install(shell=shell, prog_name=name)
    except typer.Exit:
        sys.stderr.write(f"{name}: name the shell: {name} --install-completion bash\n")
        return Exit.ERROR
    except OSError as error:
        for file, content in before.items():  # typer truncates them before it writes
            with suppress(OSError):
                if file.read_bytes() != content:
                    file.write_bytes(content)
        return _refuse(name, f"{error.filename or home}: {error.strerror or error}")
    sys.stdout.write(f"{path}: installed; completion begins with the next shell\n")
    return 0


def _refuse(name: str, why: str) -> int:
    advice = (
        f"set HOME to a directory that this user can write to, or install by hand: {name} --show-completion bash > FILE"
    )
    sys.stderr.write(f"{name}: --install-completion: {why}; {advice}\n")
    return Exit.ERROR


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

        typed = {word for value in ctx.params.values() if isinstance(value, (list, tuple)) for word in value}
        return [name for name in _read(ctx, read, incomplete) if name not in typed]

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
denied = _completes(lambda _, record: (denial.prefix for denial in record.overlay.denials))
vips_and_backends = _completes(_vips_and_backends)
