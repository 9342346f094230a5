# SPDX-License-Identifier: Apache-2.0
"""The role of a switch among several with the same VIPs on one network, as the record of its bridge has it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from dnsteer.switch.session import Session, set_ids
from dnsteer.switch.state import ROLE_KEY, BridgeRecord, DamagedError

RoleName = Literal["active", "standby"]
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Role:
    """What a switch was told to be: since when (ISO 8601), by whom.

    *boot* is the machine's boot in which it was told, empty where that is not known: it was told from another machine.
    """

    name: RoleName
    since: str
    by: str
    boot: str

    def to_json(self) -> str:
        """As it is recorded."""
        return json.dumps(asdict(self))


def this_boot() -> str:
    """The id of this machine's boot; empty where there is none."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def role_of(record: BridgeRecord) -> Role | None:
    """The role that was told, None where none was. Raises DamagedError."""
    text = record.ids.get(ROLE_KEY)
    if not text:
        return None
    try:
        value = json.loads(text)
        role = Role(value["name"], str(value["since"]), str(value["by"]), str(value.get("boot", "")))
        if role.name not in ("active", "standby"):
            raise ValueError(f"found {role.name!r}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise DamagedError(
            f"external_ids:{ROLE_KEY} of bridge {record.bridge} in OVSDB is damaged ({err}): it was changed by hand. "
            "Say it again: dnsteer role active, or standby"
        ) from None
    return role


def is_standby(record: BridgeRecord, remote: str) -> bool:
    """Whether the switch must not answer for its VIPs.

    One that was active before its machine was booted is not any more: another may be. That is known on the machine itself,
    where *remote* is a local socket, of a role that was told there. Raises DamagedError.
    """
    role = role_of(record)
    if role is None:
        return False
    outdated = remote.startswith("unix:") and role.boot not in ("", this_boot())
    return role.name == "standby" or outdated


def known_role(record: BridgeRecord, remote: str) -> dict[str, str]:
    """What scripts are told: the role that counts now, and what was told, when and by whom. Raises DamagedError."""
    told = role_of(record)
    if told is None:
        return {"role": "none"}
    now = "standby" if is_standby(record, remote) else "active"
    return {"role": now, "told": told.name, "since": told.since, "by": told.by}


def role_warnings(record: BridgeRecord, remote: str) -> list[str]:
    """What status says of the role; nothing of a switch that is active, or has none."""
    try:
        role = role_of(record)
    except DamagedError as err:
        return [str(err)]
    if role is None or not is_standby(record, remote):
        return []
    why = f"by {role.by}" if role.name == "standby" else "since its machine was booted"
    return [
        f"this switch is on standby, {why}: it does not answer for its VIPs; dnsteer role active makes it take over"
    ]


class RoleSession(Session):
    """A connection to OVSDB that records roles. Raises what Session does."""

    def __enter__(self) -> RoleSession:
        return self

    def record_role(self, record: BridgeRecord, role: Role | None) -> None:
        """Record a role; None: the switch has none any more. In a record of any format: a takeover waits for no upgrade."""
        ids = {ROLE_KEY: role.to_json() if role is not None else ""}
        self._write(record, set_ids(record.uuid, ids), any_format=True)
