# SPDX-License-Identifier: Apache-2.0
"""What the spec says about the extension: the DOCA Flow program that serves VIPs which OpenFlow cannot express."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.errors import near
from dnsteer.spec.model.part import Device, Part, bounds, whole
from dnsteer.spec.model.types import Interface, IPv4, IPv6, Name, wrong_value

HASH_FIELDS = ("src_ip", "dst_ip", "src_port", "dst_port")
"""Fields that a slot can be chosen by."""
MAX_VIPS, MAX_SLOTS, MAX_TUNNELS = 4096, 1_048_576, 65_536
"""Bounds of the program's budgets (datapath_ext/program.schema.json)."""
_MAX_SLOTS_OF_A_SERVICE = 32_768


def _socket(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or len(value) > 107 or not value.isprintable():
        raise wrong_value("the absolute path of a socket, of at most 107 characters")
    return value


SocketPath = Annotated[
    str, BeforeValidator(_socket), WithJsonSchema({"type": "string", "pattern": "^/", "maxLength": 107})
]


class ExtensionPort(Device):
    """A port of the bridge whose other end is a scalable function of the extension."""

    port: Interface = Field(examples=["ext-in"], description="Name of the bridge's port: the function's representor.")
    device: Name | None = Field(
        default=None,
        examples=["enp3s0f0s8"],
        description="The function's network or RDMA device, as the extension sees it. Left out: the port's name.",
    )


class Budgets(Part):
    """What the extension may use of hardware, reserved when it starts. After a change the extension must be restarted.

    It reserves entries to spare besides, for what hardware does not update in place (datapath_ext/src/README.md).
    """

    vips: Annotated[int, whole(1, MAX_VIPS), bounds(1, MAX_VIPS)] = Field(
        default=256, description="Services (addresses times protocols and ports)."
    )
    slots: Annotated[int, whole(1, MAX_SLOTS), bounds(1, MAX_SLOTS)] = Field(
        default=65_536,
        description="Slots of all services, each with a counter. A service whose selection or forwarding changes is counted "
        "twice during the change.",
    )
    backends: Annotated[int, whole(1, MAX_TUNNELS), bounds(1, MAX_TUNNELS)] = Field(
        default=4096, description="Tunnels and translations: one for each backend and inner IP version."
    )

    @property
    def slot_entries(self) -> int:
        """Entries of slots that the program's pipes get: with room for one more service (datapath_ext/src/program.c)."""
        return self.slots + min(self.slots, _MAX_SLOTS_OF_A_SERVICE)

    @property
    def backend_entries(self) -> int:
        """Entries of tunnels and translations that they get: each may be there twice."""
        return 2 * self.backends


class Extension(Part):
    """The extension, `dnsteer-ext`: Open vSwitch sends it the packets of the VIPs that need it, and takes them back."""

    ingress: ExtensionPort = Field(
        description="Port by which queries go to the extension, and translated answers come back."
    )
    egress: ExtensionPort = Field(
        description="Port by which queries come back from the extension, and answers that need translation go to it."
    )
    ipv4: IPv4 | None = Field(default=None, description="Source address of tunnels over IPv4.")
    ipv6: IPv6 | None = Field(default=None, description="Source address of tunnels over IPv6.")
    control: SocketPath = Field(
        default="/run/dnsteer-ext/control.sock", description="Control socket of the running program."
    )
    budgets: Budgets = Field(default_factory=Budgets, description="Entries that it reserves in hardware.")


def _field(value: Any) -> str:
    if isinstance(value, str) and value in HASH_FIELDS:
        return value
    hint = near(value, HASH_FIELDS) if isinstance(value, str) else ""
    raise wrong_value(f"one of {', '.join(HASH_FIELDS)}", hint if hint.startswith("did you mean") else "")


HashFields = Annotated[
    list[Annotated[str, BeforeValidator(_field)]],
    Field(min_length=1),
    WithJsonSchema(
        {"type": "array", "items": {"enum": [*HASH_FIELDS], "type": "string"}, "minItems": 1, "uniqueItems": True}
    ),
]
