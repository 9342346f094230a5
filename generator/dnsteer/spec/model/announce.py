# SPDX-License-Identifier: Apache-2.0
"""How routers learn of VIPs: by BGP, through BIRD on this machine. docs/announce.md explains it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from dnsteer.spec.model.health import HoldMax
from dnsteer.spec.model.part import Part, TextOrMapping, bounds, whole
from dnsteer.spec.model.types import PREFIX_EXPECTED, Prefix, parse_prefix, wrong_value

_PROTOCOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}\Z")
_COMMUNITY = re.compile(r"[0-9]{1,10}(:[0-9]{1,10}){1,2}\Z")
_LARGEST = {2: 0xFFFF, 3: 0xFFFFFFFF}
"""The largest part of a community (RFC 1997) and of a large one (RFC 8092), by the number of parts."""


def _protocol(value: Any) -> str:
    if not isinstance(value, str) or not _PROTOCOL.match(value):
        raise wrong_value("a name for protocols of BIRD: a letter, then at most 30 letters, digits and '_'")
    return value


def _file(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    if not text.startswith("/") or text.endswith("/") or not text.isprintable() or '"' in text:
        raise wrong_value("the absolute path of a file, without quotes", "for example /run/bird/dnsteer.conf")
    return text


def _community(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        raise wrong_value("a community such as 64500:53", "YAML reads this as a number in base 60: write it in quotes")
    text = value if isinstance(value, str) else ""
    parts = text.split(":") if _COMMUNITY.match(text) else []
    if not parts or any(int(part) > _LARGEST[len(parts)] for part in parts):
        raise wrong_value("a community such as 64500:53, or a large one such as 4200000000:1:53")
    return ":".join(str(int(part)) for part in parts)


FilePath = Annotated[str, BeforeValidator(_file), WithJsonSchema({"type": "string", "pattern": "^/"})]
Community = Annotated[
    str, BeforeValidator(_community), WithJsonSchema({"type": "string", "pattern": "^[0-9]+(:[0-9]+){1,2}$"})
]


Med = Annotated[int, whole(0, 4294967295), bounds(0, 4294967295)]


class LastResort(Part):
    """A VIP stays announced for routers that have nothing better."""

    med: Annotated[int, whole(1, 4294967295), bounds(1, 4294967295)] = Field(
        description="The multi-exit discriminator of all VIPs that none passes for. Routers prefer the lowest."
    )


def _when_none_pass(value: Any) -> Any:
    if isinstance(value, dict | LastResort) or value in _WORDS:
        return value
    hint = "write {med: N}" if isinstance(value, int) and not isinstance(value, bool) else ""
    raise wrong_value(f"{', '.join(_WORDS)}, or a mapping with med", hint)


_WORDS = ("withdraw_if_unanswered", "withdraw", "keep")
WhenNonePass = Annotated[
    Annotated[LastResort, Tag("mapping")]
    | Annotated[Literal["withdraw_if_unanswered", "withdraw", "keep"], Tag("word")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict | LastResort) else "word"),
    BeforeValidator(_when_none_pass),
]


class AnnouncedPrefix(Part):
    """A prefix that is announced beside the routes of the VIPs in it."""

    prefix: Prefix = Field(description="The prefix, of either family.")
    min_vips: Annotated[int, whole(1, 4096), bounds(1, 4096)] = Field(
        default=1, description="VIPs with addresses in it that must be announced themselves, or it is withdrawn."
    )
    med: Med | None = Field(
        default=None, description="Its multi-exit discriminator: routers prefer the lowest. Left out: none is sent."
    )
    communities: list[Community] = Field(
        default_factory=list, description="Communities (64500:53) and large communities (64500:1:53) of its route."
    )


def _prefix_alone(value: Any) -> Any:
    if isinstance(value, str):
        return AnnouncedPrefix(prefix=parse_prefix(value))
    if not isinstance(value, dict | AnnouncedPrefix):
        raise wrong_value(f"{PREFIX_EXPECTED}, or a mapping with prefix, min_vips, med or communities")
    return value


class Announce(Part):
    """Who announces the VIPs to routers, while they work."""

    via: Literal["bird"] = Field(description="`bird`: BIRD 2 on this machine, which speaks BGP with the routers.")
    include: FilePath = Field(
        default="/run/bird/dnsteer.conf",
        description="The file that `dnsteer agent` writes, and that bird.conf includes. In /run it is gone after a boot, "
        "when nothing may be announced before the agent has looked.",
    )
    control: FilePath = Field(default="/run/bird/bird.ctl", description="BIRD's control socket.")
    protocol: Annotated[str, BeforeValidator(_protocol), WithJsonSchema({"type": "string"})] = Field(
        default="dnsteer",
        description="Name of the static protocols in the file, with 4 and 6 behind it. Two bridges of one machine need "
        "two names and two files.",
    )
    prefixes: list[Annotated[AnnouncedPrefix, BeforeValidator(_prefix_alone), TextOrMapping()]] = Field(
        default_factory=list,
        examples=[["192.0.2.0/24", {"prefix": "2001:db8:53::/48", "min_vips": 2}]],
        description="Prefixes that are announced too, while VIPs in them are: the Internet takes nothing longer than a /24 "
        "or /48. Left out: only the routes of the VIPs.",
    )
    hold_max: HoldMax = Field(
        default=300.0,
        description="A VIP that has to be withdrawn again and again stays withdrawn longer each time, at most this long. "
        "0: it is announced as soon as it works.",
    )
    on_stop: Literal["keep", "withdraw"] = Field(
        default="keep",
        description="What becomes of the routes when the agent ends. `keep`: they stay as they are. `withdraw`: they are "
        "withdrawn, also when the agent is killed.",
    )
    when_none_pass: WhenNonePass = Field(
        default="withdraw_if_unanswered",
        description="What becomes of a VIP when no backend in service passes its checks. `withdraw`: it is withdrawn. "
        "`keep`: it stays announced, if it has worked before. `{med: N}`: the same with this MED, so that routers prefer "
        "other sites. `withdraw_if_unanswered`: it is withdrawn if no backend answers at all, or only by SERVFAIL, and "
        "stays while one answers otherwise, such as by REFUSED.",
    )


class VipAnnounce(Part):
    """How one VIP is announced."""

    med: Med | None = Field(
        default=None, description="Its multi-exit discriminator: routers prefer the lowest. Left out: none is sent."
    )
    communities: list[Community] = Field(
        default_factory=list, description="Communities (64500:53) and large communities (64500:1:53) of its routes."
    )
    min_healthy: Annotated[int, whole(1, 1000), bounds(1, 1000)] = Field(
        default=1, description="Backends that must be in service and healthy, for each service, or it is withdrawn."
    )


RouteSettings = VipAnnounce | AnnouncedPrefix
"""How a route is announced: that of a VIP's address, or of a prefix."""


def _never(value: Any) -> Any:
    if value == "never" or isinstance(value, dict | VipAnnounce):
        return value
    hint = "write never" if value is False else ""
    raise wrong_value("never, or a mapping with med, communities or min_healthy", hint)


OfVip = Annotated[
    Annotated[VipAnnounce, Tag("mapping")] | Annotated[Literal["never"], Tag("word")],
    Discriminator(lambda value: "word" if value == "never" else "mapping"),
    BeforeValidator(_never),
]
