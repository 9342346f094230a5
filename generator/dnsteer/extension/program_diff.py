# SPDX-License-Identifier: Apache-2.0
"""Compare two programs of the extension, and combine them into one that serves both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import chain
from typing import Any

from dnsteer.modes import BY_PROGRAM
from dnsteer.plan.extension.program import HashFields, Program, ProgramBackend, ProgramVip
from dnsteer.switch.tools import SwitchError

Key = tuple[str, str, int]
"""Identifies a VIP in the program: address, protocol and port."""
_MAX_SLOTS = 16


@dataclass(frozen=True)
class ProgramDifference:
    """One difference between two programs. *key* is the VIP concerned; None: a backend or a setting of the program."""

    kind: str
    key: Key | None
    name: str
    detail: str


def key_of(vip: ProgramVip) -> Key:
    """Return the VIP's key, with its address in canonical form."""
    return service_key(vip["address"], vip["protocol"], vip["port"])


def service_key(address: str, protocol: str, port: int) -> Key:
    """Return the key of a service, with its address in canonical form."""
    return str(ip_address(address)), protocol, port


def same(one: Program, other: Program) -> bool:
    """Whether two programs behave the same, even if their entries are ordered or their addresses written differently."""
    return _plain(one) == _plain(other)


def _plain(program: Program) -> dict[str, object]:
    tunnel = program.get("tunnel", {})
    return {
        **{k: v for k, v in program.items() if k != "about"},
        "tunnel": {k: _address(str(v)) if k != "mac" else str(v).lower() for k, v in tunnel.items()},
        "backends": {b["name"]: _server(b) for b in program["backends"]},
        "vips": {key_of(v): {k: x for k, x in v.items() if k != "address"} | _hashed(v) for v in program["vips"]},
    }


def _hashed(vip: ProgramVip) -> HashFields:
    return {"hash_fields": sorted(vip["hash_fields"])} if "hash_fields" in vip else {}


def _server(backend: ProgramBackend) -> tuple[str, str]:
    return backend["mac"].lower(), _address(backend.get("address", ""))


def _address(text: str) -> str:
    return str(ip_address(text)) if text else ""


def readable(dump: Mapping[str, Any], name: str) -> Program:
    """Return the program in an answer to `dump`, with the slots as hardware has them. Raises SwitchError without one."""
    try:
        _plain(dump["program"])
        services = {s["vip"]: [slot["backend"] for slot in s["slots"]] for s in dump["services"]}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SwitchError(f"{name}: found no program in its answer; is it of another version?") from None
    program: Program = dump["program"]
    # Hardware's slots count: after a load that could be neither completed nor undone, they differ from the program's.
    return {**program, "vips": [{**v, "slots": services.get(v["name"], v["slots"])} for v in program["vips"]]}


def program_differences(have: Program, want: Program) -> Iterator[ProgramDifference]:
    """Yield what must change to turn *have* into *want*: VIPs, then backends without a slot, then the program's settings."""
    ours, theirs = {key_of(v): v for v in want["vips"]}, {key_of(v): v for v in have["vips"]}
    at, is_at = ({b["name"]: _server(b) for b in p["backends"]} for p in (want, have))
    told = set()
    for key, vip in ours.items():
        now = theirs.get(key)
        if now is None:
            yield ProgramDifference("missing", key, vip["name"], "the program does not serve it")
            continue
        for detail in _of_vip(now, vip, is_at, at):
            yield ProgramDifference("changed", key, vip["name"], detail)
        told |= {*now["slots"], *vip["slots"]}
    for key, vip in theirs.items():
        if key not in ours:
            yield ProgramDifference("added", key, vip["name"], "the program serves it, and should not")
            told |= {*vip["slots"]}
    for name in [n for n in {**at, **is_at} if at.get(n) != is_at.get(n) and n not in told]:
        yield ProgramDifference(
            "changed", None, f"backend {name}", f"is {_at(is_at.get(name))}, should be {_at(at.get(name))}"
        )
    was, should = _plain(have), _plain(want)
    for part in ("version", "ports", "budgets", "tunnel", "probe"):
        if was.get(part) != should.get(part):
            yield ProgramDifference(
                "changed", None, part, f"{_shown(was.get(part))}, should be {_shown(should.get(part))}"
            )


def _at(server: tuple[str, str] | None) -> str:
    if server is None:
        return "not there"
    mac, address = server
    return f"{address} at {mac}" if address else f"at {mac}"


