# SPDX-License-Identifier: Apache-2.0
"""Events of the agent: every kind, and its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

EventLevel = Literal["info", "warning", "error"]
EventName = Literal[
    "adopted",
    "check",
    "decision",
    "moved",
    "effect",
    "panic",
    "panic_over",
    "too_few",
    "enough",
    "repaired",
    "differs",
    "foreign_flows",
    "setting",
    "list_changed",
    "list_left",
    "trouble",
    "trouble_over",
    "verb",
    "verb_ended",
    "verb_failed",
    "listens",
    "not_listening",
    "mirrors_removed",
    "access",
    "announced",
    "vip_announced",
    "vip_withdrawn",
    "prefix_announced",
    "prefix_withdrawn",
    "vip_held",
    "vip_kept",
    "neighbor",
    "role",
    "progress",
    "library",
    "ends",
]
"""The kinds of events."""


@dataclass(frozen=True)
class EventKind:
    """A kind of event: what it says, and the fields that it may have besides those of all events."""

    name: EventName
    means: str
    fields: tuple[str, ...] = ()


COMMON = ("time", "level", "event", "message", "bridge")
"""Fields of all events; `bridge` as soon as it is known."""
KINDS: tuple[EventKind, ...] = (
    EventKind("adopted", "a state is followed from now on", ("state", "pools", "targets")),
    EventKind(
        "check",
        "a check of a backend has turned: `to` is healthy or unhealthy",
        ("pool", "backend", "service", "check", "to", "reason", "duration_s", "decision"),
    ),
    EventKind(
        "decision",
        "what was decided about a backend: `action` is out, back, backup_in, backup_out or ended",
        ("decision", "pool", "backend", "service", "kind", "action", "reason", "over_s"),
    ),
    EventKind("moved", "what changed in a pool, in the words of `drain`", ("decision", "pool", "moved")),
    EventKind("effect", "flows and record have the decision, after `duration_s`", ("decision", "duration_s", "moved")),
    EventKind(
        "panic",
        "no backend of a pool passes, so those in service `stay`; `idle` pass, but people have them out",
        ("pool", "service", "backends", "stay", "idle", "decision"),
    ),
    EventKind("panic_over", "the panic is over", ("pool", "service", "decision")),
    EventKind(
        "too_few",
        "so few backends of a pool pass that these stay in service though they fail: `keep_at_least`",
        ("pool", "service", "backends", "decision"),
    ),
    EventKind("enough", "enough pass again", ("pool", "service", "decision")),
    EventKind("repaired", "a difference from the record, which was put right", ("decision", "difference")),
    EventKind("differs", "one that was left: `switch.repair: report`", ("difference",)),
    EventKind("foreign_flows", "flows of others are on the bridge", ("flow", "flows")),
    EventKind("setting", "a setting of others that changes what the switch does", ("setting",)),
    EventKind(
        "list_changed",
        "the file of an access list has changed, and its entries are on the switch; `first` are the first that differ",
        ("file", "added", "removed", "first", "entries", "state", "duration_s", "decision"),
    ),
    EventKind(
        "list_left", "a file that has other entries than what is applied is not applied, and why", ("file", "reason")
    ),
    EventKind("trouble", "something does not work, once until it does: `about` says what", ("about", "reason")),
    EventKind("trouble_over", "it works again", ("about",)),
    EventKind("verb", "somebody has asked for a verb", ("verb", "arguments", "by", "decision")),
    EventKind(
        "verb_ended",
        "it has ended; not of `status`, `plan` and `reconcile`",
        ("verb", "by", "exit", "duration_s", "decision"),
    ),
    EventKind("verb_failed", "a defect of dnsteer: a line of its traceback", ("verb", "decision")),
    EventKind("listens", "the control socket, or where metrics or the console are", ("address",)),
    EventKind("not_listening", "one of them is not there, and why", ("reason",)),
    EventKind("mirrors_removed", "mirrors that a capture had left", ("capture",)),
    EventKind(
        "access", "who signed in to the console, or failed to; tokens and certificates that were read or are wrong"
    ),
    EventKind("announced", "neighbours were told of VIPs and gateways: the first time of several", ("addresses",)),
    EventKind("vip_announced", "routers learn of a VIP by BGP: BIRD has its routes", ("vip",)),
    EventKind("vip_withdrawn", "BIRD has its routes no longer, and why", ("vip", "reason")),
    EventKind("prefix_announced", "routers learn of a prefix of `switch.announce.prefixes` by BGP", ("prefix",)),
    EventKind("prefix_withdrawn", "BIRD has its route no longer, and why", ("prefix", "reason")),
    EventKind(
        "vip_held",
        "it works again, and is held back until a time, since it fails again and again",
        ("vip", "until", "reason"),
    ),
    EventKind("vip_kept", "it stays announced, though no backend passes its checks", ("vip", "reason")),
    EventKind(
        "neighbor",
        "a next hop or backend has another MAC address than `before`, or the first one; flows and record have it",
        ("decision", "address", "mac", "before"),
    ),
    EventKind("role", "the switch is active now, or on standby: `role` says which", ("role",)),
    EventKind("progress", "a step of settling a change that was cut off, or of a restore"),
    EventKind("library", "a message of a library", ("logger",)),
    EventKind("ends", "the agent ends"),
)
"""Every kind, as docs/agent.md lists them."""


@dataclass(frozen=True)
class Event:
    """An event at a *time*. People read *text*, programs *fields*."""

    time: datetime
    level: EventLevel
    name: EventName
    text: str
    fields: Mapping[str, object]


class EventSink(Protocol):
    """Takes an event."""

    def __call__(
        self, text: str, event: EventName = "progress", level: EventLevel = "info", /, **fields: object
    ) -> None:
        """Say *text*; fields that are None or empty are left out."""
