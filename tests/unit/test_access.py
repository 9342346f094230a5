# SPDX-License-Identifier: Apache-2.0
"""Access lists: their files, what is refused, their flows against a plain list, and how changes of them are told."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.checks.load import check_document, load_spec
from dnsteer.deploy.spec_differences import compare_specs
from dnsteer.lint.masks.bound import mask_bound
from dnsteer.metrics.collect import read_denials
from dnsteer.offload.offload_context import uses_conntrack
from dnsteer.plan.build import build_plan
from dnsteer.proof.reference.access import PlainAccessList
from dnsteer.render.flows import Flow, flows_of
from dnsteer.slots.denial import Denial
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.errors import SpecError
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.access import MAX_ENTRIES, AccessEntry, AccessRules
from dnsteer.spec.parts import list_files
from dnsteer.spec.read import parse_document, parse_recorded
from dnsteer.tables.access import DENIES, ENTRY_BITS, LIST_BITS, access_lists, denial_numbers
from dnsteer.tables.access_tree import WINDOWS
from dnsteer.tables.cookies import OBJECT_BITS, Category
from dnsteer.tables.order import PIPELINE
from tests.unit.commands import ROOT

EXAMPLE = (ROOT / "examples" / "access.yaml").read_text()
HEAD = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks: {p0: }
"""
TAIL = """\
pools:
  ns:
    slots: 2
    backends: [{name: a, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}]
vips:
  dns: {addresses: [192.0.2.53, '2001:db8::53'], services: [dns], pool: ns}
"""


def spec_text(access: str) -> str:
    return f"{HEAD}  access: {access}\n{TAIL}"


def spec_with(access: str) -> Loaded:
    return check_document(parse_document("spec.yaml", spec_text(access)))


def in_folder(folder: Path, access: str, **files: str | bytes) -> Path:
    """A spec whose switch has a list, and files beside it."""
    for name, content in files.items():
        (folder / f"{name}.txt").write_bytes(content.encode() if isinstance(content, str) else content)
    spec = folder / "spec.yaml"
    spec.write_text(spec_text(access))
    return spec


def refusal(spec: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(spec)
    return caught.value.text().replace(f"{spec.parent}/", "")


# Files


def test_entries_of_a_file_are_those_of_the_list_with_their_file_and_line(tmp_path: Path) -> None:
    denied = "# who floods\n203.0.113.0/24   # one\n\n2001:db8:bad::/48 53\n198.51.100.7\n"
    spec = in_folder(tmp_path, "{deny: [10.0.0.0/8], deny_file: denied.txt}", denied=denied)
    loaded = load_spec(spec)
    access = loaded.spec.switch.access
    assert access is not None
    assert [str(entry) for entry in access.deny or ()] == [
        "10.0.0.0/8",
        "203.0.113.0/24",
        "2001:db8:bad::/48 port 53",
        "198.51.100.7/32",
    ]
    assert access.deny_file is None
    places = [loaded.document.place(("switch", "access", "deny", i)) for i in range(4)]
    assert [(place.part, place.line) for place in places] == [
        ("", 7),
        ("denied.txt", 2),
        ("denied.txt", 4),
        ("denied.txt", 5),
    ]


def test_a_record_needs_no_file(tmp_path: Path) -> None:
    spec = in_folder(tmp_path, "{deny_file: denied.txt}", denied="203.0.113.0/24\n198.51.100.7 53\n")
    loaded = load_spec(spec)
    (tmp_path / "denied.txt").unlink()
    recorded = check_document(parse_recorded("spec.yaml", loaded.document.text), recorded=True)
    assert recorded.spec == loaded.spec
    assert recorded.digest == loaded.digest
    place = recorded.document.place(("switch", "access", "deny", 1))
    assert (place.part, place.line) == ("denied.txt", 2)
    assert {f.line() for f in flows_of(build_plan(recorded))} == {f.line() for f in flows_of(build_plan(loaded))}


def test_the_digest_is_that_of_the_entries(tmp_path: Path) -> None:
    def digest_of(access: str, **files: str) -> str:
        return load_spec(in_folder(tmp_path, access, **files)).digest

    one = digest_of("{deny_file: denied.txt}", denied="203.0.113.0/24\n")
    assert digest_of("{deny_file: denied.txt}", denied="# the same\n203.0.113.0/24 # again\n") == one
    assert digest_of("{deny: [203.0.113.0/24]}") == one
    assert digest_of("{deny_file: denied.txt}", denied="203.0.112.0/24\n") != one


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("10.0.0.0/33\n", 'denied.txt:1: found "10.0.0.0/33"; expected a prefix such as 192.0.2.0/24 or 2001:db8::/32'),
        ("# x\n10.0.0.1/8\n", 'denied.txt:2: found "10.0.0.1/8"; expected a prefix without bits behind its length'),
        ("10.0.0.0/8 0\n", 'denied.txt:1: found the port "0"; expected a whole number from 1 to 65535'),
        ("10.0.0.0/8 65536\n", 'denied.txt:1: found the port "65536"; expected a whole number from 1 to 65535'),
        ("10.0.0.0/8 53 udp\n", 'denied.txt:1: found "10.0.0.0/8 53 udp"; expected a prefix such as 192.0.2.0/24, and'),
        ("::ffff:10.0.0.0/104\n", 'denied.txt:1: found "::ffff:10.0.0.0/104"; expected a prefix of addresses that'),
        ("example.net\n", 'denied.txt:1: found "example.net"; expected a prefix such as'),
        (
            "# nothing\n",
            'spec.yaml:7: $.switch.access.deny_file: found "denied.txt", a file without a prefix; expected',
        ),
        (b"10.0.0.0/8\n\xff\n", "denied.txt:2: found the byte 0xff, which is not UTF-8; expected a readable text file"),
        (b"#" * (list_files.MAX_LIST_BYTES + 1), 'found "denied.txt", of more than 2 MiB; expected a file of at most'),
    ],
)
def test_a_bad_file_is_refused_by_its_line(tmp_path: Path, content: str | bytes, said: str) -> None:
    assert said in refusal(in_folder(tmp_path, "{deny_file: denied.txt}", denied=content))


