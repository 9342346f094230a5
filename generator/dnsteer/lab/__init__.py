"""Real DNS servers and load in network namespaces, around a spec's switch."""

from dnsteer.lab.errors import (
    CommandError,
    LabBusyError,
    LabError,
    LabExistsError,
    MissingProgramError,
    NoLabError,
    NotRootError,
    TopologyError,
)
from dnsteer.lab.lifecycle import down, print_status, status, up
from dnsteer.lab.state import ClientState, LabState, Process, ServerState

__all__ = [
    "ClientState",
    "CommandError",
    "LabBusyError",
    "LabError",
    "LabExistsError",
    "LabState",
    "MissingProgramError",
    "NoLabError",
    "NotRootError",
    "Process",
    "ServerState",
    "TopologyError",
    "down",
    "print_status",
    "status",
    "up",
]
