# SPDX-License-Identifier: Apache-2.0
"""A bridge's OpenFlow tables: dump them, and change them in one atomic bundle, by ovs-ofctl."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import filterfalse
from math import ceil
from typing import TYPE_CHECKING

from dnsteer.render.flows import Flow, Group, parse_flow
from dnsteer.render.meters import Meter, is_our_meter, parse_meters
from dnsteer.render.templates import port_name
from dnsteer.switch.tools import CommandError, Running, SwitchError, TimedOutError, UnavailableError, find_program
from dnsteer.tables.cookies import COOKIE_MASK, COOKIE_TAG, GROUP_BASE, GROUP_LAST, OBJECT_BITS, Category, cookie
from dnsteer.tables.order import PIPELINE

if TYPE_CHECKING:
    from dnsteer.switch.tls import Tls

PROTOCOL = "OpenFlow15"
"""Bundles, bucket ids and a group's selection method all need version 1.4 or 1.5; the bridge keeps its other versions."""

Key = tuple[int, int, str]
"""What makes a flow the same flow: table, priority and match."""

_READING = (
    "show",
    "dump-flows",
    "dump-groups",
    "dump-meters",
    "dump-ports",
    "dump-ports-desc",
    "dump-aggregate",
    "dump-group-stats",
    "meter-stats",
    "meter-features",
    "get-frags",
)
"""Commands that change nothing, so that one that outlives this process does no harm."""
_PORT = re.compile(r"\s*(\d+|LOCAL)\((.+)\): addr:")
_PORT_USE = re.compile(r"(\bin_port=|\boutput:)(\w+)")
_MEMBERS = re.compile(r"(?<=\bmembers:)[\w,]+")
_CONFIG = re.compile(r"\s*config:\s*(.*)")
_FRAGMENTS = re.compile(r"\bfrags=(\S+)")
_GROUP = re.compile(r"\s*(group_id=(\d+),.*\S)")
# What a dump may have between table and match besides the priority. Flows of dnsteer have no such flags.
_FLAGS = re.compile(
    r"(?:(?:idle_timeout|hard_timeout|importance)=\d+, |(?:send_flow_rem|check_overlap|reset_counts|no_packet_counts|"
    r"no_byte_counts) )+"
)
_STATISTICS = re.compile(r"(?:duration=[0-9.]+s|n_packets=\d+|n_bytes=\d+|(?:idle|hard)_age=\d+), ")
_COUNT = re.compile(r"\bn_packets=(\d+)")
_NO_SOCKET = re.compile(r"(?:connecting to|failed to connect to socket) ?.*\((.*)\)")
_CUT_OFF = re.compile(r"(?:receive|send) failed \((.*)\)|(connection closed by peer)")
_NO_HANDSHAKE = ("Protocol error", "Input/output error", "Connection reset by peer", "Broken pipe", "End of file")
_PARSE = re.compile(r"ovs-ofctl: -:(\d+): (.*)")
_ERROR = re.compile(r"Error (\w+) for: (.*?)$(?=\n(?:Error |ovs-ofctl: |[0-9a-f]{8}  )|\Z)", re.S | re.M)
_WARNING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z\|\d+\|\w+\|(?:WARN|ERR)\|(.*)")
_STATE, _OBJECT = PIPELINE.holding("state").number, (1 << OBJECT_BITS) - 1
_OF_STATE = cookie(Category.STATE, 0)
_OF_ANY_STATE = f"cookie=0x{_OF_STATE:x}/0x{COOKIE_MASK | 0xFF << OBJECT_BITS:x}"
_LOOK = 0.01
_MAX_DUMPS = 8
"""Dumps by cookie, each a process, up to which that is less than the dump of a whole table."""
_LINES_PER_SECOND = 500
"""A switch takes tens of thousands; one that is slower than this counts as stuck."""


class RejectedError(SwitchError):
    """The switch or ovs-ofctl refused a bundle: nothing was changed. *what* is the flow or group, if known."""

    def __init__(self, reason: str, what: str) -> None:
        self.reason = reason
        self.what = what
        super().__init__(f"the switch refused the changes: {reason}{f': {what}' if what else ''}")


class UnconfirmedError(UnavailableError):
    """A bundle was sent without an answer: the switch has applied all of it or nothing."""


STANDBY_COOKIE = (COOKIE_TAG + 1) << 48
"""Cookie of the flows that keep a switch on standby from answering ARP: they come and go apart from the tables."""


