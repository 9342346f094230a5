# SPDX-License-Identifier: Apache-2.0
"""Items of attention that only the agent knows: failing backends, panics, VIPs that are not announced, troubles."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator

from dnsteer.slots.membership import Membership
from dnsteer.slots.weights import in_service
from dnsteer.spec.announced import announced_prefixes
from dnsteer.spec.derived import address_of, endpoints
from dnsteer.spec.health_checks import effective_query, own_port, service_name
from dnsteer.spec.model.families import FAMILIES
from dnsteer.spec.model.health import RANDOM_LABEL, CheckKind, HealthCheck
from dnsteer.spec.model.spec import Backend, Pool, Spec
from dnsteer.status.agent_knowledge import AgentKnowledge, FailingCheck, PoolPanic
from dnsteer.view.attention_item import AttentionItem, Command, dnsteer_command, sentence
from dnsteer.view.snapshot import StateSnapshot, SwitchSnapshot
from dnsteer.view.wording import moment

MAX_BACKENDS = 20
"""Backends that are listed one by one."""
_NAMED = 8


def vips_of(spec: Spec, pool: str, service: str = "") -> tuple[str, ...]:
    """The VIPs that a pool serves; with a *service*, such as `853/tcp`, those that have it, with its name."""
    if not service:
        return tuple(name for name, vip in spec.vips.items() if vip.pool == pool)
    return tuple(
        f"{name} ({service})"
        for name, vip in spec.vips.items()
        if vip.pool == pool and any(service_name(e.protocol.value, e.port) == service for e in endpoints(vip))
    )


def all_backends_fail(applied: StateSnapshot, pool: Membership) -> bool:
    """Whether a pool is out of backends since all of them fail, so that none is left to which queries still go."""
    entries = (entry for entry in applied.overlay.of(pool.pool) if entry.service in ("", pool.service))
    ill = {entry.backend for entry in entries if entry.kind == "health" and not entry.returns}
    return ill.issuperset(name for name, weight in pool.weights.items() if weight and name not in pool.down)


def failing_backends(snapshot: SwitchSnapshot, applied: StateSnapshot, options: str = "") -> Iterator[AttentionItem]:
    """Pools in panic, backends that fail their checks and are not out for it, and checks that only warn."""
    panics = {panic.pool: panic for panic in snapshot.agent.panics}
    by_pool: dict[str, list[FailingCheck]] = {pool: [] for pool in panics}
    for check in snapshot.agent.failing:
        if not check.only_warns:
            by_pool.setdefault(check.pool, []).append(check)
    for pool in sorted(by_pool):
        checks, vips, serving = by_pool[pool], dict[str, None](), set[str]()
        for members in applied.known.state.members:
            if members.pool != pool:
                continue
            here = in_service(members, applied.overlay.of(pool))
            serving |= here
            failing = {c.backend for c in checks if not c.services or members.service in c.services}
            if here and here <= failing:
                vips |= dict.fromkeys(vips_of(applied.known.spec, pool, members.service))
        failing_here = [check for check in checks if check.backend in serving]
        if pool in panics or vips:
            yield _panic(applied, pool, panics.get(pool), checks if pool in panics else failing_here, tuple(vips))
        else:
            yield from _one_by_one(applied, failing_here, "critical", snapshot.agent.kept)
        yield from _one_by_one(applied, _out_anyway(applied, pool, checks, serving), "note")
    yield from _warnings(snapshot.agent)


def _warnings(agent: AgentKnowledge) -> Iterator[AttentionItem]:
    """An item for each pool of which backends fail checks that only warn."""
    by_pool: dict[str, list[FailingCheck]] = {}
    for check in (check for check in agent.failing if check.only_warns):
        by_pool.setdefault(check.pool, []).append(check)
    for pool, checks in sorted(by_pool.items()):
        each = [f"{check.backend}: {check.why}" for check in checks[:_NAMED]]
        more = f"; and {len(checks) - _NAMED} more" if len(checks) > _NAMED else ""
        since = moment(min(check.since for check in checks))
        text = f"{'; '.join(each)}{more}. Since {since} UTC. They stay in service (on_failure: warn)."
        yield AttentionItem("warning", f"Pool {pool}: checks that only warn are failing", text, pool=pool)


def _out_anyway(
    applied: StateSnapshot, pool: str, checks: Iterable[FailingCheck], serving: Collection[str]
) -> list[FailingCheck]:
    """Checks of backends that are out of service for another reason than that they fail."""
    for_health = {entry.backend for entry in applied.overlay.of(pool) if entry.kind == "health"}
    return [check for check in checks if check.backend not in serving and check.backend not in for_health]


def _panic(
    applied: StateSnapshot, pool: str, panic: PoolPanic | None, checks: list[FailingCheck], vips: tuple[str, ...]
) -> AttentionItem:
    names = list(dict.fromkeys(check.backend for check in checks))
    each = [f"{name}: {_why(check for check in checks if check.backend == name)}" for name in names[:_NAMED]]
    more = f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    why, looks = f"{'; '.join(each)}{more}", question_command(applied, pool, names[0], checks[0].check) if names else ()
    ill = {check.backend for check in checks}
    idle = dict.fromkeys(e.backend for e in applied.overlay.of(pool) if e.kept_out_by_people and e.backend not in ill)
    if idle:
        why += f"; taken out by operators though their checks pass: {', '.join(idle)}"
    if panic is None:
        return AttentionItem("critical", f"Pool {pool}: all backends in service fail", why, looks, pool, vips=vips)
    services = f" for {', '.join(panic.services)}" if panic.services else ""
    began = f"No backend in service passes its checks since {moment(panic.since)} UTC{services}"
    text = f"{began}, so no more backends are taken out of service. {why}"
    return AttentionItem("critical", f"Pool {pool}: PANIC", text, looks, pool, panic.decision, vips)


def _why(checks: Iterable[FailingCheck]) -> str:
    return ", ".join(dict.fromkeys(check.why for check in checks))


def _one_by_one(
    applied: StateSnapshot, checks: list[FailingCheck], level: str, kept: Collection[str] = ()
) -> Iterator[AttentionItem]:
    """An item for each of these backends of a pool; of many for the first ones. *kept* stay since too few are left."""
    by_name: dict[str, list[FailingCheck]] = {}
    for check in checks:
        by_name.setdefault(check.backend, []).append(check)
    for name, its in list(by_name.items())[:MAX_BACKENDS]:
        pool, since = its[0].pool, min(check.since for check in its)
        about = f" ({', '.join(its[0].services)})" if its[0].services else ""
        text = f"{_why(its)}. Since {moment(since)} UTC."
        if f"{pool}/{name}" in kept:
            text += " It stays in service, since too few others pass (keep_at_least)."
        looks = question_command(applied, pool, name, its[0].check)
        if level == "note":
            title = f"{pool}/{name}{about}, which is out of service anyway, fails its checks"
            yield AttentionItem("note", title, text, looks, pool, backend=name)
        else:
            title = f"{pool}/{name}{about} fails its checks, and is in service"
            yield AttentionItem("critical", title, text, looks, pool, backend=name)
    if len(by_name) > MAX_BACKENDS:
        title = f"{len(by_name) - MAX_BACKENDS} more backends fail their checks"
        yield AttentionItem("note" if level == "note" else "critical", title, pool=checks[0].pool)


def announcement_items(agent: AgentKnowledge, spec: Spec, options: str = "") -> Iterator[AttentionItem]:
    """VIPs that should be announced and are not. Those that people withdrew are in the record, and are left out."""
    for one in agent.unannounced:
        if one.by_people or one.vip not in spec.vips:
            continue
        held = f"; held until {moment(one.until)} UTC at least, since it failed again and again" if one.until else ""
        looks = (Command("To see what is wrong", dnsteer_command("status", options)),)
        title = f"VIP {one.vip} is {'withdrawn' if one.withdrawn else 'not announced'}"
        text = f"{sentence(one.why)}. Since {moment(one.since)} UTC{held}."
        yield AttentionItem("critical", title, text, looks, spec.vips[one.vip].pool, vips=(one.vip,))
    wanted = {str(one.prefix) for one in announced_prefixes(spec)}
    for prefix in agent.unannounced_prefixes:
        if prefix.by_people or prefix.prefix not in wanted:
            continue
        text = f"{sentence(prefix.why)}. Since {moment(prefix.since)} UTC."
        yield AttentionItem("critical", f"Prefix {prefix.prefix} is not announced", text)


def trouble_items(agent: AgentKnowledge) -> list[AttentionItem]:
    """What does not work for the agent, such as BIRD that refuses its configuration."""
    found = []
    for trouble in agent.troubles:
        title, _, detail = trouble.text.partition(": ")
        text = (
            f"{sentence(detail)}{'.' if detail and detail[-1] not in '.!?' else ''} Since {moment(trouble.since)} UTC."
        )
        found.append(
            AttentionItem("critical" if trouble.level == "error" else "warning", sentence(title), text.strip())
        )
    return found


_FLAGS = {CheckKind.TCP: ["+tcp"], CheckKind.TLS: ["+tls"], CheckKind.HTTPS: ["+https"], CheckKind.QUIC: ["+quic"]}


def question_command(applied: StateSnapshot, pool: str, name: str, kind: str = "") -> tuple[Command, ...]:
    """The command that asks a backend as its first check of a *kind* does, such as `tcp`; without one as its first check."""
    spec = applied.known.spec
    found = spec.pools.get(pool)
    backend = next((b for b in found.backends if b.name == name), None) if found is not None else None
    if found is None or backend is None or not found.health:
        return ()
    deciding = [check for check in found.health if check.on_failure == "out"] or found.health
    check = next((check for check in deciding if check.check.value == kind), deciding[0])
    return (Command("To ask it", _question(found, check, backend, pool, own_port(spec, pool, check, backend))),)


def _question(found: Pool, check: HealthCheck, backend: Backend, pool: str, port: int) -> str:
    address = next((str(a) for a in (address_of(backend, family) for family in FAMILIES) if a is not None), "")
    if check.check is CheckKind.COMMAND:
        values = {"address": address, "port": str(port), "pool": pool, "backend": backend.name}
        words = list(check.command)
        for name, value in values.items():
            words = [word.replace(f"{{{name}}}", value) for word in words]
        return shlex.join(words)
    query = effective_query(found, check)
    flags = [
        *_FLAGS.get(check.check, []),
        *([] if query.recursion else ["+norec"]),
        *(["+cdflag"] if query.cd else []),
        *(["+dnssec"] if query.do else []),
        *([f"+bufsize={query.edns_size}"] if query.edns_size else []),
        *(["-c", query.rdclass] if query.rdclass != "IN" else []),
    ]
    name = query.name.replace(RANDOM_LABEL, "any-label.", 1) if query.name.startswith(RANDOM_LABEL) else query.name
    return shlex.join(["kdig", f"@{address}", "-p", str(port), *flags, name, query.type])