def _of_vip(
    now: ProgramVip, want: ProgramVip, is_at: Mapping[str, tuple[str, str]], at: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    for field in ("select", "hash_fields", "forward"):
        if {**now, **_hashed(now)}.get(field) != {**want, **_hashed(want)}.get(field):
            yield f"{field} is {_shown(now.get(field))}, should be {_shown(want.get(field))}"
    probed, to_probe = now.get("probes", {}), want.get("probes", {})
    if probed != to_probe:
        names = sorted(n for n in {**probed, **to_probe} if probed.get(n) != to_probe.get(n))
        shown = ", ".join(names[:_MAX_SLOTS]) + (", ..." if len(names) > _MAX_SLOTS else "")
        yield f"differs in the probes of {shown}"
    if len(now["slots"]) != len(want["slots"]):
        yield f"has {len(now['slots'])} slots, should have {len(want['slots'])}"
        return
    pairs = [(a, b) for a, b in zip(now["slots"], want["slots"], strict=True)]
    slots = [i for i, (a, b) in enumerate(pairs) if a != b]
    if slots:
        shown = ", ".join(map(str, slots[:_MAX_SLOTS])) + (", ..." if len(slots) > _MAX_SLOTS else "")
        ways = Counter(pairs[i] for i in slots).most_common(3)
        said = "; ".join(f"{n} go to {a}, should go to {b}" for (a, b), n in ways)
        yield f"{'slot' if len(slots) == 1 else 'slots'} {shown}: {said}"
    for name in dict.fromkeys(b for a, b in pairs if a == b and is_at.get(a) != at.get(b)):
        yield f"backend {name} is {_at(is_at.get(name))}, should be {_at(at.get(name))}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{k}={v}" for k, v in sorted(value.items())) or "none"
    return "+".join(value) if isinstance(value, list) else str(value or "none")


@dataclass(frozen=True)
class CombinedProgram:
    """A program that serves the VIPs of two, except *left_out*: names of old VIPs that cannot coexist with the new ones."""

    program: Program
    left_out: tuple[str, ...]


def combine(old: Program, new: Program, unserved: Collection[Key] = ()) -> CombinedProgram:
    """Combine the *new* program with the VIPs that only the *old* one has, and their backends.

    *unserved* are VIPs that are no longer served. Translated answers of their old backends still pass. What only the old
    program serves is not probed any more.
    """
    here = {key_of(v) for v in new["vips"]}
    kept = [_unprobed(v) for v in old["vips"] if v["slots"] and key_of(v) not in here and key_of(v) not in unserved]
    names = _names_in_both(old, new)
    needed = {slot for v in kept for slot in v["slots"]} | _answering(old, new)
    known = {b["name"] for b in new["backends"]}
    more: list[ProgramBackend] = [
        {**b, "name": names[b["name"]]}
        for b in old["backends"]
        if b["name"] in needed and names[b["name"]] not in known
    ]
    renamed: list[ProgramVip] = [{**vip, "slots": [names[slot] for slot in vip["slots"]]} for vip in kept]
    left_out = [vip["name"] for vip in renamed if _answers_clash(vip, new["vips"])]
    old_vips = _named_anew((v for v in renamed if not _answers_clash(v, new["vips"])), new["vips"])
    program: Program = {**new, "vips": [*new["vips"], *old_vips], "backends": [*new["backends"], *more]}
    if old_vips and old.get("tunnel"):
        program["tunnel"] = {**old["tunnel"], **new.get("tunnel", {})}
    return CombinedProgram(program, tuple(left_out))


def _named_anew(vips: Iterable[ProgramVip], others: Iterable[ProgramVip]) -> list[ProgramVip]:
    """These VIPs, with a name of their own each that *others* has too."""
    taken = {v["name"] for v in others}
    return [{**v, "name": v["name"] if v["name"] not in taken else _unused(v["name"], taken)} for v in vips]


def _names_in_both(old: Program, new: Program) -> dict[str, str]:
    """The name of each *old* backend in a program that has those of the *new* one too."""
    backends = {b["name"]: b for b in new["backends"]}
    homes = {_address(b["address"]): b["name"] for b in new["backends"] if b.get("address")}
    names = dict[str, str]()
    for b in old["backends"]:
        there, home = backends.get(b["name"]), homes.get(_address(b.get("address", "")))
        if home is not None:
            names[b["name"]] = home  # the same server, whose name or MAC may have changed
        elif there is None or _server(there) == _server(b):
            names[b["name"]] = b["name"]
        else:
            names[b["name"]] = _unused(b["name"], backends, [other["name"] for other in old["backends"]])
    return names


def _unprobed(vip: ProgramVip) -> ProgramVip:
    out = vip.copy()
    out.pop("probes", None)
    return out


def _unused(name: str, *taken: Iterable[str]) -> str:
    names = set(chain.from_iterable(taken))
    return next(found for i in range(len(names) + 1) if (found := f"{name[:140]}~{i}") not in names)


def _answering(old: Program, new: Program) -> set[str]:
    """Names of old backends whose answers may still be in flight, for VIPs that the new program also translates."""
    still = {key_of(v) for v in new["vips"] if _translates(v)}
    return {slot for v in old["vips"] if _translates(v) and key_of(v) in still for slot in v["slots"]}


def _answers_clash(vip: ProgramVip, others: Collection[ProgramVip]) -> bool:
    """Whether a backend's answers could belong to *vip* and to one of *others*, so that their translation is ambiguous."""
    mine = set(vip["slots"])
    return _translates(vip) and any(
        _translates(v) and (v["protocol"], v["port"]) == (vip["protocol"], vip["port"]) and mine & set(v["slots"])
        for v in others
    )


def idle(running: Program) -> Program:
    """Return a program with the same version, ports and budgets, but no VIPs and no backends."""
    version, ports, budgets = running["version"], running["ports"], running["budgets"]
    return {"version": version, "ports": ports, "budgets": budgets, "backends": [], "vips": []}


def _translates(vip: ProgramVip) -> bool:
    mode = BY_PROGRAM.get(vip["forward"])
    return mode is not None and mode.translates
