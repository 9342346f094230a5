# SPDX-License-Identifier: Apache-2.0
"""Whether what backends send and get for themselves passes the switch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.model.types import wrong_value


def _whose(value: Any) -> Any:
    if value != "backends":
        hint = (
            "their addresses must be routed; to hide them behind one, let their default route be a router that does NAT"
        )
        raise wrong_value("backends", f"{hint} (docs/pass.md)")
    return value


OwnTraffic = Annotated[
    Annotated[Literal["backends"], BeforeValidator(_whose), WithJsonSchema({"type": "string", "const": "backends"})]
    | None,
    Field(
        alias="pass",
        description="`backends`: what backends send by the gateways and that is no answer of a VIP leaves for the "
        "router, and what comes for their own addresses reaches them, but for the ports that they serve VIPs at. Their "
        "addresses must be routed in the network. Left out: only queries and answers of VIPs pass.",
    ),
]
