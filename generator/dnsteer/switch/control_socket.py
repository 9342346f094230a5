# SPDX-License-Identifier: Apache-2.0
"""Where the control socket of a bridge's agent is, for the agent and for those who look for one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

from dnsteer import __version__
from dnsteer.switch.other_versions import program_of

PROTOCOL = 1
"""Version of what is spoken there. The next one is due where a peer of before would misread a message: not for a new key."""
_SYSTEM = (Path("/run/openvswitch"), Path("/var/run/openvswitch"))
_FOLDER = Path("/run/dnsteer")


DIRECTORY = "/var/run/openvswitch"


def default_remote() -> str:
    """This machine's own OVSDB: in the directory that Open vSwitch's programs take, OVS_RUNDIR where that is set."""
    return f"unix:{os.environ.get('OVS_RUNDIR') or DIRECTORY}/db.sock"


def database_name(remote: str) -> str:
    """What messages call the OVSDB at *remote*: with OVS_RUNDIR where that is what chose its socket."""
    directory = os.environ.get("OVS_RUNDIR")
    kind, _, where = remote.partition(":")
    chosen = directory and kind == "unix" and Path(where).absolute() == Path(directory).absolute() / "db.sock"
    return f"OVSDB at {remote}{' (from OVS_RUNDIR)' if chosen else ''}"


def canonical_remote(remote: str) -> str:
    """An OVSDB's remote in the one spelling that is its own: without symbolic links such as /var/run."""
    kind, _, where = remote.partition(":")
    return f"unix:{os.path.realpath(where)}" if kind == "unix" else remote


def folder_of(remote: str) -> Path | None:
    """Return the directory of the sockets for the switch with this OVSDB; None for one that is reached by the network.

    For the system's Open vSwitch it is /run/dnsteer, for another one `dnsteer` beside its database's socket.
    """
    kind, _, where = remote.partition(":")
    if kind != "unix":
        return None
    beside = Path(where).absolute().parent
    return _FOLDER if beside in _SYSTEM else beside / "dnsteer"


def socket_of(remote: str, bridge: str) -> Path | None:
    """Return the path of the socket."""
    folder = folder_of(remote)
    return folder / f"{bridge}.sock" if folder is not None else None


def refusal_of_agent(greeting: Mapping[str, object]) -> str:
    """Why this client does not ask the agent that greets so, and what to do; empty where they speak the same version."""
    spoken, program = greeting.get("v"), program_of(greeting.get("version"))
    if _is_version(spoken) and spoken != PROTOCOL:
        return _differs(spoken, program, PROTOCOL, f"dnsteer {__version__}")
    return "" if spoken == PROTOCOL else f"found an agent that speaks version {str(spoken)[:40]!r}; expected {PROTOCOL}"


def refusal_of_client(request: Mapping[str, object]) -> str:
    """Why this agent does not do what a client asks for, and what to do; empty where they speak the same version."""
    spoken, program = request.get("v"), program_of(request.get("version"))
    if _is_version(spoken) and spoken != PROTOCOL:
        return _differs(PROTOCOL, f"dnsteer {__version__}", spoken, program)
    return "" if spoken == PROTOCOL else f"found version {str(spoken)[:40]!r}; expected {PROTOCOL}"


def _is_version(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _differs(agent: int, agents: str, client: int, clients: str) -> str:
    """What is said where an agent and its client speak other versions; *agents* and *clients* are their programs."""
    advice = (
        f"use {agents} here, or upgrade to it"
        if agent > client
        else "restart the agent, so that it is the version that is installed: systemctl restart dnsteer-agent"
    )
    return (
        f"the agent is {agents} and speaks version {agent} at its control socket, and the client is {clients} and speaks "
        f"version {client}: {advice}"
    )


def find_socket(remote: str, bridge: str | None) -> Path | None:
    """Return the socket of the bridge's agent, or of the only one there is; None where there is none."""
    folder = folder_of(remote)
    if folder is None:
        return None
    try:
        found = [path for path in folder.iterdir() if path.suffix == ".sock"]
    except OSError:
        return None
    if bridge is not None:
        found = [path for path in found if path.stem == bridge]
    return found[0] if len(found) == 1 else None
