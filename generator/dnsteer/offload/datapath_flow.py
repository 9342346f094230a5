# SPDX-License-Identifier: Apache-2.0
"""A datapath flow as typed data, parsed from a line of `dpctl/dump-flows` of any flavor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal

from ovs.flow.odp import ODPFlow

from dnsteer.switch.megaflow_fields import Field, every_name_is_known, fields_of

Offloaded = Literal["yes", "partial", "no", ""]
"""The dump's `offloaded:` value for the flow; empty if the dump has none."""

MAX_LINE = 65_536
"""Longest line read, in characters. The switch prints a few hundred."""

MAX_NESTING = 64
"""Deepest nesting of brackets read: the library's parsing time grows with its square."""

_NOT_A_FLOW = ("flow-dump from", "ovs-appctl:", "ovs-dpctl:")
_OFFLOADED: Mapping[str, Offloaded] = {"yes": "yes", "true": "yes", "partial": "partial", "no": "no", "false": "no"}
_BRANCHES = {"check_pkt_len": ("gt", "le"), "sample": ("actions",)}
_WORDS = frozenset(["pop_eth", "tun_encap", "tun_decap"])  # the library parses unknown words as output ports
_MISREAD = re.compile(r"\b(pop_mpls|tnl_pop)\(")
_THREAD = re.compile(r"\s*flow-dump from (?:the )?(.+)")
_ACTIONS, _EXTRA = "actions:", "dp-extra-info:"
_WILDCARDED = re.compile(r"\b\w+(?:\(0/0\)|=[^,()/]*/(?:0|::|0\.0\.0\.0|00(?::00){5})(?=[,)])),?")
"""Fields that a flow does not match, two thirds of those that are printed with -m: the library takes as long for each."""
_WHY = re.compile(r",\s*dp-offload-info:\s*(?:'[^']*'|[^,]*)")
"""Why a flow is not in hardware, as OVS-DOCA 3.x prints it. The library would parse the words as ports."""


@dataclass(frozen=True)
class DatapathAction:
    """An action, with the datapath's name for it.

    A `set()` becomes one action for each field that it writes, such as `set.ipv4.dst`, with that field as *written*. *args*
    are the other printed arguments; *branches* the nested action lists (of clone, sample, check_pkt_len) in the order of
    the dump. *continues*: this is not the first field of its `set()`.
    """

    name: str
    written: Field | None = None
    args: Mapping[str, Any] = field(default_factory=dict, hash=False)
    branches: tuple[tuple[DatapathAction, ...], ...] = ()
    continues: bool = False

    @property
    def port(self) -> str:
        """The port of an output, as printed; empty for other actions."""
        return str(self.args.get("port", "")) if self.name == "output" else ""

    def __str__(self) -> str:
        if self.written is not None:
            return f"{self.name}={str(self.written).partition('=')[2]}"
        return f"{self.name}:{self.port}" if self.port else self.name


@dataclass(frozen=True)
class DatapathFlow:
    """A datapath flow. *layer* is the dump's `dp:` (ovs, tc, dpdk, doca), *offloaded* its `offloaded:`.

    *thread* is the forwarding thread named in the dump's heading: each thread has its own flows, and flows of two threads
    may have the same ufid. *used* is in seconds, None if the flow was never used.
    """

    text: str = field(repr=False)
    match: tuple[Field, ...]
    actions: tuple[DatapathAction, ...]
    ufid: str = ""
    layer: str = ""
    offloaded: Offloaded = ""
    packets: int = 0
    bytes: int = 0
    used: float | None = None
    extra: str = ""
    thread: str = ""

    def get(self, key: str) -> Field | None:
        """Return the matched field *key*; None if it is wildcarded."""
        return next((f for f in self.match if f.key == key), None)

    @property
    def proto(self) -> int | None:
        """The IP protocol that the flow matches exactly; None if it matches none."""
        for key in ("ipv4.proto", "ipv6.proto"):
            found = self.get(key)
            if found is not None and found.exact:
                return int(found.value)
        return None

    @property
    def family(self) -> Literal["ipv4", "ipv6", ""]:
        """The address family of the packets; empty for anything but IP."""
        kind = self.get("eth_type")
        families: dict[int | str, Literal["ipv4", "ipv6"]] = {0x0800: "ipv4", 0x86DD: "ipv6"}
        return families.get(kind.value, "") if kind is not None else ""

    @property
    def recirculated(self) -> bool:
        """Whether the flow matches recirculated packets."""
        found = self.get("recirc_id")
        return found is not None and found.value != 0

    def every_action(self) -> Iterator[DatapathAction]:
        """Yield all actions, including nested ones."""
        yield from _walk(self.actions)


@dataclass(frozen=True)
class Unreadable:
    """A line that could not be parsed as a datapath flow. *problem* says why."""

    text: str
    problem: str


