# SPDX-License-Identifier: Apache-2.0
"""Verbs that bring a running switch to a spec: `plan`, `apply`, and `verify`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dnsteer.cli.output import (
    SPEC_HELP,
    Exit,
    Json,
    SpecFile,
    Verbose,
    check_and_warn,
    err,
    hanging,
    load_and_warn,
    out,
    print_json,
    spec_warnings,
)
from dnsteer.cli.running_switch import Bridge, DryRun, Note, Yes, confirm, on_switch, progress
from dnsteer.cli.spec_inputs import reads_spec
from dnsteer.deploy.target_switch import GRACE, TargetSwitch
from dnsteer.spec.errors import escape

_MAX_DRIFT = 40
"""Differences that verify names in a terminal; it counts all."""
_ON_ONE_LINE = 4
"""Sentences that an apply says on one line."""
_MAX_IN_FORCE = 20
"""Entries of the overlay that verify names."""

if TYPE_CHECKING:
    from dnsteer.deploy.prefetch import Prefetch
    from dnsteer.deploy.run import DeployResult
    from dnsteer.deploy.summary import PlanSummary
    from dnsteer.spec.loaded import Loaded
    from dnsteer.status.verify import Drift

Adopt = Annotated[bool, typer.Option("--adopt", help="Take over a bridge that dnsteer did not make.")]
Rename = Annotated[bool, typer.Option("--rename", help="Apply even though the switch's name differs from the spec's.")]
Grace = Annotated[
    float,
    typer.Option(
        "--grace",
        metavar="SECONDS",
        min=0,
        help="How long to wait for the last answers of NAT backends that are removed.",
    ),
]
Standby = Annotated[
    bool,
    typer.Option(
        "--standby",
        help="Keep a switch that has no role yet on standby from the start; one that has a role keeps that.",
    ),
]
Details = Annotated[
    bool,
    typer.Option(
        "-v", "--verbose", help="Show every change, flows and groups too, and each warning on a line of its own."
    ),
]
EveryChange = Annotated[
    bool, typer.Option("-v", "--verbose", help="Show every change and every warning, even where many are alike.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    for verb in (plan, apply, verify):
        app.command(verb.__name__)(reads_spec(on_switch(verb, sends_files=verb is not verify)))


def plan(
    switch: TargetSwitch,
    spec: SpecFile,
    verbose: Details = False,
    adopt: Adopt = False,
    rename: Rename = False,
    note: Note = "",
    grace: Grace = GRACE,
    standby: Standby = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write a plan file, for apply --plan.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what an apply would change on the switch, and change nothing. Exit code 0: nothing to do, 2: changes."""
    if output == Path("-"):
        raise typer.BadParameter("found -o -; expected a file: the plan's words go to standard output")
    with _loaded(spec, switch, json, verbose) as (loaded, prefetch):
        from dnsteer.deploy import plan_file
        from dnsteer.deploy.goal import FileSource
        from dnsteer.deploy.run import Options, preview

        options = Options(adopt, rename, note, grace, standby)
        summary = preview(FileSource(loaded), switch, options, prefetch=prefetch)
    if output is not None:
        plan_file.write(summary, switch, options, output)
    print_summary(summary, verbose=verbose, json=json)
    if output is not None and not json:
        out.print(f"plan written to {output}; to do exactly this: dnsteer apply --plan {output}")
    raise typer.Exit(Exit.DIFFERENT if summary.changed else Exit.OK)


def apply(
    switch: TargetSwitch,
    spec: Annotated[
        Path | None, typer.Argument(metavar="SPEC", help=f"{SPEC_HELP[:-1]}; left out with --plan.", show_default=False)
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Apply exactly what a plan file says.")
    ] = None,
    adopt: Adopt = False,
    rename: Rename = False,
    note: Note = "",
    grace: Grace = GRACE,
    standby: Standby = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    verbose: EveryChange = False,
    json: Json = False,
) -> None:
    """Make a running switch match the spec: the bridge through OVSDB, flows and groups in one atomic bundle."""
    if (spec is None) == (plan is None):
        raise typer.BadParameter("give a SPEC, or --plan FILE, and not both")
    if plan is not None:
        if adopt or rename or note or grace != GRACE or standby:
            raise typer.BadParameter(
                "--adopt, --rename, --note, --grace and --standby belong to the plan: give them to dnsteer plan"
            )
        from dnsteer.deploy import plan_file

        value = plan_file.read(plan)
        if dry_run:
            print_summary(plan_file.preview_again(value, switch), verbose=verbose, flows=False, json=json)
            return
        done = plan_file.apply_plan(value, switch, confirm=confirm(yes, json), progress=progress(json))
    elif spec is not None:
        with _loaded(spec, switch, json, verbose) as (loaded, prefetch):
            from dnsteer.deploy.goal import FileSource
            from dnsteer.deploy.run import Options, deploy, preview

            options = Options(adopt, rename, note, grace, standby)
            if dry_run:
                would = preview(FileSource(loaded), switch, options, prefetch=prefetch)
                print_summary(would, verbose=verbose, flows=False, json=json)
                return
            done = deploy(
                FileSource(loaded),
                switch,
                options,
                confirm=confirm(yes, json),
                prefetch=prefetch,
                progress=progress(json),
            )
    finish_deployed(done, switch, json, verbose=verbose)


