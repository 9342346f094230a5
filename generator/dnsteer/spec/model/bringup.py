# SPDX-License-Identifier: Apache-2.0
"""What the spec says about the machine of the switch, for `dnsteer bringup`. None of it changes a flow."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.model.part import Part, bounds, number_hint, whole
from dnsteer.spec.model.types import MAX_OPTION, Interface, Mac, parse_option, wrong_value

PAGE_SIZES = {"2M": 2048, "512M": 524_288, "1G": 1_048_576}
"""Sizes of huge pages in kB: 2M and 1G of x86 and of Arm with pages of 4 kB, 512M of Arm with pages of 64 kB."""

MAX_CORE = 1023
MAX_MEMORY = 1_048_576
MAX_PAGES = 524_288
MIN_MTU, MAX_MTU = 1280, 9978
"""The least that IPv6 asks of a link, and the most that ConnectX and BlueField take."""

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")
_SHORT_PCI = re.compile(r"[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")


def parse_pci(value: Any) -> str:
    """Check the PCI address of a function and return it in lower case."""
    expected = "a PCI address such as 0000:03:00.0"
    if not isinstance(value, str):
        raise wrong_value(expected)
    text = value.lower()
    if not _PCI.match(text):
        hint = f"write it with its domain: 0000:{text}" if _SHORT_PCI.match(text) else "domain:bus:device.function"
        raise wrong_value(expected, hint)
    return text


def _page_size(value: Any) -> Any:
    if value not in PAGE_SIZES or not isinstance(value, str):
        hint = number_hint(value) or "ls /sys/kernel/mm/hugepages shows what the machine has"
        raise wrong_value(" or ".join((", ".join([*PAGE_SIZES][:-1]), [*PAGE_SIZES][-1])), hint)
    return value


def _arguments(value: Any) -> str:
    text = parse_option(value)
    if any(c in text for c in "\"'\\$`"):
        raise wrong_value("arguments without quotes, backslashes, $ and `", "Open vSwitch splits them at spaces")
    return text


_PCI_SCHEMA = {"type": "string", "pattern": r"^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]$"}
PciAddress = Annotated[str, BeforeValidator(parse_pci), WithJsonSchema(_PCI_SCHEMA)]
_PciByUplink = WithJsonSchema({"type": "object", "additionalProperties": _PCI_SCHEMA})
Arguments = Annotated[
    str,
    BeforeValidator(_arguments),
    WithJsonSchema({"type": ["string", "number", "boolean"], "maxLength": MAX_OPTION, "examples": ["--iova-mode=va"]}),
]
Core = Annotated[int, whole(0, MAX_CORE), bounds(0, MAX_CORE)]


class Hugepages(Part):
    """Huge pages, which DPDK keeps its packets in."""

    size: Annotated[Literal["2M", "512M", "1G"], BeforeValidator(_page_size)] = Field(
        default="2M", description="Size of a page."
    )
    count: Annotated[int, whole(1, MAX_PAGES), bounds(1, MAX_PAGES)] | None = Field(
        default=None,
        description="How many, on each NUMA node that gets memory. Left out: as many as the memory takes; with ovs-doca as "
        "many as NVIDIA reserves (see docs/bringup.md).",
    )


class ScalableFunction(Part):
    """A scalable function (SF) of an uplink's physical function: a port for a program beside Open vSwitch."""

    uplink: Interface = Field(description="The uplink on whose physical function it is created.")
    number: Annotated[int, whole(0, 65535), bounds(0, 65535)] = Field(
        description="Its number (`sfnum`), unique on that physical function."
    )
    mac: Mac | None = Field(default=None, description="Its MAC address. Left out: the driver's choice.")
    trust: bool = Field(
        default=False,
        strict=True,
        description="Whether it may program the hardware itself, as a DOCA Flow program must.",
    )


class BringUp(Part):
    """The machine that the switch runs on, for `dnsteer bringup`. Every key may be left out."""

    pci: Annotated[dict[Interface, PciAddress], _PciByUplink] = Field(
        default_factory=dict,
        description="PCI address of the physical function of each uplink. Left out: that of the option `dpdk-devargs`, or "
        "else of the network interface with the uplink's name.",
    )
    multiport: bool | None = Field(
        default=None,
        strict=True,
        description="Whether the physical functions of a NIC become one eSwitch. Left out: where packets come in by one of "
        "them and leave by another.",
    )
    functions: list[ScalableFunction] = Field(default_factory=list, description="Scalable functions to make.")
    hugepages: Hugepages | None = Field(default=None, description="Huge pages, for DPDK.")
    memory: list[Annotated[int, whole(0, MAX_MEMORY), bounds(0, MAX_MEMORY)]] = Field(
        default_factory=list,
        description="Huge-page memory that Open vSwitch takes when it starts, in MB, for each NUMA node from node 0. Left "
        "out: with ovs-dpdk as much as packet buffers for the MTU take, on node 0; with ovs-doca as needed.",
    )
    pmd_cores: list[Core] = Field(
        default_factory=list,
        description="Cores that only forward in software (PMD threads). Left out: one for each NUMA node, which "
        "Open vSwitch chooses.",
    )
    main_core: Core | None = Field(
        default=None, description="Core of DPDK's own housekeeping. Left out: the lowest that Open vSwitch may run on."
    )
    extension_core: Core | None = Field(
        default=None,
        description="Core of the extension's program, which has one thread of DPDK's. Left out: any that it may run on.",
    )
    dpdk_extra: Arguments | None = Field(
        default=None,
        description="More arguments for DPDK's environment (`dpdk-extra`), after those that are rendered.",
    )
    mtu: Annotated[int, whole(MIN_MTU, MAX_MTU), bounds(MIN_MTU, MAX_MTU)] | None = Field(
        default=None, description="MTU of the uplinks and ports, in bytes. Left out: as it is, usually 1500."
    )
