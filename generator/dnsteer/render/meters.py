# SPDX-License-Identifier: Apache-2.0
"""Plan -> meters, as commented text for people, and each as ovs-ofctl takes it; and the meters that a switch prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

from dnsteer.plan.plan import Plan
from dnsteer.render.flow_checks import shortened
from dnsteer.render.templates import render_template, template_line
from dnsteer.tables.cookies import METER_BASE, METER_LAST
from dnsteer.tables.meter_rows import MeterRow
from dnsteer.tables.table import TemplateError

TEMPLATE = "meters/icmp.j2"
_METER = re.compile(r"^meter[=:](\d+) (.*?)bands[=:]\s*(.*?)\s*(?=^meter[=:]|^OFPST_|\Z)", re.M | re.S)


@dataclass(frozen=True)
class Meter:
    """One meter: its number, and its description as `ovs-ofctl add-meter` takes it."""

    number: int
    text: str


def meters_of(plan: Plan) -> list[Meter]:
    """Return all meters of the plan. Raises TemplateError unless their template renders one line for each."""
    rows = plan.rows.of(MeterRow)
    lines = [line for line in _render(plan, "spec", notes=False).splitlines() if line.strip()]
    for row, line in zip_longest(rows, lines):
        if row is None or line is None or not line.startswith(f"meter={row.number},"):
            expected = f"meter={row.number},..." if row is not None else "no further line"
            found = f"this line was rendered: {shortened(line)}" if line is not None else "no further line was rendered"
            where = template_line(TEMPLATE, line) if line is not None else TEMPLATE
            raise TemplateError(f"{where}: a meter is one line; expected {expected}; {found}")
    return [Meter(row.number, line) for row, line in zip(rows, lines, strict=True)]


def render_meters(plan: Plan, file: str = "spec") -> str:
    """Render all meters with comments, which name the spec as *file*."""
    return _render(plan, file, notes=True)


def _render(plan: Plan, file: str, *, notes: bool) -> str:
    return render_template(TEMPLATE, meters=plan.rows.of(MeterRow), plan=plan, file=file, notes=notes)


def is_our_meter(number: int) -> bool:
    """Whether a meter has a number of dnsteer's: meters carry no cookie."""
    return METER_BASE <= number <= METER_LAST


def parse_meters(text: str) -> dict[int, Meter]:
    """Return the meters of `ovs-ofctl dump-meters` by number, each as `add-meter` takes it."""
    found = {}
    for m in _METER.finditer(text):
        flags, bands = ",".join(m[2].split()), ",".join(m[3].split())
        number = int(m[1])
        found[number] = Meter(number, f"meter={number},{flags}{',' if flags else ''}bands={bands}")
    return found
