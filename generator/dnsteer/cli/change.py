"""Verbs that work on a running switch: `apply` and `verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from dnsteer.cli.output import Exit, Json, SpecFile, err, load, out, print_json, reporting
from dnsteer.switch.database import DEFAULT_DB
from dnsteer.switch.rpc import parse_remote


def _remote(text: str) -> str:
    try:
        return parse_remote(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Db = Annotated[
    str,
    typer.Option(
        "--db", metavar="REMOTE", help="OVSDB of the switch: unix:PATH or tcp:IP:PORT.", envvar="DNSTEER_DB",
        callback=_remote,
    ),
]  # fmt: skip
OpenFlowTarget = Annotated[
    str | None,
    typer.Option("--openflow", metavar="TARGET", help="The bridge's OpenFlow. By default its socket beside --db."),
]
Timeout = Annotated[
    float, typer.Option(min=0.1, metavar="SECONDS", help="How long to wait for an answer or action of the switch.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command()(apply)
    app.command()(verify)


def apply(
    spec: SpecFile,
    db: Db = DEFAULT_DB,
    openflow: OpenFlowTarget = None,
    adopt: Annotated[bool, typer.Option("--adopt", help="Take over a bridge that dnsteer did not make.")] = False,
    timeout: Timeout = 10,
    json: Json = False,
) -> None:
    """Bring a running switch to the spec: the bridge by OVSDB, flows and groups in one atomic bundle."""
    from dnsteer.switch.apply import apply as run_apply

    with reporting(json):
        loaded = load(spec, json)
        progress = (lambda _: None) if json else (lambda text: err.print(text, markup=False))
        done = run_apply(loaded, db, openflow=openflow, adopt=adopt, timeout=timeout, progress=progress)
        changes = done.flows
        counts = {
            "flows_added": len(changes.add),
            "flows_changed": len(changes.replace),
            "flows_removed": len(changes.remove),
            "groups_added": len(changes.add_groups),
            "groups_changed": len(changes.replace_groups),
            "groups_removed": len(changes.remove_groups),
            "others_restored": len(changes.restore),
        }
        bridge = loaded.spec.switch.bridge
        if json:
            print_json({"ok": True, "changed": done.changed, "settings": done.settings, **counts})
        elif not done.changed:
            out.print(f"{bridge}: nothing to change")
        else:
            said = [f"{n} {what.replace('_', ' ')}" for what, n in counts.items() if n]
            out.print(f"{bridge}: applied; {', '.join([*done.settings, *said]) or 'record updated'}", markup=False)


def verify(
    spec: SpecFile,
    db: Db = DEFAULT_DB,
    openflow: OpenFlowTarget = None,
    ignore_foreign: Annotated[
        bool, typer.Option("--ignore-foreign", help="Say nothing about flows that are not dnsteer's.")
    ] = False,
    timeout: Timeout = 10,
    json: Json = False,
) -> None:
    """Compare a running switch with the spec and name every difference. Changes nothing."""
    from dnsteer.switch.verify import verify as run_verify

    with reporting(json):
        loaded = load(spec, json)
        drift = run_verify(loaded, db, openflow=openflow, ignore_foreign=ignore_foreign, timeout=timeout)
        bridge = loaded.spec.switch.bridge
        if json:
            print_json({"ok": not drift, "drift": [d.as_json() for d in drift]})
        elif not drift:
            out.print(f"{bridge}: as the spec says")
        else:
            for d in drift:
                at = f" ({loaded.file}:{d.line})" if d.line else ""
                out.print(f"{d.kind}: {d.about}{at}: {d.detail}", markup=False)
            out.print(f"{bridge}: {len(drift)} difference{'s' if len(drift) > 1 else ''}")
    raise typer.Exit(Exit.DIFFERENT if drift else Exit.OK)
