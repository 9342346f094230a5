"""A bridge's OpenFlow tables: dump them, and change them in one atomic bundle. All by ovs-ofctl."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dnsteer.plan.pipeline import COOKIE_TAG, GROUP_BASE, GROUP_LAST
from dnsteer.render.engine import port_name
from dnsteer.render.flows import Flow, Group, parse_flow
from dnsteer.switch.tools import SwitchError, run

PROTOCOL = "OpenFlow15"
"""Bundles, bucket ids and a group's selection method all need version 1.4 or 1.5; the bridge keeps its other versions."""

_PORT = re.compile(r"\s*(\d+|LOCAL)\((.+)\): addr:")
_PORT_USE = re.compile(r"(\bin_port=|\boutput:)(\w+)")
_GROUP = re.compile(r"\s*(group_id=(\d+),.*\S)")


def is_ours(flow: Flow) -> bool:
    """Whether the flow carries our tag."""
    return flow.cookie >> 48 == COOKIE_TAG


@dataclass(frozen=True)
class Tables:
    """What a bridge holds. *other* are flows that are not ours, by key."""

    flows: dict[tuple[int, int, str], Flow]
    groups: dict[int, Group]
    other: dict[tuple[int, int, str], Flow]


class OpenFlow:
    """One bridge, reached by its management socket or any other ovs-ofctl target."""

    def __init__(self, target: str, env: Mapping[str, str] | None = None) -> None:
        self.target = target
        self._env = env

    def ofctl(self, *args: str, names: bool = False, stdin: str | None = None, timeout: float = 60) -> str:
        """Run ovs-ofctl; *args* start with the command, then the options after the target."""
        return run(
            ["ovs-ofctl", "-O", PROTOCOL, "--names" if names else "--no-names", "--no-stats", args[0], self.target, *args[1:]],
            env=self._env,
            stdin=stdin,
            timeout=timeout,
        )

    def dump(self) -> Tables:
        """All flows, with ports by name, and the groups in our range of numbers."""
        ours, other = {}, {}
        # Not --names: once tables are named, that prints their names as well, and differently from version to version.
        names = {m[1]: port_name(m[2]) for m in map(_PORT.match, self.ofctl("dump-ports-desc").splitlines()) if m}
        for line in self.ofctl("dump-flows").splitlines():
            if "actions=" in line:
                flow = parse_flow(_PORT_USE.sub(lambda m: m[1] + names.get(m[2], m[2]), line))
                (ours if is_ours(flow) else other)[flow.key] = flow
        groups = {}
        for line in self.ofctl("dump-groups").splitlines():
            m = _GROUP.match(line)
            if m and GROUP_BASE <= int(m[2]) <= GROUP_LAST:
                groups[int(m[2])] = Group(int(m[2]), m[1])
        return Tables(ours, groups, other)

    def bundle(self, lines: Iterable[str]) -> None:
        """Send flow and group changes as one transaction: all of them or none. Raises SwitchError with the reason."""
        self.ofctl("bundle", "-", names=True, stdin="\n".join(lines) + "\n", timeout=120)


@dataclass(frozen=True)
class Changes:
    """What must change for the tables to be as planned."""

    add: tuple[Flow, ...]
    replace: tuple[Flow, ...]
    remove: tuple[Flow, ...]
    add_groups: tuple[Group, ...]
    replace_groups: tuple[Group, ...]
    remove_groups: tuple[Group, ...]

    def __len__(self) -> int:
        flows = len(self.add) + len(self.replace) + len(self.remove)
        return flows + len(self.add_groups) + len(self.replace_groups) + len(self.remove_groups)

    def bundle(self) -> list[str]:
        """The lines of the bundle. Groups come before the flows that use them, and leave after them."""
        # A changed group is sent whole: insert- and remove-buckets lose slots in OVS before 3.6 (ovs-issues 357).
        return [
            *(f"group add {g.text}" for g in self.add_groups),
            *(f"group modify {g.text}" for g in self.replace_groups),
            *(f"flow add {f.line()}" for f in (*self.add, *self.replace)),
            *(f"flow delete_strict {f.spec()}" for f in self.remove),
            *(f"group delete group_id={g.number}" for g in self.remove_groups),
        ]


def changes(flows: Iterable[Flow], groups: Iterable[Group], have: Tables) -> Changes:
    """What turns *have* into *flows* and *groups*. Raises SwitchError where a flow that is not ours is in the way."""
    want = {f.key: f for f in flows}
    want_groups = {g.number: g for g in groups}
    blocked = [have.other[key] for key in want.keys() & have.other.keys()]
    if blocked:
        shown = "; ".join(f.line() for f in blocked[:3])
        raise SwitchError(f"{len(blocked)} flow(s) that are not dnsteer's stand where its flows must go: {shown}")
    return Changes(
        add=tuple(f for k, f in want.items() if k not in have.flows),
        replace=tuple(f for k, f in want.items() if k in have.flows and have.flows[k] != f),
        remove=tuple(f for k, f in have.flows.items() if k not in want),
        add_groups=tuple(g for n, g in want_groups.items() if n not in have.groups),
        replace_groups=tuple(g for n, g in want_groups.items() if n in have.groups and have.groups[n] != g),
        remove_groups=tuple(g for n, g in have.groups.items() if n not in want_groups),
    )
