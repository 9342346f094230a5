# SPDX-License-Identifier: Apache-2.0
"""Findings about the usual queries and answers of services: offload, passes, rule width and number of rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dnsteer.lint.finder import LintContext, finder, reasons_of
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.modes import MODES
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.offload.examine import Examination, JudgedFlow, recirculates, rules_of
from dnsteer.offload.judge import Reason, join_reasons, judge
from dnsteer.offload.offload_context import eswitch_setup
from dnsteer.offload.owners import Owner
from dnsteer.offload.packet_path import PacketPath
from dnsteer.offload.split import size_of
from dnsteer.slots.dp_hash import SAME_IN_ALL_RELEASES
from dnsteer.spec import derived
from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.errors import Path
from dnsteer.spec.model.families import FAMILY_NAMES
from dnsteer.spec.model.spec import Flavor, Hardware

QUERIES_IN_SOFTWARE = Code("DNS001", Severity.ERROR, "Queries are not offloaded")
ANSWERS_IN_SOFTWARE = Code("DNS002", Severity.ERROR, "Answers are not offloaded")
CLASSIFIED_ONLY = Code("DNS003", Severity.ERROR, "Hardware only classifies; the CPU forwards")
UNKNOWN = Code("DNS004", Severity.WARNING, "Nobody has published whether this is offloaded")
PASSES = Code("DNS010", Severity.WARNING, "More than one pass for each packet")
SPLIT = Code("DNS011", Severity.NOTE, "A rule is too wide and is split")
RULES = Code("DNS012", Severity.WARNING, "More datapath flows than slots")

SPARE_RULES = 4
"""Datapath flows that a service may have in addition to its slots before lint reports it."""
_PORTS = {
    "udp.src": "source port",
    "tcp.src": "source port",
    "udp.dst": "destination port",
    "tcp.dst": "destination port",
}


@dataclass(frozen=True)
class _Problem:
    """A problem of one service. Services with the same problem are reported in one finding."""

    code: Code
    at: Path
    text: str
    advice: str
    judged: tuple[JudgedFlow, ...]
    reasons: tuple[Reason, ...] = ()


@finder(QUERIES_IN_SOFTWARE, ANSWERS_IN_SOFTWARE, CLASSIFIED_ONLY, UNKNOWN, PASSES, SPLIT, RULES, hardware=True)
def service_offload(context: LintContext) -> Iterator[LintFinding]:
    """Yield the findings about services; services of a VIP with the same problem share one."""
    examination = context.examination
    alike: dict[tuple[object, ...], list[tuple[Owner, _Problem]]] = defaultdict(list)
    for path, (owner, judged) in zip(examination.paths, sorted(examination.of_owner.items()), strict=True):
        for problem in _service_problems(examination, path, owner, judged):
            key = (
                problem.code.code,
                problem.at,
                problem.text,
                problem.advice,
                owner.vip,
                owner.direction,
                owner.family,
            )
            alike[key].append((owner, problem))
    for found in alike.values():
        owner, first = found[0]
        services = ", ".join(dict.fromkeys(o.service for o, _ in found))
        family = FAMILY_NAMES[owner.family]
        what = f"{'queries' if owner.direction == 'query' else 'answers'} of {owner.vip} over {family} ({services})"
        judged = [j for _, problem in found for j in problem.judged]
        yield context.finding(first.code, first.at, f"{what}: {first.text}", first.advice, judged, first.reasons)


def _service_problems(
    examination: Examination, path: PacketPath, owner: Owner, judged: Sequence[JudgedFlow]
) -> Iterator[_Problem]:
    vip: Path = ("vips", owner.vip)
    bad = tuple(j for j in judged if j.judgement.verdict in ("no", "partial"))
    unknown = tuple(j for j in judged if j.judgement.verdict == "unknown")
    if bad:
        why = f"{_some(examination, bad, judged)} not in hardware: {join_reasons(reasons_of(bad))}"
        yield _Problem(_code_of(owner, bad), vip, why, _advice(examination, owner, bad), bad)
    if unknown:
        because = join_reasons(reasons_of(unknown))
        why = f"nobody has published whether hardware takes {_some(examination, unknown, judged)}: {because}"
        yield _Problem(UNKNOWN, vip, why, _measure(examination, owner, unknown), unknown)
    if path.passes > 1 and not path.hops and not examination.has_two_passes(owner):
        hashed = path.selection == "dp-hash"
        text = f"{path.passes} passes for each packet ({'a dp-hash group' if hashed else 'the connection tracker'})"
        at: Path = ("pools", examination.loaded.spec.vips[owner.vip].pool, "selection") if hashed else vip
        yield _Problem(PASSES, at, text, "set selection: source-port, which needs one pass" if hashed else "", ())
    wide = [j for j in judged if len(j.judgement.parts) > 1]
    if wide:
        text, reasons = _widths(examination, wide[0])
        more, reason = _wide_entries(examination, path, judged)
        yield _Problem(SPLIT, vip, text + more, "", (wide[0],), (*reasons, *reason))
    if path.direction == "query":
        yield from _too_many(examination, path, owner, judged, vip)


def _some(examination: Examination, some: Sequence[JudgedFlow], judged: Sequence[JudgedFlow]) -> str:
    """Return "all 12 datapath flows" or "3 of 12 datapath flows" for the flows *some* of *judged*."""
    total = examination.flow_count(judged)
    return f"{'all' if len(some) == len(judged) else f'{examination.flow_count(some)} of'} {total} datapath flows"


def _too_many(
    examination: Examination, path: PacketPath, owner: Owner, judged: Sequence[JudgedFlow], vip: Path
) -> Iterator[_Problem]:
    """Report a service with over SPARE_RULES more datapath flows than its slots, or hash values, at all uplinks need."""
    hashed = path.selection == "dp-hash"
    twice = examination.has_two_passes(owner)
    if examination.has_client_limit(owner):
        if hashed or twice:
            return  # three passes or more, of which the buckets' flows are not the slots'
        judged = [j for j in judged if isinstance(j.flow, DatapathFlow) and not recirculates(j.flow)]
        count = examination.flow_count(judged)
    else:
        count = examination.flow_count(j for j in judged if hashed or twice or not _is_recirculated(j))
    uplinks = len(uplink_devices(examination.loaded.spec.switch))
    part = examination.extension_parts.get(owner)
    if part is not None:
        needed, usual = uplinks + part.returned, {*_PORTS, "in_port"}
        what = f"queries to the extension and {part.returned} backends behind it"
    elif hashed:
        values = examination.hash_values(owner)
        needed, usual, what = uplinks * (1 + values), {*_PORTS}, f"{values} values of the hash"
    else:
        needed, usual, what = uplinks * (path.slots + twice), {*_PORTS}, f"{path.slots} slots"
    if count <= needed + SPARE_RULES:
        return
    if hashed or twice:
        usual = {*_PORTS, "dp_hash", "recirc_id"}
    many = [f"{n} of {key}" for key, n in _matched_values(judged).items() if n > 1 and key not in usual]
    what += f" at {uplinks} uplinks" if uplinks > 1 else ""
    text = f"{count} datapath flows for {what}" + (f"; multiplied by: {', '.join(many)}" if many else "")
    advice = "use fewer routers per switch" + ("" if hashed else ", or fewer slots")
    yield _Problem(RULES, vip, text, advice, tuple(judged[:1]))


def _is_recirculated(judged: JudgedFlow) -> bool:
    return isinstance(judged.flow, DatapathFlow) and judged.flow.recirculated


def _matched_values(judged: Sequence[JudgedFlow]) -> dict[str, int]:
    """How many values of each field the flows match."""
    values = defaultdict[str, set[object]](set)
    for flow in (j.flow for j in judged):
        for matched in flow.match if isinstance(flow, DatapathFlow) else ():
            values[matched.key].add((matched.value, matched.mask))
    return {key: len(found) for key, found in values.items()}


def _widths(examination: Examination, judged: JudgedFlow) -> tuple[str, tuple[Reason, ...]]:
    """Describe the fields and sizes of a match too wide for one rule; return the text and the limit as a reason."""
    flow = judged.flow
    assert isinstance(flow, DatapathFlow)
    most = examination.profile.limits["match_bytes_per_rule"]
    sizes = ", ".join(f"{_PORTS.get(f.key, f.key)} {size}" for f in flow.match if (size := size_of(f.key, f.bits)))
    first = ", ".join(_PORTS.get(f.key, f.key) for f in judged.judgement.parts[0].fields if size_of(f.key, f.bits))
    text = (
        f"a match of {judged.judgement.match_bytes} bytes ({sizes}), and a rule holds {most.value}: it becomes "
        f"{len(judged.judgement.parts)} rules in a row, the first of which ({first}) is shared"
    )
    return text, (Reason("limit", "match_bytes_per_rule", "yes", most.note, most.source, most.certainty),)


def _wide_entries(
    examination: Examination, path: PacketPath, judged: Sequence[JudgedFlow]
) -> tuple[str, tuple[Reason, ...]]:
    """Return the rule count if BlueField-3's wide entries were used, as text and reason; empty for other cards."""
    limit = examination.profile.limits.get("match_bytes_per_wide_rule")
    card = examination.loaded.spec.switch.hardware
    if limit is None or card is not Hardware.BLUEFIELD_3:
        return "", ()
    context = replace(examination.context, wide_entries=True)
    rules = rules_of(((j.flow, judge(j.flow, examination.profile, context)) for j in judged), examination.weights)
    text = f"; the wide entries of {card.value} ({limit.value} bytes) would need {rules} rules instead of {path.rules}"
    about = f"whether flows use them is {limit.certainty}"
    reason = Reason("limit", "match_bytes_per_wide_rule", "yes", limit.note or about, limit.source, limit.certainty)
    return f"{text}; {about}", (reason,)


