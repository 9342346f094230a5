"""Compare the slots in the extension's program with the reference: test packets may not reach every slot of a hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.service import PROTOCOLS, AddressService, ReachedBackend, ServiceKey
from dnsteer.proof.reference.topology import packed_mac

_PROTOCOL_NUMBERS = {name: number for number, name in PROTOCOLS.items()}


def slot_problems(reference: Reference, dump: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (service, problem) where the program differs from the spec. *dump* is the program's answer to `dump`."""
    program: Mapping[str, Any] = dump["program"]
    backends = {each["name"]: each for each in program["backends"]}
    held: dict[ServiceKey, tuple[Mapping[str, Any], list[str]]] = {}
    slots = {each["vip"]: [slot["backend"] for slot in each["slots"]] for each in dump["services"]}
    for vip in program["vips"]:
        key = ip_address(vip["address"]).packed, _PROTOCOL_NUMBERS[vip["protocol"]], vip["port"]
        held[key] = vip, slots.get(vip["name"], [])
    for key, service in reference.services.items():
        if not service.by_extension:
            continue
        if key not in held:
            yield service.label, "the extension's program does not have it"
            continue
        vip, names = held.pop(key)
        if tuple(vip.get("hash_fields", ())) != service.hash_fields:
            yield service.label, f"the extension's program hashes {vip.get('hash_fields')}"
        yield from _slots(service, [backends[name] for name in names])
    for key, (vip, names) in held.items():
        if names or key not in reference.unserved:  # which only probes reach
            yield vip["name"], "the extension's program has it, but the spec has no such service"


def _slots(service: AddressService, found: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield a problem if the number of slots is wrong, else one for the first slot with a wrong backend."""
    if len(found) != len(service.slots):
        problem = f"the extension's program has {len(found)} slots, the spec {len(service.slots)}"
        yield service.label, problem
        return
    for slot, (backend, target) in enumerate(zip(found, service.slots, strict=True)):
        if not _is_target(backend, target, with_address=service.mode.addresses_backend):
            problem = f"slot {slot} is {backend['name']}'s in the extension's program, and {target.name}'s by the spec"
            yield service.label, problem
            return


def _is_target(backend: Mapping[str, Any], target: ReachedBackend, *, with_address: bool) -> bool:
    if packed_mac(backend["mac"]) != target.mac:
        return False
    return not with_address or ip_address(backend["address"]).packed == target.address