def test_a_file_that_is_not_there_or_outside_is_refused(tmp_path: Path) -> None:
    gone = refusal(in_folder(tmp_path, "{deny_file: gone.txt}"))
    assert (
        'spec.yaml:7: $.switch.access.deny_file: found "gone.txt", which is not there; expected a readable text' in gone
    )
    assert "the name is relative to the file that has this key" in gone
    folder = tmp_path / "specs"
    folder.mkdir()
    (tmp_path / "denied.txt").write_text("10.0.0.0/8\n")
    assert "outside the folder of the spec" in refusal(in_folder(folder, "{deny_file: ../denied.txt}"))
    (folder / "d").mkdir()
    assert 'found "d", which is a directory' in refusal(in_folder(folder, "{deny_file: d}"))
    with pytest.raises(SpecError, match="a file, in a text that is none"):
        spec_with("{deny_file: denied.txt}")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = in_folder(tmp_path, "{deny_file: denied.txt}", denied="10.0.0.0/8\n")
    read, times = list_files.read_whole, iter(range(1, 100))

    def growing(file: Path, most: int) -> bytes:
        data = read(file, most)
        file.write_bytes(data + b"#" * next(times))
        return data

    monkeypatch.setattr(list_files, "read_whole", growing)
    assert 'found "denied.txt", which changes while it is read; expected a file that stays as it is' in refusal(spec)


def test_a_file_that_changed_once_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = in_folder(tmp_path, "{deny_file: denied.txt}", denied="10.0.0.0/8\n")
    read, times = list_files.read_whole, iter([b"203.0.113.0/24\n"])

    def changing(file: Path, most: int) -> bytes:
        data = read(file, most)
        if (new := next(times, None)) is not None:
            file.write_bytes(new)
            os.utime(file, ns=(1, 1))
        return data

    monkeypatch.setattr(list_files, "read_whole", changing)
    access = load_spec(spec).spec.switch.access
    assert access is not None
    assert [str(entry) for entry in access.deny or ()] == ["203.0.113.0/24"]


