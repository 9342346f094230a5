"""What a metric is: its name, type, labels and bound, and how the dashboard draws it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal, get_args

from dnsteer.spec.errors import DefinitionError

Type = Literal["counter", "gauge", "histogram"]
Row = Literal["Traffic", "Backends", "Health checks", "State", "Ports", "Datapath", "Agent"]
ROWS: tuple[Row, ...] = get_args(Row)
"""Parts of the page and of the dashboard, in order."""
SWITCH, BRIDGE = "switch", "bridge"
"""Labels that every metric has: the name of the switch, which is never empty, and its bridge."""
MAX_REASON = 120
"""Characters of a label that says why."""
APPLIED = "a spec is applied"
"""When a family is there that follows from the record and the counters, while the agent acts."""
ALWAYS = "always"
"""When one is there that the agent knows by itself, also while the switch is away."""
CHECKS = "a pool has health checks"
EXTENDED = "the extension serves VIPs"


@dataclass(frozen=True)
class Panel:
    """How the dashboard draws a family. *by* are the labels whose series are summed; *top* limits their number.

    *unit* is Grafana's name of the unit. A `table` shows labels; `stat` one number.
    """

    title: str
    unit: str = "short"
    by: tuple[str, ...] = ()
    draw: Literal["timeseries", "stat", "table"] = "timeseries"
    top: int = 0


@dataclass(frozen=True)
class Family:
    """One metric. *bound* says how many series there may be, *when* they are there.

    Of a counter *name* ends in `_total`; *buckets* are a histogram's, in seconds.
    """

    name: str
    type: Type
    row: Row
    help: str
    labels: tuple[str, ...] = ()
    bound: str = "1"
    when: str = APPLIED
    panel: Panel | None = None
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what Prometheus and the page of metrics would show badly. Raises DefinitionError."""
        mistake = ""
        if not self.help.endswith("."):
            mistake = f"help= is a sentence that ends with a full stop, not {self.help!r}"
        if (self.type == "counter") != self.name.endswith("_total"):
            mistake = "the name of a counter ends in _total, and no other does"
        if self.row not in ROWS:
            mistake = f"found row {self.row!r}; expected one of {', '.join(ROWS)}"
        if mistake:
            made = sys._getframe(2)  # of the dataclass's __init__
            file = str(made.f_globals["__name__"]).replace(".", "/")
            raise DefinitionError(f"{file}.py:{made.f_lineno}: metric {self.name}: {mistake}")

    @property
    def base(self) -> str:
        """The name as OpenMetrics declares it: a counter's without `_total`."""
        return self.name.removesuffix("_total") if self.type == "counter" else self.name

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Its labels with those that all have."""
        return (SWITCH, BRIDGE, *self.labels)

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series, as queries have them."""
        if self.type != "histogram":
            return (self.name,)
        return tuple(f"{self.name}{end}" for end in ("_bucket", "_sum", "_count"))
