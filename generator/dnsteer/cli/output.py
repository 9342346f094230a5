"""How the command speaks: exit codes, errors, JSON for programs and tables for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from dnsteer.spec.errors import SpecError, escape
from dnsteer.switch.tools import NotPermittedError, SwitchError, UnavailableError

if TYPE_CHECKING:
    from dnsteer.spec.load import Loaded


class Exit(IntEnum):
    """Exit codes, the same for every verb. 64 and up are those of sysexits.h."""

    OK = 0
    ERROR = 1
    DIFFERENT = 2
    USAGE = 64
    UNAVAILABLE = 69
    NO_PERMISSION = 77
    INTERRUPTED = 130


# No emoji: rich would draw one in 2001:db8:a:b::1.
out = Console(highlight=False, soft_wrap=True, emoji=False)
if not out.is_terminal and "COLUMNS" not in os.environ:
    out.width = 200  # in files and pipes rich would take 80, and tables lose columns
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec, a YAML file.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def print_json(value: Any) -> None:
    """Print *value* as JSON."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def fail(message: str, code: Exit, *, as_json: bool = False) -> NoReturn:
    """Say what went wrong, on standard error or as JSON on standard output, and leave."""
    if as_json:
        print_json({"ok": False, "error": message})
    else:
        lines = [escape(line) for line in message.splitlines()]  # nothing that a terminal would obey
        err.print("\n".join(["dnsteer: " + lines[0], *lines[1:]]), markup=False)
    raise typer.Exit(code)


interrupted: list[str] = []
"""What is left by a verb that was interrupted, for the last message."""


@contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """Turn the errors that users can cause into messages and exit codes. Others are bugs and show a traceback."""
    try:
        yield
    except SpecError as error:
        if as_json:
            print_json({"ok": False, "errors": [f.as_json(error.file) for f in error.findings], "more": error.more})
        else:
            err.print(error.text(), markup=False)
        raise typer.Exit(Exit.ERROR) from None
    except UnavailableError as error:
        fail(str(error), Exit.UNAVAILABLE, as_json=as_json)
    except NotPermittedError as error:
        fail(str(error), Exit.NO_PERMISSION, as_json=as_json)
    except PermissionError as error:
        fail(f"{_where(error)}; run as root or as the owner", Exit.NO_PERMISSION, as_json=as_json)
    except BrokenPipeError:
        raise  # the reader of our output has seen enough
    except OSError as error:
        fail(_where(error), Exit.ERROR, as_json=as_json)
    except SwitchError as error:
        fail(str(error), Exit.ERROR, as_json=as_json)
    except KeyboardInterrupt as error:
        if str(error):
            interrupted.append(str(error))
        raise typer.Exit(Exit.INTERRUPTED) from None


def _where(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)


def load(file: Path, as_json: bool = False) -> Loaded:
    """Load the spec and print its warnings."""
    from dnsteer.spec.load import load_spec  # here, since the quick verbs do without

    loaded = load_spec(file)
    if not as_json:
        from dnsteer.plan.selection import uneven

        for warning in (*loaded.warnings, *uneven(loaded)):
            err.print(f"warning: {warning.text(loaded.file)}", markup=False)
    return loaded
