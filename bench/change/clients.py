# SPDX-License-Identifier: Apache-2.0
"""Who answers me? One UDP query from each of many fixed source ports, as many clients would send it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType

from bench.change.inside import Helper
from bench.change.ports import source_ports
from dnsteer.lab.errors import LabError
from dnsteer.lab.state import LabState

COUNT = 2000
"""Clients, unless told otherwise."""
WINDOW = 64
"""Queries under way at once. With the 120 of `load` that is fewer than the raw sockets of the lab's switch hold."""
WAIT = 0.4
"""Seconds until a query is asked again. Under load the slowest answer takes a few hundredths of a second."""
TRIES = 3


@dataclass(frozen=True)
class Answers:
    """Who answered each source port: the backend's name, or None when no try was answered without error.

    *first_try_lost* are the ports whose first query never got an answer; *errors* those that got an error or
    nonsense. *sent* and *answered* count queries, all tries together. *started* is a time of `time.monotonic`.
    """

    backends: Mapping[int, str | None]
    first_try_lost: tuple[int, ...]
    errors: tuple[int, ...]
    sent: int
    answered: int
    started: float
    seconds: float

    @property
    def unanswered(self) -> tuple[int, ...]:
        """The source ports that no try got a name for."""
        return tuple(port for port, name in self.backends.items() if name is None)

    @property
    def shares(self) -> Counter[str | None]:
        """Number of clients of each backend."""
        return Counter(self.backends.values())

    def moved_since(self, earlier: Answers) -> dict[int, tuple[str | None, str | None]]:
        """The source ports that another backend answers now: before and after."""
        return {p: (earlier.backends[p], name) for p, name in self.backends.items() if name != earlier.backends[p]}


def wrong(answers: Mapping[int, str | None], expected: Mapping[int, str]) -> dict[int, tuple[str | None, str]]:
    """The source ports that someone else than expected answers: who does, and who should."""
    return {p: (answers.get(p), name) for p, name in expected.items() if answers.get(p) != name}


def local_address(lab: LabState, server: str, uplink: str | None = None) -> str:
    """The address that the client behind *uplink* asks *server* from."""
    version = ip_address(server).version
    return next(a for a in lab.client(uplink).addresses if ip_address(a).version == version)


class Clients:
    """Many clients of the VIP address *server*, one for each of *ports* (by default COUNT, evenly over *slots*).

    Between asks the sockets stay open. Raises LabError when a port is taken.
    """

    def __init__(
        self,
        lab: LabState,
        server: str,
        slots: int,
        *,
        ports: Sequence[int] | None = None,
        port: int = 53,
        uplink: str | None = None,
    ) -> None:
        self.ports = tuple(source_ports(COUNT, slots) if ports is None else ports)
        self._helper = Helper(lab, "bench.change.asker", uplink=uplink)
        try:
            self._helper.call(
                "open", timeout=20, server=server, port=port, local=local_address(lab, server, uplink), ports=self.ports
            )
        except LabError:
            self._helper.close()
            raise

    def __enter__(self) -> Clients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, *, tries: int = TRIES, wait: float = WAIT, window: int = WINDOW) -> Answers:
        """Ask from every port, at most *window* at once; again where no answer comes in *wait* seconds, up to *tries* times.

        Takes about 0.1 s for 2,000; *tries* times *wait* more when a client is not answered at all.
        """
        said = self._helper.call("ask", timeout=60, tries=tries, wait=wait, window=window)
        return Answers(
            backends=dict(said["backends"]),
            first_try_lost=tuple(said["first_try_lost"]),
            errors=tuple(said["errors"]),
            sent=said["sent"],
            answered=said["answered"],
            started=said["started"],
            seconds=said["seconds"],
        )

    def close(self) -> None:
        """Close the sockets."""
        self._helper.close()