def test_a_list_is_of_20_000_entries_at_most(tmp_path: Path) -> None:
    many = "".join(f"{ip_address(i << 12)}/24\n" for i in range(1 << 12, (1 << 12) + MAX_ENTRIES))
    loaded = load_spec(in_folder(tmp_path, "{deny_file: denied.txt}", denied=many))
    assert loaded.spec.switch.access is not None
    assert loaded.spec.switch.access.entries == MAX_ENTRIES
    said = refusal(in_folder(tmp_path, "{deny_file: denied.txt}", denied=f"{many}203.0.113.0/24\n"))
    assert f"denied.txt:{MAX_ENTRIES + 1}: found more than {MAX_ENTRIES} prefixes; expected at most that many" in said
    said = refusal(in_folder(tmp_path, "{deny_file: denied.txt, allow: [203.0.113.0/24]}", denied=many))
    assert "found 20,001 entries in all access lists; expected at most 20,000" in said


# What is doubtful


def warnings_of(access: str) -> list[str]:
    return [
        f"{finding.path[-1]}: {finding.found}" for finding in spec_with(access).warnings if "access" in finding.path
    ]


def test_what_is_doubtful_in_a_list_is_a_warning() -> None:
    assert warnings_of("{deny: [10.0.0.0/8], allow: [10.1.0.0/16]}") == []
    assert warnings_of("{deny: [10.0.0.0/8], allow: [10.0.0.0/8]}") == [
        "0: 10.0.0.0/8, which line 7, $.switch.access.deny[0] has already"
    ]
    assert warnings_of("{deny: [{prefix: 10.0.0.0/8, port: 853}]}") == ["0: port 853, at which no service is"]
    assert warnings_of("{allow: [10.0.0.0/8]}") == ["allow: no prefix of IPv6, in a list without deny"]
    assert warnings_of("{allow: [10.0.0.0/8, '2001:db8::/32']}") == []


NOBODY = "no client over {} that may ask port 53 of VIP dns"


@pytest.mark.parametrize(
    ("switch", "vip", "said"),
    [
        ("{allow: [10.0.0.0/8, '::/0']}", "{allow: [172.16.0.0/12, '::/0']}", NOBODY.format("IPv4")),
        ("{deny: [{prefix: 0.0.0.0/0, port: 53}]}", "{deny: [10.0.0.0/8]}", NOBODY.format("IPv4")),
        (
            "{deny: ['::/1', '8000::/1'], allow: ['2001:db8::/32']}",
            "{deny: ['2001:db8::/32']}",
            NOBODY.format("IPv6"),
        ),
        (
            "{allow: [10.0.0.0/8, '::/0']}",
            "{deny: [10.0.0.0/9, {prefix: 10.128.0.0/9, port: 53}]}",
            NOBODY.format("IPv4"),
        ),
        ("{allow: [10.0.0.0/8, '::/0']}", "{deny: [10.0.0.0/9]}", ""),
        ("{deny: [10.0.0.0/8, '2001:db8::/32']}", "{deny: [0.0.0.0/1, '::/1']}", ""),
    ],
)
def test_a_service_that_no_client_may_ask_is_a_warning(switch: str, vip: str, said: str) -> None:
    """By both lists together: an address must pass each."""
    text = spec_text(switch).replace("pool: ns}", f"pool: ns, access: {vip}}}")
    warnings = [each.found for each in check_document(parse_document("spec.yaml", text)).warnings]
    assert [each for each in warnings if each.startswith("no client")] == ([said] if said else [])


def test_vips_with_the_same_entries_share_a_list() -> None:
    same = "access: {deny: [10.0.0.0/8]}"
    text = f"{HEAD}{TAIL.replace('pool: ns}', 'pool: ns, ' + same + '}')}"
    text += f"  other: {{addresses: [192.0.2.54], services: [dns], pool: ns, {same}}}\n"
    (one,) = access_lists(check_document(parse_document("spec.yaml", text)).spec)
    assert (one.title, one.vips) == ("vips.dns.access", ("dns", "other"))


# Flows

_NAMES = {table.number: name for name, table in PIPELINE.tables.items()}
_BITS = {4: 32, 6: 128}
_PORTS = (None, 53, 853)


