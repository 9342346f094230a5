"""A bridge's OpenFlow tables: dump them, and change them in one atomic bundle. All by ovs-ofctl."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dnsteer.plan.numbers import OBJECT_BITS
from dnsteer.plan.pipeline import COOKIE_TAG, GROUP_BASE, GROUP_LAST, PIPELINE
from dnsteer.render.engine import port_name
from dnsteer.render.flows import Flow, Group, parse_flow
from dnsteer.switch.tools import CommandError, SwitchError, TimedOutError, UnavailableError, program, run

PROTOCOL = "OpenFlow15"
"""Bundles, bucket ids and a group's selection method all need version 1.4 or 1.5; the bridge keeps its other versions."""

Key = tuple[int, int, str]
"""What makes a flow the same flow: table, priority and match."""

_PORT = re.compile(r"\s*(\d+|LOCAL)\((.+)\): addr:")
_PORT_USE = re.compile(r"(\bin_port=|\boutput:)(\w+)")
_GROUP = re.compile(r"\s*(group_id=(\d+),.*\S)")
# What stands between table and match in a dump, beyond the priority. Flows of ours have none of it.
_FLAGS = re.compile(
    r"(?:(?:idle_timeout|hard_timeout|importance)=\d+, |(?:send_flow_rem|check_overlap|reset_counts|no_packet_counts|"
    r"no_byte_counts) )+"
)
_NO_SOCKET = re.compile(r"(?:connecting to|failed to connect to socket) ?.*\((.*)\)")
_CUT_OFF = re.compile(r"(?:receive|send) failed \((.*)\)|(connection closed by peer)")
_NO_HANDSHAKE = ("Protocol error", "Input/output error", "Connection reset by peer", "Broken pipe", "End of file")
_PARSE = re.compile(r"ovs-ofctl: -:(\d+): (.*)")
_ERROR = re.compile(r"Error (\w+) for: (.*?)$(?=\n(?:Error |ovs-ofctl: |[0-9a-f]{8}  )|\Z)", re.S | re.M)
_WARNING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z\|\d+\|\w+\|(?:WARN|ERR)\|(.*)")
_STATE, _OBJECT = PIPELINE.tables["state"].number, (1 << OBJECT_BITS) - 1
_WAY_BACK = frozenset(PIPELINE.tables[name].number for name in ("ingress", "return", "fragment", "egress"))
_LOOK = 0.01
_LINES_PER_SECOND = 500
"""A switch takes tens of thousands; one that is slower than this counts as stuck."""


class RejectedError(SwitchError):
    """The switch, or ovs-ofctl, refused a bundle: nothing of it was done. *what* is the flow or group, where known."""

    def __init__(self, reason: str, what: str) -> None:
        self.reason = reason
        self.what = what
        super().__init__(f"the switch refused the changes: {reason}{f': {what}' if what else ''}")


class UnconfirmedError(UnavailableError):
    """A bundle was sent, and the switch did not say what became of it: it has all of it, or nothing."""


def is_ours(flow: Flow) -> bool:
    """Whether the flow carries our tag."""
    return flow.cookie >> 48 == COOKIE_TAG


@dataclass(frozen=True)
class Tables:
    """What a bridge holds: our flows and groups, and those of others.

    *same* are the lines of ours that the reader expected; they are many, and reading them further would take longer than all
    else. *flows* are our other flows. *flags* are time-outs and the like of flows that have any; no flow of ours should.
    """

    same: set[str] = field(default_factory=set)
    flows: dict[Key, Flow] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    other: dict[Key, Flow] = field(default_factory=dict)
    other_groups: dict[int, Group] = field(default_factory=dict)
    flags: dict[Key, str] = field(default_factory=dict)

    def all_flows(self) -> dict[Key, Flow]:
        """All flows of ours."""
        return {**{f.key: f for f in map(parse_flow, self.same)}, **self.flows}

    def line(self, flow: Flow) -> str:
        """A flow that the bridge holds, as ovs-ofctl reads it."""
        flags = self.flags.get(flow.key, "").strip(", ").replace(" ", ",").replace(",,", ",")
        head = f"cookie=0x{flow.cookie:x}, table={flow.table}, priority={flow.priority}"
        return ",".join(filter(None, [head, flags, flow.match])) + f" actions={flow.actions}"


