"""`verify --offload`: what a running switch has in hardware. Also the option that names a flavor or profile."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import typer

from dnsteer.cli.output import Exit, fail, out, print_json, spec_warnings

if TYPE_CHECKING:
    from dnsteer.deploy.target_switch import TargetSwitch
    from dnsteer.offload.observe import Observation, Observed
    from dnsteer.offload.profile import Profile
    from dnsteer.spec.loaded import Loaded

_MOST = 10


def profile_named(flavor: str | None, loaded: Loaded, json: bool = False) -> Profile:
    """The profile of *flavor*, or of the spec's. Leaves with an error when there is none."""
    from dnsteer.offload.profile import NEWEST, profile, profile_names

    name = flavor or loaded.spec.switch.flavor.value
    known = dict.fromkeys([*NEWEST, *profile_names()])
    if name not in known:
        fail(f"--flavor: found {name!r}; expected one of {', '.join(known)}", Exit.USAGE, as_json=json)
    return profile(name)


def show_offload(loaded: Loaded, switch: TargetSwitch, flavor: str | None, control: str | None, json: bool) -> None:
    """Look and tell; exit code 2 when something should be in hardware and is not."""
    from dnsteer.offload.observe import observe
    from dnsteer.offload.running_switch import read_running
    from dnsteer.switch.unixctl import Unixctl, control_socket

    profile = profile_named(flavor, loaded, json)
    running = read_running(switch.remote, loaded.spec.switch.bridge, switch.timeout)
    loaded = _as_applied(loaded, switch, json)
    with Unixctl(control_socket(switch.remote, control), switch.timeout) as vswitchd:
        seen = observe(loaded, profile, vswitchd, running)
    if json:
        print_json({**seen.as_json(), **spec_warnings(loaded)})
    else:
        _show(loaded, seen)
    raise typer.Exit(Exit.OK if seen.ok else Exit.DIFFERENT)


def _as_applied(loaded: Loaded, switch: TargetSwitch, json: bool) -> Loaded:
    """The spec with the slots that its pools have there. Leave with an error where the tables are not the spec's.

    That is by the record and by the number that they carry: else what others made, or nothing at all, would pass for them.
    """
    from dnsteer.plan.applied_slots import keep_slots
    from dnsteer.switch.session import Session

    bridge = loaded.spec.switch.bridge
    with Session(switch.remote, switch.timeout) as session:
        record = session.record(bridge)
        loaded = keep_slots(loaded, session.pools(record))
    ours = record is not None and record.digest == loaded.digest
    if record is None or not ours or switch.client(bridge).marker() != record.marker:
        fail(
            f"{bridge}: its tables are not this spec's; apply it first (verify without --offload shows what differs)",
            Exit.ERROR,
            as_json=json,
        )
    return loaded


def _show(loaded: Loaded, seen: Observation) -> None:
    bridge = loaded.spec.switch.bridge
    for text in seen.settings:
        out.print(f"setting: {text}")
    for observed in seen.missing[:_MOST]:
        out.print(f"not in hardware ({observed.actual}): {_whose(observed)}")
        out.print(f"    {observed.flow.text}")
    if len(seen.missing) > _MOST:
        out.print(f"{len(seen.missing) - _MOST} more that should be in hardware (--json)")
    for observed in seen.surprising[:_MOST]:
        out.print(f"in hardware, though {seen.profile.name} says that it cannot be: {_whose(observed)}")
        out.print(f"    {observed.predicted.why_software}")
    for strange in seen.unreadable[:_MOST]:
        out.print(f"cannot be read ({strange.problem}): {strange.text}")
    for why, here, not_here in seen.learnt:
        out.print(f"not published, and seen here: {here} flows in hardware, {not_here} not: {why}")
    said_no = [o for o in seen.flows if o.predicted.verdict in ("no", "partial") and not o.surprising]
    software = Counter(o.predicted.why_software for o in said_no)
    for why, count in software.most_common(_MOST) if seen.profile.hardware else ():
        out.print(f"in software, as it must be: {count} flows: {why}")
    for command, text in seen.extras.items():
        out.print(f"{command}:")
        for line in text.splitlines():
            out.print(f"    {line}")
    if seen.beyond:
        between = " and ".join(seen.beyond)
        out.print(f"what the extension does between {between} is no datapath flow: dnsteer status has its counters")
    unreadable = f"; {len(seen.unreadable)} that cannot be read" if seen.unreadable else ""
    if not seen.flows:
        found = (
            "no datapath flows now; send traffic and look again" if not unreadable else f"no datapath flows{unreadable}"
        )
        out.print(f"{bridge}: {found}")
        return
    out.print(
        f"{bridge}: {len(seen.flows)} datapath flows: {seen.count('yes')} in hardware, {seen.count('partial')} partly, "
        f"{seen.count('no')} in software{unreadable}; " + _verdict(seen),
    )


def _verdict(seen: Observation) -> str:
    if not seen.profile.hardware:
        return f"{seen.profile.name} offloads nothing"
    if seen.missing:
        return f"{len(seen.missing)} should be in hardware and are not"
    return f"all is where {seen.profile.name} says"


def _whose(observed: Observed) -> str:
    if not observed.owners:
        return "packets of no service"
    ways = {"query": "queries", "answer": "answers"}
    first = observed.owners[0]
    services = ", ".join(dict.fromkeys(owner.service for owner in observed.owners))
    return f"{ways[first.direction]} of {first.vip} over {first.family} ({services})"