@st.composite
def entries(draw: st.DrawFn) -> AccessEntry:
    """An entry with few different first bits, so that many lie within others."""
    version = draw(st.sampled_from((4, 6)))
    width = _BITS[version]
    length = draw(st.integers(0, width) if draw(st.booleans()) else st.sampled_from((8, 16, 24, 32)))
    base = draw(st.sampled_from((0x0A000000, 0x0A010200, 0xC0000200))) << width - 32
    low = draw(st.integers(0, 3)) << draw(st.integers(0, width - 2))
    address = (base ^ low) & ((1 << width) - 1)
    network = ip_network((address >> width - length << width - length, length) if length else (0, 0))
    if network.version != version:
        kind = IPv4Address if version == 4 else IPv6Address
        network = ip_network(f"{kind(int(network.network_address))}/{length}")
    return AccessEntry(prefix=network, port=draw(st.sampled_from(_PORTS)))


def verdict(flows: dict[int, list[Flow]], client: bytes, dport: int) -> bool:
    """Whether a client of the switch's list goes on, by the flows as OpenFlow defines what they do."""
    number = PIPELINE.tables["switch_list1"].number
    while True:
        found = max((f for f in flows[number] if _matches(f.match, client, dport)), key=lambda f: f.priority)
        leads = found.actions.rpartition("goto_table:")[2]
        if "goto_table" not in found.actions:
            return False
        if int(leads) == PIPELINE.tables["vip_list1"].number:
            return True
        assert int(leads) == number + 1 or PIPELINE.tables[f"switch_list{WINDOWS}"].number >= int(leads) > number
        number = int(leads)


def _matches(match: str, client: bytes, dport: int) -> bool:
    family, *others = match.split(",") if match else ("",)
    if not match:
        return True
    if family != ("ip" if len(client) == 4 else "ipv6"):
        return False
    for each in others:
        name, _, value = each.partition("=")
        if name in ("nw_src", "ipv6_src"):
            if ip_address(client) not in ip_network(value):
                return False
        elif int(value, 16) != dport:
            return False
    return True


def by_hand(found: Iterable[AccessEntry], vip: str = "") -> tuple[Denial, ...]:
    """The same entries as denials by hand, each once."""
    time = "2026-11-29T02:00:00+00:00"
    denials = [Denial(str(each.prefix), time, "alice@noc", each.port or 0, vip) for each in found]
    return tuple({denial.key: denial for denial in denials}.values())


def test_what_is_denied_by_hand_uses_the_connection_tracker() -> None:
    """As `verify --offload` judges by: the flows of the second pass match more."""
    text = (HEAD + TAIL).replace("ipv4: 192.0.2.11, ", "").replace("192.0.2.53, ", "")
    loaded = check_document(parse_document("spec.yaml", text))
    assert not uses_conntrack(build_plan(loaded))
    overlay = Overlay(denials=by_hand([AccessEntry(prefix="2001:db8:bad::/48")]))
    assert uses_conntrack(build_plan(loaded, overlay))


