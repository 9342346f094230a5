"""Whether hardware takes a datapath flow, by a capability profile, and why or why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dnsteer.offload.flow import Action, Flow, Unreadable
from dnsteer.offload.path import Verdict
from dnsteer.offload.profile import Case, Certainty, Entry, LimitName, Port, Profile
from dnsteer.offload.split import match_bytes, rules_of
from dnsteer.switch.fields import Field

_WORST_FIRST: tuple[Verdict, ...] = ("no", "partial", "unknown", "yes")
_SUREST_FIRST: tuple[Certainty, ...] = ("documented", "source-code", "test-suite", "inferred", "unknown")


@dataclass(frozen=True)
class Reason:
    """A statement of the profile that a flow meets: about which match, action or limit, what follows, and the source."""

    kind: Literal["match", "action", "limit"]
    name: str
    verdict: Verdict
    text: str
    source: str
    certainty: Certainty

    def as_json(self) -> dict[str, str]:
        """As a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class Judgement:
    """What hardware does with a flow. *reasons* are why not (none for yes), worst first; *remarks* what to know of a yes.

    *rules* are the hardware rules that it takes (0 unless the verdict is yes or unknown), *match_bytes* what it matches.
    *certainty* is that of the weakest statement which the verdict rests on.
    """

    verdict: Verdict
    reasons: tuple[Reason, ...]
    remarks: tuple[Reason, ...]
    rules: int
    match_bytes: int
    certainty: Certainty

    @property
    def why_software(self) -> str:
        """Why the CPU forwards, in a sentence; empty when hardware does."""
        return "; ".join(reason.text for reason in self.reasons)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {**asdict(self), "why_software": self.why_software}


@dataclass(frozen=True)
class Around:
    """What a flow's verdict depends on besides the flow: whether connection tracking is offloaded, and kinds of ports.

    Ports that are not in *ports* (by the name or number that the dump shows) are ports of the same eSwitch.
    """

    conntrack: bool = False
    ports: Mapping[str, Port] = field(default_factory=dict)


def judge(flow: Flow | Unreadable, profile: Profile, around: Around | None = None) -> Judgement:
    """Judge *flow* under *profile*. A line that could not be read is unknown."""
    if isinstance(flow, Unreadable):
        reason = Reason("match", "flow", "unknown", f"the flow could not be read: {flow.problem}", "", "unknown")
        return Judgement("unknown", (reason,), (), 0, 0, "unknown")
    found = [*_everything(flow, profile, around or Around())]
    reasons = tuple(dict.fromkeys(r for v in _WORST_FIRST[:-1] for r in found if r.verdict == v))
    verdict = reasons[0].verdict if reasons else "yes"
    remarks = tuple(dict.fromkeys(r for r in found if r.verdict == "yes" and r.text))
    rests_on = [r.certainty for r in found if r.verdict == verdict]
    pick = max if verdict == "yes" else min  # one sure "no" is enough, a yes is as weak as its weakest part
    certainty = pick(rests_on, key=_SUREST_FIRST.index)
    rules = rules_of(flow, profile) if verdict in ("yes", "unknown") else 0
    return Judgement(verdict, reasons, remarks, rules, match_bytes(flow), certainty)


def _everything(flow: Flow, profile: Profile, around: Around) -> Iterator[Reason]:
    if not profile.hardware:
        yield _reason("limit", "hardware", profile.other_match, None)
        return
    for matched in flow.match:
        entry = profile.matches.get(matched.key, profile.other_match)
        case = next((c for c in entry.cases if _meets(c, flow) and _field_meets(c, matched)), None)
        yield _reason("match", str(matched), entry, case)
    yield from _actions(flow, flow.actions, profile, around)
    yield from _limits(flow, profile, around)


