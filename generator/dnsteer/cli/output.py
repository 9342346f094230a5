# SPDX-License-Identifier: Apache-2.0
"""How the command speaks: exit codes, errors, JSON for programs and tables for people."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO, cast

import typer

from dnsteer.spec.errors import DefinitionError, SpecError, escape
from dnsteer.switch.tools import NotPermittedError, SwitchError, UnavailableError

if TYPE_CHECKING:
    from dnsteer.cli.charset_console import CharsetConsole
    from dnsteer.spec.document import Document
    from dnsteer.spec.errors import Finding
    from dnsteer.spec.loaded import Loaded
    from dnsteer.status.switch_status import Status
    from dnsteer.view.attention_item import AttentionItem


class Exit(IntEnum):
    """Exit codes, the same for every verb. 64 and up are those of sysexits.h."""

    OK = 0
    ERROR = 1
    DIFFERENT = 2
    ATTENTION = 3
    NOT_SERVING = 4
    USAGE = 64
    UNAVAILABLE = 69
    NO_PERMISSION = 77
    INTERRUPTED = 130


def status_exit_code(status: Status, items: Sequence[AttentionItem]) -> Exit:
    """The exit code that says how a switch is, by what needs attention of it. Notes and settings of others do not count."""
    from dnsteer.view.status_attention import needs_attention  # here, since most verbs do without

    if status.unreachable:
        return Exit.UNAVAILABLE
    if any(item.vips for item in items):
        return Exit.NOT_SERVING
    if status.errors:
        return Exit.ERROR
    if needs_attention(status, items):
        return Exit.ATTENTION
    return Exit.DIFFERENT if status.different else Exit.OK


_MOVES = dict.fromkeys([7, 8, 11, 12, 13])  # bell, backspace, vertical tab, form feed, carriage return


_STREAMS = {"stdout": "standard output", "stderr": "standard error"}


@dataclass(frozen=True)
class Redirected:
    """Where output goes instead, by the name of its stream, and the terminal that it is for: its environment variables."""

    files: Mapping[str, TextIO]
    environ: Mapping[str, str]
    terminal: bool


REDIRECTED: ContextVar[Redirected | None] = ContextVar("redirected", default=None)


class OutputStream:
    """Standard output or standard error: lines as they stand, and tables by rich. Errors of writing name it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._here: CharsetConsole | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    @property
    def file(self) -> TextIO:
        """The stream."""
        elsewhere = REDIRECTED.get()
        stream: TextIO = elsewhere.files[self._name] if elsewhere is not None else getattr(sys, self._name)
        return stream

    def print(self, text: str, end: str = "\n") -> None:
        """Print *text* without the characters that move a cursor or ring; what others wrote goes through `escape` before."""
        self.write(text.translate(_MOVES) + end)
        self.flush()

    def write(self, text: str) -> int:
        """Write *text* as it is. Raises OSError."""
        with self._named():
            return self.file.write(text)

    def write_document(self, text: str) -> None:
        """Write a spec or a page as it is: in UTF-8, which it says of itself, whatever the charset of the terminal.

        Raises OSError.
        """
        binary = getattr(self.file, "buffer", None)
        if binary is None or self.file.isatty():  # what a terminal lacks is spelled as an escape
            self.write(text)
            return
        with self._named():
            self.file.flush()
            binary.write(text.encode(errors="backslashreplace"))
        self.flush()

    def flush(self) -> None:
        """Write what was kept back. Raises OSError."""
        with self._named():
            self.file.flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), _STREAMS[self._name]) from error

    @property
    def rich(self) -> CharsetConsole:
        """For tables and the like; imported only then, since the quick verbs print lines."""
        elsewhere = REDIRECTED.get()
        if elsewhere is not None:
            return self._console(elsewhere.environ, elsewhere.terminal)
        if self._here is None:
            self._here = self._console(os.environ)
        return self._here

    @property
    def has_screen(self) -> bool:
        """Whether it is a terminal whose whole screen can be used."""
        return self.rich.is_terminal and not self.rich.is_dumb_terminal

    def _console(self, environ: Mapping[str, str], terminal: bool | None = None) -> CharsetConsole:
        from dnsteer.cli.charset_console import CharsetConsole

        # No emoji: rich would draw one in 2001:db8:a:b::1.
        console = CharsetConsole(
            file=cast("TextIO", self),
            highlight=False,
            soft_wrap=True,
            emoji=False,
            force_terminal=terminal,
            _environ=environ,
        )
        if not console.is_terminal and "COLUMNS" not in environ:
            console.width = 200  # in files and pipes rich would take 80, and tables lose columns
        return console


