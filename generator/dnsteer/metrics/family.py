# SPDX-License-Identifier: Apache-2.0
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


Color = Literal["green", "orange", "red", "blue", "text"]


@dataclass(frozen=True)
class ValueScale:
    """What the values of a panel mean. *words* are said in place of a value, each with its colour.

    Other values have the colour of the last of *steps* that they reach; that of None is for the smallest.
    """

    steps: tuple[tuple[float | None, Color], ...]
    words: tuple[tuple[float, str, Color], ...] = ()


PLAIN = ValueScale(((None, "blue"),))
"""Values that are neither good nor bad."""
YES_IS_GOOD = ValueScale(((None, "red"), (1, "green")), ((0, "no", "red"), (1, "yes", "green")))
YES_IS_BAD = ValueScale(((None, "green"), (1, "red")), ((0, "no", "green"), (1, "yes", "red")))
NONE_IS_GOOD = ValueScale(((None, "green"), (1, "red")))
SOME_ARE_DOUBTFUL = ValueScale(((None, "green"), (1, "orange")))


@dataclass(frozen=True)
class Panel:
    """How the dashboard draws a family, always by switch and bridge. *by* are further labels by which series are told apart.

    *combine* is what becomes of the series of one group: figures are summed; of states that are 0 or 1 the smallest or
    largest counts. *only* are label and value of the series that count, *top* limits their number. *query* is for what
    these cannot express, with `METRIC` for the family's series. *beside* is another family in the same panel. *unit* is
    Grafana's name of the unit. A `table` shows labels; `stat` is the value now.
    """

    title: str
    unit: str = "short"
    by: tuple[str, ...] = ()
    draw: Literal["timeseries", "stat", "table"] = "timeseries"
    top: int = 0
    combine: Literal["sum", "min", "max"] = "sum"
    only: tuple[tuple[str, str], ...] = ()
    query: str = ""
    beside: str = ""
    scale: ValueScale = PLAIN


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