class OpenFlow:
    """One bridge, reached by its management socket or any other ovs-ofctl target.

    *timeout* is how long the switch may take to answer, in seconds. Raises UnavailableError without ovs-ofctl.
    """

    def __init__(self, target: str, env: Mapping[str, str] | None = None, timeout: float = 60) -> None:
        program("ovs-ofctl")  # rather now than after half of the work
        self.target = target
        self._env = env
        self._timeout = timeout

    def ofctl(self, *args: str, names: bool = False, stdin: str | None = None, timeout: float | None = None) -> str:
        """Run ovs-ofctl; *args* start with the command, then the options after the target."""
        show = "--names" if names else "--no-names"
        options, secure = ["-O", PROTOCOL, show, "--no-stats"], None
        if self.target.startswith("ssl:"):
            from dnsteer.switch import tls  # only here: see there

            secure = tls.require(f"OpenFlow at {self.target}")
            options += secure.arguments()
        try:
            return run(
                ["ovs-ofctl", *options, args[0], self.target, *args[1:]],
                env=self._env, stdin=stdin, timeout=timeout or self._timeout,
            )  # fmt: skip
        except CommandError as err:
            m = _NO_SOCKET.search(err.said)
            if secure and m and m[1] in _NO_HANDSHAKE:
                raise tls.failure(f"OpenFlow at {self.target}", secure, err.said) from None
            raise self._explained(err, args[0]) from None

    def _explained(self, err: CommandError, command: str) -> Exception:
        """The failure of ovs-ofctl as an error that says what to do."""
        if "version negotiation failed" in err.said:
            return SwitchError(
                f"the bridge does not speak {PROTOCOL} (at {self.target}); its column protocols in OVSDB must be empty "
                f"or have {PROTOCOL}"
            )
        m = _NO_SOCKET.search(err.said)
        if m and m[1] in ("Permission denied", "Operation not permitted"):
            return PermissionError(13, m[1], self.target.removeprefix("unix:"))
        if m:
            return UnavailableError(f"no OpenFlow at {self.target} ({m[1]}); is ovs-vswitchd running?")
        m = _CUT_OFF.search(err.said)
        if m and command != "bundle":  # of a bundle nobody knows then what became of it
            return UnavailableError(f"OpenFlow at {self.target} ended ({m[1] or m[2]}); is ovs-vswitchd running?")
        return err

    def wait(self, patience: float) -> None:
        """Wait until the switch has the bridge's OpenFlow, which it makes a moment after the bridge."""
        deadline = time.monotonic() + patience
        while True:
            try:
                self.ofctl("dump-ports-desc")
            except UnavailableError:
                if time.monotonic() > deadline:
                    raise
            else:
                return
            time.sleep(_LOOK)

    def dump(self, expected: Callable[[], Collection[str]] | None = None, only: str = "") -> Tables:
        """All flows, with ports by name, and all groups; with *only* a match, the flows that have it, ports by number.

        *expected* gives the lines that our flows should have; it runs while the switch prints.
        """
        if expected is None:
            return self._read(*self._print(only), frozenset())
        from concurrent.futures import ThreadPoolExecutor  # here, since the quick verbs do without

        with ThreadPoolExecutor(1) as pool:
            printing = pool.submit(self._print, only)
            known = frozenset(expected())
            return self._read(*printing.result(), known)

    @staticmethod
    def _read(ports: str, flows: str, groups: str, known: frozenset[str]) -> Tables:
        tables = Tables()
        # Not --names: once tables are named, that prints their names as well, and differently from version to version.
        names = {m[1]: port_name(m[2]) for m in map(_PORT.match, ports.splitlines()) if m}
        lines = [line.strip() for line in flows.splitlines()]
        tables.same.update(known.intersection(lines))  # nearly all
        for line in lines:
            if line in tables.same:
                continue
            if "in_port=" in line or "output:" in line:
                line = _PORT_USE.sub(lambda m: m[1] + names.get(m[2], m[2]), line)
            if line in known:
                tables.same.add(line)
            elif "actions=" in line:
                flow, flags = _read_flow(line)
                (tables.flows if is_ours(flow) else tables.other)[flow.key] = flow
                if flags:
                    tables.flags[flow.key] = flags
        for line in groups.splitlines():
            m = _GROUP.match(line)
            if m:
                number = int(m[2])
                ours = GROUP_BASE <= number <= GROUP_LAST
                (tables.groups if ours else tables.other_groups)[number] = Group(number, m[1])
        return tables

    def _print(self, only: str) -> tuple[str, str, str]:
        """What the switch prints of its ports, flows and groups."""
        if only:
            return "", self.ofctl("dump-flows", only), ""  # short, and maybe the first that the switch is asked
        return self.ofctl("dump-ports-desc"), self._patiently("dump-flows"), self._patiently("dump-groups")

    def marker(self) -> int | None:
        """The number that the tables carry (plan.absence.marker); None when they carry none."""
        found = [f for f in self.dump(only=f"table={_STATE}").flows.values() if f.table == _STATE]
        return found[0].cookie & _OBJECT if len(found) == 1 else None

    def group(self, number: int) -> Group | None:
        """One group."""
        found = [m for m in map(_GROUP.match, self.ofctl("dump-groups", str(number)).splitlines()) if m]
        return Group(number, found[0][1]) if found else None

    def _patiently(self, *command: str) -> str:
        """A dump, which may be long: the switch has just answered, so it is there."""
        return self.ofctl(*command, timeout=max(self._timeout, 60))

    def bundle(self, lines: Sequence[str]) -> None:
        """Send flow and group changes as one transaction: all of them or none.

        Raises RejectedError with the reason, UnconfirmedError, or UnavailableError when nothing was sent.
        """
        timeout = self._timeout + len(lines) / _LINES_PER_SECOND
        try:
            self.ofctl("bundle", "-", names=True, stdin="\n".join(lines) + "\n", timeout=timeout)
        except TimedOutError as err:
            raise UnconfirmedError(str(err)) from None
        except CommandError as err:
            raise _refusal(err, lines) from None


