# SPDX-License-Identifier: Apache-2.0
"""VIPs that people have withdrawn from routing, as the record of a bridge has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from dnsteer.switch.session import Session, set_ids
from dnsteer.switch.state import WITHDRAWN_KEY, BridgeRecord, DamagedError, RecordFormatError


@dataclass(frozen=True)
class Withdrawal:
    """A VIP that is not to be announced: since when (ISO 8601), by whom and why; *until*: an end, empty without one."""

    since: str
    by: str
    note: str = ""
    until: str = ""

    def is_over(self, now: datetime) -> bool:
        """Whether its time is over."""
        return bool(self.until) and now >= datetime.fromisoformat(self.until)

    @property
    def text(self) -> str:
        return f"asked by {self.by}{f' ({self.note})' if self.note else ''}"


def withdrawals_of(record: BridgeRecord) -> dict[str, Withdrawal]:
    """The withdrawals on a bridge, by VIP. Raises DamagedError."""
    record.refuse_other_format()
    found = record.ids.get(WITHDRAWN_KEY)
    if not found:
        return {}
    try:
        out = {
            str(name): Withdrawal(**{k: str(v) for k, v in value.items()}) for name, value in json.loads(found).items()
        }
        for one in out.values():
            if datetime.fromisoformat(one.until or one.since).tzinfo is None:
                raise ValueError(f"{one.until or one.since} has no time zone")
    except (ValueError, TypeError, AttributeError, RecursionError) as err:
        raise DamagedError(
            f"external_ids:{WITHDRAWN_KEY} of bridge {record.bridge} in OVSDB is damaged ({err}): it was changed by hand. "
            f"To discard it: ovs-vsctl remove bridge {record.bridge} external_ids {WITHDRAWN_KEY}"
        ) from None
    return out


def withdrawal_warnings(record: BridgeRecord, now: datetime) -> list[str]:
    """What status says of the withdrawals on a bridge."""
    try:
        found = withdrawals_of(record)
    except RecordFormatError:
        return []  # which is said of the whole record
    except DamagedError as err:
        return [str(err)]
    return [
        f"VIP {name} is withdrawn: {one.text}{f', until {one.until}' if one.until else ''}; dnsteer announce {name} ends it"
        for name, one in found.items()
        if not one.is_over(now)
    ]


class WithdrawalSession(Session):
    """A connection to OVSDB that records withdrawals. Raises what Session does."""

    def __enter__(self) -> WithdrawalSession:
        return self

    def record_withdrawals(self, record: BridgeRecord, withdrawals: Mapping[str, Withdrawal]) -> None:
        """Record all withdrawals of a bridge, instead of those that there were. The bridge's lock must be held."""
        value = {name: {k: v for k, v in asdict(one).items() if v} for name, one in withdrawals.items()}
        self._write(record, set_ids(record.uuid, {WITHDRAWN_KEY: json.dumps(value) if value else ""}))
