# SPDX-License-Identifier: Apache-2.0
"""What verbs that work on a running switch have in common: how it is reached, and asking before much is changed."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dnsteer.cli.agent_client import StuckError, ask_agent
from dnsteer.cli.completion import bridges
from dnsteer.cli.output import err, reporting
from dnsteer.cli.remote_options import (
    CaCert,
    Certificate,
    Db,
    ExtensionSocket,
    OpenFlowTarget,
    PrivateKey,
    Timeout,
    use_tls,
)
from dnsteer.deploy.bounded_lists import bounded_alike
from dnsteer.deploy.decision import DECISION, IDS, deciding
from dnsteer.deploy.target_switch import Confirm, Progress, TargetSwitch, silent
from dnsteer.spec.errors import Finding, escape, warning_lines
from dnsteer.spec.source import SENT_FILES, UnreadableError, read_whole
from dnsteer.switch.control_socket import default_remote, find_socket
from dnsteer.switch.session import NoBridgeError
from dnsteer.switch.tools import SwitchError, UnavailableError, reworded

Bridge = Annotated[
    str | None,
    typer.Option(
        "--bridge", metavar="NAME", help="The bridge to use, if dnsteer manages several.", autocompletion=bridges
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation, even when more than half of a pool moves.")
]
NeverAsks = Annotated[
    bool,
    typer.Option(
        "--yes", "-y", help="Accepted for scripts; giving a backend its own slots back never needs confirmation."
    ),
]
MAX_NOTE = 500
_FILES = {"spec", "plan"}
"""Arguments whose files an agent is given. A verb that writes a file does its work itself."""
_MAX = 16 << 20


def _note(text: str) -> str:
    """A note, which stands in the switch's database and on one line of status and history."""
    if len(text) > MAX_NOTE:
        raise typer.BadParameter(f"found {len(text)} characters; expected at most {MAX_NOTE}")
    strange = next((c for c in text if not c.isprintable()), None)
    if strange is not None:
        raise typer.BadParameter(
            f"found the character {strange!a}; expected one line of text without control characters"
        )
    return text


Note = Annotated[
    str,
    typer.Option(
        "--note",
        metavar="TEXT",
        help=f"Why, in at most {MAX_NOTE} characters; shown by status and history.",
        callback=_note,
    ),
]


def _options(
    db: Db = "",
    openflow: OpenFlowTarget = None,
    timeout: Timeout = 10,
    private_key: PrivateKey = None,
    certificate: Certificate = None,
    ca_cert: CaCert = None,
    extension: ExtensionSocket = None,
) -> TargetSwitch:
    use_tls(private_key, certificate, ca_cert)
    return TargetSwitch(db, openflow, timeout, extension or None)


@contextmanager
def _adding_lab_hint(remote: str) -> Iterator[None]:
    """Where this machine's own switch is absent or has no spec, and a lab is up, say how the lab's is reached."""
    try:
        yield
    except (UnavailableError, NoBridgeError) as err:
        from dnsteer.lab.names import DB_SOCKET

        if remote != default_remote() or not DB_SOCKET.exists():
            raise
        hint = f"a lab is up, whose switch is another one: export DNSTEER_DB=unix:{DB_SOCKET}"
        raise reworded(err, f"{err}\n    hint: {hint}") from None


@dataclass(frozen=True)
class AgentContext:
    """What the agent that does a verb has for it: the *switch* that it knows, and *ask*, which asks the operator."""

    switch: TargetSwitch
    ask: Confirm


AGENT_CONTEXT: ContextVar[AgentContext | None] = ContextVar("agent_context", default=None)
"""Set where an agent does the verb."""


