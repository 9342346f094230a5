# SPDX-License-Identifier: Apache-2.0
"""How far `dnsteer capacity` is off at every published measurement when it is fitted without it. Prints JSON.

Exit status 1 when the median of the explained rows is above 10 % or the worst above 25 %.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.left_out_errors import MEDIAN, WORST, error_summary, rows_as_json

from dnsteer.capacity.estimate import leave_one_out
from dnsteer.capacity.model import Model, all_rows
from dnsteer.card.published import hardware_dir, load_published
from dnsteer.spec.model.spec import Hardware


def parameters(card: Hardware) -> dict[str, Any]:
    """What is fitted for a card, in the units of docs/capacity.md."""
    model = Model(card, all_rows())
    time, latency = model.time, model.latencies
    return {
        "packet_time_ns": {name: round(value, 3) for name, value in time.costs.items()},
        "cache_entries": {"entry": round(time.entry_cache), "counter": round(time.counter_cache)},
        "latency_us": {name: round(value, 3) for name, value in latency.values.items()},
        "of_the_other_card": sorted(time.borrowed | latency.borrowed),
        "packets_of_a_connection": round(model.packets_of_a_connection, 2),
        "cores": {of: {"mpps": round(c.core, 2), "most_mpps": round(c.ceiling, 2)} for of, c in model.cores.items()},
    }


def main() -> int:
    """Run the benchmark."""
    found = list(leave_one_out())
    result = error_summary(found)
    ok = result["explained"]["median"] <= MEDIAN and result["explained"]["worst"] <= WORST
    asides = [
        {"file": file.stem, "id": aside.id, "figures": len(aside.values), "why": aside.why}
        for file in sorted(hardware_dir().glob("*.yaml"))
        for aside in load_published(file).not_modelled
    ]
    report = {
        "ok": ok,
        "bounds": {"median": MEDIAN, "worst": WORST},
        **result,
        "not_modelled": asides,
        "fitted": {card.value: parameters(card) for card in Hardware},
        "left_out": rows_as_json(found),
    }
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
