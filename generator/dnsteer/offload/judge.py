# SPDX-License-Identifier: Apache-2.0
"""Judge by a capability profile whether a datapath flow is offloaded, and why or why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from dnsteer.offload.capabilities import Case, Certainty, Entry, Limit, LimitName, Outcome, PortKind, Profile
from dnsteer.offload.datapath_flow import DatapathAction, DatapathFlow, Unreadable
from dnsteer.offload.packet_path import Verdict
from dnsteer.offload.split import RulePart, match_bytes, parts_of
from dnsteer.switch.megaflow_fields import Field

_WORST_FIRST: tuple[Verdict, ...] = ("no", "partial", "unknown", "yes")
_SUREST_FIRST: tuple[Certainty, ...] = ("documented", "source-code", "test-suite", "inferred", "unknown")
ReasonKind = Literal["match", "action", "limit"]
_TELLING_VALUES = ("ipv4.frag", "ipv6.frag")


@dataclass(frozen=True)
class Reason:
    """A profile statement that applies to a flow: the match, action or limit it is about, the verdict and the source."""

    kind: ReasonKind
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
    """The verdict on a flow. *reasons* say why it is not yes (empty for yes), worst first; *remarks* are notes on a yes.

    *rules* are the hardware rules that the flow takes by itself, *tables* the hardware tables that its packets pass (both 0
    unless the verdict is yes or unknown), *match_bytes* the size of its match in one rule. *parts* are the rules of its
    match: flows may share first rules, which `split.shared_rules` counts once. *certainty* is that of the verdict: one sure
    statement is enough for a no, while a yes is only as sure as its least sure statement.
    """

    verdict: Verdict
    reasons: tuple[Reason, ...]
    remarks: tuple[Reason, ...]
    rules: int
    match_bytes: int
    certainty: Certainty
    tables: int = 0
    parts: tuple[RulePart, ...] = ()

    @property
    def why_software(self) -> str:
        """Why the CPU forwards, as one text; empty if hardware does. A reason shared by several names is given once."""
        return join_reasons(self.reasons)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "verdict": self.verdict,
            "certainty": self.certainty,
            "reasons": [reason.as_json() for reason in self.reasons],
            "remarks": [remark.as_json() for remark in self.remarks],
            "rules": self.rules,
            "tables": self.tables,
            "match_bytes": self.match_bytes,
            "why_software": self.why_software,
        }


def without_value(reason: Reason) -> Reason:
    """Return *reason* without the flow's value (`udp.dst=53` becomes `udp.dst`), except where the value is the reason."""
    name = reason.name.partition("=")[0]
    if name in _TELLING_VALUES or name == reason.name:
        return reason
    return replace(reason, name=name, text=reason.text.replace(reason.name, name, 1))


def join_reasons(reasons: Iterable[Reason]) -> str:
    """Join reasons into one text; a reason shared by several names is given once, after all of them."""
    about: dict[str, list[str]] = {}
    for reason in reasons:
        about.setdefault(reason.text.removeprefix(f"{reason.name}: "), []).append(reason.name)
    return "; ".join(_reason_text(text, names) for text, names in about.items())


def _reason_text(text: str, names: list[str]) -> str:
    if len(names) > 1:
        return f"{', '.join(name.partition('=')[0] for name in names)}: {text}"
    return text if text.startswith(names[0]) or names[0] in get_args(LimitName) else f"{names[0]}: {text}"


@dataclass(frozen=True)
class OffloadContext:
    """What a verdict depends on in addition to the flow.

    *conntrack*: connection tracking is offloaded (hw-offload-ct-size is not 0). *port_kinds*: the kind of a port by the name
    or number in the dump; *eswitches*: the eSwitch of each other port, if there are several. *local_ports*: ports with hosts
    behind them; packets from other ports come from the network. *wide_entries*: the card's wide entries are used
    (BlueField-3). *hash_bits*: the widths in bits that the flow's group hash has in different releases; empty: the width
    of the flow's own mask. *enabled* are keys of other_config that are true.
    """

    conntrack: bool = False
    port_kinds: Mapping[str, PortKind] = field(default_factory=dict)
    eswitches: Mapping[str, str] = field(default_factory=dict)
    local_ports: frozenset[str] = frozenset()
    wide_entries: bool = False
    hash_bits: tuple[int, ...] = ()
    enabled: frozenset[str] = frozenset()


def weakest(certainties: Iterable[Certainty]) -> Certainty:
    """Return the least sure of several certainties; unknown if there are none."""
    return max(certainties, key=_SUREST_FIRST.index, default="unknown")


