# SPDX-License-Identifier: Apache-2.0
"""Table access: finds the access lists of a query's service, and the limit of its clients.

Without any it has no flow but that which goes on. What a list or a limit looks at, the client's address, would be in the
megaflow of each query beside the slot; so queries that a list allows, and those within their client's rate, pass the
datapath again, and only then a slot is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.errors import Path, show_path
from dnsteer.spec.model.families import FAMILIES, Family
from dnsteer.tables.access_tree import WIDTHS, AccessRule, AccessWindow, Rules, add_rule, windows_of
from dnsteer.tables.client_limits import ClientLimit, limit_of_vips
from dnsteer.tables.cookies import Category, Subject, number_names
from dnsteer.tables.ingress import ProbeRow
from dnsteer.tables.rows import Rows
from dnsteer.tables.table import Register, Table

if TYPE_CHECKING:
    from dnsteer.slots.denial import Denial
    from dnsteer.spec.model.access import AccessEntry, AccessRules
    from dnsteer.spec.model.spec import Spec
    from dnsteer.tables.context import Context

SWITCH_TABLE, VIP_TABLE = "switch_list", "vip_list"
"""Names of the tables of the switch's list and of those of VIPs, without their numbers from 1 on."""
LIST_BITS, ENTRY_BITS = 15, 24
DENIES = 1 << LIST_BITS + ENTRY_BITS
"""The bit in the number of a cookie's object that all flows have which deny."""


class ListedServiceRow(NamedTuple):
    """A service of a VIP address to whose queries a list applies: the switch's (*by_switch*), or the VIP's (*list*).

    *limit* is the number of the limit of its clients. All of these are 0 where there is none; one is not.
    """

    subject: Subject
    address: str
    family: Family
    protocol: str
    port: int
    by_switch: bool
    list: int
    by_port: bool
    """Whether a list tells ports apart."""
    limit: int = 0

    @property
    def is_listed(self) -> bool:
        """Whether a list applies to it."""
        return self.by_switch or self.list > 0


@dataclass(frozen=True)
class AccessList:
    """A list of the spec: what it is called, its place, and the number that identifies it. *vips*: those that have it."""

    title: str
    path: Path
    number: int
    access: AccessRules
    vips: tuple[str, ...] = ()
    denials: tuple[Denial, ...] = ()
    """What is denied by hand, beside the list: it counts more than each of its entries."""

    @property
    def key(self) -> str:
        """What it is called in metrics: `switch`, or the first VIP that has it."""
        return self.vips[0] if self.vips else "switch"

    def applies_to(self, family: Family) -> bool:
        """Whether it can deny a client of a family."""
        return self.access.is_closed or any(self.has(family))

    def has(self, family: Family) -> Iterator[AccessEntry]:
        """Its entries of a family, denials by hand first."""
        version = 4 if family == "ipv4" else 6
        for entry in (*map(entry_of, self.denials), *(self.access.deny or ()), *(self.access.allow or ())):
            if entry.prefix.version == version:
                yield entry


def entry_of(denial: Denial) -> AccessEntry:
    """A denial by hand as an entry of a list."""
    from dnsteer.spec.model.access import AccessEntry  # here, since the quick verbs do without

    return AccessEntry.model_construct(None, prefix=denial.network, port=denial.port or None)


def access_lists(spec: Spec, denials: Iterable[Denial] = ()) -> list[AccessList]:
    """The lists of a spec with what is denied by hand: the switch's, then those of VIPs. VIPs that have the same entries,
    and for which the same is denied, share one."""
    from dnsteer.spec.model.access import AccessRules  # here, since the quick verbs do without

    found: dict[str, AccessList] = {}
    of_all = tuple(denial for denial in denials if not denial.vip)
    if of_all or (spec.switch.access is not None and spec.switch.access.entries):
        rules = spec.switch.access or AccessRules()
        found["switch"] = AccessList("switch.access", ("switch", "access"), 0, rules, denials=of_all)
    same: dict[tuple[tuple[AccessEntry, ...], tuple[AccessEntry, ...], tuple[Denial, ...]], list[str]] = {}
    for name, vip in spec.vips.items():
        own = tuple(denial for denial in denials if denial.vip == name)
        if own or (vip.access is not None and vip.access.entries):
            rules = vip.access or AccessRules()
            same.setdefault((tuple(rules.deny or ()), tuple(rules.allow or ()), own), []).append(name)
    for (_, _, own), names in same.items():
        path: Path = ("vips", names[0], "access")
        rules = spec.vips[names[0]].access or AccessRules()
        found[f"vip {names[0]}"] = AccessList(show_path(path).removeprefix("$."), path, 0, rules, tuple(names), own)
    numbers = number_names(found, LIST_BITS)
    return [replace(one, number=numbers[key]) for key, one in found.items()]


