"""Findings about the usual queries and answers of services: offload, passes, width and number of rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dnsteer.offload import codes
from dnsteer.offload.codes import Code
from dnsteer.offload.examine import Examination, Judged
from dnsteer.offload.findings import Finding
from dnsteer.offload.flow import Flow
from dnsteer.offload.owners import Owner
from dnsteer.offload.path import Path
from dnsteer.offload.said import finding
from dnsteer.offload.split import size_of
from dnsteer.spec.errors import Path as SpecPath

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
        yield finding(seen, first.code, first.at, f"{what}: {first.text}", first.advice, judged)


def _of_service(seen: Examination, path: Path, owner: Owner, judged: Sequence[Judged]) -> Iterator[_Said]:
    vip: SpecPath = ("vips", owner.vip)
    bad = tuple(j for j in judged if j.judgement.verdict != "yes")
    if bad:
        share = "none" if len(bad) == len(judged) else f"only {len(judged) - len(bad)}"
        why = "; ".join(dict.fromkeys(r.text for j in bad[:1] for r in j.judgement.reasons))
        text = f"{share} of {len(judged)} datapath flows in hardware: {why}"
        yield _Said(_code_of(path), vip, text, _advice(seen, owner, bad), bad)
    if path.passes > 1:
        hashed = path.selection == "dp-hash"
        text = f"{path.passes} passes for each packet ({'a dp-hash group' if hashed else 'the connection tracker'})"
        at: SpecPath = ("pools", seen.loaded.spec.vips[owner.vip].pool, "selection") if hashed else vip
        yield _Said(codes.PASSES, at, text, "selection: source-port finds the slot in one pass" if hashed else "", ())
    wide = [j for j in judged if len(j.judgement.parts) > 1]
    if wide:
        yield _Said(codes.SPLIT, vip, _widths(seen, wide[0]), "", (wide[0],))
    if path.direction == "query":
        yield from _too_many(seen, path, judged, vip)


def _too_many(seen: Examination, path: Path, judged: Sequence[Judged], vip: SpecPath) -> Iterator[_Said]:
    """A service that has more datapath flows than slots, beyond a few."""
    flows = [j.flow for j in judged if isinstance(j.flow, Flow)]
    if path.selection == "source-port":
        count = round(sum(not flow.recirculated for flow in flows) * seen.share_of(path.slots))
    else:
        count = len(flows)
    if count <= path.slots + SPARE_RULES:
        return
    values: dict[str, set[object]] = defaultdict(set)
    for flow in flows:
        for matched in flow.match:
            values[matched.key].add((matched.value, matched.mask))
    many = [f"{len(found)} of {key}" for key, found in values.items() if len(found) > 1 and key not in _PORTS]
    text = f"{count} datapath flows for {path.slots} slots" + (f"; what multiplies: {', '.join(many)}" if many else "")
    yield _Said(codes.RULES, vip, text, "fewer uplinks or routers on one switch, or fewer slots", tuple(judged[:1]))


def _widths(seen: Examination, judged: Judged) -> str:
    """The fields of a rule that is too wide."""
    flow = judged.flow
    assert isinstance(flow, Flow)
    most = seen.profile.limit("match_bytes_per_rule")
    sizes = ", ".join(f"{_PORTS.get(f.key, f.key)} {size}" for f in flow.match if (size := size_of(f.key, f.bits)))
    first = ", ".join(_PORTS.get(f.key, f.key) for f in judged.judgement.parts[0].fields if size_of(f.key, f.bits))
    return (
        f"a match of {judged.judgement.match_bytes} bytes ({sizes}), and a rule holds {most}: it becomes "
        f"{len(judged.judgement.parts)} rules one after the other, of which the first ({first}) is shared"
    )


def _code_of(path: Path) -> Code:
    if path.offloaded == "partial":
        return codes.CLASSIFIED_ONLY
    if path.offloaded == "unknown":
        return codes.UNKNOWN
    return codes.QUERIES_IN_SOFTWARE if path.direction == "query" else codes.ANSWERS_IN_SOFTWARE


def _advice(seen: Examination, owner: Owner, bad: Sequence[Judged]) -> str:
    """What in the spec to change."""
    names = {reason.name.partition("=")[0] for judged in bad for reason in judged.judgement.reasons}
    vip = seen.loaded.spec.vips[owner.vip]
    if names & {"dp_hash", "hash", "recirc_id", "recirc", "dp_hash_bits", "dp_hash_with_conntrack"}:
        return f"pools.{vip.pool}.selection: source-port needs no hash"
    if owner.direction == "answer" and vip.forwarding.value == "nat":
        return f"vips.{owner.vip}.forwarding: dsr keeps answers off the switch"
    return "another flavor; the reasons are shown with --verbose"