def surest(certainties: Iterable[Certainty]) -> Certainty:
    """Return the surest of several certainties; unknown if there are none."""
    return min(certainties, key=_SUREST_FIRST.index, default="unknown")


def judge(flow: DatapathFlow | Unreadable, profile: Profile, context: OffloadContext | None = None) -> Judgement:
    """Judge *flow* by *profile*. A line that could not be parsed gets the verdict unknown."""
    if isinstance(flow, Unreadable):
        reason = Reason("match", "flow", "unknown", f"the flow could not be read: {flow.problem}", "", "unknown")
        return Judgement("unknown", (reason,), (), 0, 0, "unknown")
    context = context or OffloadContext()
    parts = _parts(flow, profile, context)
    statements = [*_statements(flow, profile, context, parts)]
    found = [reason for reason, _ in statements]
    reasons = tuple(dict.fromkeys(r for v in _WORST_FIRST[:-1] for r in found if r.verdict == v))
    verdict = reasons[0].verdict if reasons else "yes"
    in_hardware = verdict in ("yes", "unknown")
    pick = weakest if verdict == "yes" else surest
    return Judgement(
        verdict=verdict,
        reasons=reasons,
        remarks=tuple(dict.fromkeys(r for r in found if r.verdict == "yes" and r.text)),
        rules=len(parts) + sum(outcome.rules for _, outcome in statements) if in_hardware else 0,
        match_bytes=match_bytes(flow, conntrack=context.conntrack),
        certainty=pick(r.certainty for r in found if r.verdict == verdict),
        tables=len(parts) + sum(outcome.tables for _, outcome in statements) if in_hardware else 0,
        parts=parts if in_hardware else (),
    )


_Statement = tuple[Reason, Outcome]
_NOTHING = Outcome.model_validate({"verdict": "yes"})


def _parts(flow: DatapathFlow, profile: Profile, context: OffloadContext) -> tuple[RulePart, ...]:
    port = flow.get("in_port")
    outside = port is None or str(port.value) not in context.local_ports
    return parts_of(flow, profile, from_network=outside, conntrack=context.conntrack, wide_entries=context.wide_entries)


def _statements(
    flow: DatapathFlow, profile: Profile, context: OffloadContext, parts: tuple[RulePart, ...]
) -> Iterator[_Statement]:
    if not profile.hardware:
        yield _statement("limit", profile.layer, profile.other_match, None)
        return
    slow = any(_slow(action) for action in flow.every_action())
    if slow:  # reported first, since no change to the spec can avoid it
        yield from _actions(flow, flow.actions, profile, context)
    for matched in flow.match:
        entry = profile.match(matched.key)
        case = next((c for c in entry.cases if _flow_meets(c, flow) and _field_meets(c, matched)), None)
        yield _statement("match", str(matched), entry, case)
    if not slow:
        yield from _actions(flow, flow.actions, profile, context)
    yield from _limits(flow, profile, context, len(parts))


def _actions(
    flow: DatapathFlow, actions: tuple[DatapathAction, ...], profile: Profile, context: OffloadContext
) -> Iterator[_Statement]:
    for i, action in enumerate(actions):
        entry = profile.slow_path if _slow(action) else profile.action(action.name)
        after = actions[i + 1].name if i + 1 < len(actions) else ""
        case = next((c for c in entry.cases if _flow_meets(c, flow) and _meets(c, flow, action, after, context)), None)
        yield _statement("action", str(action), entry, case)
        for branch in action.branches if action.name != "sample" else ():  # sampled packets are meant to go to the CPU
            yield from _actions(flow, branch, profile, context)


def _slow(action: DatapathAction) -> bool:
    """Whether every flavor performs this action in ovs-vswitchd itself."""
    return action.name == "userspace" or action.name.startswith(("set.arp", "set.nd", "set.icmp"))


def _flow_meets(case: Case, flow: DatapathFlow) -> bool:
    """Whether a case's conditions on the flow hold."""
    fragments = {str(f.value) for f in flow.match if f.key.endswith(".frag")}
    return (
        (not case.having or any(flow.get(key) for key in case.having))
        and (not case.proto or flow.proto in case.proto)
        and (not case.proto_not or flow.proto not in case.proto_not)
        and (not case.proto_other or flow.proto not in (None, *case.proto_other))
        and (case.family is None or (flow.family or "other") == case.family)
        and (not case.fragments or bool(fragments & set(case.fragments)))
        and (case.recirculated is None or flow.recirculated == case.recirculated)
    )


