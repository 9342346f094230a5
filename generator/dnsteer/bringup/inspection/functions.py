"""A scalable function of the extension: trusted, and by the names that Open vSwitch and the extension know it by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dnsteer.bringup.inspection.machine import Item, Machine
from dnsteer.bringup.setup import Setup
from dnsteer.card.scalable_functions import CardFunction

_DEVICES = "/sys/bus/auxiliary/devices"
_SCRIPT = "run 25-functions.sh"


def function(machine: Machine, setup: Setup, wanted: CardFunction, shown: Mapping[str, Any]) -> Iterator[Item]:
    """The items of a function that is there; *shown* is what devlink says of its port."""
    if not wanted.role:
        return
    name = f"scalable function {wanted.number} of {wanted.uplink}"
    trust = shown.get("function", {}).get("trust") if isinstance(shown.get("function"), Mapping) else None
    if trust == "off":
        todo = "with it inactive: mlxdevm port function set PORT trust on"
        yield Item(f"{name}, trust", "missing", "off: it may not program the hardware", todo)
    if wanted.port:
        netdev = shown.get("netdev")
        right = netdev == wanted.port
        todo = "" if right else _SCRIPT
        found = f"{netdev}" if right else f"{netdev or 'none'}; should be {wanted.port}"
        yield Item(f"{name}, representor", "ok" if right else "missing", found, todo)
    yield from _device(machine, setup, wanted, name)


def _device(machine: Machine, setup: Setup, wanted: CardFunction, name: str) -> Iterator[Item]:
    """The function itself, by the name that the extension opens."""
    if not machine.exists(_DEVICES):
        yield Item(f"{name}, device", "unknown", f"{_DEVICES} cannot be read")
        return
    for device in machine.names(_DEVICES):
        folder = f"{_DEVICES}/{device}"
        names = {*machine.names(f"{folder}/net"), *machine.names(f"{folder}/infiniband")}
        if wanted.device in names:
            yield Item(f"{name}, device", "ok", f"{wanted.device} ({device})")
            yield from _mtu(machine, setup, name, folder)
            return
    yield Item(f"{name}, device", "missing", f"none is called {wanted.device}", _SCRIPT)


def _mtu(machine: Machine, setup: Setup, name: str, folder: str) -> Iterator[Item]:
    for netdev in machine.names(f"{folder}/net") if setup.part.mtu is not None else ():
        mtu = machine.number(f"{folder}/net/{netdev}/mtu")
        if mtu is None or setup.part.mtu is None:
            continue
        found = f"{mtu}" if mtu >= setup.part.mtu else f"{mtu}; should be {setup.part.mtu}"
        yield Item(
            f"{name}, MTU",
            "ok" if mtu >= setup.part.mtu else "missing",
            found,
            "" if mtu >= setup.part.mtu else _SCRIPT,
        )
