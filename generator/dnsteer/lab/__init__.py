# SPDX-License-Identifier: Apache-2.0
"""Real DNS servers and load in network namespaces, around a spec's switch.

All of it is loaded when it is first used: the lab's own programs, one or more for each client and server, need little of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dnsteer.lab.errors import (
        LabBusyError,
        LabCommandError,
        LabError,
        LabExistsError,
        MissingProgramError,
        NotRootError,
        TopologyError,
    )
    from dnsteer.lab.lifecycle import down, print_status, status, up
    from dnsteer.lab.state import LabState

__all__ = [
    "LabBusyError",
    "LabCommandError",
    "LabError",
    "LabExistsError",
    "LabState",
    "MissingProgramError",
    "NotRootError",
    "TopologyError",
    "down",
    "print_status",
    "status",
    "up",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for part in ("errors", "lifecycle", "state"):
            if hasattr(module := import_module(f"{__name__}.{part}"), name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
