"""The command by which people ask a backend what its first check asks."""

from __future__ import annotations

import shlex

from dnsteer.console.attention_item import Command
from dnsteer.console.seen import Side
from dnsteer.spec.derived import address_of
from dnsteer.spec.health_checks import effective_query, own_port
from dnsteer.spec.model.families import FAMILIES
from dnsteer.spec.model.health import RANDOM_LABEL, CheckKind, HealthCheck
from dnsteer.spec.model.spec import Backend, Pool

_FLAGS = {CheckKind.TCP: ["+tcp"], CheckKind.TLS: ["+tls"], CheckKind.HTTPS: ["+https"], CheckKind.QUIC: ["+quic"]}


def ask(side: Side, pool: str, name: str, kind: str = "") -> tuple[Command, ...]:
    """The command that asks a backend as its first check of a *kind* does, such as `tcp`; without one as its first check."""
    spec = side.known.spec
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