def _actions(flow: Flow, actions: tuple[Action, ...], profile: Profile, around: Around) -> Iterator[Reason]:
    for i, action in enumerate(actions):
        entry = profile.slow_path if _slow(action) else profile.actions.get(action.name, profile.other_action)
        after = actions[i + 1].name if i + 1 < len(actions) else ""
        case = next(
            (c for c in entry.cases if _meets(c, flow) and _action_meets(c, flow, action, after, around)), None
        )
        yield _reason("action", str(action), entry, case)
        for branch in action.branches:
            yield from _actions(flow, branch, profile, around)


def _slow(action: Action) -> bool:
    """Whether every flavor does this in ovs-vswitchd itself."""
    return action.name == "userspace" or action.name.startswith(("set.arp", "set.nd", "set.icmp"))


def _meets(case: Case, flow: Flow) -> bool:
    """Whether what a case says of the flow as a whole holds."""
    fragments = {str(f.value) for f in flow.match if f.key.endswith(".frag")}
    return (
        (not case.having or any(flow.get(key) for key in case.having))
        and (not case.proto or flow.proto in case.proto)
        and (not case.proto_not or flow.proto not in case.proto_not)
        and (case.family is None or flow.family == case.family)
        and (not case.fragments or bool(fragments & set(case.fragments)))
        and (case.recirculated is None or flow.recirculated == case.recirculated)
    )


def _field_meets(case: Case, matched: Field) -> bool:
    """Whether what a case says of a matched or written field holds."""
    return (
        (case.mask is None or matched.exact == (case.mask == "exact"))
        and (not case.value or matched.value in case.value)
        and (case.beyond is None or bool(matched.mask & ~case.beyond))
        and (not case.flags or bool(matched.flags & set(case.flags)))
        and (not case.plus or bool(matched.plus & set(case.plus)))
    )


def _action_meets(case: Case, flow: Flow, action: Action, after: str, around: Around) -> bool:
    """Whether what a case says of an action holds. *after* is the action that follows directly."""
    if action.written is not None and not _field_meets(case, action.written):
        return False
    return (
        (case.place is None or (after == "") == (case.place == "last"))
        and (not case.next_not or after not in case.next_not)
        and (case.to is None or _port_kind(flow, action, around) == case.to)
        and (not case.args or any(name in action.args for name in case.args))
    )


def _port_kind(flow: Flow, action: Action, around: Around) -> Port | None:
    came_by = flow.get("in_port")
    if came_by is not None and action.port == str(came_by.value):
        return "in-port"
    return around.ports.get(action.port)


def _limits(flow: Flow, profile: Profile, around: Around) -> Iterator[Reason]:
    """Limits on one flow; those on all flows together are for whoever sees all of them."""
    actions = [action.name for action in flow.every_action()]
    hashed = flow.get("dp_hash")
    counts: dict[LimitName, int] = {
        "meters_per_flow": actions.count("meter"),
        "outputs": actions.count("output"),
        "actions": len(actions),
        "vlan_tags": sum(f.key.endswith(".tpid") for f in flow.match),
        "dp_hash_bits": hashed.mask.bit_length() if hashed is not None else 0,
        "split_depth": rules_of(flow, profile),
    }
    if around.conntrack and (hashed is not None or "hash" in actions):
        counts["dp_hash_with_conntrack"] = 1
    for name, count in counts.items():
        limit = profile.limits.get(name)
        if limit is None or limit.verdict == "split" or not count:
            continue
        if limit.value is not None and count > limit.value:
            text = f"{count} {limit.unit}; at most {limit.value}" + (f": {limit.note}" if limit.note else "")
            yield Reason("limit", name, limit.verdict, text, limit.source, limit.certainty)


def _reason(kind: Literal["match", "action", "limit"], name: str, entry: Entry, case: Case | None) -> Reason:
    """What an entry says, or the case of it that holds."""
    if case is None:
        text = f"{name}: {entry.note}" if entry.note else "" if entry.verdict == "yes" else name
        return Reason(kind, name, entry.verdict, text, entry.source, entry.certainty)
    source, certainty = case.source or entry.source, case.certainty or entry.certainty
    return Reason(kind, name, case.verdict, f"{name}: {case.note}", source, certainty)
