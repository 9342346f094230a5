# SPDX-License-Identifier: Apache-2.0
"""Findings about traffic through the extension: lint cannot judge its offload, it costs passes, and drops fragments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.modes import MODES
from dnsteer.offload.examine import Examination
from dnsteer.offload.extension_part import untested_text, untested_text_of
from dnsteer.offload.packet_path import Hop, PacketPath
from dnsteer.plan.bridge import ports_of
from dnsteer.plan.extension.pipes import counters_of, entries, pipes_of
from dnsteer.spec.errors import Path
from dnsteer.spec.model.families import FAMILY_NAMES
from dnsteer.spec.model.spec import Flavor, Switch

EXTENSION = Code("DNS060", Severity.NOTE, "The extension does this, so lint cannot judge it")
ESWITCH_TWICE = Code("DNS061", Severity.NOTE, "Packets pass the eSwitch twice, with the extension in between")
TRANSLATED_FRAGMENTS = Code("DNS062", Severity.NOTE, "Fragments of answers that need translation are dropped")
NO_FUNCTIONS = Code("DNS063", Severity.WARNING, "The extension has no scalable functions here")

_AT: Path = ("switch", "extension")
ANSWER_BYTES = 1232
"""Largest DNS message over UDP that is not fragmented in IPv6 (DNS flag day 2020)."""


@finder(EXTENSION, ESWITCH_TWICE, TRANSLATED_FRAGMENTS, NO_FUNCTIONS)
def extension_services(context: LintContext) -> Iterator[LintFinding]:
    """Yield the findings about the extension; none if the spec has no extension or no VIP uses it."""
    part = context.plan.extension
    if part is None or not part.services:
        return
    for vip, paths in _by_vip(context.examination.paths).items():
        at: Path = ("vips", vip)
        siit = MODES[context.spec.vips[vip].forwarding].translates
        if context.profile.hardware:
            text = f"{_subject(paths)}: {_extension_part(paths)}; {untested_text(siit=siit)}"
            yield context.finding(EXTENSION, at, text, _advice(siit=siit))
            yield context.finding(ESWITCH_TWICE, at, f"{_subject(paths)}: {_switch_passes(paths)}")
        if siit:
            text = f"fragments of answers for {vip} are dropped: the extension does not translate them"
            advice = f"limit the servers' UDP answers to {ANSWER_BYTES} bytes, so that none are fragmented"
            yield context.finding(TRANSLATED_FRAGMENTS, at, text, advice)
    yield from _without_functions(context)


def _by_vip(paths: Iterable[PacketPath]) -> dict[str, list[PacketPath]]:
    out: dict[str, list[PacketPath]] = defaultdict(list)
    for path in paths:
        if path.hops:
            out[path.vip].append(path)
    return {vip: sorted(paths, key=lambda p: p.direction, reverse=True) for vip, paths in out.items()}  # queries first


def _subject(paths: list[PacketPath]) -> str:
    names = {"query": "queries", "answer": "answers"}
    directions = " and ".join(names[d] for d in ("query", "answer") if any(p.direction == d for p in paths))
    families = " and ".join(FAMILY_NAMES[f] for f in dict.fromkeys(p.family for p in paths))
    services = ", ".join(dict.fromkeys(p.service for p in paths))
    return f"{directions} of {paths[0].vip} over {families} ({services})"


def _extension_part(paths: list[PacketPath]) -> str:
    hops = [hop for path in paths for hop in path.hops if hop.by == "extension"]
    hop = hops[0]
    return (
        f"the extension handles them between {hop.enters[0]} and {hop.leaves[0]}, not Open vSwitch ({_pipes(hops)}); "
        "whether hardware offloads it is unknown"
    )


def _pipes(hops: list[Hop]) -> str:
    return "; ".join(dict.fromkeys(" -> ".join(hop.pipes) for hop in hops))


def _switch_passes(paths: list[PacketPath]) -> str:
    longest = max(paths, key=lambda p: sum(hop.tables for hop in p.hops))
    outbound, extension, returning = (
        longest.hops[0],
        next(h for h in longest.hops if h.by == "extension"),
        longest.hops[-1],
    )
    text = (
        f"each packet passes the eSwitch twice, {_ports(outbound)} and {_ports(returning)}, and {extension.tables} pipes "
        "of the extension in between"
    )
    if extension.most:
        text += f"; it becomes {abs(extension.most)} bytes {'longer' if extension.most > 0 else 'shorter'} there"
    return text


def _ports(hop: Hop) -> str:
    return f"{' or '.join(hop.enters)} to {' or '.join(hop.leaves)}"


def _advice(*, siit: bool) -> str:
    need = " (siit needs DOCA 3.3)" if siit else ""
    return (
        f"test it on the card before production{need}: if a pipe is refused, the program refuses its VIP and names it"
    )


def _without_functions(context: LintContext) -> Iterator[LintFinding]:
    """Report a flavor, or a port of the extension, with which the extension cannot have scalable functions."""
    switch, flavor = context.spec.switch, Flavor(context.profile.flavor)
    if flavor is Flavor.OVS_NETDEV:
        if switch.hardware is not None:
            text = (
                f"flavor ovs-netdev does not use the eSwitch of {switch.hardware.value}, so the extension has no "
                "scalable functions: it runs on its software model, or not at all"
            )
            yield context.finding(NO_FUNCTIONS, _AT, text, "flavor: ovs-doca")
        return
    for key, name in _not_representors(switch, flavor):
        text = f"port {name} names a device that is not a representor, so it leads to no scalable function"
        yield context.finding(NO_FUNCTIONS, (*_AT, key), text, "options: {dpdk-devargs: 'PCI,representor=sf[N]'}")


def _not_representors(switch: Switch, flavor: Flavor) -> Iterator[tuple[str, str]]:
    """Yield key and name of extension ports whose devargs name no representor; devargs are for the spec's own flavor."""
    part = switch.extension
    if part is None or flavor is not switch.flavor:
        return
    for key, port in (("ingress", part.ingress), ("egress", part.egress)):
        devargs = ports_of(switch)[port.port].options.get("dpdk-devargs", "")
        if devargs and "representor=" not in devargs:
            yield key, port.port


def program_summary(examination: Examination) -> str:
    """Return one line on the hardware that the program needs: entries and counters; empty if no service uses it."""
    part = examination.plan.extension
    if part is None or not examination.extension_parts:
        return ""
    pipes = pipes_of(part)
    kinds: dict[str, int] = defaultdict(int)
    for pipe in pipes:
        kinds[_kind(pipe.name)] += pipe.entries
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    return (
        f"the extension (dnsteer-ext, {part.ingress.name} to {part.egress.name}): {entries(pipes):,} entries of its pipes "
        f"({counts}), {counters_of(part):,} counters; {untested_text_of(part)}"
    )


def _kind(name: str) -> str:
    if name.startswith("classifier"):
        return "in classifiers"
    if name.startswith("slots-"):
        return "for slots"
    if name.startswith(("slots", "client", "spray")):
        return "in selectors"
    return "for tunnels" if name.startswith(("encap", "plain")) else "for translation"