def is_ours(flow: Flow) -> bool:
    """Whether the flow's cookie has dnsteer's tag."""
    return flow.cookie >> 48 == COOKIE_TAG


@dataclass(frozen=True)
class Tables:
    """What a bridge holds: dnsteer's flows, groups and meters, and those of others.

    *same* are the lines of ours that the reader expected; they are many, and reading them further would take longer than all
    else. *flows* are our other flows, without those of *standby*. *flags* are time-outs and the like of flows that have
    any; no flow of ours should.
    *bits* are the settings of each port, such as NO_FWD; *fragments* is how fragments are handled, empty where not asked.
    """

    same: set[str] = field(default_factory=set)
    flows: dict[Key, Flow] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    standby: dict[Key, Flow] = field(default_factory=dict)
    other: dict[Key, Flow] = field(default_factory=dict)
    other_groups: dict[int, Group] = field(default_factory=dict)
    meters: dict[int, Meter] = field(default_factory=dict)
    other_meters: dict[int, Meter] = field(default_factory=dict)
    flags: dict[Key, str] = field(default_factory=dict)
    bits: dict[str, frozenset[str]] = field(default_factory=dict)
    fragments: str = ""

    def all_flows(self) -> dict[Key, Flow]:
        """All flows of dnsteer."""
        return {**{f.key: f for f in map(parse_flow, self.same)}, **self.flows}

    def line(self, flow: Flow) -> str:
        """A flow that the bridge holds, as ovs-ofctl reads it."""
        flags = self.flags.get(flow.key, "").strip(", ").replace(" ", ",").replace(",,", ",")
        head = f"cookie=0x{flow.cookie:x}, table={flow.table}, priority={flow.priority}"
        return ",".join(filter(None, [head, flags, flow.match])) + f" actions={flow.actions}"


class _Printing:
    """Dumps that run in parallel, to be closed."""

    def __init__(self, start: Mapping[str, Callable[[], Running]], result: Callable[[Running, str], str]) -> None:
        self._result = result
        with ExitStack() as all_of_them:
            self._running = {name: all_of_them.enter_context(begin()) for name, begin in start.items()}
            self.close = all_of_them.pop_all().close

    def texts(self) -> list[str]:
        """Return what each printed."""
        return [self._result(running, name) for name, running in self._running.items()]


