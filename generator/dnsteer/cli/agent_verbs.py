# SPDX-License-Identifier: Apache-2.0
"""The verbs that the agent carries out for others: as on the command line, with its own memory of the switch."""

from __future__ import annotations

import io
import traceback
from typing import TYPE_CHECKING, cast

import typer

from dnsteer.cli.agent_client import QUICK
from dnsteer.cli.main import NAME, application
from dnsteer.cli.output import REDIRECTED, Exit, Redirected
from dnsteer.cli.running_switch import AGENT_CONTEXT, AgentContext
from dnsteer.deploy.caller import CALLER, Caller
from dnsteer.deploy.decision import DECISION
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.source import SENT_FILES

if TYPE_CHECKING:
    from typing import TextIO

    from dnsteer.agent.control import Channel
    from dnsteer.agent.request import Request
    from dnsteer.events.event import EventSink

VERBS = (*QUICK, "plan", "apply")
_USAGE: type[Exception] = typer.BadParameter.__bases__[0]


class _ClientStream(io.TextIOBase):
    """A stream to the client."""

    def __init__(self, channel: Channel, name: str, request: Request) -> None:
        self._channel, self._name, self._request = channel, name, request

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the client's own stream, by which tables are laid out."""
        return self._request.encoding

    def write(self, text: str) -> int:
        """Send *text*."""
        self._channel.send(**{self._name: text})
        return len(text)

    def isatty(self) -> bool:
        """Whether it ends at a terminal."""
        return self._request.terminal


def run_request(say: EventSink, switch: TargetSwitch, request: Request, channel: Channel) -> int:
    """Carry a request out, in a thread of its own, and return its exit code. *say* gets a defect."""
    streams = (("stdout", "out"), ("stderr", "err"))
    said = {stream: cast("TextIO", _ClientStream(channel, name, request)) for stream, name in streams}
    REDIRECTED.set(Redirected(said, request.environ, request.terminal))
    SENT_FILES.set(request.files)
    CALLER.set(Caller(request.by, channel.pause, channel.previewed))
    AGENT_CONTEXT.set(AgentContext(switch, channel.ask))
    DECISION.set(request.decision)
    try:
        return _run([*request.argv, *request.options], said["stderr"])
    except Exception:  # noqa: BLE001 - a bug in a verb must not end the agent
        for line in traceback.format_exc().splitlines():
            say(line, "verb_failed", "error", verb=request.argv[0], decision=request.decision)
        said["stderr"].write(f"{NAME}: the agent failed to carry this out, and its log says how\n")
        return Exit.ERROR


def _run(argv: list[str], err: TextIO) -> int:
    if argv[0] not in VERBS:
        err.write(f"{NAME}: the agent does not do {argv[0]!r}; it does {', '.join(VERBS)}\n")
        return Exit.USAGE
    try:
        code = application(argv[0])(args=argv, prog_name=NAME, standalone_mode=False)
    except _USAGE as error:
        error.show(err)  # type: ignore[attr-defined]
        return Exit.USAGE
    except typer.Exit as error:
        code = error.exit_code
    except typer.Abort:
        code = Exit.INTERRUPTED
    return int(code or 0)