def _refusal(err: CommandError, lines: Sequence[str]) -> SwitchError:
    """What ovs-ofctl said of a bundle that failed, as an error with the reason and the flow or group."""
    m = _PARSE.search(err.said)
    if m and 0 < int(m[1]) <= len(lines):
        return RejectedError(m[2], lines[int(m[1]) - 1])
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


@dataclass(frozen=True)
class Changes:
    """What must change for the tables to be as planned. *restore* are lines that bring back flows and groups of others."""

    add: tuple[Flow, ...]
    replace: tuple[Flow, ...]
    remove: tuple[Flow, ...]
    add_groups: tuple[Group, ...]
    replace_groups: tuple[Group, ...]
    remove_groups: tuple[Group, ...]
    restore: tuple[str, ...] = ()

    def __len__(self) -> int:
        flows = len(self.add) + len(self.replace) + len(self.remove)
        return flows + len(self.add_groups) + len(self.replace_groups) + len(self.remove_groups) + len(self.restore)

    def in_two(self) -> tuple[Changes, Changes]:
        """What can be done at once, and what must wait until the answers under way have passed.

        A backend that leaves still has queries. With NAT their answers need the flows that lead back, or they are lost.
        """
        later = tuple(f for f in self.remove if f.table in _WAY_BACK)
        rest = replace(self, remove=tuple(f for f in self.remove if f.table not in _WAY_BACK))
        return rest, Changes((), (), later, (), (), ())

    def bundle(self) -> list[str]:
        """The lines of the bundle. Groups come before the flows that use them, and leave after them.

        Flows leave first, so that tables with a limit need no room for both.
        """
        # A changed group is sent whole: insert- and remove-buckets lose slots in OVS before 3.6 (ovs-issues 357).
        return [
            *self.restore,
            *(f"flow delete_strict {f.spec()}" for f in self.remove),
            *(f"group add {g.text}" for g in self.add_groups),
            *(f"group modify {g.text}" for g in self.replace_groups),
            *(f"flow add {f.line()}" for f in (*self.add, *self.replace)),
            *(f"group delete group_id={g.number}" for g in self.remove_groups),
        ]


def refuse_blocked(flows: Iterable[Flow], have: Tables) -> None:
    """Raise SwitchError where a flow that is not ours stands exactly where one of ours must go."""
    blocked = [have.other[f.key] for f in flows if f.key in have.other]
    if blocked:
        shown = "; ".join(have.line(f) for f in blocked[:3])
        raise SwitchError(f"{len(blocked)} flow(s) that are not dnsteer's stand where its flows must go: {shown}")


def changes(lines: Collection[str], groups: Iterable[Group], have: Tables) -> Changes:
    """What turns *have* into the flows of *lines* and *groups*.

    Raises SwitchError where a flow that is not ours is in the way.
    """
    want = {f.key: f for f in map(parse_flow, (line for line in lines if line not in have.same))}
    stale = {f.key: f for f in map(parse_flow, have.same.difference(lines))}
    there = {**stale, **have.flows}
    want_groups = {g.number: g for g in groups}
    refuse_blocked(want.values(), have)
    return Changes(
        add=tuple(f for k, f in want.items() if k not in there),
        replace=tuple(f for k, f in want.items() if k in there and (there[k] != f or k in have.flags)),
        remove=tuple(f for k, f in there.items() if k not in want),
        add_groups=tuple(g for n, g in want_groups.items() if n not in have.groups),
        replace_groups=tuple(g for n, g in want_groups.items() if n in have.groups and have.groups[n] != g),
        remove_groups=tuple(g for n, g in have.groups.items() if n not in want_groups),
    )


def lost(before: Tables, now: Tables) -> tuple[str, ...]:
    """Lines of a bundle that bring back what others had in the tables *before*, and what is gone *now*."""
    groups = [g for n, g in before.other_groups.items() if n not in now.other_groups]
    flows = [f for k, f in before.other.items() if k not in now.other]
    return (*(f"group add {g.text}" for g in groups), *(f"flow add {before.line(f)}" for f in flows))


def way_back(before: Tables, now: Tables) -> list[str]:
    """Lines of a bundle that make the tables what they were *before*."""
    groups = [g for n, g in before.groups.items() if n not in now.groups]
    were, are = before.all_flows(), now.all_flows()
    flows = [f for k, f in were.items() if are.get(k) != f]
    strange = [f for k, f in are.items() if k not in were]  # such as of a port's old number
    return [
        *lost(before, now),
        *(f"group add {g.text}" for g in groups),
        *(f"flow add {before.line(f)}" for f in flows),
        *(f"flow delete_strict {f.spec()}" for f in strange),
    ]
