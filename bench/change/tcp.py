# SPDX-License-Identifier: Apache-2.0
"""Many TCP connections through the VIP, held open while the switch changes: which ones break, and who answers the others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from bench.change.clients import local_address
from bench.change.inside import Helper
from bench.change.ports import source_ports
from dnsteer.lab.errors import LabError
from dnsteer.lab.state import LabState

COUNT = 1000
"""Connections, unless told otherwise. A name server of the lab holds 2,000 of them before it hurries its clients."""
WINDOW = 32
"""Connections that are set up or asked at once; a query by TCP is two packets."""
WAIT = 3.0
"""Seconds until a connection is taken for dead. The kernel repeats what was lost after 0.2 s, then 0.4 s, 0.8 s."""


@dataclass(frozen=True)
class Checked:
    """Which connections work: the backend that answers each source port, and for each dead one the reason.

    Reasons: `reset` (the packets reach a server that does not know the connection), `closed by the server`, `no answer`
    (they get lost, or reach a server that still has an older connection from the same port and does not know it is dead).
    *started* is a time of `time.monotonic`; *slowest* the seconds of the slowest answer: 0.2 and more when one was repeated.
    """

    backends: Mapping[int, str | None]
    dead: Mapping[int, str]
    started: float
    seconds: float
    slowest: float


class Connections:
    """Open connections to the VIP address *server*, from each of *ports* (by default COUNT, evenly over *slots*).

    A server closes a connection that is idle for ten minutes; every check starts that time anew. Raises LabError when one
    cannot be opened.
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
        self._helper = Helper(lab, "bench.change.holder", uplink=uplink)
        try:
            local = local_address(lab, server, uplink)
            self._helper.call("start", timeout=20, server=server, port=port, local=local)
            failed = self.reopen()
            if failed:
                source, reason = min(failed.items())
                raise LabError(
                    f"{len(failed)} of {len(self.ports)} connections to {server} could not be opened, "
                    f"the first from port {source}: {reason}"
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Connections:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def check(self, *, wait: float = WAIT) -> Checked:
        """One query on every open connection. Dead ones are closed, and not asked again until they are reopened."""
        said = self._helper.call("check", timeout=60, wait=wait, window=WINDOW)
        return Checked(dict(said["backends"]), dict(said["dead"]), said["started"], said["seconds"], said["slowest"])

    def reopen(self, ports: Iterable[int] | None = None, *, wait: float = WAIT) -> dict[int, str]:
        """Open the connections of *ports* (by default all) that are not open; the reasons of those that fail, by port."""
        wanted = self.ports if ports is None else tuple(ports)
        said = self._helper.call("open", timeout=120, ports=wanted, wait=wait, window=WINDOW)
        return dict(said["failed"])

    def end(self) -> None:
        """Close all connections as clients do, by FIN. They can be opened again."""
        self._helper.call("close", timeout=10, orderly=True)

    def close(self) -> None:
        """Close all connections at once, by RST."""
        with contextlib.suppress(LabError):  # a helper that has ended has closed them
            self._helper.call("close", timeout=10, orderly=False)
        self._helper.close()