out, err = OutputStream("stdout"), OutputStream("stderr")

SPEC_HELP = "The spec, a YAML file; - for standard input."
SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False)]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show every warning, even where many are alike.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def hanging(lines: Iterable[str]) -> list[str]:
    """*lines* below a heading: in a terminal broken between words, the rest of each further in."""
    width = out.rich.width if out.isatty() else 0
    found = list[str]()
    for line in lines:
        indent = " " * (2 + len(line) - len(line.lstrip()))
        if len(indent) + len(line.lstrip()) <= width or not width:
            found.append(f"  {line}")
            continue
        found += textwrap.wrap(
            line.lstrip(),
            max(width, 40),
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return found


def print_json(value: Any) -> None:
    """Print *value* as JSON."""
    out.write(json.dumps(value, indent=2) + "\n")
    out.flush()


def fail(message: str, code: Exit, *, as_json: bool = False) -> NoReturn:
    """Say what went wrong, on standard error or as JSON on standard output, and leave."""
    if as_json:
        print_json({"ok": False, "error": message})
    else:
        lines = [escape(line) for line in message.splitlines()]  # nothing that a terminal would obey
        err.print("\n".join(["dnsteer: " + lines[0], *lines[1:]]))
    raise typer.Exit(code)


def utc(time: str) -> str:
    """A recorded time, in UTC, to the minute."""
    try:
        return datetime.fromisoformat(time).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return escape(time)


def passed(since: str, now: datetime) -> str:
    """How long it is from a recorded time until *now*, such as `3 min`; `?` where that cannot be read."""
    try:
        seconds = int((now - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError):
        return "?"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(0, seconds)} s"


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
            err.print(error.text())
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
    except (SwitchError, DefinitionError) as error:
        fail(str(error), Exit.ERROR, as_json=as_json)
    except KeyboardInterrupt as error:
        if str(error):
            interrupted.append(str(error))
        raise typer.Exit(Exit.INTERRUPTED) from None


def _where(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)


def load_and_warn(file: Path, as_json: bool = False, verbose: bool = False) -> Loaded:
    """Load the spec and print its warnings, those that are alike on one line unless *verbose*."""
    from dnsteer.spec.read import read_document  # here, since the quick verbs do without

    return check_and_warn(read_document(file), as_json, verbose)


def check_and_warn(document: Document, as_json: bool = False, verbose: bool = False) -> Loaded:
    """Check a spec that was read, and print its warnings as `load_and_warn` does."""
    from dnsteer.checks.load import check_document
    from dnsteer.spec.errors import warning_lines

    loaded = check_document(document)
    if not as_json:
        found = _warnings(loaded)
        for text in [w.text(loaded.file) for w in found] if verbose else warning_lines(found, loaded.file):
            err.print(f"warning: {text}")
    return loaded


def spec_warnings(loaded: Loaded) -> dict[str, Any]:
    """All warnings about the spec, for JSON."""
    return {"spec_warnings": [w.as_json(loaded.file) for w in _warnings(loaded)]}


def _warnings(loaded: Loaded) -> list[Finding]:
    from dnsteer.plan.pool_slots import uneven_shares

    return [*loaded.warnings, *uneven_shares(loaded)]
