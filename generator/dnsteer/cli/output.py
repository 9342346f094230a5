"""How the command speaks: exit codes, errors, JSON for programs and tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from dnsteer.lab.errors import LabError, NotRootError
from dnsteer.spec.errors import SpecError
from dnsteer.spec.load import Loaded, load_spec
from dnsteer.switch.tools import SwitchError, Unavailable


class Exit(IntEnum):
    """Exit codes, the same for every verb. 64 and up are those of sysexits.h."""

    OK = 0
    ERROR = 1
    DIFFERENT = 2
    USAGE = 64
    UNAVAILABLE = 69
    NO_PERMISSION = 77
    INTERRUPTED = 130


out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec, a YAML file.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def print_json(value: Any) -> None:
    """Print *value* as JSON."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def fail(message: str, code: Exit) -> NoReturn:
    """Say what went wrong on standard error and leave."""
    err.print(f"dnsteer: {message}", markup=False)
    raise typer.Exit(code)


@contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """Turn the errors that users can cause into messages and exit codes. Others are bugs and show a traceback."""
    try:
        yield
    except SpecError as error:
        if as_json:
            print_json({"ok": False, "errors": [f.as_json(error.file) for f in error.findings]})
        else:
            err.print(error.text(), markup=False)
        raise typer.Exit(Exit.ERROR) from None
    except Unavailable as error:
        fail(str(error), Exit.UNAVAILABLE)
    except NotRootError as error:
        fail(str(error), Exit.NO_PERMISSION)
    except PermissionError as error:
        fail(f"{error.filename}: {error.strerror}; run as root or as the owner", Exit.NO_PERMISSION)
    except (SwitchError, LabError, OSError) as error:
        fail(str(error), Exit.ERROR)
    except KeyboardInterrupt:
        fail("interrupted; nothing is left half done", Exit.INTERRUPTED)


def load(file: Path, as_json: bool = False) -> Loaded:
    """Load the spec and print its warnings."""
    loaded = load_spec(file)
    if not as_json:
        for warning in loaded.warnings:
            err.print(f"warning: {warning.text(loaded.file)}", markup=False)
    return loaded