def clients_near(rules: AccessRules, denials: Sequence[Denial]) -> Iterator[bytes]:
    entries = (*(rules.deny or ()), *(rules.allow or ()))
    for prefix in (*(entry.prefix for entry in entries), *(denial.network for denial in denials)):
        width = prefix.max_prefixlen
        first, last = int(prefix.network_address), int(prefix.broadcast_address)
        for address in {first, last, first - 1, last + 1, first + (last - first) // 3}:
            if 0 <= address < 1 << width:
                yield address.to_bytes(width // 8, "big")


@settings(max_examples=150, deadline=None)
@given(st.lists(entries(), max_size=8), st.lists(entries(), max_size=8), st.lists(entries(), max_size=4))
def test_flows_do_what_a_plain_list_says(
    deny: list[AccessEntry], allow: list[AccessEntry], hand: list[AccessEntry]
) -> None:
    """Also what is denied by hand, with the list of the spec and without one."""
    rules, denials = AccessRules(deny=deny, allow=allow), by_hand(hand)
    if not rules.entries and not denials:
        return
    loaded = spec_with("{deny: [203.0.113.0/24]}")
    switch = loaded.spec.switch.model_copy(update={"access": rules})
    loaded = Loaded(loaded.spec.model_copy(update={"switch": switch}), loaded.document, ())
    plan = build_plan(loaded, Overlay(denials=denials))
    by_table: dict[int, list[Flow]] = {}
    for flow in flows_of(plan):
        by_table.setdefault(flow.table, []).append(flow)
    plain = PlainAccessList("list", rules, denials)
    for client in clients_near(rules, denials):
        version = 4 if len(client) == 4 else 6
        listed = {f.match for f in by_table[PIPELINE.tables["access"].number] if f.match}
        for port in (53, 853):
            denied = bool(plain.denial(client, port))
            if not any(m.startswith("udp6" if version == 6 else "udp,") for m in listed):
                assert not denied  # nothing of the list is for the family, so that its queries do not get there
                continue
            assert verdict(by_table, client, port) == (not denied), (client, port)


def test_lists_cost_masks_by_windows_and_not_by_lengths() -> None:
    """Each window has one mask, whatever prefixes it has."""
    few = mask_bound(build_plan(spec_with("{deny: [203.0.113.0/24]}"))).total
    lengths = ", ".join(f"203.0.112.{1 << 32 - n - 1 if n < 32 else 1}/32" for n in range(26, 33))
    many = ", ".join(f"{ip_network((0xCB007000 >> 32 - n << 32 - n, n))}" for n in range(9, 25))
    assert mask_bound(build_plan(spec_with(f"{{deny: [{many}]}}"))).total == few
    assert mask_bound(build_plan(spec_with(f"{{deny: [203.0.113.0/24, {lengths}]}}"))).total == few + 1


# What is told of them


def test_changes_of_a_list_are_told_by_their_entries() -> None:
    was, now = (
        spec_with(f"{{deny: [{text}]}}").spec
        for text in ("10.0.0.0/8, 10.2.0.0/16", "10.0.0.0/8, 10.3.0.0/16, 10.4.0.0/16")
    )
    (told,) = compare_specs(was, now)
    assert told.text == "switch: access.deny +2 entries: 10.3.0.0/16, 10.4.0.0/16; -1 entry: 10.2.0.0/16"
    assert told.path == ("switch", "access", "deny")
    none = check_document(parse_document("spec.yaml", HEAD + TAIL)).spec
    (told,) = compare_specs(none, was)
    assert told.text == "switch: access.deny +2 entries: 10.0.0.0/8, 10.2.0.0/16"
    (told,) = compare_specs(was, none)
    assert told.text == "switch: access.deny -2 entries: 10.0.0.0/8, 10.2.0.0/16"


def test_denials_are_counted_by_their_list() -> None:
    """Each flow that denies counts for its list or for what is denied by hand, and no other flow."""
    loaded = check_document(parse_document("spec.yaml", EXAMPLE))
    denials = by_hand([AccessEntry(prefix="203.0.113.0/24"), AccessEntry(prefix="10.1.0.0/16", port=53)])
    denials += by_hand([AccessEntry(prefix="10.1.0.0/16")], vip="resolver")
    text, denying, total = "", 0, 0
    for flow in flows_of(build_plan(loaded, Overlay(denials=denials))):
        if flow.cookie >> OBJECT_BITS & 0xFF == Category.ACCESS and flow.cookie & DENIES:
            assert "goto_table" not in flow.actions
            denying += 1
            packets = denying % 3 if flow.cookie >> ENTRY_BITS & (1 << LIST_BITS) - 1 else 1  # list 0: by hand
            total += packets
            counted = f"duration=1.5s, table={flow.table}, n_packets={packets}, n_bytes={packets * 90}"
            text += (
                f" cookie=0x{flow.cookie:x}, {counted}, priority={flow.priority},{flow.match} actions={flow.actions}\n"
            )
        elif flow.table != PIPELINE.tables["admit"].number and "_list" in _NAMES[flow.table] and flow.match:
            assert "goto_table" in flow.actions
    found = list(read_denials(text))
    lists: set[object] = {("list", one.number) for one in access_lists(loaded.spec)}
    lists |= {("denial", number) for number in denial_numbers(denials).values()}
    assert {place[0] for place, _ in found} == lists  # type: ignore[index]
    assert sum(reading.values[0] for _, reading in found) == total > 3