def _field_meets(case: Case, matched: Field) -> bool:
    """Whether a case's conditions on a matched or written field hold."""
    values = {matched.value, matched.shown}
    return (
        (case.mask is None or matched.exact == (case.mask == "exact"))
        and (not case.value or bool(values & set(case.value)))
        and (not case.value_not or not values & set(case.value_not))
        and (case.beyond is None or bool(matched.mask & ~case.beyond))
        and (not case.flags or bool(matched.flags & set(case.flags)))
        and (not case.plus or bool(matched.plus & set(case.plus)))
    )


def _meets(case: Case, flow: DatapathFlow, action: DatapathAction, after: str, context: OffloadContext) -> bool:
    """Whether a case's conditions on an action hold. *after* is the name of the next action, empty for the last."""
    if action.written is not None and not _field_meets(case, action.written):
        return False
    return (
        (case.place is None or (after == "") == (case.place == "last"))
        and (not case.next_not or after not in case.next_not)
        and (case.to is None or _port_kind(flow, action, context) == case.to)
        and (not case.args or any(name in action.args for name in case.args))
        and (not case.without or case.without not in context.enabled)
    )


def _port_kind(flow: DatapathFlow, action: DatapathAction, context: OffloadContext) -> PortKind | None:
    came_by = flow.get("in_port")
    port = str(came_by.value) if came_by is not None else ""
    if action.port == port:
        return "in-port"
    if action.port in context.port_kinds:
        return context.port_kinds[action.port]
    source, target = context.eswitches.get(port), context.eswitches.get(action.port)
    return "other-eswitch" if source and target and source != target else None


def _limits(flow: DatapathFlow, profile: Profile, context: OffloadContext, parts: int) -> Iterator[_Statement]:
    """Yield the limits that one flow exceeds; lint checks the limits on all flows together."""
    names = [action.name for action in flow.every_action() if not action.continues]
    hashed, options = flow.get("dp_hash"), flow.get("tunnel.geneve")
    hashes = hashed is not None or "hash" in names
    sampled = "sample" in names
    if hashed is not None:
        yield from _hash_bits(profile.limits.get("dp_hash_bits"), context.hash_bits or (hashed.mask.bit_length(),))
    counts: dict[LimitName, int] = {
        "split_depth": parts,
        "dp_hash_with_conntrack": int(context.conntrack and hashes),
        "meters_per_flow": names.count("meter"),
        "sample_with_meter": int(sampled and "meter" in names),
        "sample_with_recirculation": int(sampled and "recirc" in names),
        "vlan_tags": sum(f.key.endswith(".tpid") for f in flow.match),
        "vlan_pushes": names.count("push_vlan"),
        "vlan_pops": names.count("pop_vlan"),
        "geneve_options": int(options.value) if options is not None else 0,
        "outputs": names.count("output"),
        "actions": len(names),
    }
    for name, count in counts.items():
        limit = profile.limits.get(name)
        if limit is None or limit.value is None or limit.verdict == "split" or count <= limit.value:
            continue
        text = f"{count} {limit.unit}; at most {limit.value}" + (f" ({limit.note})" if limit.note else "")
        yield Reason("limit", name, limit.verdict, text, limit.source, limit.certainty), _NOTHING


def _hash_bits(limit: Limit | None, widths: tuple[int, ...]) -> Iterator[_Statement]:
    """Yield a statement if the hash is wider than the limit; unknown if it is so only in some Open vSwitch releases."""
    if limit is None or limit.value is None or limit.verdict == "split" or max(widths) <= limit.value:
        return
    few, many = min(widths), max(widths)
    if few == many:
        text, verdict, certainty = f"{few} {limit.unit}", limit.verdict, limit.certainty
    else:
        text = (
            f"{few} {limit.unit} in older releases of Open vSwitch and {many} in newer ones (since 3.5, 3.4.1, 3.3.3)"
        )
        verdict = limit.verdict if few > limit.value else "unknown"
        certainty = limit.certainty if few > limit.value else "unknown"
    text += f"; at most {limit.value}" + (f" ({limit.note})" if limit.note else "")
    yield Reason("limit", "dp_hash_bits", verdict, text, limit.source, certainty), _NOTHING


def _statement(kind: ReasonKind, name: str, entry: Entry, case: Case | None) -> _Statement:
    """Return the statement of an entry, or of its case that holds, as a Reason and an Outcome."""
    statement: Entry | Case = case or entry
    text = f"{name}: {statement.note}" if statement.note else ""
    source, certainty = statement.source or entry.source, statement.certainty or entry.certainty
    return Reason(kind, name, statement.verdict, text, source, certainty), statement
