# SPDX-License-Identifier: Apache-2.0
"""Tables of a report, as docs/datapath.md has them: python -m bench.datapath.tables report.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[dict[str, Any]]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _line(head)
    yield "|" + "---|" * len(head)
    yield from map(_line, lines)


def _cycles(row: dict[str, Any]) -> str:
    cycles = row["cycles"]
    return f"{cycles['median']:.0f} ({cycles['least']:.0f}-{cycles['most']:.0f})"


def _mpps(row: dict[str, Any]) -> str:
    return f"**{row['mpps']['median']:.2f}** {_cycles(row)}"


def _unique(rows: Rows, *keys: str) -> list[Any]:
    """The different values of a key, or of several, in the order of the rows."""
    found = dict.fromkeys(tuple(row[key] for key in keys) for row in rows)
    return [values[0] if len(keys) == 1 else values for values in found]


def matrix(rows: Rows, family: str) -> Iterator[str]:
    """Mpps and cycles of one family: cases and settings by number of clients."""
    rows = [row for row in rows if row["family"] == family]
    at = {(row["case"], row["settings"], row["clients"]): row for row in rows}
    clients = _unique(rows, "clients")
    head = [family, "settings", *(f"{n:,} client{'s' if n > 1 else ''}" for n in clients)]
    yield from _table(
        head, [[case, s, *(_mpps(at[case, s, n]) for n in clients)] for case, s in _unique(rows, "case", "settings")]
    )


def steps(rows: Rows) -> Iterator[str]:
    """Cycles of the steps by family."""
    at = {(row["case"], row["family"]): row for row in rows}
    families = _unique(rows, "family")
    yield from _table(
        ["", *families], [[case, *(_cycles(at[case, f]) for f in families)] for case in _unique(rows, "case")]
    )


def fresh(rows: Rows) -> Iterator[str]:
    """Cycles of packets that are sent once, by case and settings."""
    at = {(row["case"], row["settings"]): row for row in rows}
    settings = _unique(rows, "settings")
    yield from _table(["", *settings], [[c, *(_cycles(at[c, s]) for s in settings)] for c in _unique(rows, "case")])


def ratios(rows: Rows) -> Iterator[str]:
    """NAT by source port against other ways, by family, clients and settings."""
    head = ["", "clients", "settings", "of port", "of port and MAC", "of dp-hash", "dsr: of dp-hash"]
    names = ("of_port", "of_port_and_mac", "of_dp_hash", "dsr_of_dp_hash")
    yield from _table(
        head,
        [[r["family"], f"{r['clients']:,}", r["settings"], *(f"{r[name]:.2f}" for name in names)] for r in rows],
    )


def main() -> None:
    """Print the tables of the report that the command line names."""
    report = json.loads(Path(sys.argv[1]).read_text())
    parts = [matrix(report["matrix"], family) for family in _unique(report.get("matrix", []), "family")]
    makers = {"targets": ratios, "steps": steps, "fresh": fresh}
    parts += [make(report[name]) for name, make in makers.items() if name in report]
    print("\n\n".join("\n".join(part) for part in parts))


if __name__ == "__main__":
    main()
