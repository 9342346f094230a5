"""The masks of a running datapath, read from its dump of flows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ovs.flow.odp import ODPFlow

from dnsteer.switch.masks import Mask, mask_of_match
from dnsteer.switch.megaflow_fields import fields_of

_OPAQUE = (",mpls(", ",nsh(")
_VALUE = re.compile(r"(?:=|(?<=recirc_id\()|(?<=dp_hash\()|(?<=in_port\()|(?<=eth_type\())[^=,()/]+")


@dataclass
class ObservedMasks:
    """The masks seen in dumps of datapath flows: the number of flows of each mask, and its first flow."""

    flows: Counter[Mask] = field(default_factory=Counter)
    examples: dict[Mask, str] = field(default_factory=dict)
    _masks: dict[str, Mask] = field(default_factory=dict)

    def add(self, lines: Iterable[str]) -> int:
        """Count masks in `dpctl/dump-flows -m` lines; return the number of flows. Raises ValueError as read_mask does."""
        count = 0
        for line in lines:
            if "recirc_id(" not in line:
                continue
            count += 1
            match = line.partition(", packets:")[0].partition(", ")[2]
            if any(header in match for header in _OPAQUE):
                match = _without_opaque_headers(match)
            shape = _VALUE.sub("", match)
            mask = self._masks.get(shape)
            if mask is None:
                mask = self._masks[shape] = read_mask(match)
            self.flows[mask] += 1
            self.examples.setdefault(mask, line)
        return count


def _without_opaque_headers(match: str) -> str:
    """Remove MPLS and NSH headers from a match: no table of ours matches them, and malformed ones cannot be parsed."""
    end = min(at for header in _OPAQUE if (at := match.find(header)) >= 0)
    return match[:end] + ")" * (match.count("(", 0, end) - match.count(")", 0, end))


def read_mask(match: str) -> Mask:
    """Return the mask of a datapath flow's match. Raises ValueError if the match cannot be parsed."""
    return mask_of_match(fields_of(dict(ODPFlow(f"{match}, packets:0, bytes:0, used:never, actions:drop").match)))
