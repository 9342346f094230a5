# SPDX-License-Identifier: Apache-2.0
"""Files of access lists that are read again: the same as an apply would make, when, and what is left as it is."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dnsteer import __version__
from dnsteer.agent import lists as followed
from dnsteer.agent.followed_state import FollowedState
from dnsteer.agent.list_times import ListTimes
from dnsteer.agent.lists import LeftError, ListSource, UnreadyError, files_of, is_elsewhere, read_files
from dnsteer.checks.load import load_spec
from dnsteer.deploy.recorded_spec import is_applied
from dnsteer.deploy.times import now, stamp
from dnsteer.spec.errors import SpecError
from dnsteer.spec.parts.followed_lists import followed_lists
from dnsteer.spec.parts.reread_lists import put_lists, read_lists
from dnsteer.spec.read import parse_recorded, read_document
from dnsteer.switch.state import AppliedState
from tests.packet.command import FARM

BOTH = "defaults: {vips: {access: {allow_file: allowed.txt, deny: [10.9.0.0/16]}}}\n"
DENIES = FARM.replace("  uplinks:\n", "  access: {deny: [10.8.0.0/16], deny_file: lists/denied.txt}\n  uplinks:\n")


def site(folder: Path, denied: str, allowed: str | None = None) -> Path:
    """A spec whose switch has a file, and that of all VIPs by default with *allowed*."""
    (folder / "lists").mkdir(exist_ok=True)
    (folder / "lists" / "denied.txt").write_text(denied)
    spec = folder / "spec.yaml"
    spec.write_text(DENIES + (BOTH if allowed is not None else ""))
    if allowed is not None:
        (folder / "allowed.txt").write_text(allowed)
    return spec


def applied(spec: Path, number: int = 1, **more: object) -> FollowedState:
    """The state of a spec that was applied just now."""
    loaded = load_spec(spec)
    state = AppliedState(str(spec), loaded.document.text, loaded.digest, "1", stamp(now()), "me", (), {}, number=number)
    return FollowedState("br-dns", number, loaded.spec, {}, (), replace(state, **more))  # type: ignore[arg-type]


def found(state: FollowedState, before: int = 0, *states: AppliedState) -> followed.ListsRead:
    return read_files(files_of(state, before, lambda: states, time.time()), settled=True)


def prefixes() -> st.SearchStrategy[str]:
    four = st.builds(lambda n: str(IPv4Network((n << 8, 24))), st.integers(1 << 16, (1 << 23) - 1))
    six = st.builds(lambda n: str(IPv6Network(((0x20010DB8 << 32 | n) << 64, 64))), st.integers(0, (1 << 32) - 1))
    return st.one_of(four, six)


def files() -> st.SearchStrategy[str]:
    """The text of a file, with comments, empty lines and ports."""
    entry = st.builds(lambda p, port, end: f"{p}{port}{end}", prefixes(), st.sampled_from(["", " 53"]), comments())
    lines = st.lists(st.one_of(entry, comments()), max_size=5)
    return st.builds(lambda first, rest: "\n".join([first, *rest]) + "\n", entry, lines)


def comments() -> st.SearchStrategy[str]:
    return st.sampled_from(["", " # a comment: - {x}", "  #"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(files(), files()), st.tuples(files(), files()))
def test_what_is_read_again_is_what_an_apply_reads(
    tmp_path: Path, before: tuple[str, str], after: tuple[str, str]
) -> None:
    spec = site(tmp_path, *before)
    text = read_document(spec).text
    lists = followed_lists(text)
    assert put_lists(parse_recorded(str(spec), text), lists, {}).text == text
    site(tmp_path, *after)
    wanted = read_document(spec)
    again = put_lists(parse_recorded(str(spec), text), lists, read_lists(str(spec), lists))
    assert again.text == wanted.text
    assert again.value == wanted.value
    recorded = parse_recorded(str(spec), wanted.text)
    assert {path: again.place(path) for path in again.lines} == {path: recorded.place(path) for path in recorded.lines}


def test_entries_of_a_default_have_the_line_of_their_file(tmp_path: Path) -> None:
    document = read_document(site(tmp_path, "203.0.113.0/24\n", "# x\n192.0.2.0/24\n"))
    assert document.where(("vips", "other", "access", "allow", 0)).endswith("allowed.txt:2")
    assert [one.lists for one in followed_lists(document.text)] == [
        (("vips", "dns", "access", "allow"), ("vips", "other", "access", "allow")),
        (("switch", "access", "deny"),),
    ]


def test_a_change_has_its_entries_and_a_comment_is_none(tmp_path: Path) -> None:
    state = applied(spec := site(tmp_path, "203.0.113.0/24\n198.51.100.0/24 53\n"))
    site(tmp_path, "# one\n203.0.113.0/24\n198.51.100.0/24 53 # two\n")
    assert found(state).loaded is None
    site(tmp_path, "198.51.100.0/24 53\n192.0.2.0/25\n")
    read = found(state)
    assert read.loaded is not None
    assert read.loaded.digest == load_spec(spec).digest
    (change,) = read.changes
    assert change.text == "lists/denied.txt: +1 entry: 192.0.2.0/25; -1 entry: 203.0.113.0/24"
    assert change.entries == 3


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    state = applied(site(tmp_path, "203.0.113.0/24\n"))
    site(tmp_path, "203.0.113.0/2")
    with pytest.raises(UnreadyError):
        read_files(files_of(state, 0, tuple, time.time()), settled=False)
    with pytest.raises(SpecError, match=r"denied\.txt:1: found .*203\.0\.113\.0/2"):
        found(state)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# " + b"x" * (2 << 20), 'denied.txt: found "lists/denied.txt", of more than 2 MiB'),
        (b"", "10.8.0.0/16"),
        (b"0.0.0.0/0\n::/0\n", "every client"),
    ],
)
def test_bad_files(tmp_path: Path, content: bytes, said: str) -> None:
    state = applied(site(tmp_path, "203.0.113.0/24\n"))
    (tmp_path / "lists" / "denied.txt").write_bytes(content)
    if not content:  # what the spec has itself is left, as for apply
        read = found(state)
        assert read.loaded is not None
        assert [change.entries for change in read.changes] == [1]
        return
    with pytest.raises(SpecError) as caught:
        found(state)
    assert said in caught.value.text()


def test_a_list_that_would_shut_a_family_out_waits_for_an_operator(tmp_path: Path) -> None:
    spec = site(tmp_path, "203.0.113.0/24\n")
    spec.write_text(FARM.replace("  uplinks:\n", "  access: {allow_file: lists/denied.txt}\n  uplinks:\n"))
    (tmp_path / "lists" / "denied.txt").write_text("192.0.2.0/24\n2001:db8::/32\n")
    state = applied(spec)
    (tmp_path / "lists" / "denied.txt").write_text("192.0.2.0/24\n")
    with pytest.raises(LeftError, match=r"no prefix of IPv6.*if that is meant: dnsteer apply"):
        found(state)
    (tmp_path / "lists" / "denied.txt").write_text("192.0.2.0/25\n")
    agreed = applied(spec)  # somebody has applied it so
    (tmp_path / "lists" / "denied.txt").write_text("192.0.2.128/25\n")
    assert found(agreed).loaded is not None


def test_after_a_rollback_only_what_changes_since_is_applied(tmp_path: Path) -> None:
    spec = site(tmp_path, "203.0.113.0/24\n", "192.0.2.0/24\n")
    first = applied(spec, 1)
    site(tmp_path, "198.51.100.0/24\n", "192.0.2.128/25\n")
    second = applied(spec, 2)
    time.sleep(0.02)
    back = applied(spec, 3, text=first.state.text, digest=first.state.digest, restores=1, rolls_back=2)
    back = replace(back, spec=first.spec)
    states = first.state, second.state
    assert found(back, 2, *states) == followed.ListsRead(None, (), ("allowed.txt", "lists/denied.txt"))
    time.sleep(0.02)
    site(tmp_path, "198.51.100.0/24\n", "192.0.2.128/25\n")  # written again
    assert found(back, 2, *states).loaded is None
    assert found(back, 0, *states).loaded is None  # by another agent
    (tmp_path / "lists" / "denied.txt").write_text("198.51.100.128/25\n")
    read = found(back, 2, *states)
    assert read.loaded is not None
    assert [change.name for change in read.changes] == ["lists/denied.txt"]
    assert read.left == ("allowed.txt",)
    # And what is left stays so in the state that this makes.
    made = replace(back.state, text=read.loaded.document.text, digest=read.loaded.digest, number=4, restores=0)
    fourth = replace(back, number=4, spec=read.loaded.spec, state=made)
    assert found(fourth, 3, *states).loaded is None
    (tmp_path / "allowed.txt").write_text("192.0.2.64/26\n")
    assert [change.name for change in found(fourth, 3, *states).changes] == ["allowed.txt"]


def test_an_older_record_that_was_restored_stays(tmp_path: Path) -> None:
    spec = site(tmp_path, "203.0.113.0/24\n")
    old = applied(spec, 1)
    site(tmp_path, "198.51.100.0/24\n")
    assert found(old, 0).loaded is not None
    assert found(old, 2).loaded is None


def test_a_file_of_another_machine(tmp_path: Path) -> None:
    state = applied(site(tmp_path, "203.0.113.0/24\n"))
    name = os.uname().nodename
    there = replace(state, state=replace(state.state, text=state.state.text.replace(f'"{name}"', '"admin-1"')))
    (one,) = followed_lists(there.state.text)
    assert one.host == "admin-1"
    assert not is_elsewhere(one)
    assert found(there).loaded is None
    (tmp_path / "lists" / "denied.txt").unlink()
    assert is_elsewhere(one)
    assert found(there) == followed.ListsRead(None, ())
    with pytest.raises(SpecError, match="which is not there"):
        found(state)


def test_the_same_entries_of_another_place_are_recorded_anew(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = site(tmp_path, "203.0.113.0/24\n"), site(tmp_path / "other", "203.0.113.0/24\n")
    state = replace(applied(one).state, version=__version__)
    assert is_applied(load_spec(one), state)
    assert load_spec(other).digest == state.digest
    assert not is_applied(load_spec(other), state)


def test_another_state_is_not_overwritten(tmp_path: Path) -> None:
    loaded = load_spec(site(tmp_path, "203.0.113.0/24\n"))
    with pytest.raises(UnreadyError):
        ListSource(loaded, 1).read(None, None, now())  # type: ignore[arg-type]


def reads(times: ListTimes, changes: dict[float, object], every: float, until: float) -> list[float]:
    """When files are read, looked at twice a second, that have these stamps from these times on; each read is applied."""
    out, stamp_now = [], changes.get(0.0)
    for half in range(int(2 * until)):
        at = half / 2
        stamp_now = changes.get(at, stamp_now)
        times.notice(stamp_now, at)
        if times.is_due(at, every):
            times.read()
            times.applied(at)
            out.append(at)
    return out


def test_files_are_read_once_they_are_quiet_and_never_too_often() -> None:
    assert reads(ListTimes(), {0.0: "a", 5.0: "b", 5.5: "c"}, 2, 30) == [1.0, 6.5]
    assert reads(ListTimes(), {0.0: "a", 3.0: "b"}, 10, 30) == [1.0, 11.0], "not before the interval is over"
    each_second = reads(ListTimes(), {float(n): n for n in range(60)} | {n + 0.5: -n for n in range(60)}, 10, 60)
    assert 3 <= len(each_second) <= 6
    assert all(later - earlier >= 10 for earlier, later in pairwise(each_second))
    times = ListTimes()
    assert reads(times, {0.0: "a"}, 0.5, 3) == [1.0]
    times.again(7.0)
    assert reads(times, {0.0: "a"}, 0.5, 9) == [7.0]
