"""What can change on the page Offload: datapath flows with their verdicts, masks, and the load against what is predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dnsteer.console.desk import Picture
from dnsteer.console.offload_reading import MANY, TOO_MANY, OffloadLook, OffloadView
from dnsteer.offload.capabilities import Profile
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.offload.judge import Reason, without_value
from dnsteer.offload.observe import ObservedFlow
from dnsteer.offload.owners import owners_in_words
from dnsteer.view import wording

KEY = "offload"
MAX_ROWS = 500
"""Datapath flows that are shown, the busiest."""
MAX_MASKS = 100
_USUAL = ("recirc_id=0", "packet_type=(0,0x0)")
"""What nearly every flow matches, and says nothing."""


@dataclass(frozen=True)
class FlowRow:
    """A datapath flow in the table. *place* is the number of its counter on the page."""

    place: int
    observed: ObservedFlow
    owner: str
    match: str
    actions: str
    reasons: tuple[tuple[str, str], ...]
    """Why it is not in hardware, each with its source."""
    missing: bool
    vips: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The profile's verdict."""
        return self.observed.predicted.verdict


@dataclass(frozen=True)
class Statement:
    """A statement of the profile that verdicts rest on: its text, source and certainty, and the number of flows."""

    text: str
    verdict: str
    source: str
    certainty: str
    flows: int


class OffloadParts:
    """Makes the parts of the page, once for each reading: hundreds of rows, while rates change more often."""

    def __init__(self, macros: Any) -> None:
        self._macros = macros
        self._made: tuple[object, dict[str, str], dict[str, Any]] = (None, {}, {})

    def content(self, picture: Picture, read: object) -> tuple[str, dict[str, str], dict[str, Any]]:
        """The shape, parts and numbers of the page."""
        side = picture.side
        if side is None or not isinstance(read, OffloadLook):
            return "nothing", {"totals": str(self._macros.nothing(picture.seen))}, {}
        flavor = side.known.spec.switch.flavor.value
        if self._made[0] != (flavor, read):
            self._made = (flavor, read), *_parts(self._macros, flavor, read)
        _, parts, values = self._made
        shape = f"{picture.seen.bridge} {side.known.state.number}{'' if 'flows' in parts else ' unread'}"
        return shape, dict(parts), {**values, **_load(picture)}


def _parts(macros: Any, flavor: str, read: OffloadLook) -> tuple[dict[str, str], dict[str, Any]]:
    view = read.view
    parts = {
        "read": str(macros.read(view, MANY)),
        "basis": str(macros.basis(flavor, view)),
        "load": str(macros.load(view, read.prediction)),
        "prediction": str(macros.prediction(read.prediction)),
    }
    reading = view.reading if view is not None else None
    if view is None or view.profile is None or reading is None:
        parts["totals"] = str(macros.unread(view, TOO_MANY))
        return parts, {}  # and no tables, which would be empty
    rows = list(_rows(view, view.profile, reading.flows[:MAX_ROWS]))
    masks = reading.masks[:MAX_MASKS]
    verdicts = Counter(each.predicted.verdict for each in reading.flows)
    parts["totals"] = str(macros.totals(view, reading, verdicts))
    parts["flows"] = str(macros.flows(view, reading, rows))
    parts["mask-total"] = str(macros.mask_total(len(reading.masks), read.prediction))
    parts["masks"] = str(macros.masks(masks, len(reading.masks)))
    parts["why"] = str(macros.statements(list(_statements(view.profile, reading.flows))))
    values = {f"f-{row.place}": f"{row.observed.flow.packets:,}" for row in rows}
    values.update({f"m-{n}": f"{mask.packets:,}" for n, mask in enumerate(masks)})
    return parts, values


def _load(picture: Picture) -> dict[str, Any]:
    """Queries and packets a second of all VIPs."""
    values: dict[str, Any] = {}
    for letter, unit in (("q", "queries"), ("p", "packets")):
        found = [
            rate
            for key, rate in picture.rates.items()
            if isinstance(key, tuple) and key[0] == "vip" and key[-1] == unit and rate is not None
        ]
        values[letter] = wording.rounded(sum(found)) if found else None
    return values


def _rows(view: OffloadView, profile: Profile, flows: Iterable[ObservedFlow]) -> Iterable[FlowRow]:
    for n, each in enumerate(flows):
        flow, judgement = each.flow, each.predicted
        reasons = tuple(dict.fromkeys((r.text or r.name, _cited(profile, r)) for r in judgement.reasons))
        yield FlowRow(
            n,
            each,
            owners_in_words(each.owners),
            ", ".join(_match(flow)),
            flow.text.partition("actions:")[2].partition(", dp-extra-info")[0],
            reasons,
            each.missing and (flow.thread, flow.ufid) in view.late,
            tuple(owner.vip for owner in each.owners),
        )


def _match(flow: DatapathFlow) -> Iterable[str]:
    for each in flow.match:
        text = f"eth_type=0x{each.value:04x}" if each.key == "eth_type" and isinstance(each.value, int) else str(each)
        if text not in _USUAL:
            yield text


def _cited(profile: Profile, reason: Reason) -> str:
    return f"{profile.cite(reason.source)}, {reason.certainty}" if reason.source else reason.certainty


def _statements(profile: Profile, flows: Sequence[ObservedFlow]) -> Iterable[Statement]:
    """The statements that the verdicts rest on, each once: what prevents offload first, then the most common."""
    found: Counter[Reason] = Counter()
    for each in flows:
        said = (*each.predicted.reasons, *each.predicted.remarks)
        found.update({without_value(reason) for reason in said})
    order = ("no", "partial", "unknown", "yes")
    ranked = sorted(found.items(), key=lambda item: (order.index(item[0].verdict), -item[1], item[0].name))
    for reason, count in ranked:
        source = profile.cite(reason.source)
        yield Statement(reason.text or reason.name, reason.verdict, source, reason.certainty, count)


def offload_page(picture: Picture, key: str) -> dict[str, Any]:
    """What the page has beside its parts: nothing."""
    return {}
