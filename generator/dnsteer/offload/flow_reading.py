# SPDX-License-Identifier: Apache-2.0
"""Read a switch's datapath flows again and again at bounded cost: only the busiest are judged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dnsteer.offload.datapath_flow import DatapathFlow, Unreadable, datapath_flow_lines, read_flow
from dnsteer.offload.observe import TYPES, FlowJudge, ObservedFlow, SwitchCommands
from dnsteer.offload.packet_path import Verdict
from dnsteer.switch.masks import Mask, show_mask
from dnsteer.switch.megaflows import read_megaflow

MAX_JUDGED = 2_000
"""Flows that are judged, the busiest ones: each takes about a millisecond the first time."""
_UFID = re.compile(r"\bufid:([0-9a-f-]+)")
_PACKETS = re.compile(r"\bpackets:(\d+)")
_PORT = re.compile(r"\bin_port\(([^)]*)\)")
_OFFLOADED = re.compile(r"\boffloaded:(\w+)")
_STATISTICS = re.compile(r", packets:\d+, bytes:\d+, used:[^,]*(?:, flags:[^,]*)?")
_WORDS: Mapping[str, Verdict] = {"yes": "yes", "true": "yes", "partial": "partial", "no": "no", "false": "no"}


@dataclass(frozen=True)
class MaskCount:
    """A mask, with the number of datapath flows that have it and their packets so far."""

    mask: str
    flows: int
    packets: int


@dataclass(frozen=True)
class OffloadReading:
    """The datapath flows of the spec's ports.

    *total* is their number, *in_hardware* how many the switch has in hardware (yes), partly (partial) and not (no). *flows*
    are the busiest of them, judged, with the most packets first. *said*: the dumps themselves have a word `offloaded:`.
    *elsewhere* is the number of flows of other ports of the datapath.
    """

    total: int
    elsewhere: int
    in_hardware: Mapping[Verdict, int]
    flows: Sequence[ObservedFlow]
    masks: Sequence[MaskCount]
    unreadable: Sequence[Unreadable] = ()
    said: bool = True


@dataclass
class _Line:
    text: str
    thread: str
    actual: Verdict
    said: bool
    packets: int = field(default=0)


class OffloadReader:
    """Reads a datapath again and again. What does not change of a flow is parsed once."""

    def __init__(self, most: int = MAX_JUDGED) -> None:
        self._most = most
        self._parsed: dict[tuple[str, str], DatapathFlow | Unreadable] = {}

    def read(self, switch: SwitchCommands, datapath: str, judge: FlowJudge) -> OffloadReading:
        """Read and judge. Raises SwitchError or UnavailableError."""
        lines = list(_lines(switch, datapath))
        ours = [line for line in lines if (m := _PORT.search(line.text)) and m[1].strip('"') in judge.ports]
        ours.sort(key=lambda line: (-line.packets, line.text))
        busiest = ours[: self._most]
        parsed = self._parse(busiest)
        judged = judge.judged(
            (flow, line.actual) for flow, line in zip(parsed, busiest, strict=True) if isinstance(flow, DatapathFlow)
        )
        return OffloadReading(
            total=len(ours),
            elsewhere=len(lines) - len(ours),
            in_hardware={verdict: sum(line.actual == verdict for line in ours) for verdict in TYPES.values()},
            flows=judged,
            masks=_masks(ours),
            unreadable=[flow for flow in parsed if isinstance(flow, Unreadable)],
            said=any(line.said for line in ours),
        )

    def _parse(self, lines: Sequence[_Line]) -> list[DatapathFlow | Unreadable]:
        """The flows of lines, with their packets now; those that are gone are forgotten."""
        known, self._parsed = self._parsed, {}
        out: list[DatapathFlow | Unreadable] = []
        for line in lines:
            key = line.thread, _STATISTICS.sub("", line.text)
            flow = known.get(key) or read_flow(line.text, line.thread)
            self._parsed[key] = flow
            if isinstance(flow, DatapathFlow):
                flow = replace(flow, text=line.text.strip(), packets=line.packets)
            out.append(flow)
        return out


def _lines(switch: SwitchCommands, datapath: str) -> Iterator[_Line]:
    """Each flow once, with what the switch says of it: the line's own `offloaded:`, else the type dumped."""
    seen = set()
    for kind, verdict in TYPES.items():
        for text, thread in datapath_flow_lines(switch.run("dpctl/dump-flows", "-m", datapath, f"type={kind}")):
            ufid, packets, said = _UFID.search(text), _PACKETS.search(text), _OFFLOADED.search(text)
            key = f"{thread} {ufid[1] if ufid else text}"
            if key in seen:
                continue
            seen.add(key)
            actual = _WORDS.get(said[1].lower(), verdict) if said else verdict
            yield _Line(text, thread, actual, said is not None, int(packets[1]) if packets else 0)


def _masks(lines: Sequence[_Line]) -> list[MaskCount]:
    flows: Counter[Mask] = Counter()
    packets: Counter[Mask] = Counter()
    for line in lines:
        try:
            mask = read_megaflow(line.text).mask
        except Exception:  # noqa: BLE001  the library passes on any exception of its decoders; the flow is listed as unreadable
            continue
        flows[mask] += 1
        packets[mask] += line.packets
    found = [MaskCount(show_mask(mask), n, packets[mask]) for mask, n in flows.items()]
    return sorted(found, key=lambda each: (-each.packets, each.mask))