def lists_of_spec(spec: Spec, denials: Iterable[Denial] = ()) -> list[AccessList]:
    """Those of these lists that have entries of the spec."""
    return [one for one in access_lists(spec, denials) if one.access.entries]


def denial_numbers(denials: Iterable[Denial]) -> dict[str, int]:
    """The number of each denial by hand, by its name: what the cookies of its flows have, in list number 0."""
    return number_names((denial.name for denial in denials), ENTRY_BITS)


def rules_of(one: AccessList, family: Family, subjects: dict[tuple[str, int], Subject]) -> Rules:
    """The entries of a list in a family; *subjects* are those of its entries, by key and place.

    What is denied by hand is denied below its prefix too, at each longer one that has an entry.
    """
    version, width = (4 if family == "ipv4" else 6), WIDTHS[family]
    rules: Rules = {}
    by_hand: Rules = {}
    for i, denial in enumerate(one.denials):
        if denial.network.version == version:
            length = denial.network.prefixlen
            prefix = length, int(denial.network.network_address) >> width - length
            add_rule(by_hand, prefix, denial.port, AccessRule(True, subjects["denied", i]))
    lengths = sorted({length for length, _ in by_hand}, reverse=True)
    for prefix in by_hand:
        _add_denials(rules, by_hand, lengths, prefix)
    for key, denies in (("deny", True), ("allow", False)):
        for i, entry in enumerate(getattr(one.access, key) or ()):
            if entry.prefix.version == version:
                length = entry.prefix.prefixlen
                prefix = length, int(entry.prefix.network_address) >> width - length
                _add_denials(rules, by_hand, lengths, prefix)
                add_rule(rules, prefix, entry.port or 0, AccessRule(denies, subjects[key, i]))
    return rules


def _add_denials(rules: Rules, by_hand: Rules, lengths: Sequence[int], prefix: tuple[int, int]) -> None:
    """Add to *prefix* what is denied by hand there and at shorter ones; *lengths* are those of *by_hand*, longest first."""
    length, value = prefix
    for shorter in lengths:
        if shorter <= length:
            for port, rule in by_hand.get((shorter, value >> length - shorter), {}).items():
                add_rule(rules, prefix, port, rule)


def rows(ctx: Context) -> Iterator[ListedServiceRow | AccessWindow]:
    """Yield the services that have lists, and the windows of these."""
    of_vip: dict[str, AccessList] = {}
    of_switch: AccessList | None = None
    titles: dict[int, Subject] = {}
    for one in access_lists(ctx.spec, ctx.overlay.denials):
        of_vip |= dict.fromkeys(one.vips, one)
        of_switch = of_switch if one.vips else one
        titles[one.number] = ctx.subject(
            Category.ACCESS, one.number << ENTRY_BITS, f"access list {one.title}", one.path
        )
        yield from _windows(ctx, one, titles[one.number])
    limits = limit_of_vips(ctx.spec)
    if titles or limits:
        yield from _services(ctx, of_switch, of_vip, titles, limits)


def _services(
    ctx: Context,
    of_switch: AccessList | None,
    of_vip: dict[str, AccessList],
    titles: dict[int, Subject],
    limits: dict[str, ClientLimit],
) -> Iterator[ListedServiceRow]:
    from dnsteer.spec import derived  # here, since the quick verbs do without it

    for name, vip in ctx.spec.vips.items():
        own, limit = of_vip.get(name), limits.get(name)
        own_subject = subject_of_limit(ctx, limit) if limit is not None else ctx.pipeline
        for address, text in zip(vip.addresses, ctx.addresses[name], strict=True):
            family = derived.family_of(address)
            lists = [one for one in (of_switch, own) if one is not None and one.applies_to(family)]
            if not lists and limit is None:
                continue
            subject = titles[lists[-1].number] if lists else own_subject
            by_port = any(entry.port is not None for one in lists for entry in one.has(family))
            number = own.number if own is not None and own in lists else 0
            for end in derived.endpoints(vip):
                yield ListedServiceRow(
                    subject,
                    text,
                    family,
                    end.protocol.value,
                    end.port,
                    bool(lists) and lists[0] is of_switch,
                    number,
                    by_port,
                    limit.number if limit is not None else 0,
                )


