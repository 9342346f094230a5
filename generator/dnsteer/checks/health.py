# SPDX-License-Identifier: Apache-2.0
"""Health checks that cannot work: where probes start from, what is asked, and how the agent judges the answers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.derived import endpoints
from dnsteer.spec.errors import Finding, Path, near, show_value
from dnsteer.spec.health_checks import EffectiveQuery, checked_services, effective_query, service_name
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.health import RANDOM_LABEL, CheckKind, HealthCheck
from dnsteer.spec.model.next_hop import router_macs
from dnsteer.spec.model.probe import Probe
from dnsteer.spec.model.spec import Pool, State


def check_probe(scope: Scope) -> Iterator[Finding]:
    """All findings about the port for probes, and what is probed through it."""
    probe = scope.spec.switch.probe
    if probe is None:
        return
    yield from _probe(scope, probe)
    for name, pool in scope.spec.pools.items():
        if pool.health and len(pool.backends) > derived.MAX_PROBED:
            yield scope.finding(
                ("pools", name, "backends"),
                f"{len(pool.backends)} backends",
                f"at most {derived.MAX_PROBED} in a pool that is probed through the bridge",
                "use several pools",
            )


def check_health(scope: Scope) -> Iterator[Finding]:
    """All findings about health checks."""
    for name, pool in scope.spec.pools.items():
        for i, check in enumerate(pool.health or ()):
            path: Path = ("pools", name, "health", i)
            path = path if path in scope.doc.lines else path[:-1]  # a single check, written without a list
            yield from _check(scope, path, check)
            yield from check_query(scope, path, pool, check)
            if check.per == "service":
                yield from _per_service(scope, path, name, check)
            if check.via == "datapath":
                yield from _through_bridge(scope, path, name, pool, check)


def _check(scope: Scope, path: Path, check: HealthCheck) -> Iterator[Finding]:
    if check.timeout is not None and check.timeout > check.interval:
        yield scope.finding(
            path,
            f"a timeout of {check.timeout:g} s and an interval of {check.interval:g} s",
            "a timeout that is not longer than the interval",
            "a probe ends before the next one begins: raise interval or lower timeout",
        )
    if check.check is CheckKind.COMMAND and not check.command:
        yield scope.finding(
            path,
            "check: command without a command",
            'the key "command"',
            "give the program and its arguments: command: [/usr/lib/check-dns, '{address}']",
        )
    if check.check is not CheckKind.COMMAND and check.command:
        yield scope.finding(
            (*path, "command"),
            f"a command with check: {check.check.value}",
            "check: command",
            "one check asks by DNS or runs a command; write two",
        )


def _per_service(scope: Scope, path: Path, name: str, check: HealthCheck) -> Iterator[Finding]:
    pool = scope.spec.pools[name]
    if check.on_failure == "warn":
        yield scope.finding(
            (*path, "per"), '"service" with on_failure: warn', "on_failure: out", "it takes nothing out: leave per out"
        )
    elif check.check is CheckKind.COMMAND:
        yield scope.finding(
            (*path, "per"),
            '"service" with check: command',
            "per: backend",
            "a command tells nothing about which service fails; leave per out",
        )
    elif any(MODES[v.forwarding].uses_extension(pool) for v in scope.spec.vips.values() if v.pool == name):
        yield scope.finding(
            (*path, "per"),
            '"service" for a pool that the extension forwards',
            "per: backend",
            "the extension has one set of slots for all services of a pool; leave per out",
        )
    elif not checked_services(scope.spec, name, check):
        vips = [vip for vip in scope.spec.vips.values() if vip.pool == name]
        services = {service_name(e.protocol.value, e.port) for vip in vips for e in endpoints(vip)}
        yield scope.finding(
            (*path, "per"),
            f'"service" with check: {check.check.value}, which is about no service of the pool\'s VIPs',
            f"a check of one of {', '.join(sorted(services))}" if services else "a VIP that uses the pool",
            "add the service to a VIP, or leave per out",
        )


def _through_bridge(scope: Scope, path: Path, name: str, pool: Pool, check: HealthCheck) -> Iterator[Finding]:
    if scope.spec.switch.probe is None:
        yield scope.finding(
            (*path, "via"),
            '"datapath" without switch.probe',
            "the key switch.probe",
            "give the bridge a port for probes: probe: {addresses: [192.0.2.9/24]}, or leave via out",
        )
    elif check.check is CheckKind.COMMAND:
        yield scope.finding(
            (*path, "via"),
            '"datapath" with check: command',
            "check: dns, tcp, tls, https or quic",
            "a command asks by source ports of its own, which name no backend; leave via out",
        )


def _probe(scope: Scope, probe: Probe) -> Iterator[Finding]:
    switch = scope.spec.switch
    if probe.uplink is not None and probe.uplink not in switch.uplinks:
        yield scope.finding(
            ("switch", "probe", "uplink"),
            f'"{probe.uplink}"',
            "the name of an uplink",
            near(probe.uplink, switch.uplinks),
        )
    yield from _probe_port(scope, probe)
    yield from _probe_mac(scope, probe)
    yield from _probe_addresses(scope, probe)


def _probe_port(scope: Scope, probe: Probe) -> Iterator[Finding]:
    """A port for probes that is another port of the bridge."""
    switch, part = scope.spec.switch, scope.spec.switch.extension
    others = {switch.bridge: "the bridge's own port"}
    others |= dict.fromkeys(uplink_devices(switch), "an uplink or of one")
    others |= dict.fromkeys(switch.uplinks, "an uplink") | dict.fromkeys(switch.ports, "a port of backends")
    if part is not None:
        others |= dict.fromkeys((part.ingress.port, part.egress.port), "the extension's")
    if probe.port in others:
        yield scope.finding(
            ("switch", "probe", "port"),
            f'"{probe.port}", which is {others[probe.port]}',
            "a name of its own",
            "probes have an internal port for themselves",
        )


def _probe_mac(scope: Scope, probe: Probe) -> Iterator[Finding]:
    """A MAC address of probes that another object of the spec has."""
    switch, base = scope.spec.switch, ("switch", "probe")
    mac = derived.probe_mac(switch, probe)
    stations = {switch.mac: "the balancer's", derived.gateway_mac(switch): "the virtual gateways'"}
    stations |= {mac: "a next hop's" for up in switch.uplinks.values() for mac in router_macs(up.next_hop)}
    stations |= {b.mac: f"that of backend {b.name}" for pool in scope.spec.pools.values() for b in pool.backends}
    if mac in stations:
        default = "" if probe.mac else " (switch.mac with its second lowest bit flipped)"
        yield scope.finding(
            (*base, "mac") if probe.mac else base,
            f'"{mac}"{default}, which is {stations[mac]}',
            "a MAC address of its own",
            "set switch.probe.mac to one that is free",
        )


def _probe_addresses(scope: Scope, probe: Probe) -> Iterator[Finding]:
    """Addresses of probes that occur twice or that another object has."""
    used = dict.fromkeys(scope.spec.switch.gateways, "a gateway's")
    used |= {a: f"that of VIP {name}" for name, vip in scope.spec.vips.items() for a in vip.addresses}
    for pool in scope.spec.pools.values():
        used |= {a: f"that of backend {b.name}" for b in pool.backends for a in (b.ipv4, b.ipv6) if a is not None}
    seen: set[object] = set()
    for i, own in enumerate(probe.addresses):
        path = ("switch", "probe", "addresses", i)
        if own.ip in used:
            what = f"{own.ip}, which is {used[own.ip]}"
            yield scope.finding(path, what, "an address that is used for nothing else")
        if own.ip in seen:
            yield scope.finding(path, f"{own.ip} a second time", "each address once", "remove it")
        seen.add(own.ip)


PLACEHOLDERS = ("address", "port", "pool", "backend")
"""What is replaced in the words of a command, in braces."""
_IN_BRACES = re.compile(r"\{([A-Za-z_]+)\}")
_ALIKE = 0.8
"""How much a word is like a placeholder to be taken for one that is misspelt: `print` of awk is not `port`."""


_EXAMPLES = {
    "A": "192.0.2.1",
    "AAAA": "2001:db8::1",
    "CAA": '0 issue "ca.example.org"',
    "CNAME": "www.example.org.",
    "DNSKEY": "257 3 13 BASE64",
    "DS": "12345 13 2 DIGEST",
    "HINFO": '"CPU" "OS"',
    "HTTPS": "1 . alpn=h2",
    "MX": "10 mail.example.org.",
    "NAPTR": '100 10 "u" "sip" "" target.example.org.',
    "NS": "ns1.example.org.",
    "PTR": "host.example.org.",
    "SOA": "ns1.example.org. hostmaster.example.org. 1 7200 900 1209600 300",
    "SRV": "0 5 853 ns1.example.org.",
    "SVCB": "1 ns1.example.org. alpn=dot",
    "TXT": '"v=spf1 -all"',
}
"""Data of a record of each type but ANY."""


def check_query(scope: Scope, path: Path, pool: Pool, check: HealthCheck) -> Iterator[Finding]:
    """Findings about the query or the command of the check at *path*."""
    if check.check is CheckKind.COMMAND:
        if "query" in check.model_fields_set:
            yield scope.finding(
                (*path, "query"),
                "a query with check: command",
                "a check that asks by DNS",
                "the command asks what it likes: remove the query, or write two checks",
            )
        yield from _command(scope, path, check)
        return
    base: Path = (*path, "query") if "query" in check.model_fields_set else path
    if pool.serves == "authoritative" and check.query.name is None and check.query.rdclass == "IN":
        yield scope.finding(
            base,
            "serves: authoritative and no name to ask for",
            "query.name: a zone that the servers have",
            "every server has other zones: health: {query: {name: example.org}}",
        )
        return
    query = effective_query(pool, check)
    if query.name.startswith(RANDOM_LABEL) and query.type == "SOA" and query.answers:
        yield scope.finding(
            base,
            f'a random label ("{query.name}") and type: SOA',
            "a type that the names below have, such as A",
            "only a zone's own name has an SOA: give the type of a wildcard record, or rcode: NXDOMAIN",
        )
    yield from _expected(scope, (*base, "expect"), check, query)


def _expected(scope: Scope, path: Path, check: HealthCheck, query: EffectiveQuery) -> Iterator[Finding]:
    expect = check.query.expect
    by_records = [
        key
        for key in ("answers", "answer", "serial_at_least", "serial_lag")
        if key in expect.model_fields_set and getattr(expect, key)
    ]
    if "NOERROR" not in query.rcodes:
        for key in by_records:
            yield scope.finding(
                (*path, key),
                f"{key} with rcode: {' or '.join(query.rcodes)}",
                "rcode: NOERROR",
                "other answers have no such records: leave one of the two out",
            )
    for key in ("serial_at_least", "serial_lag"):
        if getattr(expect, key) is not None and query.type != "SOA":
            yield scope.finding(
                (*path, key),
                f"{key} for type {query.type}{'' if check.query.type else ', the default here'}",
                "type: SOA",
                "only SOA records have a serial",
            )
    if expect.answer and query.type == "ANY":
        yield scope.finding(
            (*path, "answer"), "the data of records with type: ANY", "one type", "give the type of these records"
        )
        return
    for i, text in enumerate(expect.answer):
        at: Path = (*path, "answer", i)
        at = at if at in scope.doc.lines else at[:-1]  # a single one, written without a list
        wrong = _wrong_data(text, query)
        if wrong is not None:
            expected = f"the data of a record of type {query.type} as in a zone file, such as {_EXAMPLES[query.type]}"
            yield scope.finding(at, show_value(text), expected, wrong)


def _wrong_data(text: str, query: EffectiveQuery) -> str | None:
    """What is wrong with the data of a record, as a hint; None if nothing is."""
    import dns.name
    import dns.rdata
    import dns.rdataclass
    import dns.rdatatype  # here: specs without such data need not load it

    if len(text.splitlines()) > 1:
        return "one record each, on one line: write several as a list"
    rdclass, kind = dns.rdataclass.from_text(query.rdclass), dns.rdatatype.from_text(query.type)
    try:
        record = dns.rdata.from_text(rdclass, kind, text)
        record.to_digestable()  # what answers are compared by
    except dns.name.NeedAbsoluteNameOrOrigin:
        try:
            whole = dns.rdata.from_text(rdclass, kind, text, origin=dns.name.root, relativize=False).to_text()
        except Exception:  # noqa: BLE001  as below
            return "names end with a dot"
        return f'names end with a dot: write "{whole}"'
    except Exception as err:  # noqa: BLE001  whatever the library makes of text for which it has no error of its own
        text = str(err).strip().removesuffix(".") or type(err).__name__
        return text[:1].lower() + text[1:] if text[1:2].islower() else text
    return None


def _command(scope: Scope, path: Path, check: HealthCheck) -> Iterator[Finding]:
    for i, word in enumerate(check.command):
        at: Path = (*path, "command", i)
        if not word or "\0" in word:
            yield scope.finding(
                at, show_value(word), "a word without NUL characters" if word else "a word", "remove it"
            )
        for name in _IN_BRACES.findall(word):
            alike = difflib.get_close_matches(name.lower(), PLACEHOLDERS, n=1, cutoff=_ALIKE)
            whole = word == f"{{{name}}}"
            if name not in PLACEHOLDERS and (alike or whole):
                known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                hint = (
                    f'did you mean "{{{alike[0]}}}"?'
                    if alike
                    else "no other is replaced: a program that wants these braces is called by a script"
                )
                yield scope.finding(at, show_value(word), f"one of {known}", hint)


def check_judgement(scope: Scope) -> Iterator[Finding]:
    """All findings about `keep_at_least`."""
    for name, pool in scope.spec.pools.items():
        least, path = pool.keep_at_least, ("pools", name, "keep_at_least")
        if not least:
            continue
        if not any(check.on_failure == "out" for check in pool.health or ()):
            yield scope.finding(
                path,
                f"{least} for a pool without checks that take backends out",
                "such a check in the key health",
                "without checks the agent takes nobody out: add health: {check: dns}, or leave keep_at_least out",
            )
        takers = _serving(pool)
        joining = scope.spec.pools.get(pool.backup.pool) if pool.backup is not None else None
        helpers = _serving(joining) if joining is not None else 0
        if least >= takers + helpers:
            own = f"{takers} backends that are up with a weight" + (f" and {helpers} of its backup" if helpers else "")
            yield scope.finding(
                path,
                f"{least}, and {own}",
                f"a number from 0 to {max(takers + helpers - 1, 0)}",
                "nobody would ever be taken out, not even one that is dead",
            )
        if pool.backup is not None and least > pool.backup.below:
            below: Path = ("pools", name, "backup")
            yield scope.finding(
                path,
                f"{least}, and a backup that joins below {pool.backup.below}",
                f"a number from 0 to {pool.backup.below}",
                f"backends that fail would stay in service while the backup stands by: set below: {least}; see "
                f"{scope.where(below)}",
            )


def _serving(pool: Pool) -> int:
    """How many backends of a pool take queries by the spec."""
    return sum(1 for backend in pool.backends if backend.weight and backend.state is State.UP)