class OpenFlow:
    """The OpenFlow of one bridge, at its management socket or any other ovs-ofctl target.

    *timeout* is how long the switch may take to answer, in seconds. Raises UnavailableError without ovs-ofctl.
    """

    def __init__(self, target: str, env: Mapping[str, str] | None = None, timeout: float = 60) -> None:
        find_program("ovs-ofctl")  # rather now than after half of the work
        self.target = target
        self._env = env
        self.timeout = self._timeout = timeout
        self._begun: _Printing | None = None

    def ofctl(self, *args: str, names: bool = False, stdin: str | None = None, timeout: float | None = None) -> str:
        """Run ovs-ofctl; *args* start with the command, then the options after the target."""
        with self._start(*args, names=names, stdin=stdin, timeout=timeout) as running:
            return self._result(running, args[0])

    def _start(
        self, *args: str, names: bool = False, stdin: str | None = None, timeout: float | None = None
    ) -> Running:
        seconds = timeout or self._timeout
        options = ["--names" if names else "--no-names", "--no-stats"]
        reads = args[0] in _READING
        if reads:
            options.append(f"--timeout={ceil(seconds) + 1}")
        return Running(
            ["ovs-ofctl", *self.arguments(*args, options=options)],
            env=self._env,
            stdin=stdin,
            timeout=seconds,
            ends_by_itself=reads,
        )

    def arguments(self, command: str, *args: str, options: Sequence[str] = ()) -> list[str]:
        """The arguments with which ovs-ofctl runs a command on the bridge."""
        secure = self._secure().arguments() if self.target.startswith("ssl:") else []
        return ["-O", PROTOCOL, *options, *secure, command, self.target, *args]

    def _result(self, running: Running, command: str) -> str:
        try:
            return running.result()
        except CommandError as err:
            raise self._explained(err, command) from None

    def _secure(self) -> Tls:
        from dnsteer.switch import tls  # only here: see there

        return tls.require(f"OpenFlow at {self.target}")

    def _explained(self, err: CommandError, command: str) -> Exception:
        """The failure of ovs-ofctl as an error that says what to do."""
        if "version negotiation failed" in err.said:
            return SwitchError(
                f"the bridge does not speak {PROTOCOL} (at {self.target}); its column protocols in OVSDB must be empty "
                f"or have {PROTOCOL}"
            )
        m = _NO_SOCKET.search(err.said)
        if m and m[1] in _NO_HANDSHAKE and self.target.startswith("ssl:"):
            from dnsteer.switch import tls

            return tls.failure(f"OpenFlow at {self.target}", self._secure(), err.said)
        if m and m[1] in ("Permission denied", "Operation not permitted"):
            return PermissionError(13, m[1], self.target.removeprefix("unix:"))
        if m:
            return UnavailableError(f"no OpenFlow at {self.target} ({m[1]}); is ovs-vswitchd running?")
        m = _CUT_OFF.search(err.said)
        if m and command != "bundle":  # the outcome of a bundle is unknown then
            return UnavailableError(f"OpenFlow at {self.target} ended ({m[1] or m[2]}); is ovs-vswitchd running?")
        return err

    def begin_dump(self) -> None:
        """Let the switch print its tables now, for the next dump(). Without one, end_dump() must follow."""
        self._begun = self._print()

    def end_dump(self) -> None:
        """Abort a dump that was begun."""
        if self._begun is not None:
            self._begun.close()
            self._begun = None

    @contextmanager
    def dumping(self) -> Iterator[None]:
        """Let the switch print its tables during the block, for the dump() at its end."""
        if self._begun is None:
            self.begin_dump()
        try:
            yield
        finally:
            self.end_dump()

    def dump(self, expected: Collection[str] = (), only: str = "", patience: float = 0.0) -> Tables:
        """All flows, with ports by name, and all groups and meters; with *only* a match, the flows that have it, ports by
        number.

        *expected* are the lines that our flows should have. *patience* is how long the switch may be without the bridge's
        OpenFlow, which it makes a moment after the bridge, in seconds.
        """
        if only:
            return self._read(set(), flows=self.ofctl("dump-flows", only))
        known = set(expected)
        if self._begun is not None:
            try:
                return self._read(known, *self._begun.texts())
            except TimedOutError:
                raise
            except SwitchError:  # such as of a switch that was just started again
                patience = self._timeout
            finally:
                self.end_dump()
        deadline = time.monotonic() + patience
        while True:
            try:
                with closing(self._print()) as printing:
                    return self._read(known, *printing.texts())
            except UnavailableError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK)

    @staticmethod
    def _read(known: set[str], bridge: str = "", flows: str = "", groups: str = "", meters: str = "") -> Tables:
        # Not --names: once tables are named, that prints their names as well, and differently from version to version.
        names, bits = _read_ports(bridge)
        fragments = _FRAGMENTS.search(bridge)
        lines = list(map(str.strip, flows.splitlines()))
        same = known.intersection(lines)  # nearly all
        tables = Tables(same, bits=bits, fragments=fragments[1] if fragments else "")
        for line in filterfalse(tables.same.__contains__, lines):
            if _uses_ports(line):
                line = _with_names(line, names)
            if line in known:
                tables.same.add(line)
            elif "actions=" in line:
                flow, flags = _read_flow(line)
                others = tables.standby if flow.cookie == STANDBY_COOKIE else tables.other
                (tables.flows if is_ours(flow) else others)[flow.key] = flow
                if flags:
                    tables.flags[flow.key] = flags
        for line in groups.splitlines():
            m = _GROUP.match(line)
            if m:
                number = int(m[2])
                ours = GROUP_BASE <= number <= GROUP_LAST
                (tables.groups if ours else tables.other_groups)[number] = Group(number, m[1])
        for number, meter in parse_meters(meters).items():
            (tables.meters if is_our_meter(number) else tables.other_meters)[number] = meter
        return tables

    def _print(self) -> _Printing:
        long = max(self._timeout, 60)  # the switch has answered by then, about its ports
        wanted = {"show": self._timeout, "dump-flows": long, "dump-groups": long, "dump-meters": long}
        # the first has ports and fragments
        return _Printing(
            {command: partial(self._start, command, timeout=timeout) for command, timeout in wanted.items()},
            self._result,
        )

    def packets(self, flows: Collection[Flow]) -> dict[Key, int]:
        """Return how many packets some of the bridge's flows have met so far. Those that are gone are left out."""
        wanted = {flow.key for flow in flows}
        wheres = {f"table={flow.table},cookie=0x{flow.cookie:x}/-1" for flow in flows}
        if len(wheres) > _MAX_DUMPS:
            wheres = {f"table={flow.table}" for flow in flows}
        texts = [self.ofctl("dump-flows", where, "--stats") for where in sorted(wheres)]
        names = _read_ports(self.ofctl("show"))[0] if any(map(_uses_ports, texts)) else {}
        found = {}
        for line in filter(_COUNT.search, "\n".join(texts).splitlines()):
            count, named = _COUNT.search(line), _with_names(line.strip(), names)
            key = _read_flow(_STATISTICS.sub("", named))[0].key
            if count is not None and key in wanted:
                found[key] = int(count[1])
        return found

    def ports(self) -> set[str]:
        """Names of the bridge's ports."""
        return {*_read_ports(self.ofctl("show"))[1]}

    def marker(self) -> int | None:
        """Return the marker in the tables (slots.maintenance.marker), or None."""
        found = self.state_flow()
        return found.cookie & _OBJECT if found is not None else None

    def state_flow(self) -> Flow | None:
        """Return the flow of table state, None where there is none or more than one.

        A version of dnsteer with another order of tables has it in a table of another number, where its cookie tells it.
        """
        for only in (f"table={_STATE}", _OF_ANY_STATE):
            found = [f for f in self.dump(only=only).flows.values() if f.cookie & ~_OBJECT == _OF_STATE]
            if found:
                return found[0] if len(found) == 1 else None
        return None

    def group(self, number: int) -> Group | None:
        """Return one group, or None."""
        found = [m for m in map(_GROUP.match, self.ofctl("dump-groups", str(number)).splitlines()) if m]
        return Group(number, found[0][1]) if found else None

    def bundle(self, lines: Sequence[str]) -> None:
        """Send flow and group changes as one transaction: all of them or none.

        Raises RejectedError with the reason, UnconfirmedError, or UnavailableError when nothing was sent.
        """
        timeout = self._timeout + len(lines) / _LINES_PER_SECOND
        # Only where there are any: ovs-ofctl asks the switch for them first, which takes 8 ms.
        names = any(map(_uses_ports, lines))
        try:
            self.ofctl("bundle", "-", names=names, stdin="\n".join(lines) + "\n", timeout=timeout)
        except TimedOutError as err:
            raise UnconfirmedError(str(err)) from None
        except CommandError as err:
            raise _refusal(err, lines) from None


