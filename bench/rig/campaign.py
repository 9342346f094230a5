# SPDX-License-Identifier: Apache-2.0
"""Rounds in which each peer is measured once, in random order, each run beside a control without a balancer."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.agent.usage import Usage
from bench.events import spread
from bench.machine import idle_seconds
from bench.rig.asker import Asker, built_asker
from bench.rig.junk import KINDS, Sender
from bench.rig.network import FAMILIES, Network, dropped, wait_for_answer
from bench.rig.peers import Peer, denied_prefixes, spec_text

NONE = "none"
"""Queries alone, without junk."""
_LEAD = 0.3
"""Seconds of junk before the queries, and after them."""
_ADDED = "10.254.254.0/24"
"""The prefix by which a list is changed, which is in none."""


@dataclass(frozen=True)
class Wanted:
    """What is measured. *rate*: queries a second (0: as many as are answered). *junk_rate*: packets a second."""

    junk: Sequence[str]
    lists: Sequence[int]
    rate: int
    junk_rate: int
    seconds: float
    repeat: int
    family: int
    clients: int = 0
    """Good clients, each of a prefix of its own; 0: one, whose queries are dnsperf's."""


class Campaign:
    """Measures *peers* in a network that is there. *program* is the sender of junk."""

    def __init__(
        self,
        network: Network,
        peers: Mapping[str, Peer],
        wanted: Wanted,
        program: Path,
        seed: int,
        say: Callable[[str], object],
    ) -> None:
        self._network, self._peers, self._wanted = network, peers, wanted
        self._program, self._order, self._say = program, random.Random(seed), say
        self._asker = built_asker(network.folder) if wanted.clients else Path()
        self.runs: list[dict[str, Any]] = []
        self.lists: list[dict[str, Any]] = []
        """Seconds from loading a list to the first answer, and of one more prefix."""

    def run(self) -> None:
        """All rounds."""
        for turn in range(self._wanted.repeat):
            for size in self._wanted.lists:
                for name in self._order.sample(list(self._peers), len(self._peers)):
                    self._peer(turn, name, size)

    def _peer(self, turn: int, name: str, size: int) -> None:
        peer, family = self._peers[name], FAMILIES[self._wanted.family]
        with self._started(peer, name, size):
            for kind in self._order.sample(list(self._wanted.junk), len(self._wanted.junk)):
                control = self._measured(family.direct[1], None, NONE)
                found = self._measured(family.vip, peer, kind)
                about = {"round": turn + 1, "peer": name, "list": size, "junk": kind}
                self.runs.append({**about, **found, "control": control})
                self._say(f"{self.runs[-1]}")

    @contextmanager
    def _started(self, peer: Peer, name: str, size: int) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(peer.stop)
            peer.prepare()
            began = time.monotonic()
            peer.load(denied_prefixes(size))
            wait_for_answer(FAMILIES[self._wanted.family].vip)
            load = time.monotonic() - began
            yield
            if size:  # after the runs, which are with the list as it was asked for
                began = time.monotonic()
                peer.deny(_ADDED)
                took = time.monotonic() - began
                self.lists.append({"peer": name, "list": size, "load_s": round(load, 3), "change_s": round(took, 3)})

    def _ask(self, server: str, *, direct: bool) -> Callable[[], dict[str, Any]]:
        """Begin queries; those on the *direct* link are of its one address."""
        wanted, family = self._wanted, FAMILIES[self._wanted.family]
        if not wanted.clients:
            return self._network.ask(server, wanted.seconds, wanted.rate)
        clients = [family.direct[0]] if direct else family.clients(wanted.clients)
        asker = Asker(self._asker, "client", clients, [server])
        return asker.ask(wanted.seconds, wanted.rate, self._order.randrange(1 << 32)).figures

    def _measured(self, server: str, peer: Peer | None, kind: str) -> dict[str, Any]:
        """One load, with junk unless its *kind* is none; of *peer* what it keeps afterwards."""
        wanted = self._wanted
        if peer is not None:
            peer.forget()
        pid = peer.pid() if peer is not None else None
        usage = Usage(pid) if pid is not None else None
        before, idle = dropped(), idle_seconds()
        began = time.monotonic()
        with ExitStack() as stack:
            sender = None
            if kind != NONE:
                seconds, seed = wanted.seconds + 2 * _LEAD, self._order.randrange(1 << 32)
                sender = stack.enter_context(
                    Sender(self._program, KINDS[kind], spec_text(), wanted.junk_rate, seconds, seed)
                )
                time.sleep(_LEAD)
            found = self._ask(server, direct=peer is None)()
            if sender is not None:
                sent = sender.counted()
                found["junk_sent"] = {**sent, "dropped_by_the_link": dropped() - before}
        took = time.monotonic() - began
        if peer is not None:
            found |= peer.state()
        if usage is not None:
            found["cpu_share"] = usage.figures()["cpu_share"]
        found["machine"] = round(1 - (idle_seconds() - idle) / took / (os.cpu_count() or 1), 3)
        return found


def summary(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Spreads over the rounds, of each peer with each list and kind of junk, and of the controls beside it.

    *of_control* is the rate of answers in relation to that of the control beside each run.
    """
    keys = list(dict.fromkeys((r["peer"], r["list"], r["junk"]) for r in runs))
    out = []
    for key in keys:
        those = [r for r in runs if (r["peer"], r["list"], r["junk"]) == key]
        row: dict[str, Any] = dict(zip(("peer", "list", "junk"), key, strict=True))
        for name in (
            "qps",
            "lost",
            "latency_ms",
            "machine",
            "cpu_share",
            "megaflows",
            "upcalls",
            "unread",
            "connections",
        ):
            if name in those[0]:
                row[name] = spread([r[name] for r in those])
        row["of_control"] = spread([round(r["qps"] / max(1, r["control"]["qps"]), 4) for r in those])
        row["control"] = {name: spread([r["control"][name] for r in those]) for name in ("qps", "lost", "latency_ms")}
        if "junk_sent" in those[0]:
            row["junk_pps"] = spread([r["junk_sent"]["pps"] for r in those])
        out.append(row)
    return out


def changes(lists: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Spreads of the seconds that loading a list and one more prefix took, of each peer with each list."""
    out = []
    for peer, size in dict.fromkeys((row["peer"], row["list"]) for row in lists):
        those = [row for row in lists if (row["peer"], row["list"]) == (peer, size)]
        out.append(
            {"peer": peer, "list": size} | {name: spread([r[name] for r in those]) for name in ("load_s", "change_s")}
        )
    return out