def _code_of(owner: Owner, bad: Sequence[JudgedFlow]) -> Code:
    if all(j.judgement.verdict == "partial" for j in bad):
        return CLASSIFIED_ONLY
    return QUERIES_IN_SOFTWARE if owner.direction == "query" else ANSWERS_IN_SOFTWARE


def _names(judged: Sequence[JudgedFlow]) -> set[str]:
    return {reason.name.partition("=")[0] for each in judged for reason in each.judgement.reasons}


def _advice(examination: Examination, owner: Owner, bad: Sequence[JudgedFlow]) -> str:
    """Return which change to the spec would get these flows offloaded."""
    vip = examination.loaded.spec.vips[owner.vip]
    again = _names(bad) & {"ct", "recirc_id", "recirc"}
    if again and examination.has_client_limit(owner):
        return (
            f"leave vips.{owner.vip}.limits.clients out, whose buckets take a pass of their own, or forward on the CPU"
        )
    if again and derived.tracks_answers(vip):
        return f"set vips.{owner.vip}.forwarding: nat, which needs no connection tracker for TCP, or forward on the CPU"
    if again and examination.is_kept(owner):
        return f"leave vips.{owner.vip}.keep out, which takes a pass by the connection tracker, or forward on the CPU"
    if again and examination.has_two_passes(owner):
        return f"set pools.{vip.pool}.passes: 1, which needs no connection tracker, if its rules fit"
    if _names(bad) & {"dp_hash", "hash", "recirc_id", "recirc", "dp_hash_bits", "dp_hash_with_conntrack"}:
        return f"set pools.{vip.pool}.selection: source-port, which needs no hash"
    if any("another eSwitch" in reason.text for j in bad for reason in j.judgement.reasons):
        if eswitch_setup(examination.loaded, examination.plan, Flavor(examination.profile.flavor)).multiport:
            return "put clients and name servers on uplinks of one card"
        return "set switch.bringup.multiport: true, which joins the eSwitches of a card"
    if owner.direction == "answer" and MODES[vip.forwarding].number and MODES[vip.forwarding].answers_by:
        return f"set vips.{owner.vip}.forwarding: dsr, which keeps answers off the switch"
    return "use another flavor; --verbose shows the reasons"


def _measure(examination: Examination, owner: Owner, unknown: Sequence[JudgedFlow]) -> str:
    """Return the advice for flows whose offload nobody has published: measure it, or avoid the feature."""
    measure = "check on a running switch: dnsteer verify --offload"
    if "dp_hash_bits" not in _names(unknown):
        return measure
    pool = examination.loaded.spec.vips[owner.vip].pool
    return (
        f"set pools.{pool}.slots: {SAME_IN_ALL_RELEASES} or less, or pools.{pool}.selection: source-port; or {measure}"
    )
