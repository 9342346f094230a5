# SPDX-License-Identifier: Apache-2.0
"""`verify --offload`: what a running switch has in hardware. Also the option that names a flavor or profile."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import typer

from dnsteer.cli.output import Exit, fail, out, print_json, spec_warnings
from dnsteer.spec.errors import counted

if TYPE_CHECKING:
    from dnsteer.deploy.target_switch import TargetSwitch
    from dnsteer.offload.capabilities import Profile
    from dnsteer.offload.observe import Observation
    from dnsteer.slots.maintenance import Overlay
    from dnsteer.spec.loaded import Loaded

_MAX = 10


def profile_named(flavor: str | None, loaded: Loaded, json: bool = False) -> Profile:
    """The profile of *flavor*, or of the spec's. Leaves with an error when there is none."""
    from dnsteer.offload.profile import newest, profile, profile_names

    name = flavor or loaded.spec.switch.flavor.value
    known = dict.fromkeys([*newest(), *profile_names()])
    if name not in known:
        fail(f"--flavor: found {name!r}; expected one of {', '.join(known)}", Exit.USAGE, as_json=json)
    return profile(name)


def show_offload(loaded: Loaded, switch: TargetSwitch, flavor: str | None, control: str | None, json: bool) -> None:
    """Compare and print; exit code 2 when something should be in hardware and is not."""
    from dnsteer.offload.observe import observe, read_running_switch
    from dnsteer.switch.unixctl import Unixctl, control_socket

    profile = profile_named(flavor, loaded, json)
    running = read_running_switch(switch.remote, loaded.spec.switch.bridge, switch.timeout)
    loaded, overlay = _as_applied(loaded, switch, json)
    with Unixctl(control_socket(switch.remote, control, option="--control PATH"), switch.timeout) as vswitchd:
        observation = observe(loaded, profile, vswitchd, running, overlay)
    if json:
        print_json({**observation.as_json(), **spec_warnings(loaded)})
    else:
        _show(loaded, observation)
    raise typer.Exit(Exit.OK if observation.ok else Exit.DIFFERENT)


def _as_applied(loaded: Loaded, switch: TargetSwitch, json: bool) -> tuple[Loaded, Overlay]:
    """The spec with the slots that its pools have there, and the overlay. Leave with an error where tables are not its.

    That is by the record and by the number that they carry: else what others made, or nothing at all, would pass for them.
    """
    from dnsteer.plan.pool_slots import keep_slots

    bridge = loaded.spec.switch.bridge
    with switch.session() as session:
        record = session.record(bridge)
        loaded = keep_slots(loaded, session.pools(record))
    ours = record is not None and record.digest == loaded.digest
    if record is None or not ours or switch.client(bridge).marker() != record.marker:
        fail(
            f"{bridge}: its tables are not from this spec; apply it first (verify without --offload shows what differs)",
            Exit.ERROR,
            as_json=json,
        )
    return loaded, record.overlay


def _show(loaded: Loaded, observation: Observation) -> None:
    for text in observation.settings:
        out.print(f"setting: {text}")
    _show_misplaced(observation)
    for why, here, not_here in observation.unpublished_cases:
        out.print(f"not published, but observed here: {counted(here, 'flow')} in hardware, {not_here} not: {why}")
    if observation.profile.hardware:
        _show_software(observation)
    for command, text in observation.extras.items():
        out.print(f"{command}:")
        for line in text.splitlines():
            out.print(f"    {line}")
    if observation.extension_ports:
        between = " and ".join(observation.extension_ports)
        out.print(
            f"what the extension does between {between} is not a datapath flow: dnsteer status shows its counters"
        )
    out.print(f"{loaded.spec.switch.bridge}: {_flows(observation)}")


def _show_misplaced(observation: Observation) -> None:
    """What is in software and should not be, or the other way round, and what cannot be read; the first few of each."""
    from dnsteer.offload.owners import owners_in_words

    for observed in observation.missing[:_MAX]:
        out.print(f"not in hardware ({observed.actual}): {owners_in_words(observed.owners)}")
        out.print(f"    {observed.flow.text}")
    if len(observation.missing) > _MAX:
        out.print(f"{len(observation.missing) - _MAX} more that should be in hardware (--json)")
    for observed in observation.surprising[:_MAX]:
        out.print(
            f"in hardware, though {observation.profile.name} says that it cannot be: {owners_in_words(observed.owners)}"
        )
        out.print(f"    {observed.predicted.why_software}")
    for unreadable in observation.unreadable[:_MAX]:
        out.print(f"cannot be read ({unreadable.problem}): {unreadable.text}")


def _show_software(observation: Observation) -> None:
    """Why flows are in software that are expected there, the most frequent reasons first."""
    as_predicted = [o for o in observation.flows if o.predicted.verdict in ("no", "partial") and not o.surprising]
    for why, count in Counter(o.predicted.why_software for o in as_predicted).most_common(_MAX):
        out.print(f"in software, as expected: {counted(count, 'flow')}: {why}")


def _flows(observation: Observation) -> str:
    """How many flows are where, and the verdict."""
    unreadable = f"; {len(observation.unreadable)} that cannot be read" if observation.unreadable else ""
    if not observation.flows:
        if unreadable:
            return f"no datapath flows{unreadable}"
        return "no datapath flows at the moment; send traffic and try again"
    hardware, partly, in_software = (observation.count(verdict) for verdict in ("yes", "partial", "no"))
    return (
        f"{len(observation.flows)} datapath flows: {hardware} in hardware, {partly} partly, "
        f"{in_software} in software{unreadable}; {_verdict(observation)}"
    )


def _verdict(observation: Observation) -> str:
    if not observation.profile.hardware:
        return f"{observation.profile.name} offloads nothing"
    if observation.missing:
        return f"{len(observation.missing)} should be in hardware and are not"
    return f"everything is where {observation.profile.name} says"