def on_switch(verb: Callable[..., None], *, sends_files: bool = False) -> Callable[..., None]:
    """Add the connection options (--db, --openflow, ...) to *verb*, whose first parameter `switch` is a TargetSwitch.

    Its errors are reported, as JSON when it has a parameter `json` that is set. With *sends_files* an agent of
    the switch, if there is one, carries it out with the files that it reads; verbs without files are handed over earlier.
    """
    own = inspect.signature(verb, eval_str=True)
    options = inspect.signature(_options, eval_str=True).parameters

    @functools.wraps(verb)
    def run(**arguments: Any) -> None:
        with reporting(bool(arguments.get("json"))), ExitStack() as without_agent:
            switch = _options(**{name: arguments.pop(name) for name in options})
            agent = AGENT_CONTEXT.get()
            if agent is not None and agent.switch.remote == switch.remote:
                switch = replace(
                    agent.switch, openflow=switch.openflow, timeout=switch.timeout, extension=switch.extension
                )
            elif sends_files and agent is None:
                code = _through_agent(switch, arguments, without_agent)
                if code is not None:
                    raise typer.Exit(code)
            with (
                deciding(DECISION.get() or IDS.next()),
                _adding_lab_hint(switch.remote),
            ):  # agents give those they carry out
                verb(switch, **arguments)

    kept = [p for name, p in own.parameters.items() if name != "switch"]
    both = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*kept, *options.values())]
    run.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in both}
    return run


def _through_agent(switch: TargetSwitch, arguments: Mapping[str, Any], without_agent: ExitStack) -> int | None:
    """Let an agent carry out a verb that reads files; its exit code, or None where there is no agent.

    Other verbs were passed on before their arguments were read. *without_agent* is entered with what the files hold, since
    standard input cannot be read a second time.
    """
    path = find_socket(switch.remote, arguments.get("bridge"))
    files = {name: file for name, file in arguments.items() if isinstance(file, Path)}
    if path is None or not files or files.keys() - _FILES:
        return None
    named = {"--db": switch.remote, "--openflow": switch.openflow, "--extension": switch.extension}
    options = [word for name, value in named.items() if value for word in (name, value)]
    try:
        sent = {file: _text_to_send(name, file) for name, file in files.items()}
    except (OSError, ValueError, UnreadableError):
        return None  # the verb itself says why
    try:
        contents = {str(file): text for file, (text, _) in sent.items()}
        code = ask_agent(path, sys.argv[1:], options, contents)
    except StuckError as error:
        raise UnavailableError(str(error)) from None
    if code is None:
        without_agent.callback(SENT_FILES.reset, SENT_FILES.set(contents))
    if not arguments.get("json"):
        for file, (_, warnings) in sent.items():
            for text in warning_lines(warnings, str(file)):
                err.print(f"warning: {text}")
    return code


def _text_to_send(name: str, file: Path) -> tuple[bytes, tuple[Finding, ...]]:
    if name != "spec":
        return read_whole(file, _MAX), ()
    from dnsteer.spec.read import text_to_send  # here, since the quick verbs do without

    return text_to_send(file)


def progress(json: bool) -> Progress:
    """Progress on standard error, none with JSON."""
    return silent if json else lambda text: err.print(text)


def confirm(yes: bool, json: bool) -> Confirm | None:
    """Return what asks in a terminal, after saying what would change, and elsewhere refuses; None with --yes."""
    return None if yes else _ask(json)


def _ask(json: bool) -> Confirm:

    def ask(reasons: list[str], words: list[str]) -> None:
        agent = AGENT_CONTEXT.get()
        if agent is not None:
            agent.ask(reasons, words)
            return
        why = "\n".join(reasons if json else bounded_alike(reasons))
        if json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise SwitchError(f"{why}\nnothing was changed; to do it anyway: --yes")
        would = "\n  ".join(["would change:", *map(escape, words)])
        err.print(f"{would}\n{why}")
        if not typer.confirm("Go on?", err=True):
            raise SwitchError("nothing was changed")

    return ask


def seconds(text: str) -> float:
    """A time such as 90, 90s, 15m, 2h or 1d in seconds. Raises typer.BadParameter."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        value = float(number) * unit
    except ValueError:
        value = -1
    if not 0 < value <= 366 * 86400:
        raise typer.BadParameter(f"found {text!r}; expected a time up to a year, such as 90s, 15m, 2h or 1d")
    return value


_LEAST_INTERVAL = 0.5
"""Seconds: the switch does not add up its counters more often."""


def _interval(text: str) -> float:
    value = seconds(text)
    if value < _LEAST_INTERVAL:
        raise typer.BadParameter(
            f"found {text!r}; expected at least {_LEAST_INTERVAL:g} s: switches do not count more often"
        )
    return value


Interval = Annotated[
    float,
    typer.Option(
        "--interval",
        metavar="TIME",
        parser=_interval,
        help="Time over which rates are measured. The switch updates its counters about every half second, and status waits "
        "for that (up to 0.6 s before and after): rates over 1 s are right within a few per cent.",
    ),
]
