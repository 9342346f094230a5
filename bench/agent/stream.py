# SPDX-License-Identifier: Apache-2.0
"""The helper that sends a steady stream of queries (dnsteer.lab.stream) and sums up. It lives in the client's namespace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.agent.message import answered, query
from bench.change.stdio import allow_open_files, serve
from dnsteer.lab.stream import QueryStream


@dataclass
class _Count:
    """What came of the queries of one flow. *lost* are the times at which the lost ones were sent."""

    sent: int = 0
    answered: int = 0
    errors: int = 0
    slowest: float = 0.0
    lost: list[float] = field(default_factory=list)


class Helper:
    """One stream. With *each* every query is reported, else their numbers by flow."""

    def start(
        self, flows: Sequence[tuple[str, int, int]], local: str, names: Sequence[str], rate: float, each: bool
    ) -> dict[str, Any]:
        """Send *rate* queries a second for *names* in turn; *flows* are server, port and source port, taken in turn."""
        allow_open_files(len(flows))
        self._each, self._names = each, names
        self._counts = [_Count() for _ in flows]
        self._queries: list[tuple[float, float, str, str, str]] = []
        self._stream = QueryStream(local, flows, [query(name, 0) for name in names], rate, self._done)
        self._stream.start()
        return {}

    def stop(self) -> dict[str, Any]:
        """Stop sending, wait for late answers, and report."""
        self._stream.stop()
        if self._each:
            return {"queries": sorted(self._queries)}
        return {"counts": [[c.sent, c.answered, c.errors, c.slowest, c.lost] for c in self._counts]}

    def _done(self, flow: int, name: int, sent: float, took: float, answer: bytes) -> None:
        _, code, server = answered(answer) if answer else (0, "", "")
        if self._each:
            self._queries.append((sent, took, code, server, self._names[name]))
        count = self._counts[flow]
        count.sent += 1
        if took < 0:
            count.lost.append(sent)
            return
        count.answered += 1
        count.errors += code not in ("NOERROR", "NXDOMAIN")
        count.slowest = max(count.slowest, took)


if __name__ == "__main__":
    helper = Helper()
    serve({"start": helper.start, "stop": helper.stop})
