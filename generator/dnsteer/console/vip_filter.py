"""Which VIPs the overview lists: the filter that its address has, as in `/?text=dns&trouble=on`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from dnsteer.spec.model.spec import Vip

KEY = "overview"
FIELDS = ("text", "pool", "trouble", "all")
_LONGEST = 100
"""Characters of a value; no name or address has as many."""


@dataclass(frozen=True)
class VipFilter:
    """VIPs of a *pool* whose name, addresses or pool contain a *text*; with *trouble* only those that have some.

    With *all* every one of them is listed, however many there are.
    """

    text: str = ""
    pool: str = ""
    trouble: bool = False
    all: bool = False

    @property
    def chooses(self) -> bool:
        """Whether it leaves VIPs out."""
        return bool(self.text or self.pool or self.trouble)

    @property
    def address(self) -> str:
        """The address of the overview with this filter and all VIPs that pass it."""
        return f"/?{_encoded(VipFilter(self.text, self.pool, self.trouble, True))}"

    def matches(self, name: str, vip: Vip) -> bool:
        """Whether a VIP passes, apart from trouble."""
        if self.pool and vip.pool != self.pool:
            return False
        wanted = self.text.lower()
        return not wanted or any(wanted in text.lower() for text in (name, vip.pool, *map(str, vip.addresses)))


def filter_key(given: Mapping[str, str]) -> str:
    """The page's key: what the filter says, in one order, so that equal filters are one page."""
    text, pool = (given.get(name, "").strip()[:_LONGEST] for name in ("text", "pool"))
    return _key_of(VipFilter(text, pool, bool(given.get("trouble")), bool(given.get("all"))))


def filter_of(key: str) -> VipFilter:
    """The filter of a key of the overview."""
    try:
        found = dict(parse_qsl(key.partition("?")[2], max_num_fields=len(FIELDS)))
    except ValueError:  # so many that it is none of ours
        found = {}
    return VipFilter(found.get("text", ""), found.get("pool", ""), "trouble" in found, "all" in found)


def is_overview(key: str) -> bool:
    """Whether it is a key that `filter_key` gives."""
    return key == _key_of(filter_of(key))


def _key_of(wanted: VipFilter) -> str:
    encoded = _encoded(wanted)
    return f"{KEY}?{encoded}" if encoded else KEY


def _encoded(wanted: VipFilter) -> str:
    fields = (wanted.text, wanted.pool, "on" if wanted.trouble else "", "on" if wanted.all else "")
    return urlencode({name: value for name, value in zip(FIELDS, fields, strict=True) if value})
