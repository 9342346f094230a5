"""Findings about what goes through the extension: that lint cannot judge it, what it costs, and what it does not do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from dnsteer.lint import codes
from dnsteer.lint.findings import Finding
from dnsteer.lint.wording import finding
from dnsteer.modes import MODES
from dnsteer.offload.examine import Examination
from dnsteer.offload.extension import not_run, not_run_of
from dnsteer.offload.path import Hop, Path
from dnsteer.plan.bridge import ports_of
from dnsteer.plan.extension.pipes import counters_of, entries, pipes_of
from dnsteer.spec.errors import Path as SpecPath
from dnsteer.spec.model.spec import Flavor, Switch

_AT: SpecPath = ("switch", "extension")
ANSWER_BYTES = 1232
"""DNS messages over UDP that are no fragments in IPv6 (DNS flag day 2020)."""
_FAMILIES = {"ipv4": "IPv4", "ipv6": "IPv6"}


def of_the_extension(seen: Examination) -> Iterator[Finding]:
    """All findings about the extension; none where the spec has none, or no VIP needs it."""
    part = seen.plan.extension
    if part is None or not part.services:
        return
    for vip, paths in _by_vip(seen.paths).items():
        at: SpecPath = ("vips", vip)
        siit = MODES[seen.loaded.spec.vips[vip].forwarding].translates
        if seen.profile.hardware:
            text = f"{_what(paths)}: {_does(paths)}; {not_run(siit=siit)}"
            yield finding(seen, codes.EXTENSION, at, text, _measure(siit=siit))
            yield finding(seen, codes.ESWITCH_TWICE, at, f"{_what(paths)}: {_ways(paths)}")
        if siit:
            text = f"fragments of answers for {vip} are dropped: the extension does not translate them"
            advice = f"limit the servers' answers over UDP to {ANSWER_BYTES} bytes, so that there are none"
            yield finding(seen, codes.TRANSLATED_FRAGMENTS, at, text, advice)
    yield from _without_functions(seen)


def _by_vip(paths: Iterable[Path]) -> dict[str, list[Path]]:
    out: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        if path.hops:
            out[path.vip].append(path)
    return {vip: sorted(paths, key=lambda p: p.direction, reverse=True) for vip, paths in out.items()}  # queries first


def _what(paths: list[Path]) -> str:
    ways = {"query": "queries", "answer": "answers"}
    directions = " and ".join(ways[d] for d in ("query", "answer") if any(p.direction == d for p in paths))
    families = " and ".join(_FAMILIES[f] for f in dict.fromkeys(p.family for p in paths))
    services = ", ".join(dict.fromkeys(p.service for p in paths))
    return f"{directions} of {paths[0].vip} over {families} ({services})"


def _does(paths: list[Path]) -> str:
    beyond = [hop for path in paths for hop in path.hops if hop.by == "extension"]
    hop = beyond[0]
    return (
        f"the extension handles them between {hop.enters[0]} and {hop.leaves[0]}, not Open vSwitch ({_pipes(beyond)}); "
        "whether hardware takes that is unknown"
    )


def _pipes(hops: list[Hop]) -> str:
    return "; ".join(dict.fromkeys(" -> ".join(hop.pipes) for hop in hops))


def _ways(paths: list[Path]) -> str:
    longest = max(paths, key=lambda p: sum(hop.tables for hop in p.hops))
    there, beyond, back = (longest.hops[0], next(h for h in longest.hops if h.by == "extension"), longest.hops[-1])
    text = (
        f"each packet passes the eSwitch twice, {_ports(there)} and {_ports(back)}, and {beyond.tables} pipes of the "
        "extension between"
    )
    if beyond.most:
        text += f"; it becomes {beyond.most} bytes {'longer' if beyond.most > 0 else 'shorter'} there"
    return text


def _ports(hop: Hop) -> str:
    return f"{' or '.join(hop.enters)} to {' or '.join(hop.leaves)}"


def _measure(*, siit: bool) -> str:
    need = " (siit needs DOCA 3.3)" if siit else ""
    return f"try it on the card before it serves{need}: where a pipe is refused, the program refuses its VIP and says which"


def _without_functions(seen: Examination) -> Iterator[Finding]:
    """Where the flavor, or a port, makes a pair of scalable functions impossible."""
    switch, flavor = seen.loaded.spec.switch, Flavor(seen.profile.flavor)
    if flavor is Flavor.OVS_NETDEV:
        if switch.hardware is not None:
            text = (
                f"flavor ovs-netdev does not use the eSwitch of {switch.hardware.value}, so that the extension has no "
                "scalable functions: it runs on its software model, or not at all"
            )
            yield finding(seen, codes.NO_FUNCTIONS, _AT, text, "flavor: ovs-doca")
        return
    for key, name in _not_representors(switch, flavor):
        text = f"port {name} names a device that is no representor, so that no scalable function is behind it"
        yield finding(seen, codes.NO_FUNCTIONS, (*_AT, key), text, "options: {dpdk-devargs: 'PCI,representor=sf[N]'}")


def _not_representors(switch: Switch, flavor: Flavor) -> Iterator[tuple[str, str]]:
    """Ports whose device is given and is something else. Types are for the spec's own flavor."""
    part = switch.extension
    if part is None or flavor is not switch.flavor:
        return
    for key, port in (("ingress", part.ingress), ("egress", part.egress)):
        devargs = ports_of(switch)[port.port].options.get("dpdk-devargs", "")
        if devargs and "representor=" not in devargs:
            yield key, port.port


def said_of_the_program(seen: Examination) -> str:
    """What the program takes of hardware, in a line; empty where nothing goes through it."""
    part = seen.plan.extension
    if part is None or not seen.beyond:
        return ""
    pipes = pipes_of(part)
    kinds: dict[str, int] = defaultdict(int)
    for pipe in pipes:
        kinds[_kind(pipe.name)] += pipe.entries
    said = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    return (
        f"the extension (dnsteer-ext, {part.ingress.name} to {part.egress.name}): {entries(pipes):,} entries of its pipes "
        f"({said}), {counters_of(part):,} counters; {not_run_of(part)}"
    )


def _kind(name: str) -> str:
    if name.startswith("classifier"):
        return "in classifiers"
    if name.startswith("slots-"):
        return "for slots"
    if name.startswith(("slots", "client", "spray")):
        return "in selectors"
    return "for tunnels" if name.startswith(("encap", "plain")) else "for translation"
