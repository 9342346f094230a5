"""The `dnsteer` command: verbs are registered here, each does its work in a module of its own."""

from __future__ import annotations

import sys

import typer

from dnsteer.cli import change, files, lab, prove
from dnsteer.cli.output import Exit, err

app = typer.Typer(
    name="dnsteer",
    help="DNS load balancing in Open vSwitch: one YAML spec becomes proven, offloadable OpenFlow.",
    epilog="Exit codes: 0 done, 1 error, 2 the switch differs from the spec, 64 wrong usage, "
    "69 Open vSwitch missing or unreachable, 77 root needed, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
files.register(app)
prove.register(app)
change.register(app)
app.add_typer(lab.app, name="lab")


# Newer versions of typer carry click inside, older ones depend on it: this is UsageError in both.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def run() -> None:
    """Entry point. Usage errors leave with 64, since 2 means that the switch differs."""
    try:
        code = app(standalone_mode=False)
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]
        code = Exit.USAGE
    except typer.Exit as error:
        code = error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        err.print("dnsteer: interrupted; nothing is left half done")
        code = Exit.INTERRUPTED
    except BrokenPipeError:
        code = Exit.OK
    sys.exit(int(code or 0))


if __name__ == "__main__":
    run()
