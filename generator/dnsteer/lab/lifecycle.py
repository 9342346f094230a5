# SPDX-License-Identifier: Apache-2.0
"""Build a lab, remove it, and report its status."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from dnsteer.extension import executables
from dnsteer.lab import decap, extension_program, names, nameserver, network, openvswitch, processes, state
from dnsteer.lab.command import PACKAGES, require_programs, require_root, run
from dnsteer.lab.errors import LabCommandError, LabError, LabExistsError
from dnsteer.lab.state import LabState, Process
from dnsteer.lab.topology import plan_network
from dnsteer.spec.model.spec import Spec

Progress = Callable[[str], None]
"""Called with a line of text about the current step."""


def _silent(_: str) -> None:
    """Discard progress lines."""


def up(spec: Spec, *, progress: Progress = _silent) -> LabState:
    """Build the network of *spec* and start its daemons; `dnsteer apply` creates the bridge afterwards.

    If building fails or is interrupted, everything built so far is removed. Raises LabError.
    """
    require_root()
    require_programs(PACKAGES)
    topology = plan_network(spec)
    if topology.extension:
        executables.executable(extension_program.NAME)
    with state.locked():
        _refuse_second()
        try:
            state.save(state.describe(topology, "building"))
            network.build(topology, progress)
            decap.attach_decap(topology, progress)
            openvswitch.start(progress)
            extension_program.start(topology, progress)
            nameserver.start_all(topology, progress)
            state.save(state.describe(topology, "up"))
        except BaseException:
            progress("failed: removing what was built")
            _remove(_silent)
            raise
        for note in topology.notes:
            progress(f"note: {note}")
        more = f" --extension {names.EXTENSION_SOCKET}" if topology.extension else ""
        progress(f"lab is up; next: dnsteer apply SPEC --db {names.db_target()}{more}")
    built = status()
    assert built is not None
    return built


def down(progress: Progress = _silent) -> None:
    """End and remove everything that belongs to a lab, even an incomplete one. Does nothing if there is no lab."""
    require_root()
    if not names.RUN_DIR.exists() and not processes.namespaces():
        progress("no lab is up")
        return
    require_programs(["ip"])
    with state.locked():
        _remove(progress)
    progress("lab is down")


def status() -> LabState | None:
    """Return the lab's current state with its processes; None when neither a state file nor a namespace exists."""
    spaces = processes.namespaces()
    known = state.load()
    if known is None and not spaces:
        return None
    if known is None:
        empty = state.LabState("broken", "", names.db_target(), str(names.RUN_DIR), "", tuple(spaces), (), ())
        known = replace(empty, problem="namespaces without a state file")
    where = processes.inside_namespaces()
    serves = {nameserver.directory(server.index): server.name for server in known.servers}
    running = tuple(
        Process(file.stem, pid, where.get(pid, ""), serves.get(file.parent, ""))
        for pid, file in sorted(processes.by_pidfile().items())
    )
    known = replace(known, processes=running, applied=(names.RUN_DIR / f"{known.bridge}.mgmt").is_socket())
    if state.is_locked():
        return known
    problem = known.problem or _problem(known, spaces)
    return replace(known, phase="broken", problem=problem) if problem else known


def print_status(console: Console, lab: LabState | None) -> None:
    """Print what `status` found as a table."""
    if lab is None:
        console.print("no lab is up")
        return
    table = Table(title=f"lab: {lab.phase}" + (f" ({lab.problem})" if lab.problem else ""))
    for column in ("what", "namespace", "addresses", "MAC", "processes"):
        table.add_column(column, overflow="fold", no_wrap=column == "MAC")
    pids: dict[tuple[str, str], list[str]] = {}
    for process in lab.processes:
        pids.setdefault((process.namespace, process.server), []).append(f"{process.program} {process.pid}")
    bridge = f"switch, bridge {lab.bridge}" + ("" if lab.applied else " (not applied)")
    table.add_row(bridge, names.SWITCH_NAMESPACE, lab.db, "", "\n".join(pids.get((names.SWITCH_NAMESPACE, ""), [])))
    if lab.extension:
        runs = "\n".join(pids.get((names.EXTENSION_NAMESPACE, ""), []))
        table.add_row("extension", names.EXTENSION_NAMESPACE, lab.extension, "", runs)
    for client in lab.clients:
        table.add_row(f"client of {client.uplink}", client.namespace, "\n".join(client.addresses), client.mac, "")
    for server in lab.servers:
        # By its name: backends that share a MAC address share a namespace.
        own = "\n".join(pids.get((server.namespace, server.name), [])) or "none"
        table.add_row(f"name server {server.name}", server.namespace, "\n".join(server.addresses), server.mac, own)
    console.print(table)
    for note in lab.notes:
        console.print(f"note: {note}", highlight=False)


def _problem(lab: LabState, spaces: list[str]) -> str:
    if lab.phase == "building":
        return "`lab up` died before it was done; run `dnsteer lab down`"
    gone = sorted(set(lab.namespaces) - set(spaces))
    if gone:
        return f"namespaces are gone: {', '.join(gone)}"
    have = Counter(p.program for p in lab.processes)
    want = Counter({"ovsdb-server": 1, "ovs-vswitchd": 1, "nsd": len(lab.servers)})
    if lab.extension:
        want[extension_program.NAME] = 1
    lost = sorted(f"{program} ({have[program]} of {n} run)" for program, n in want.items() if have[program] < n)
    served = {process.server for process in lab.processes}
    stopped = [server.name for server in lab.servers if server.name not in served]
    whose = f"; without a process: {', '.join(stopped)}" if stopped else ""
    return f"processes have ended: {', '.join(lost)}{whose}" if lost else ""


def _refuse_second() -> None:
    spaces = processes.namespaces()
    known = state.load()
    if known is not None and known.phase == "up":
        raise LabExistsError("a lab is up already, and there is one at a time; `dnsteer lab down` removes it")
    if known is not None or spaces:
        raise LabExistsError("there are remains of a lab that was not finished; `dnsteer lab down` removes them")


def _remove(progress: Progress) -> None:
    known = processes.namespaces()
    progress(f"ending processes and removing {len(known)} namespaces")
    # A program that a killed `lab up` had just started may still create a namespace: repeat until no namespace is left.
    for _ in range(_REMOVE_ATTEMPTS):
        left = processes.end_all()
        if left:
            raise LabError(f"processes {left} of the lab do not end; nothing more was removed")
        spaces = processes.namespaces()
        if spaces:
            # The next check finds what could not be deleted.
            with contextlib.suppress(LabCommandError):
                run(["ip", "-force", "-batch", "-"], stdin="".join(f"netns del {s}\n" for s in spaces), timeout=60)
        time.sleep(0.05)
        if not processes.namespaces():
            shutil.rmtree(names.RUN_DIR, ignore_errors=True)
            return
    raise LabError(f"namespaces {', '.join(processes.namespaces())} could not be removed; look at `ip netns`")


_REMOVE_ATTEMPTS = 20
