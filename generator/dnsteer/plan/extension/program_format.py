"""The extension's program as JSON, typed: the format is datapath_ext/program.schema.json."""

from __future__ import annotations

from typing import TypedDict


class ReachedAt(TypedDict, total=False):
    """What some backends have: *address* is the end of a tunnel, or what packets are translated to."""

    address: str


class ProgramBackend(ReachedAt):
    """A backend."""

    name: str
    mac: str


class HashFields(TypedDict, total=False):
    """What VIPs with selection `client` have: the fields that are hashed."""

    hash_fields: list[str]


class Probed(TypedDict, total=False):
    """What VIPs that are probed have: the upper 12 bits of the source port of probes, by the name of a backend."""

    probes: dict[str, int]


class ProgramVip(HashFields, Probed):
    """A service of a VIP's address. *slots* are names of backends; there are none if only probes reach it."""

    name: str
    family: str
    address: str
    protocol: str
    port: int
    select: str
    forward: str
    slots: list[str]


class TunnelSources(TypedDict, total=False):
    """The source addresses of tunnels, by IP version."""

    ipv4: str
    ipv6: str


class ProgramTunnel(TunnelSources):
    """The sources of tunnels."""

    mac: str


class ProbeAddress(TypedDict, total=False):
    """The IPv4 address of probes, to which answers are translated."""

    ipv4: str


class ProgramProbe(ProbeAddress):
    """The MAC address that frames with probes go to."""

    mac: str


class OptionalParts(TypedDict, total=False):
    """What a program can do without. *about* says what it was made from."""

    about: str
    tunnel: ProgramTunnel
    probe: ProgramProbe


class Program(OptionalParts):
    """A program. *ports* are the devices `in` and `out`."""

    version: int
    ports: dict[str, str]
    budgets: dict[str, int]
    backends: list[ProgramBackend]
    vips: list[ProgramVip]