@contextmanager
def _loaded(spec: Path, switch: TargetSwitch, json: bool, verbose: bool) -> Iterator[tuple[Loaded, Prefetch]]:
    """The spec, checked, and the tables of the switch: ovs-ofctl dumps them while the spec is checked."""
    from dnsteer.deploy.prefetch import Prefetch
    from dnsteer.spec.document import bridge_of
    from dnsteer.spec.read import read_document

    with Prefetch(switch) as prefetch:
        document = read_document(spec)
        prefetch.begin(bridge_of(document))
        yield check_and_warn(document, json, verbose), prefetch


def print_summary(
    summary: PlanSummary, *, verbose: bool, json: bool, flows: bool = True, more: Mapping[str, Any] | None = None
) -> None:
    """Print what would change, all of it where *verbose*, with the *flows* then; as JSON with *more*."""
    from dnsteer.deploy.bounded_lists import bounded_alike
    from dnsteer.deploy.summary import counted, details, summary_as_json

    if json:
        print_json(
            {**summary_as_json(summary, verbose=verbose and flows), **(more or {}), **spec_warnings(summary.loaded)}
        )
        return
    bridge = summary.loaded.spec.switch.bridge
    warnings = [*summary.warnings, *summary.ask]
    for warning in warnings if verbose else bounded_alike(warnings, how="-v"):
        err.print(f"warning: {escape(warning)}")
    _print_notes(summary)
    if not summary.changed:
        out.print(f"{bridge}: nothing to change")
        return
    out.print("\n".join([f"{bridge}: would change", *hanging(_summary_lines(summary, verbose, lines=True))]))
    out.print(f"  on the switch: {', '.join(counted(summary.found.flows)) or 'no flow or group'}")
    if verbose and flows:
        out.print("\n".join(details(summary)))


def _print_notes(summary: PlanSummary) -> None:
    for note in summary.notes:
        err.print(f"note: {escape(note)}")


def finish_deployed(
    done: DeployResult, switch: TargetSwitch, json: bool, more: Mapping[str, Any] | None = None, *, verbose: bool
) -> None:
    """Print what was changed, as JSON with *more*, and find out the MAC addresses of neighbours that no agent follows."""
    from dnsteer.cli.neighbors import resolve_neighbors

    resolved = resolve_neighbors(switch, done.summary.loaded.spec, json)
    _print_deployed(done, json, {**(more or {}), **resolved.as_json()}, verbose=verbose)
    if not json:
        resolved.print_words()
    if resolved.problem:
        raise typer.Exit(Exit.ERROR)


def _print_deployed(
    done: DeployResult, json: bool, more: Mapping[str, Any] | None = None, *, verbose: bool = False
) -> None:
    """Print what was changed; as JSON with *more*."""
    from dnsteer.deploy.bounded_lists import bounded_alike
    from dnsteer.deploy.summary import count_changes, counted, summary_as_json

    bridge, changed = done.summary.loaded.spec.switch.bridge, done.result.changed
    if json:
        value = {**summary_as_json(done.summary, verbose=False), **(more or {}), **spec_warnings(done.summary.loaded)}
        print_json({**value, "changed": changed, "state": done.state, "counts": count_changes(done.result.flows)})
        return
    warnings = done.summary.warnings
    for warning in warnings if verbose else bounded_alike(warnings, how="-v"):
        err.print(f"warning: {escape(warning)}")
    _print_notes(done.summary)
    if not changed:
        out.print(f"{bridge}: nothing to change")
        return
    lines, counts = _summary_lines(done.summary, verbose), counted(done.result.flows)
    if len(lines) <= _ON_ONE_LINE:
        out.print(f"{bridge}: applied as state {done.state}; {'; '.join([*lines, *counts])}")
        return
    head = "; ".join([f"{bridge}: applied as state {done.state}", *counts])
    out.print("\n".join([head, *hanging(lines)]))


def _summary_lines(summary: PlanSummary, verbose: bool, *, lines: bool = False) -> list[str]:
    """What changes, a line each; of many of a kind the first few unless *verbose*. With *lines* those of the spec."""
    from dnsteer.deploy.bounded_lists import bounded_lines
    from dnsteer.deploy.summary import sentence_groups

    groups = sentence_groups(summary, lines=lines)
    if verbose:
        return [escape(text) for group in groups for text in group.sentences]
    return [escape(line) for line in bounded_lines(groups)]


def _applied_spec(switch: TargetSwitch, bridge: str | None) -> Loaded:
    """The spec of the recorded state. Raises SwitchError where there is none, or none that this version accepts."""
    from dnsteer.deploy.recorded_spec import load_state

    with switch.session() as session:
        record = session.record_of(bridge)
        return load_state(session.state(record, record.number))


