# SPDX-License-Identifier: Apache-2.0
"""The lab's state file, for the commands that use the lab, and the lock that only one builder or remover can hold."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from dnsteer.lab import names
from dnsteer.lab.errors import LabBusyError, LabError
from dnsteer.lab.topology import Topology
from dnsteer.render.atomic_files import write_file

_VERSION = 2
_LOCK_SECONDS = 0.5


@dataclass(frozen=True)
class ClientState:
    """A client: its namespace and source addresses. *direct* are the addresses for queries that bypass the VIPs."""

    uplink: str
    namespace: str
    mac: str
    addresses: tuple[str, ...]
    direct: tuple[str, ...]
    many: tuple[str, ...] = ()
    """Networks of further source addresses."""


@dataclass(frozen=True)
class ServerState:
    """A name server. *index* is the number of its directory."""

    name: str
    index: int
    namespace: str
    mac: str
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Process:
    """A process of the lab: its program, id and namespace, and the server's name if it belongs to a name server."""

    program: str
    pid: int
    namespace: str
    server: str = ""


@dataclass(frozen=True)
class LabState:
    """A lab. *phase*: `up`; `building` while `lab up` works; `broken` when it died or something has ended since."""

    phase: Literal["building", "up", "broken"]
    bridge: str
    db: str
    run_dir: str
    fingerprint: str
    namespaces: tuple[str, ...]
    clients: tuple[ClientState, ...]
    servers: tuple[ServerState, ...]
    notes: tuple[str, ...] = ()
    processes: tuple[Process, ...] = ()
    applied: bool = False
    """Whether the bridge exists, that is, `dnsteer apply` has been run."""
    problem: str = ""
    """What is wrong when *phase* is `broken`."""
    extension: str = ""
    """Control socket of the extension; empty where the spec has none."""

    def as_json(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {"version": _VERSION, **asdict(self)}

    def server(self, name: str) -> ServerState:
        """The server of that name. Raises LabError with the names there are."""
        for server in self.servers:
            if server.name == name:
                return server
        raise LabError(f"no name server {name!r} in the lab; there are {', '.join(s.name for s in self.servers)}")

    def client(self, uplink: str | None = None) -> ClientState:
        """The client behind *uplink*, or the first one. Raises LabError with the uplinks that have one."""
        for client in self.clients:
            if uplink is None or client.uplink == uplink:
                return client
        raise LabError(f"no client behind {uplink!r}; there is one behind {', '.join(c.uplink for c in self.clients)}")


def describe(topology: Topology, phase: Literal["building", "up"]) -> LabState:
    """The state of a lab of *topology*."""
    return LabState(
        phase=phase,
        bridge=topology.spec.switch.bridge,
        db=names.db_target(),
        run_dir=str(names.RUN_DIR),
        fingerprint=fingerprint(topology),
        namespaces=tuple(topology.namespaces()),
        clients=tuple(
            ClientState(
                c.uplink,
                c.namespace,
                c.mac,
                tuple(map(str, c.addresses)),
                tuple(map(str, c.direct)),
                tuple(map(str, c.many)),
            )
            for c in topology.clients
        ),
        servers=tuple(
            ServerState(s.name, i, h.namespace, h.mac, tuple(map(str, s.addresses)))
            for i, (h, s) in enumerate(topology.servers())
        ),
        notes=tuple(topology.notes),
        extension=str(names.EXTENSION_SOCKET) if topology.extension else "",
    )


def fingerprint(topology: Topology) -> str:
    """Return a hash, equal for specs with the same network around the switch; weights, states and slots do not change it."""
    spec = topology.spec
    vips = [(n, v.addresses) for n, v in spec.vips.items()]
    own = (spec.switch.bridge, spec.switch.mac)
    described = repr((topology.clients, topology.hosts, topology.fabrics, vips, own, topology.extension, topology.mtu))
    return hashlib.sha256(described.encode()).hexdigest()


def save(state: LabState) -> None:
    """Write the state file atomically."""
    write_file(names.STATE_FILE, json.dumps(state.as_json(), indent=2) + "\n")


def load() -> LabState | None:
    """Return the state that was last saved; None when there is none. Raises LabError if the file is unusable."""
    try:
        value = json.loads(names.STATE_FILE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        raise LabError(f"{names.STATE_FILE} cannot be read ({err}): run `dnsteer lab down`") from err
    if not isinstance(value, dict) or value.pop("version", None) != _VERSION:
        raise LabError(f"{names.STATE_FILE} is of another version of dnsteer: run `dnsteer lab down`")
    clients = tuple(ClientState(**_tuples(c)) for c in value.pop("clients"))
    servers = tuple(ServerState(**_tuples(s)) for s in value.pop("servers"))
    processes = tuple(Process(**p) for p in value.pop("processes"))
    return replace(LabState(**_tuples(value), clients=clients, servers=servers), processes=processes)


def _tuples(value: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold the lab's lock. Raises LabBusyError when another process holds it; a killed process does not."""
    names.RUN_DIR.mkdir(mode=0o755, exist_ok=True)
    lock = names.RUN_DIR / "lock"
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # Wait briefly: a child that a killed `lab up` was starting holds the lock until its exec.
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _try_lock(handle):
            if time.monotonic() > deadline:
                raise LabBusyError("another `dnsteer lab` command is building or removing the lab; wait for it")
            time.sleep(0.02)
        # The one before may have removed the directory with the lock in it; then this lock guards nothing.
        if not lock.exists() or lock.stat().st_ino != os.fstat(handle).st_ino:
            raise LabBusyError("the lab was removed at this moment; run the command again")
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked() -> bool:
    """Whether a process is building or removing the lab now."""
    try:
        handle = os.open(names.RUN_DIR / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
