# SPDX-License-Identifier: Apache-2.0
"""The `dnsteer` command: verbs are registered here, each does its work in a module of its own.

Little is imported at the top, so that Ctrl-C is handled soon after the start.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from dnsteer.cli.charset import set_up_streams

if TYPE_CHECKING:
    import typer

NAME = "dnsteer"
_ERROR, _USAGE, _INTERRUPTED = 1, 64, 130  # as in output.Exit
_GC_THRESHOLD = 100_000
"""New objects between two garbage collections: a start makes many, and none is garbage."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_signals_received: list[int] = []  # signals that asked to end


# The verbs with their modules, as `--help` groups and orders them. Only the module of the verb that is asked for is loaded:
# with all of them the command takes twice as long to start, which counts when a backend has failed.
_GROUPS = {
    "Write a spec": {"init": "init", "render": "render", "schema": "render"},
    "Prove it": {"check": "check", "explain": "explain", "lint": "lint"},
    "Deploy": {
        "plan": "deploy",
        "apply": "deploy",
        "verify": "deploy",
        "history": "history",
        "show": "history",
        "rollback": "history",
        "restore": "history",
    },
    "Operate": {
        "status": "status",
        "top": "top",
        "drain": "backends",
        "undrain": "backends",
        "down": "backends",
        "up": "backends",
        "weight": "weight",
        "deny": "deny",
        "undeny": "deny",
        "withdraw": "announce",
        "announce": "announce",
        "role": "role",
        "vrrp": "role",
        "forwards": "role",
        "reconcile": "backends",
        "probes": "probes",
        "capture": "capture",
        "agent": "agent",
        "console-token": "console_token",
        "report": "report",
    },
    "Hardware": {"bringup": "bringup", "capacity": "capacity"},
    "Lab": {"lab": "lab"},
    "About": {"version": "render"},
}
_HIDDEN = {"due": "backends"}
"""The earlier name of `reconcile`, for units that were installed with it."""
_MODULES = {verb: module for verbs in (*_GROUPS.values(), _HIDDEN) for verb, module in verbs.items()}