def subject_of_limit(ctx: Context, limit: ClientLimit) -> Subject:
    """Return the subject of all flows and meters of a limit of clients."""
    return ctx.subject(Category.METER, limit.first_meter, limit.title, limit.path)


def _windows(ctx: Context, one: AccessList, title: Subject) -> Iterator[AccessWindow]:
    subjects = _entry_subjects(ctx, one)
    what = "everybody else, denied by" if one.access.is_closed else "everybody else, allowed by"
    number = one.number << ENTRY_BITS | 1 | (DENIES if one.access.is_closed else 0)
    path = (*one.path, "allow") if one.access.is_closed else one.path
    others = AccessRule(one.access.is_closed, ctx.subject(Category.ACCESS, number, f"{what} {one.title}", path))
    table, register = (VIP_TABLE, one.number) if one.vips else (SWITCH_TABLE, 0)
    for family in FAMILIES:
        if not one.applies_to(family):
            continue
        rules = rules_of(one, family, subjects)
        for depth, (bits, flows, entrances) in enumerate(windows_of(rules, family, others), 1):
            deeper = tuple(f._replace(subject=title) if f.verdict == "deeper" else f for f in flows)
            yield AccessWindow(f"{table}{depth}", family, register, bits, deeper, entrances)


def _entry_subjects(ctx: Context, one: AccessList) -> dict[tuple[str, int], Subject]:
    """The subject of each entry of a list; of one that is written twice the first counts."""
    found = {}
    for (key, i), (text, entry) in _numbered_entries(one).items():
        number = one.number << ENTRY_BITS | entry | (DENIES if key == "deny" else 0)
        found[key, i] = ctx.subject(Category.ACCESS, number, f"{text} of {one.title}", (*one.path, key, i))
    by_hand = ctx.once("denials by hand", lambda: denial_numbers(ctx.overlay.denials))
    for i, denial in enumerate(one.denials):
        found["denied", i] = ctx.subject_by_hand(Category.ACCESS, DENIES | by_hand[denial.name], denial.text)
    return found


def _numbered_entries(one: AccessList) -> dict[tuple[str, int], tuple[str, int]]:
    """What each entry of a list is called, and its number in cookies, by key and place."""
    texts = {
        (key, i): f"{key} {entry}"
        for key in ("deny", "allow")
        for i, entry in enumerate(getattr(one.access, key) or ())
    }
    numbers = number_names(texts.values(), ENTRY_BITS - 1)
    return {place: (text, numbers[text] + 1) for place, text in texts.items()}


def entries_by_number(one: AccessList) -> dict[int, tuple[str, int]]:
    """The entries of a list, by key and place, by their numbers in cookies; of one that is written twice the first."""
    found: dict[int, tuple[str, int]] = {}
    for place, (_, number) in _numbered_entries(one).items():
        found.setdefault(number, place)
    return found


def has_lists(rows: Rows) -> bool:
    """Whether a list applies to any service."""
    return any(row.is_listed for row in rows.of(ListedServiceRow))


def has_client_limits(rows: Rows) -> bool:
    """Whether the clients of any service have a limit."""
    return any(row.limit for row in rows.of(ListedServiceRow))


TABLE = Table(
    name="access",
    matches="destination address, protocol and port",
    does="finds the access lists of a query's service, and the limit of its clients; all others go on",
    traffic=("queries",),
    miss="next",
    flows={
        "udp": "A service to whose queries a list applies, or a limit of clients: their numbers go to registers.",
        "tcp": "The same for TCP.",
        "udp6": "The same for IPv6.",
        "tcp6": "The same for TCP over IPv6.",
        "register": "Probes of the agent pass no list and no limit.",
        "miss": "Neither applies, or there is no such service.",
    },
    uses={"listed": ListedServiceRow, "probes": ProbeRow},
    rows=rows,
    registers=(
        Register("list", 10, "number of the access list of the VIP; 0: none", "admit"),
        Register("limit", 9, "number of the limit of the VIP's clients; 0: none", "client_meter"),
        Register("dport", 11, "destination port, where a list tells ports apart", "admit"),
    ),
)
