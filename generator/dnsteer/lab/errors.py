# SPDX-License-Identifier: Apache-2.0
"""The lab's exceptions."""

from __future__ import annotations

from collections.abc import Sequence

from dnsteer.switch.tools import NotPermittedError, SwitchError


class LabError(SwitchError):
    """The lab cannot do what was asked; the message says why and what to do."""


class NotRootError(LabError, NotPermittedError):
    """The lab needs root: it makes network namespaces, virtual Ethernet pairs and raw sockets."""

    def __init__(self) -> None:
        super().__init__("the lab needs root (network namespaces, raw sockets): run it with sudo or as root")


class MissingProgramError(LabError):
    """Programs that the lab starts are not installed. *packages* are the Debian packages that bring them."""

    def __init__(self, missing: dict[str, str]) -> None:
        self.packages: Sequence[str] = sorted(set(missing.values()))
        names = ", ".join(sorted(missing))
        super().__init__(f"missing {names}: apt-get install {' '.join(self.packages)}")


class LabExistsError(LabError):
    """A lab, or remains of one, already exists."""


class LabBusyError(LabError):
    """Another process is building or removing the lab at this moment."""


class NoLabError(LabError):
    """There is no lab to work with."""

    def __init__(self) -> None:
        super().__init__("no lab is up: run `dnsteer lab up SPEC` first")


class TopologyError(LabError):
    """The spec is valid, but the lab has no network for it."""


class LabCommandError(LabError):
    """A program that the lab ran failed or did not end in time."""

    def __init__(self, argv: Sequence[str], problem: str) -> None:
        self.argv, self.problem = tuple(argv), problem
        super().__init__(f"`{' '.join(argv)}` {problem}")