def verify(
    switch: TargetSwitch,
    spec: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SPEC]", help=f"{SPEC_HELP[:-1]}; left out: the spec that is applied.", show_default=False
        ),
    ] = None,
    bridge: Bridge = None,
    ignore_foreign: Annotated[
        bool, typer.Option("--ignore-foreign", help="Ignore flows and ports that are not dnsteer's.")
    ] = False,
    left_by_apply: Annotated[
        bool,
        typer.Option(
            "--left-by-apply",
            help="Only what `apply` of this spec would leave: settings and flows of others, and ports whose device does "
            "not work.",
        ),
    ] = False,
    offload: Annotated[
        bool,
        typer.Option(
            "--offload", help="Compare the offload instead: list datapath flows that should be in hardware and are not."
        ),
    ] = False,
    flavor: Annotated[
        str | None,
        typer.Option(metavar="F", help="With --offload: flavor or profile to expect; the spec's by default."),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="With --offload: ovs-vswitchd's control socket; by default the one next to --db."
        ),
    ] = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Compare a running switch with the spec and its overlay, and list every difference. Changes nothing.

    Without SPEC it is compared with its record: the spec that was applied last, as `show` prints it.
    """
    if spec is not None and bridge is not None:
        raise typer.BadParameter("found SPEC and --bridge; expected one of them: the spec names its bridge")
    _check_offload_options(offload, flavor, control, left_by_apply)
    loaded = load_and_warn(spec, json, verbose) if spec is not None else _applied_spec(switch, bridge)
    if offload:
        from dnsteer.cli.verify_offload import show_offload

        show_offload(loaded, switch, flavor, control, json)
        return
    from dnsteer.status import verify as running

    found = running.find_drift(
        loaded,
        switch.remote,
        openflow=switch.openflow,
        ignore_foreign=ignore_foreign,
        timeout=switch.timeout,
        extension=switch.extension,
    )
    in_force = running.in_force(loaded, switch.remote, switch.timeout)
    drift, warnings = [d for d in found if not d.warns], [d for d in found if d.warns]
    if left_by_apply:
        drift, in_force = running.left_by_apply(drift), []
    verified = _Verified(loaded, drift, warnings, in_force, left_by_apply, recorded=spec is None)
    if json:
        print_json(verified.as_json())
    else:
        _print_verified(verified, verbose)
    raise typer.Exit(Exit.DIFFERENT if drift else Exit.OK)


def _check_offload_options(offload: bool, flavor: str | None, control: str | None, left_by_apply: bool) -> None:
    for option, value in (("--flavor", flavor), ("--control", control)):
        if value is not None and not offload:
            raise typer.BadParameter(f"found {option} without --offload; expected both, or neither")
    if left_by_apply and offload:
        raise typer.BadParameter("found --left-by-apply and --offload; expected one of them")


@dataclass(frozen=True)
class _Verified:
    """What a verify found; *in_force* is what the spec does not say. *recorded*: the spec is that of the record."""

    loaded: Loaded
    drift: Sequence[Drift]
    warnings: Sequence[Drift]
    in_force: Sequence[str]
    left_by_apply: bool
    recorded: bool

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "ok": not self.drift,
            "drift": [d.as_json(self.loaded.file) for d in self.drift],
            "warnings": [d.as_json(self.loaded.file) for d in self.warnings],
            "in_force": self.in_force,
            **spec_warnings(self.loaded),
        }

    @property
    def verdict(self) -> str:
        """The last line for people."""
        if self.drift or self.left_by_apply:
            counted = f"{len(self.drift) or 'no'} difference{'' if len(self.drift) == 1 else 's'}"
            return f"{counted}{' that apply leaves' if self.left_by_apply else ''}"
        says = f"recorded: {escape(self.loaded.file)}" if self.recorded else "the spec says"
        return f"as {says}{' with what is in force' if self.in_force else ''}"


def _print_verified(verified: _Verified, verbose: bool) -> None:
    """Print what a verify found: in a terminal only the first differences of many, unless *verbose*."""
    file, drift, in_force = verified.loaded.file, verified.drift, verified.in_force
    for d in verified.warnings:
        err.print(f"warning: {escape(d.text(file))}")
    most = len(drift) if verbose or not out.isatty() else _MAX_DRIFT
    for d in drift[:most]:
        out.print(escape(d.text(file)))
    if most < len(drift):
        out.print(f"and {len(drift) - most:,} more: -v shows all")
    for text in in_force[:_MAX_IN_FORCE]:
        out.print(f"in force: {escape(text)}")
    if len(in_force) > _MAX_IN_FORCE:
        out.print(f"in force: and {len(in_force) - _MAX_IN_FORCE} more: dnsteer status")
    out.print(f"{verified.loaded.spec.switch.bridge}: {verified.verdict}")
