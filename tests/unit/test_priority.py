# SPDX-License-Identifier: Apache-2.0
"""The machine's setting that benchmarks of the lab change while they run."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.change import priority

from dnsteer.lab.errors import LabError


def test_the_setting_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = tmp_path / "sched_autogroup_enabled"
    setting.write_text("1\n")
    monkeypatch.setattr(priority, "_AUTOGROUP", setting)
    with pytest.raises(RuntimeError, match="the benchmark failed"), priority.niceness_counts():
        assert setting.read_text() == "0"
        raise RuntimeError("the benchmark failed")
    assert setting.read_text() == "1\n"


def test_a_kernel_without_the_setting_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_AUTOGROUP", tmp_path / "absent")
    with priority.niceness_counts():
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_cannot_be_written_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_AUTOGROUP", Path("/proc/version"))
    with (
        pytest.raises(LabError, match=r"/proc/version cannot be written \(.*\).*: run as root"),
        priority.niceness_counts(),
    ):
        pytest.fail("the block must not run")
