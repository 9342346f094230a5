# SPDX-License-Identifier: Apache-2.0
"""The verb `capture`: the packets of one VIP or backend on the running switch."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from dnsteer.cli.completion import vips_and_backends
from dnsteer.cli.output import err, out
from dnsteer.cli.running_switch import Bridge, confirm, on_switch, seconds
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.errors import counted, escape

_LONGEST = 600
"""Seconds that a capture may take: it costs the switch something while it lasts."""
_SNAPLEN = 64, 65_535


def _time(text: str) -> float:
    value = seconds(text)
    if value > _LONGEST:
        raise typer.BadParameter(f"found {text!r}; expected at most {_LONGEST // 60}m")
    return value


Lasts = Annotated[
    float, typer.Option("--for", metavar="TIME", parser=_time, help="How long, such as 30s or 5m; at most 10m.")
]


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("capture")(on_switch(capture))


def capture(
    switch: TargetSwitch,
    what: Annotated[
        str,
        typer.Argument(
            metavar="VIP|POOL/BACKEND", help="Whose packets.", show_default=False, autocompletion=vips_and_backends
        ),
    ],
    lasts: Lasts = "30s",  # type: ignore[assignment]
    write: Annotated[
        Path | None,
        typer.Option(
            "-w", "--write", metavar="FILE", help="Write a pcap file; - for standard output. Else: a line each."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-c", "--count", metavar="N", min=1, help="End after N packets of it.")
    ] = None,
    snaplen: Annotated[
        int | None,
        typer.Option(
            "-s", "--snaplen", metavar="BYTES", min=_SNAPLEN[0], max=_SNAPLEN[1], help="Shorten packets to this."
        ),
    ] = None,
    bridge: Bridge = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even where hardware forwards.")] = False,
) -> None:
    """Capture the packets of a VIP or backend as they enter and leave the bridge, by mirrors that end by themselves.

    tcpdump on a port does not see what hardware forwards. Ctrl-C ends it too (exit code 130); what was captured stays.
    """
    if write is not None and str(write) == "-" and sys.stdout.isatty():
        raise typer.BadParameter("found -w - in a terminal; expected a file or a pipe, such as: -w - | tcpdump -r -")
    from dnsteer.capture.run import CaptureCounts, CaptureRequest
    from dnsteer.capture.run import run_capture as run_capture
    from dnsteer.capture.sinks import PacketLines, PcapFile

    counts = CaptureCounts()
    with ExitStack() as stack:
        sink = PacketLines(out.print) if write is None else stack.enter_context(PcapFile(write))
        try:
            run_capture(
                switch,
                bridge,
                CaptureRequest(what, lasts, count, snaplen),
                sink,
                confirm(yes, False),
                lambda text: err.print(escape(text)),
                counts,
            )
        finally:
            if counts.taken or counts.others or counts.dropped:
                taken = counted(counts.taken, "packet")
                err.print(f"{taken} captured, {counts.others} of others seen, {counts.dropped} dropped")
    if not counts.taken:
        err.print("no packet captured")
