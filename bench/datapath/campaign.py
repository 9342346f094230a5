# SPDX-License-Identifier: Apache-2.0
"""The rounds of measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from bench.datapath.cases import BARE, CASES, SETTINGS, STEPS, VECTOR, Case, Settings, pipeline
from bench.datapath.counters import Sample
from bench.datapath.rig import PORTS, Rig
from bench.datapath.summary import row, spread
from bench.datapath.traffic import write_fresh, write_queries
from dnsteer.switch.tools import SwitchError

_LEAST_FORWARDED = 0.99  # of packets received
_MAX_UPCALLS = 200
Key = tuple[str, int, str, str]
"""Family, clients, case, settings."""


@dataclass(frozen=True)
class Pace:
    """Number of rounds; seconds of one measurement and before it."""

    rounds: int
    seconds: float
    warm: float


class Campaign:
    """Measures on *rig*, with its pcap files in *folder*. *problems* are what makes figures doubtful."""

    def __init__(self, rig: Rig, folder: Path, pace: Pace, seed: int, say: Callable[[str], None]) -> None:
        self.rig = rig
        self.folder = folder
        self.pace = pace
        self.seed = seed
        self.say = say
        self.problems: list[str] = []

    def _settings(self) -> Sequence[Settings]:
        return (*SETTINGS, *VECTOR) if self.rig.has_vector() else SETTINGS

    def _load(self, case: Case, family: int) -> None:
        """Load tables while nothing comes in: a packet under way could leave a megaflow of the old ones behind."""
        self.rig.device(PORTS[0])
        case.load(self.rig, family)

    def _play(self, family: int, clients: int) -> None:
        """Let the queries of so many clients come in, over and over."""
        file = self.folder / f"v{family}-{clients}.pcap"
        if not file.exists():
            write_queries(file, clients, family, self.seed)
        self.rig.device(PORTS[0], f"net_pcap{{n}},rx_pcap={file},infinite_rx=1")

    def _measure(self, case: Case, key: Key) -> Sample:
        sample = self.rig.measure(self.pace.seconds, self.pace.warm)
        name = " / ".join(map(str, key))
        if sample.forwarded < _LEAST_FORWARDED:
            self.problems.append(f"{name}: only {sample.forwarded:.0%} of the packets left")
        if sample.upcalls > _MAX_UPCALLS:
            self.problems.append(f"{name}: {sample.upcalls} packets without a megaflow while it was measured")
        return sample

    def _rounds(
        self, groups: Iterable[tuple[int, int]], cases: Sequence[Case], settings: Sequence[Settings]
    ) -> list[dict[str, Any]]:
        groups = list(groups)
        found: dict[Key, list[Sample]] = {}
        for number in range(self.pace.rounds):
            for family, clients in groups:
                self.say(f"round {number + 1} of {self.pace.rounds}: IPv{family}, {clients} clients")
                for case in cases:
                    self._load(case, family)
                    self._play(family, clients)
                    for setting in settings:
                        setting.apply(self.rig)
                        key = (f"IPv{family}", clients, case.name, setting.name)
                        found.setdefault(key, []).append(self._measure(case, key))
        return [row(*key, samples) for key, samples in found.items()]

    def matrix(self, families: Sequence[int], clients: Sequence[int]) -> list[dict[str, Any]]:
        """Every case by family, number of clients and settings."""
        return self._rounds(product(families, clients), CASES, self._settings())

    def steps(self, families: Sequence[int], clients: int) -> list[dict[str, Any]]:
        """What each step from port forwarding to NAT costs, without the caches by 5-tuple."""
        return self._rounds([(family, clients) for family in families], STEPS, SETTINGS[1:2])

    def fresh(self, family: int, packets: int) -> list[dict[str, Any]]:
        """The same with packets of which hardly two are alike: busy cycles, those of reading the file included."""
        file = self.folder / "fresh.pcap"
        write_fresh(file, packets, family, self.seed)
        cases = [BARE, pipeline("nat", "source-port"), pipeline("nat", "dp-hash")]
        found: dict[tuple[str, str], list[dict[str, float]]] = {}
        for number in range(self.pace.rounds):
            self.say(f"round {number + 1} of {self.pace.rounds}: IPv{family}, {packets} packets, each sent once")
            for case in cases:
                self._load(case, family)
                for setting in self._settings():
                    setting.apply(self.rig)
                    counters = self.rig.feed_once(f"net_pcap{{n}},rx_pcap={file}")
                    if counters.received != packets:
                        self.problems.append(f"fresh {case.name}: {counters.received} of {packets} packets came in")
                    if counters.processing is None:
                        raise SwitchError("Open vSwitch 4.0 does not print the cycles of processing; measure with 3.7")
                    figures = {
                        name: getattr(counters, name) / counters.received
                        for name in ("processing", "emc", "smc", "megaflow")
                    }
                    found.setdefault((case.name, setting.name), []).append(figures)
        file.unlink()
        return [
            {
                "case": case,
                "settings": setting,
                "cycles": spread([r["processing"] for r in rounds]),
                **{name: round(rounds[0][name], 3) for name in ("emc", "smc", "megaflow")},
            }
            for (case, setting), rounds in found.items()
        ]
