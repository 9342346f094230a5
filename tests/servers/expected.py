"""What the checks are expected to say of each server in each state, kept in expected.yaml; docs/servers.md shows it."""

from __future__ import annotations

from pathlib import Path

import yaml

FILE = Path(__file__).with_name("expected.yaml")
_GOOD = "good"
Table = dict[str, dict[str, dict[str, dict[str, str]]]]
"""By kind of server, server, state and check: `good`, or what is wrong."""
Reasons = dict[str, str]
"""By check: what is wrong, empty for nothing."""
_HEAD = """\
# What each check of a pool says of each server in each state: `good`, or what is wrong. docs/servers.md shows it.
# Seen by `make test-servers`, which fails where it sees something else; written by `make docs-servers`.
"""


def spelt(reasons: Reasons) -> dict[str, str]:
    """Reasons as the table has them."""
    return {check: why or _GOOD for check, why in reasons.items()}


def reasons(row: dict[str, str]) -> Reasons:
    """A row of the table as reasons."""
    return {check: "" if why == _GOOD else why for check, why in row.items()}


def read() -> Table:
    """The table."""
    return yaml.safe_load(FILE.read_text(encoding="utf-8")) or {} if FILE.exists() else {}


def write(table: Table) -> None:
    """Keep a table."""
    text = yaml.safe_dump(table, sort_keys=False, width=120, allow_unicode=True)
    FILE.write_text(_HEAD + text, encoding="utf-8")