def application(verb: str | None = None) -> typer.Typer:
    """The command with all its verbs, or with only the one that is named."""
    import typer

    app = typer.Typer(
        name=NAME,
        help="DNS load balancing in Open vSwitch: one YAML spec becomes proven, offloadable OpenFlow.",
        epilog="Exit codes: 0 done, 1 error, 2 the switch differs from the spec, 3 it serves but needs attention, "
        "4 a VIP does not serve, 64 wrong usage, 69 Open vSwitch missing or unreachable, 77 root needed, 130 interrupted.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()  # a command with a single verb would else be that verb
    def _(
        version: bool = typer.Option(
            False, "--version", help="Show the version.", callback=_say_version, is_eager=True
        ),
    ) -> None:
        pass

    known = verb in _MODULES
    for module in [_MODULES[verb]] if verb in _MODULES else dict.fromkeys(_MODULES.values()):
        _register(module, app)
    if known and verb != "lab":
        app.registered_commands = [c for c in app.registered_commands if c.name == verb]
        if not app.registered_commands:
            raise _mistake(f"the module {_MODULES[str(verb)]!r} for {verb}, which it does not register")
    if not known:
        _group(app)
    return app


def _register(module: str, app: typer.Typer) -> None:
    """Load a module of verbs and add them. Raises DefinitionError where _GROUPS names what is not one."""
    name = f"dnsteer.cli.{module}"
    try:
        register = getattr(importlib.import_module(name), "register", None)
    except ModuleNotFoundError as err:
        if err.name != name:
            raise
        raise _mistake(f"the module {module!r}, and there is no {name}; write it, or correct the name") from None
    if register is None:
        raise _mistake(f"the module {module!r}, which has no function register(app)")
    register(app)


def _mistake(what: str) -> Exception:
    from dnsteer.spec.errors import DefinitionError  # here, since a start is quick

    return DefinitionError(f"dnsteer/cli/main.py: _GROUPS names {what}")


def _group(app: typer.Typer) -> None:
    """Put the verbs into the groups of `--help`, and in their order."""
    group_of: dict[str | None, str] = {verb: group for group, verbs in _GROUPS.items() for verb in verbs}
    order = list(group_of)
    for command in app.registered_commands:
        command.rich_help_panel = group_of.get(command.name)
    for several in app.registered_groups:
        several.rich_help_panel = group_of.get(several.name)
    app.registered_commands.sort(key=lambda c: order.index(c.name) if c.name in order else len(order))


def _say_version(asked: bool) -> None:
    if asked:
        import typer

        from dnsteer import __version__

        sys.stdout.write(f"{NAME} {__version__}\n")
        raise typer.Exit


def run() -> None:
    """Entry point."""
    gc.set_threshold(_GC_THRESHOLD, 20, 20)
    _install_signal_handlers()
    if sys.stdout is None:  # closed by whoever started us (>&-)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - for the rest of the process
    set_up_streams()
    code = 0
    try:
        code = _run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except SystemExit as error:  # typer's way to end on `| head`
        code = error.code if isinstance(error.code, int) else _ERROR
    except BrokenPipeError:  # whoever reads has seen enough
        code = code or _ERROR
    except OSError as error:  # such as a full disk under standard output
        if not code:  # else it was said, and what was not written is tried again here
            _say(f"{error.filename or 'standard output'}: {error.strerror or error}")
        code = code or _ERROR
    except Exception as error:
        if not _signals_received and not _is_definition_error(error):
            raise
        code = _INTERRUPTED  # a library (pydantic) made an error of its own of the interrupt
        if not _signals_received:  # found when a module is loaded, before the verb begins
            _say(str(error))
            code = _ERROR
    for number in (*_ENDING, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)  # all that is left is to clean up
    if code == _INTERRUPTED:
        exec("")  # the interpreter would else end itself by SIGINT if this came inside of an exec(), as in dataclasses
        _say("; ".join(["interrupted", *_left_by_interrupt()]))
    _drop_unwritten()
    gc.freeze()  # else the interpreter searches a million objects for garbage on its way out
    sys.exit(code)


def _run() -> int:
    """Run the verb of the command line; its exit code. Usage errors are 64, since 2 means that the switch differs."""
    from dnsteer.cli.agent_client import hand_to_agent

    by_agent = hand_to_agent(sys.argv[1:]) if len(sys.argv) > 1 else None
    if by_agent is not None:
        return by_agent
    import typer

    # Newer versions of typer carry click inside, older ones depend on it: this is UsageError in both.
    usage_error: type[Exception] = typer.BadParameter.__bases__[0]
    try:
        first = sys.argv[1] if len(sys.argv) > 1 else None
        named = sys.argv[2] if len(sys.argv) == 3 else None
        if first == "--install-completion" and len(sys.argv) <= 3:
            from dnsteer.cli.completion import install_here

            return install_here(NAME, named)
        if first == "--show-completion" and named is not None:
            from dnsteer.cli.completion import print_script

            return print_script(NAME, named)
        verb = "version" if first == "--version" else first  # which needs none: one is loaded sooner than all
        if f"_{NAME.upper()}_COMPLETE" in os.environ:
            from dnsteer.cli.completion import verb_of

            verb = verb_of(os.environ)
        code: Any = application(verb)(prog_name=NAME, standalone_mode=False)
    except usage_error as error:
        error.show()  # type: ignore[attr-defined]
        return _USAGE
    except typer.Exit as error:
        code = error.exit_code
    except typer.Abort:
        code = _INTERRUPTED
    return int(code or 0)


def _install_signal_handlers() -> None:
    """Shut down in order on SIGINT, SIGTERM and SIGHUP, unless they are ignored from the start (nohup, `&`)."""

    def end(number: int, _frame: FrameType | None) -> None:
        _signals_received.append(number)
        raise KeyboardInterrupt

    obeyed = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in obeyed:
        signal.signal(number, end)
    if not obeyed:
        return
    # An interrupt inside of a destructor is lost there: the interpreter only reports it. It comes again a little later.
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(obeyed[0]))
    usual = sys.unraisablehook

    def unraisable(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.005)
        else:
            usual(what)

    sys.unraisablehook = unraisable


def _is_definition_error(error: Exception) -> bool:
    errors = sys.modules.get("dnsteer.spec.errors")
    return errors is not None and isinstance(error, errors.DefinitionError)


def _left_by_interrupt() -> list[str]:
    output = sys.modules.get("dnsteer.cli.output")
    return output.interrupted if output else []


def _say(text: str) -> None:
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write(f"{NAME}: {text}\n")


def _drop_unwritten() -> None:
    """Drop what could not be written, so that the interpreter does not try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    run()
