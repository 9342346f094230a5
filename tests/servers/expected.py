# SPDX-License-Identifier: Apache-2.0
"""What the checks are expected to say of each server in each state, kept in expected.yaml; docs/servers.md shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("expected.yaml")
OR = "; or "
"""Between reasons of which either may be seen: an answer that comes at about the time-out."""
_GOOD = "good"
Row = dict[str, str]
"""By check: `good`, or what is wrong."""
Table = dict[str, dict[str, dict[str, Row]]]
"""Rows by kind of server, server and state."""
_HEAD = """\
# What each check of a pool says of each server in each state: `good`, or what is wrong. docs/servers.md shows it.
# Seen by `make test-servers`, which fails where it sees something else; written by `make docs-servers`.
"""


def row_of(reasons: Mapping[str, str]) -> Row:
    """A row of what is wrong by check, empty for nothing."""
    return {check: why or _GOOD for check, why in reasons.items()}


def matches(row: Row, expected: Row) -> bool:
    """Whether a row is as expected."""
    return row.keys() == expected.keys() and all(row[check] in expected[check].split(OR) for check in row)


def read() -> Table:
    """The table."""
    return yaml.safe_load(FILE.read_text(encoding="utf-8")) or {} if FILE.exists() else {}


def write(table: Table) -> None:
    """Keep a table."""
    text = yaml.safe_dump(table, sort_keys=False, width=120, allow_unicode=True)
    FILE.write_text(_HEAD + text, encoding="utf-8")
