# SPDX-License-Identifier: Apache-2.0
"""The verb that says what hardware will do with a spec: `lint`. No root needed, nothing is deployed."""

from __future__ import annotations

import json as json_module
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.output import (
    SPEC_HELP,
    Exit,
    Json,
    err,
    fail,
    load_and_warn,
    out,
    print_json,
    reporting,
    spec_warnings,
)
from dnsteer.cli.spec_inputs import reads_spec
from dnsteer.cli.verify_offload import profile_named
from dnsteer.spec.errors import counted, file_of_part

if TYPE_CHECKING:
    from dnsteer.lint.finding import LintFinding
    from dnsteer.lint.run import LintReport
    from dnsteer.offload.packet_path import PacketPath

_MAX_PATHS = 40
_MAX_ALIKE = 3
_WIDTH = 1000
"""Columns that no table has."""


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("lint")(reads_spec(lint))


def lint(
    spec: Annotated[Path | None, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False)] = None,
    flavor: Annotated[
        str | None,
        typer.Option(
            metavar="F",
            help="Flavor or profile to judge by, such as ovs-doca or ovs-doca-2; the spec's by default, and "
            "ovs-doca for ovs-netdev, which has no hardware.",
        ),
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the findings as SARIF 2.1.0 too; - for standard output.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="CODE", help="Explain a finding's code, such as DNS011.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the sources of reasons, and the datapath flows.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what hardware will do with each datapath flow of the spec, and why. Exit code 1: errors, 2: warnings."""
    with reporting(json):
        if explain is not None:
            _explain(explain)
            return
        if spec is None:
            fail("lint needs a SPEC, or --explain CODE", Exit.USAGE)
        if json and sarif == Path("-"):
            fail(
                "found --json and --sarif -, which both write to standard output; expected only one of them", Exit.USAGE
            )
        from dnsteer.lint.finding import Severity, worst_severity
        from dnsteer.lint.run import run_finders as run_lint
        from dnsteer.offload.examine import examine
        from dnsteer.offload.profile import JUDGED_AS

        loaded = load_and_warn(spec, json, verbose)
        instead = JUDGED_AS.get(loaded.spec.switch.flavor.value) if flavor is None else None
        report = run_lint(examine(loaded, profile_named(flavor or instead, loaded)))
        if sarif is not None:
            _write_sarif(sarif, report)
        if json:
            print_json({**report.as_json(), **spec_warnings(loaded)})
        elif sarif != Path("-"):
            _show(report, verbose, instead)
    severity = worst_severity(report.findings)
    if severity is not None:
        raise typer.Exit(Exit.ERROR if severity is Severity.ERROR else Exit.DIFFERENT)


def _explain(text: str) -> None:
    from rich.markdown import Markdown

    from dnsteer.lint.run import CODES

    code = CODES.get(text.upper())
    if code is None:
        known = "\n".join(f"  {c.code}  {c.severity.value:<7}  {c.title}" for c in CODES.values())
        fail(f"--explain: found {text!r}; the codes are\n{known}", Exit.USAGE)
    if out.rich.is_terminal:
        out.rich.print(Markdown(code.page()))
    else:
        out.print(code.page(), end="")


def _write_sarif(file: Path, report: LintReport) -> None:
    from dnsteer.lint.sarif import sarif
    from dnsteer.render.atomic_files import write_file

    text = json_module.dumps(sarif(report.examination.loaded.file, report.findings), indent=2) + "\n"
    if file == Path("-"):
        out.print(text, end="")
    else:
        write_file(file, text)


def _show(report: LintReport, verbose: bool, instead: str | None) -> None:
    """For people: the paths, what runs in software, the findings, and the totals; by the flavor *instead* of the spec's."""
    examination = report.examination
    if instead is not None:
        own = examination.loaded.spec.switch.flavor.value
        out.print(
            f"{examination.loaded.file}: flavor {own} has no hardware; judged as {instead} (override: --flavor {own})"
        )
    out.print(f"{examination.loaded.file} on {examination.profile.title}")
    _show_paths(report)
    _show_remarks(report, verbose)
    _show_program(report)
    if examination.profile.hardware:
        _show_kinds(f"runs on {CPUS.get(examination.profile.flavor, 'the CPU')}", report.in_software)
        _show_kinds("in hardware or not (not published)", report.unknown)
    _show_findings(report, verbose)
    _show_totals(report)


def _show_kinds(heading: str, found: Mapping[str, Counter[str]]) -> None:
    """Flows by kind of traffic and reason."""
    if found:
        out.print(heading)
    for kind, reasons in found.items():
        for reason, count in reasons.most_common(_MAX_ALIKE):
            out.print(f"  {_KINDS[kind]:<12} {count:>5} flows  {reason}")
        if len(reasons) > _MAX_ALIKE:
            out.print(f"  {_KINDS[kind]:<12}        {len(reasons) - _MAX_ALIKE} more reasons (--json)")


CPUS = {"ovs-doca": "the CPU (on a BlueField: the Arm cores)"}
_KINDS = {
    "query": "queries",
    "answer": "answers",
    "probe": "probes",
    "neighbor": "neighbours",
    "echo": "echo",
    "error": "ICMP errors",
    "own": "own traffic",
    "fragment": "fragments",
    "unusual": "unusual",
    "drop": "dropped",
}


def _show_remarks(report: LintReport, verbose: bool) -> None:
    """What verdicts of the paths rest on, each once, whichever port it is said of."""
    about: dict[tuple[str, str], list[str]] = {}
    for path, remarks in report.remarks.items():
        for remark in remarks:
            text = remark.name.partition(":")[0] + ": " + remark.text.removeprefix(f"{remark.name}: ")
            source = f"{report.source(remark)}, {remark.certainty}" if verbose else remark.certainty
            about.setdefault((text, source), []).append(path.vip)
    for (text, source), vips in about.items():
        whose = "" if {*vips} == {path.vip for path in report.paths} else f" ({', '.join(dict.fromkeys(vips))})"
        out.print(f"rests on{whose}: {text} [{source}]")


def _show_program(report: LintReport) -> None:
    """What the extension takes of hardware, where it is known of."""
    from dnsteer.lint.extension_services import program_summary

    summary = program_summary(report.examination)
    if summary:
        out.print(summary)


def _show_paths(report: LintReport) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    extended = any(path.hops for path in report.paths)
    for heading in ("VIP", "service", "family", "", *(["by"] if extended else []), "offload", "certainty"):
        table.add_column(heading)
    for heading in ("slots", "rules", "passes", "bytes", "tables"):
        table.add_column(heading, justify="right")
    for path in report.paths[:_MAX_PATHS]:
        directions = {"query": "queries", "answer": "answers"}
        numbers = (path.slots, path.rules, path.passes, path.match_bytes, path.depth)
        head = (path.vip, path.service, path.family, directions[path.direction])
        if path.hops:
            for nth, row in enumerate(_hops(path)):
                table.add_row(*(head if nth == 0 else ("",) * len(head)), *row)
            continue
        by = ["switch"] if extended else []
        table.add_row(*head, *by, path.offloaded, path.certainty, *(f"{n:,}" for n in numbers))
    # As wide as what it says, however narrow the terminal: a broken line is better than half a name.
    options = out.rich.options.update(width=_WIDTH)
    table.width = out.rich.measure(table, options=options).maximum
    out.rich.print(table)
    if len(report.paths) > _MAX_PATHS:
        out.print(f"{len(report.paths) - _MAX_PATHS} more (--json)\n")


def _hops(path: PacketPath) -> Iterator[tuple[str, ...]]:
    """A row for each part of a path that the extension is in: what it has is its pipes' entries, and no datapath flows."""
    for hop in path.hops:
        ports = f"{' '.join(hop.enters)} to {' '.join(hop.leaves)}"
        head = (f"{hop.by}, {ports}" if hop.by == "switch" else hop.by, hop.offloaded, hop.certainty)
        if hop.by == "switch":
            yield (*head, "", f"{hop.rules:,}", "1", f"{hop.match_bytes:,}", f"{hop.tables:,}")
        else:
            yield (*head, f"{path.slots:,}", f"{hop.rules:,}", "", "", f"{hop.tables:,}")


def _show_findings(report: LintReport, verbose: bool) -> None:
    alike: Counter[str] = Counter()
    for finding in report.findings:
        alike[finding.code.code] += 1
        if alike[finding.code.code] <= _MAX_ALIKE or verbose:
            _show_finding(report, finding, verbose)
    for code, count in alike.items():
        if count > _MAX_ALIKE and not verbose:
            out.print(f"{count - _MAX_ALIKE} more of {code} (--verbose)")


def _show_finding(report: LintReport, finding: LintFinding, verbose: bool) -> None:
    file = report.examination.loaded.file
    severity = "accepted" if finding.accepted else finding.code.severity.value
    out.print(f"{file_of_part(file, finding.part)}:{finding.line}: {finding.code.code} {severity}: {finding.text}")
    if finding.accepted:
        out.print(f"    accepted: {finding.accepted}")
        return
    if finding.advice:
        out.print(f"    to do: {finding.advice}")
    if verbose:
        for reason in finding.reasons:
            out.print(f"    because: {reason.text} [{report.source(reason)}, {reason.certainty}]")
        for flow in finding.flows:
            out.print(f"    flow: {flow}")


def _shares(report: LintReport) -> str:
    """The share that is in hardware, and the share for which that is unknown."""
    unknown = report.shares["unknown"]
    more = f"{100 * unknown:.0f} % not published, " if unknown else ""
    return f"{100 * report.offloaded:.0f} % of the VIPs' datapath flows in hardware, {more}"


def _show_totals(report: LintReport) -> None:
    examination = report.examination
    about = "about " if examination.sampled is not None else ""
    maybe = " if everything unknown is offloaded" if report.unknown else ""
    share = _shares(report) if examination.profile.hardware else ""
    share += "not counting the extension's, " if share and examination.extension_parts else ""
    any_traffic = "any traffic but the agent's" if examination.loaded.spec.switch.probe is not None else "any traffic"
    out.print(
        f"{share}{about}{counted(report.rules, 'hardware rule')}{maybe}, {about}{counted(report.flows, 'datapath flow')} "
        f"for all traffic sent; {counted(examination.masks, 'mask')} seen, at most {report.bound.total} for {any_traffic}"
    )
    if examination.sampled is not None:
        out.print(f"{examination.sampled} slots of each service were sampled, and the rest extrapolated from them")
    packets = sum(examination.packets.values())
    out.print(
        f"judged from the flows that Open vSwitch {examination.ovs} made for {counted(packets, 'packet')}; "
        "nothing ran on hardware"
    )
    err.file.flush()