def _uses_ports(text: str) -> bool:
    """Whether flows name ports of the bridge."""
    return "in_port=" in text or "output:" in text or "members:" in text


def _with_names(line: str, names: Mapping[str, str]) -> str:
    """The flow with names in place of its numbers of ports."""
    line = _PORT_USE.sub(lambda m: m[1] + names.get(m[2], m[2]), line)
    return _MEMBERS.sub(lambda m: ",".join(names.get(each, each) for each in m[0].split(",")), line)


def _read_ports(text: str) -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    """Return port names by number as flows have them, and port settings by name."""
    names: dict[str, str] = {}
    bits: dict[str, frozenset[str]] = {}
    name = ""
    for line in text.splitlines():
        if m := _PORT.match(line):
            name = m[2]
            names[m[1]] = port_name(name)
        elif name and (m := _CONFIG.match(line)):
            bits[name] = frozenset(m[1].split()) - {"0"}
    return names, bits


def _refusal(err: CommandError, lines: Sequence[str]) -> SwitchError:
    """Return ovs-ofctl's message about a failed bundle as an error with the reason and the flow or group."""
    m = _PARSE.search(err.said)
    if m and 0 < int(m[1]) <= len(lines):
        return RejectedError(m[2], lines[int(m[1]) - 1])
    if "usable flow formats" in err.said:  # ovs-ofctl itself refuses it, and nothing was sent
        return RejectedError("a flow writes or matches a field whose protocol it does not match", "")
    warnings = _WARNING.findall(err.said)  # may stand in the middle of a line
    m = _ERROR.search(_WARNING.sub("", err.said))
    if m is None:
        return UnconfirmedError(f"the switch did not confirm the changes: {err.said}")
    return RejectedError(" ".join([m[1], *(f"({w})" for w in warnings)]), " ".join(m[2].split()))


def _read_flow(line: str) -> tuple[Flow, str]:
    """A line of a dump as a flow and its flags."""
    try:
        return parse_flow(line), ""
    except ValueError:
        head, mark, actions = line.partition("actions=")
        m = _FLAGS.search(head)
        if m is None:
            raise
        return parse_flow(head[: m.start()] + head[m.end() :] + mark + actions), m[0]