def datapath_flow_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line of a flow in the output of `dpctl/dump-flows`, with the forwarding thread whose flow it is."""
    thread = ""
    for line in text.splitlines():
        heading = _THREAD.match(line)
        if heading:
            thread = heading[1].rstrip(": ")
        elif line.strip() and not line.strip().startswith(_NOT_A_FLOW):
            yield line, thread


def read_flows(text: str) -> Iterator[DatapathFlow | Unreadable]:
    """Parse the output of `dpctl/dump-flows` (with or without -m), skipping headings and empty lines."""
    return (read_flow(line, thread) for line, thread in datapath_flow_lines(text))


def read_flow(line: str, thread: str = "") -> DatapathFlow | Unreadable:
    """Parse one line of the dump of *thread*. Never raises: a line that cannot be parsed is returned as Unreadable."""
    line = line.strip()
    if len(line) > MAX_LINE:
        return Unreadable(line[:200], f"a line of {len(line)} characters; at most {MAX_LINE} are read")
    if _nesting(line) > MAX_NESTING:
        return Unreadable(line[:200], f"brackets nested more than {MAX_NESTING} deep")
    try:
        return _flow(line, thread)
    except Exception as err:  # noqa: BLE001  the library passes on any exception of its decoders
        return Unreadable(line, _innermost(err))


def _nesting(line: str) -> int:
    """Return the deepest nesting of brackets."""
    return max(accumulate(1 if c == "(" else -1 for c in line if c in "()"), default=0)


def _innermost(err: BaseException) -> str:
    while err.__cause__ is not None:
        err = err.__cause__
    return str(err).split("\n", 1)[0][:200] or type(err).__name__


def _flow(line: str, thread: str) -> DatapathFlow:
    head, found, actions = _WHY.sub("", line).partition(_ACTIONS)
    with every_name_is_known():
        parsed: Any = ODPFlow(_WILDCARDED.sub("", head) + found)
        match = tuple(fields_of(parsed.match))
    if not match:
        raise ValueError("a flow without a match")
    info: Mapping[str, Any] = parsed.info
    used = info.get("used", "never")
    return DatapathFlow(
        text=line,
        match=match,
        actions=_actions_of(actions.partition(_EXTRA)[0]),
        ufid=str(getattr(parsed, "ufid", {}).get("ufid", "")),
        layer=str(info.get("dp", "")),
        offloaded=_OFFLOADED.get(str(info.get("offloaded", "")).lower(), ""),
        packets=int(info.get("packets", 0)),
        bytes=int(info.get("bytes", 0)),
        used=float(used) if isinstance(used, int | float) else None,
        extra=actions.partition(_EXTRA)[2].strip(),
        thread=thread,
    )


@lru_cache(maxsize=4096)
def _actions_of(text: str) -> tuple[DatapathAction, ...]:
    """Parse the actions of a flow, which many flows share."""
    # The library misparses two actions (pop_mpls, and tnl_pop with a name), so pass them in under unknown names.
    with every_name_is_known():
        parsed: Any = ODPFlow(f"recirc_id(0) packets:0, {_ACTIONS}" + _MISREAD.sub(r"x_\1(", text))
        return tuple(_actions(parsed.actions))


def _actions(parsed: Any) -> Iterator[DatapathAction]:
    for item in parsed if isinstance(parsed, list) else []:
        for name, value in item.items():
            yield from _action(str(name).removeprefix("x_"), value)


def _action(name: str, value: Any) -> Iterator[DatapathAction]:
    if name == "set" and isinstance(value, Mapping):
        yield from _set(value)
        return
    if name == "clone":
        yield DatapathAction(name, branches=(tuple(_actions(value)),))
        return
    if name == "output" and isinstance(value, Mapping) and value.get("port") in _WORDS:
        yield DatapathAction(str(value["port"]))
        return
    args = dict(value) if isinstance(value, Mapping) else {} if value is True else {"value": value}
    inner = _BRANCHES.get(name, ())
    branches = tuple(tuple(_actions(args.pop(key))) for key in inner if isinstance(args.get(key), list))
    yield DatapathAction(name, args=args, branches=branches)


def _set(value: Mapping[str, Any]) -> Iterator[DatapathAction]:
    """Yield one action for each field of a `set()`; for a tunnel, one action with all its fields by name."""
    first = True
    for written in fields_of({key: inner for key, inner in value.items() if key != "tunnel"}):
        yield DatapathAction(f"set.{written.key}", written, continues=not first)
        first = False
    if "tunnel" in value:
        outer = fields_of({"tunnel": value["tunnel"]})
        yield DatapathAction("set.tunnel", args={f.key.removeprefix("tunnel."): f for f in outer})


def _walk(actions: tuple[DatapathAction, ...]) -> Iterator[DatapathAction]:
    for action in actions:
        yield action
        for branch in action.branches:
            yield from _walk(branch)
