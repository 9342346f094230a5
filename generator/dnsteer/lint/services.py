"""Findings about the usual queries and answers of services: offload, passes, width and number of rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dnsteer.lint import codes
from dnsteer.lint.codes import Code
from dnsteer.lint.findings import Finding
from dnsteer.lint.wording import finding, reasons_of
from dnsteer.modes import MODES
from dnsteer.offload.context import joined
from dnsteer.offload.counts import rules_of
from dnsteer.offload.examine import Examination, Judged
from dnsteer.offload.flow import Flow
from dnsteer.offload.judge import Reason, judge, said_once
from dnsteer.offload.owners import Owner
from dnsteer.offload.path import Path
from dnsteer.offload.split import size_of
from dnsteer.slots.dp_hash import ALIKE
from dnsteer.spec.errors import Path as SpecPath
from dnsteer.spec.model.spec import Flavor, Hardware

SPARE_RULES = 4
"""Datapath flows of a service beyond its slots that need no explanation."""
_PORTS = {
    "udp.src": "source port",
    "tcp.src": "source port",
    "udp.dst": "destination port",
    "tcp.dst": "destination port",
}


@dataclass(frozen=True)
class _Said:
    """What is to be said of one service. Services of which the same is said become one finding."""

    code: Code
    at: SpecPath
    text: str
    advice: str
    judged: tuple[Judged, ...]
    reasons: tuple[Reason, ...] = ()


def of_services(seen: Examination) -> Iterator[Finding]:
    """All findings about services, one for those services of a VIP of which the same is to be said."""
    alike: dict[tuple[object, ...], list[tuple[Owner, _Said]]] = defaultdict(list)
    for path, (owner, judged) in zip(seen.paths, sorted(seen.of_owner.items()), strict=True):
        for said in _of_service(seen, path, owner, judged):
            key = (said.code.code, said.at, said.text, said.advice, owner.vip, owner.direction, owner.family)
            alike[key].append((owner, said))
    for found in alike.values():
        owner, first = found[0]
        services = ", ".join(dict.fromkeys(o.service for o, _ in found))
        family = {"ipv4": "IPv4", "ipv6": "IPv6"}[owner.family]
        what = f"{'queries' if owner.direction == 'query' else 'answers'} of {owner.vip} over {family} ({services})"
        judged = [j for _, said in found for j in said.judged]
        yield finding(seen, first.code, first.at, f"{what}: {first.text}", first.advice, judged, first.reasons)


def _of_service(seen: Examination, path: Path, owner: Owner, judged: Sequence[Judged]) -> Iterator[_Said]:
    vip: SpecPath = ("vips", owner.vip)
    bad = tuple(j for j in judged if j.judgement.verdict in ("no", "partial"))
    unknown = tuple(j for j in judged if j.judgement.verdict == "unknown")
    if bad:
        why = f"{_some(seen, bad, judged)} not in hardware: {said_once(reasons_of(bad))}"
        yield _Said(_code_of(owner, bad), vip, why, _advice(seen, owner, bad), bad)
    if unknown:
        why = (
            f"whether hardware takes {_some(seen, unknown, judged)} is not published: {said_once(reasons_of(unknown))}"
        )
        yield _Said(codes.UNKNOWN, vip, why, _measure(seen, owner, unknown), unknown)
    if path.passes > 1 and not path.hops:
        hashed = path.selection == "dp-hash"
        text = f"{path.passes} passes for each packet ({'a dp-hash group' if hashed else 'the connection tracker'})"
        at: SpecPath = ("pools", seen.loaded.spec.vips[owner.vip].pool, "selection") if hashed else vip
        yield _Said(codes.PASSES, at, text, "selection: source-port finds the slot in one pass" if hashed else "", ())
    wide = [j for j in judged if len(j.judgement.parts) > 1]
    if wide:
        text, reasons = _widths(seen, wide[0])
        more, reason = _wide_entries(seen, path, judged)
        yield _Said(codes.SPLIT, vip, text + more, "", (wide[0],), (*reasons, *reason))
    if path.direction == "query":
        yield from _too_many(seen, path, owner, judged, vip)


def _some(seen: Examination, some: Sequence[Judged], judged: Sequence[Judged]) -> str:
    """How many flows of a service these are."""
    total = seen.flows_of(judged)
    return f"{'all' if len(some) == len(judged) else f'{seen.flows_of(some)} of'} {total} datapath flows"


def _too_many(seen: Examination, path: Path, owner: Owner, judged: Sequence[Judged], vip: SpecPath) -> Iterator[_Said]:
    """A service with more datapath flows at an uplink than slots, or than its hash has values, beyond a few."""
    flows = [j.flow for j in judged if isinstance(j.flow, Flow)]
    hashed = path.selection == "dp-hash"
    count = seen.flows_of(j for j in judged if hashed or not (isinstance(j.flow, Flow) and j.flow.recirculated))
    uplinks = len(seen.loaded.spec.switch.uplinks)
    beyond = seen.beyond.get(owner)
    needed = uplinks * (1 + seen.hash_values(owner) if hashed else path.slots)
    if beyond is not None:
        needed = uplinks + beyond.returned
    if count <= needed + SPARE_RULES:
        return
    values: dict[str, set[object]] = defaultdict(set)
    for flow in flows:
        for matched in flow.match:
            values[matched.key].add((matched.value, matched.mask))
    usual = {*_PORTS, "dp_hash", "recirc_id"} if hashed else {*_PORTS, "in_port"} if beyond is not None else {*_PORTS}
    many = [f"{len(found)} of {key}" for key, found in values.items() if len(found) > 1 and key not in usual]
    what = f"{seen.hash_values(owner)} values of the hash" if hashed else f"{path.slots} slots"
    if beyond is not None:
        what = f"queries to the extension and {beyond.returned} backends behind it"
    what += f" at {uplinks} uplinks" if uplinks > 1 else ""
    text = f"{count} datapath flows for {what}" + (f"; what multiplies: {', '.join(many)}" if many else "")
    advice = "fewer routers on one switch" + ("" if hashed else ", or fewer slots")
    yield _Said(codes.RULES, vip, text, advice, tuple(judged[:1]))


def _widths(seen: Examination, judged: Judged) -> tuple[str, tuple[Reason, ...]]:
    """The fields of a rule that is too wide, and what says so."""
    flow = judged.flow
    assert isinstance(flow, Flow)
    most = seen.profile.limits["match_bytes_per_rule"]
    sizes = ", ".join(f"{_PORTS.get(f.key, f.key)} {size}" for f in flow.match if (size := size_of(f.key, f.bits)))
    first = ", ".join(_PORTS.get(f.key, f.key) for f in judged.judgement.parts[0].fields if size_of(f.key, f.bits))
    text = (
        f"a match of {judged.judgement.match_bytes} bytes ({sizes}), and a rule holds {most.value}: it becomes "
        f"{len(judged.judgement.parts)} rules one after the other, of which the first ({first}) is shared"
    )
    return text, (Reason("limit", "match_bytes_per_rule", "yes", most.note, most.source, most.certainty),)


def _wide_entries(seen: Examination, path: Path, judged: Sequence[Judged]) -> tuple[str, tuple[Reason, ...]]:
    """What the count would be if the wide entries of a newer card were used."""
    limit = seen.profile.limits.get("match_bytes_per_wide_rule")
    card = seen.loaded.spec.switch.hardware
    if limit is None or card is not Hardware.BLUEFIELD_3:
        return "", ()
    around = replace(seen.around, wide=True)
    rules = rules_of(((j.flow, judge(j.flow, seen.profile, around)) for j in judged), seen.counts)
    text = (
        f"; with the wide entries of {card.value} ({limit.value} bytes) {rules} rules would do instead of {path.rules}"
    )
    about = f"that they are used for flows is {limit.certainty}"
    told = Reason("limit", "match_bytes_per_wide_rule", "yes", limit.note or about, limit.source, limit.certainty)
    return f"{text}; {about}", (told,)


def _code_of(owner: Owner, bad: Sequence[Judged]) -> Code:
    if all(j.judgement.verdict == "partial" for j in bad):
        return codes.CLASSIFIED_ONLY
    return codes.QUERIES_IN_SOFTWARE if owner.direction == "query" else codes.ANSWERS_IN_SOFTWARE


def _names(judged: Sequence[Judged]) -> set[str]:
    return {reason.name.partition("=")[0] for each in judged for reason in each.judgement.reasons}


def _advice(seen: Examination, owner: Owner, bad: Sequence[Judged]) -> str:
    """What in the spec to change."""
    vip = seen.loaded.spec.vips[owner.vip]
    if _names(bad) & {"dp_hash", "hash", "recirc_id", "recirc", "dp_hash_bits", "dp_hash_with_conntrack"}:
        return f"pools.{vip.pool}.selection: source-port needs no hash"
    if any("another eSwitch" in reason.text for j in bad for reason in j.judgement.reasons):
        if joined(seen.loaded, seen.plan, Flavor(seen.profile.flavor)).multiport:
            return "clients and name servers on uplinks of one card"
        return "switch.bringup.multiport: true makes the eSwitches of a card one"
    if owner.direction == "answer" and MODES[vip.forwarding].number and MODES[vip.forwarding].answers_by:
        return f"vips.{owner.vip}.forwarding: dsr keeps answers off the switch"
    return "another flavor; the reasons are shown with --verbose"


def _measure(seen: Examination, owner: Owner, unknown: Sequence[Judged]) -> str:
    """What to do about what nobody has published: find out, or do without."""
    measure = "ask a switch that runs it: dnsteer verify --offload"
    if "dp_hash_bits" not in _names(unknown):
        return measure
    pool = seen.loaded.spec.vips[owner.vip].pool
    return f"pools.{pool}.slots: at most {ALIKE}, or pools.{pool}.selection: source-port; or {measure}"
