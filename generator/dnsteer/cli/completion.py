"""Completion for shells: print the script, or install it in the home directory, by typer's functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import typer
from typer.completion import get_completion_script, install  # type: ignore[attr-defined]

from dnsteer.cli.output import Exit

_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_CHANGED = (".bashrc", ".zshrc")


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
    script = get_completion_script(prog_name=name, complete_var=f"_{name.upper()}_COMPLETE", shell=shell)
    sys.stdout.write(script + "\n")
    return 0


def install_here(name: str, shell: str | None) -> int:
    """Install it for *shell*, or for the one that this runs under. Its exit code; what cannot be written is named."""
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
