"""What the extension's program holds, against the reference: packets do not show every slot of a hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.services import Service, Target, packed_mac
from dnsteer.proof.reference.wire import TCP, UDP
from dnsteer.spec.model.spec import Forwarding

_PROTOCOLS = {"udp": UDP, "tcp": TCP}


def differences(reference: Reference, dump: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield services that the program holds otherwise than the spec says, and how. *dump* is its answer to `dump`."""
    program: Mapping[str, Any] = dump["program"]
    backends = {each["name"]: each for each in program["backends"]}
    held: dict[tuple[bytes, int, int], tuple[Mapping[str, Any], list[str]]] = {}
    slots = {each["vip"]: [slot["backend"] for slot in each["slots"]] for each in dump["services"]}
    for vip in program["vips"]:
        key = ip_address(vip["address"]).packed, _PROTOCOLS[vip["protocol"]], vip["port"]
        held[key] = vip, slots[vip["name"]]
    for key, service in reference.services.items():
        if not service.extended:
            continue
        if key not in held:
            yield service.label, "the extension's program does not have it"
            continue
        vip, names = held.pop(key)
        if tuple(vip.get("hash_fields", ())) != service.hash_fields:
            yield service.label, f"the extension's program hashes {vip.get('hash_fields')}"
        yield from _slots(service, [backends[name] for name in names])
    for vip, _ in held.values():
        yield vip["name"], "the extension's program has it, by the spec there is no such service"


def _slots(service: Service, found: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    if len(found) != len(service.slots):
        yield (
            service.label,
            f"the extension's program has {len(found)} slots, by the spec there are {len(service.slots)}",
        )
        return
    for slot, (here, wanted) in enumerate(zip(found, service.slots, strict=True)):
        if not _same(here, wanted, service.mode):
            yield (
                service.label,
                f"slot {slot} is {here['name']}'s in the extension's program, by the spec {wanted.name}'s",
            )
            return


def _same(here: Mapping[str, Any], wanted: Target, mode: Forwarding) -> bool:
    if packed_mac(here["mac"]) != wanted.mac:
        return False
    return mode is Forwarding.DSR or ip_address(here["address"]).packed == wanted.address
