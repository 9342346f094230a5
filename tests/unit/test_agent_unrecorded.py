# SPDX-License-Identifier: Apache-2.0
"""What the agent keeps while the record cannot be written, in a file that the next one reads."""

from __future__ import annotations

import errno
import json
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.agent.unrecorded_overlay import UnrecordedOverlay
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.state import PENDING_KEY
from tests.unit.console_cases import entry, record

DECISION = "d21gepscbjsy"
OUT = Overlay((entry("ns1", "health", decision=DECISION), entry("ns2")))


def remote(folder: Path) -> str:
    return f"unix:{folder}/db.sock"


def file_in(folder: Path) -> Path:
    return folder / "dnsteer" / "br-dns.unrecorded"


def test_the_next_agent_takes_over_the_unrecorded_overlay(tmp_path: Path) -> None:
    base = record(3, entry("ns2"), pending=True)
    first = UnrecordedOverlay(remote(tmp_path))
    first.keep(base, OUT, "no room")
    assert (first.why, first.unsaved, first.overlay(base)) == ("no room", "", OUT)
    assert stat.S_IMODE(file_in(tmp_path).stat().st_mode) == 0o600
    second = UnrecordedOverlay(remote(tmp_path))
    second.load(base)
    completed = second.completed(base)
    assert second.why and completed.overlay == OUT and completed.pending is None
    assert [e.decision for e in completed.overlay] == [DECISION, ""]
    second.forget("br-dns")
    assert not file_in(tmp_path).exists() and second.completed(base) is base and not second.why


@pytest.mark.parametrize("later", [record(4, entry("ns2")), record(3), record(3, entry("ns2"), pending=True)])
def test_a_record_written_later_counts(later: object, tmp_path: Path) -> None:
    """For the agent itself, and for the next one, which removes the file."""
    first = UnrecordedOverlay(remote(tmp_path))
    first.keep(record(3, entry("ns2")), OUT, "no room")
    assert first.completed(later) is later  # type: ignore[arg-type]
    second = UnrecordedOverlay(remote(tmp_path))
    second.load(later)  # type: ignore[arg-type]
    assert not second.why and not file_in(tmp_path).exists()


def test_the_file_of_a_recreated_bridge_is_ignored(tmp_path: Path) -> None:
    first = UnrecordedOverlay(remote(tmp_path))
    first.keep(record(3), OUT, "no room")
    other = record(3)
    object.__setattr__(other, "uuid", "v")
    assert first.overlay(other) is None


GARBAGE = [b"", b"{}", b"[]", b"null", b"\xff", b'{"bridge": "u", "base": 3}', b"[" * 100_000]


@settings(max_examples=40)
@given(st.sampled_from(GARBAGE) | st.binary(max_size=100))
def test_an_invalid_file_is_removed(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("kept")
    file_in(folder).parent.mkdir()
    file_in(folder).write_bytes(data)
    kept = UnrecordedOverlay(remote(folder))
    kept.load(record(3))
    assert not kept.why and not file_in(folder).exists()


@pytest.mark.parametrize(("format_", "taken_over"), [(0, False), (1, True), (2, False), ("1", False), (None, True)])
def test_a_file_of_another_format_is_removed(tmp_path: Path, format_: object, taken_over: bool) -> None:
    """As where dnsteer was upgraded, or the version before is back. One that says none has the first."""
    UnrecordedOverlay(remote(tmp_path)).keep(record(3), OUT, "no room")
    file = file_in(tmp_path)
    value = json.loads(file.read_text())
    assert value.pop("format") == 1
    file.write_text(json.dumps(value if format_ is None else {**value, "format": format_}))
    kept = UnrecordedOverlay(remote(tmp_path))
    kept.load(record(3))
    assert (bool(kept.why), file.exists()) == (taken_over, taken_over)


def test_without_a_file_the_overlay_counts_for_this_agent(tmp_path: Path) -> None:
    """It counts for this agent all the same."""
    (tmp_path / "dnsteer").write_text("no folder")
    for place, said in ((remote(tmp_path), f"{tmp_path}/dnsteer"), ("tcp:192.0.2.1:6640", "")):
        kept, base = UnrecordedOverlay(place), record(3)
        kept.load(base)
        kept.keep(base, OUT, "no room")
        assert kept.overlay(base) == OUT and kept.unsaved.startswith(said) and bool(kept.unsaved) is bool(said)
        assert PENDING_KEY not in kept.completed(base).ids


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that of before, which is no longer so."""
    kept, base = UnrecordedOverlay(remote(tmp_path)), record(3)
    kept.keep(base, OUT, "no room")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    kept.keep(base, Overlay(), "no room")
    assert kept.unsaved == f"{file_in(tmp_path)}: No space left on device"
    assert [*file_in(tmp_path).parent.iterdir()] == []


def test_an_overlay_refused_by_the_switch_is_taken_back(tmp_path: Path) -> None:
    """A bundle that is refused leaves what was kept before."""
    of = UnrecordedOverlay(remote(tmp_path))
    undo = of.keep(record(3), OUT, "no room")
    more = of.keep(record(3), Overlay((entry("ns2", "health"),)), "no room")
    more()
    assert of.overlay(record(3)) == OUT and of.why == "no room"
    undo()
    assert of.overlay(record(3)) is None and not of.why and not file_in(tmp_path).exists()
