# SPDX-License-Identifier: Apache-2.0
"""The extension: dnsteer-ext on the software model, in a namespace with the devices that the bridge's ports lead to.

It is started, crashed, and its counters are read.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dnsteer.extension import executables
from dnsteer.extension.client import ExtensionClient
from dnsteer.lab import names, processes
from dnsteer.lab.command import start_background
from dnsteer.lab.errors import LabError
from dnsteer.lab.topology import Topology
from dnsteer.plan.build import build_plan
from dnsteer.render.atomic_files import write_file
from dnsteer.render.program import program_text
from dnsteer.spec.document import Document
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.tools import UnavailableError

NAME = "dnsteer-ext"
START_SECONDS = 20.0
"""Seconds that dnsteer-ext may take until it answers on its control socket."""
_PROGRAM = names.RUN_DIR / "program.json"
_LOG = names.RUN_DIR / f"{NAME}.log"
_PIDFILE = names.RUN_DIR / f"{NAME}.pid"
_PEER = struct.Struct("3i")  # struct ucred
PacketCounts = dict[str, int]


def start(topology: Topology, progress: Callable[[str], None]) -> None:
    """Write the program of the topology's spec and start dnsteer-ext with it, if the spec has an extension."""
    if not topology.extension:
        return
    progress("starting the extension (dnsteer-ext on the software model)")
    plan = build_plan(Loaded(topology.spec, Document("lab", None), ()))
    assert plan.extension is not None
    write_file(_PROGRAM, program_text(plan.extension, "program of the lab's spec"))
    run_program()


def run_program() -> None:
    """Start dnsteer-ext with the program that `lab up` wrote, also after a crash, and wait until it answers."""
    ports: dict[str, str] = json.loads(_PROGRAM.read_text(encoding="utf-8"))["ports"]
    devices = [ports["in"], ports["out"]]
    model = {
        "DOCA_FLOW_MODEL_DEVICES": " ".join(devices),
        "DOCA_FLOW_MODEL_PORTS": " ".join(f"{n}=netdev:{device}" for n, device in enumerate(devices)),
    }
    argv = [str(executables.executable(NAME)), "--program", str(_PROGRAM), "--socket", str(names.EXTENSION_SOCKET)]
    start_background(names.EXTENSION_NAMESPACE, argv, _LOG, model)
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError, UnavailableError):
            control().status()
            _PIDFILE.write_text(f"{_listener()}\n", encoding="ascii")
            return
        if time.monotonic() > deadline or not _runs():
            raise LabError(f"dnsteer-ext did not come up: {_last_log_line()}")
        time.sleep(0.02)


def control() -> ExtensionClient:
    """Return the client of the running extension's control socket."""
    return ExtensionClient(str(names.EXTENSION_SOCKET), START_SECONDS)


def crash() -> None:
    """Kill dnsteer-ext with SIGKILL, and wait until its process is gone."""
    processes.kill([int(_PIDFILE.read_text(encoding="ascii"))])


def _listener() -> int:
    """Return the process id of the socket's listener, from the kernel: dnsteer-ext writes no pidfile."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(names.EXTENSION_SOCKET))
        pid, _, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(pid)


def _runs() -> bool:
    return names.EXTENSION_NAMESPACE in processes.inside_namespaces().values()


def _last_log_line() -> str:
    lines = _LOG.read_text(encoding="utf-8", errors="replace").splitlines() if _LOG.exists() else []
    for line in reversed(lines):
        with contextlib.suppress(ValueError):  # lines of the library are not JSON
            said = json.loads(line)
            if isinstance(said, dict) and said.get("error"):
                return str(said["error"])
    return lines[-1] if lines else "it said nothing"


@dataclass(frozen=True)
class ExtensionCounters:
    """Packets of each service by backend; packets dropped, by reason and port; and packets that *missed* all entries."""

    services: dict[str, PacketCounts]
    dropped: PacketCounts
    missed: int

    def since(self, before: ExtensionCounters) -> ExtensionCounters:
        """Return the counts since *before*."""
        services = {
            name: {backend: n - before.services.get(name, {}).get(backend, 0) for backend, n in by.items()}
            for name, by in self.services.items()
        }
        dropped = {why: n - before.dropped.get(why, 0) for why, n in self.dropped.items()}
        return ExtensionCounters(services, dropped, self.missed - before.missed)

    def problems(self) -> list[str]:
        """Messages about drops and misses, which must be zero: the switch sends the extension only what it serves."""
        found = [f"the extension dropped {n} packets ({why})" for why, n in self.dropped.items() if n]
        if self.missed:
            found.append(f"the extension had no entry for {self.missed} packets")
        return found

    def as_json(self) -> dict[str, Any]:
        """The counters as JSON values."""
        services = {name: {"packets": sum(by.values()), "backends": by} for name, by in self.services.items()}
        return {"services": services, "dropped": self.dropped, "missed": self.missed}


def read_counters() -> ExtensionCounters:
    """The running extension's counters. Raises UnavailableError."""
    counters = control().counters()
    services = {
        str(vip["name"]): {str(backend): int(n["packets"]) for backend, n in vip["backends"].items()}
        for vip in counters["vips"]
    }
    dropped = counters["dropped"]
    by_why = {
        f"{why}, by port {port}": int(n) for port in ("in", "out") for why, n in _packet_counts(dropped[port]).items()
    }
    return ExtensionCounters(services, by_why, int(dropped["missed"]))


def _packet_counts(value: Mapping[str, Any]) -> PacketCounts:
    return {name: int(n) for name, n in value.items()}
