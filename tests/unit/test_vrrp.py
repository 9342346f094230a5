"""What keepalived writes to its FIFO, as roles of the switch."""

from __future__ import annotations

import io
import os
import threading
import time
from pathlib import Path

import pytest

from dnsteer.deploy import vrrp
from dnsteer.switch.role import RoleName
from dnsteer.switch.tools import UnavailableError


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ('INSTANCE "dns" MASTER 102', "active"), ('INSTANCE "dns" BACKUP 101', "standby"),
        ('GROUP "dns" FAULT 0', "standby"),
        ('INSTANCE "dns" STOP 0', "standby"), ('INSTANCE "dns" MASTER_RX_LOWER_PRI 102', None), ("junk", None), ("", None),
        ('INSTANCE "other" MASTER 102', None),
    ],
)  # fmt: skip
def test_roles_in_lines(line: str, role: RoleName | None) -> None:
    assert vrrp.role_in(line, "dns") == role
    assert vrrp.role_in('INSTANCE "other" MASTER 1', None) == "active"


def followed(lines: str, fails: int = 0) -> tuple[list[RoleName], list[str]]:
    """The roles that were taken, the first *fails* of them in vain, and what was said."""
    taken: list[RoleName] = []
    said: list[str] = []

    def take(role: RoleName) -> None:
        taken.append(role)
        if len(taken) <= fails:
            raise UnavailableError("it hangs")

    vrrp.follow(io.StringIO(lines), None, take, said.append)
    return taken, said


def test_at_the_end_it_stands_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrrp, "_AGAIN", 0.05)
    assert followed("") == (["standby"], [])
    assert followed("", fails=2) == (["standby"] * 3, [])
    _, said = followed("", fails=100)
    assert said == ["keepalived has ended, and the switch is not on standby: it hangs"]


def test_the_last_role_counts_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrrp, "_AGAIN", 0.05)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    taken: list[RoleName] = []
    said: list[str] = []
    slow = threading.Event()

    def take(role: RoleName) -> None:
        taken.append(role)
        if len(taken) == 1:
            slow.wait(10)
        if 2 <= len(taken) <= 4:
            raise UnavailableError("it hangs")

    def run() -> None:
        with fifo.open() as lines:
            vrrp.follow(lines, None, take, said.append)

    thread = threading.Thread(target=run)
    thread.start()
    with fifo.open("w", buffering=1) as stream:
        stream.write('INSTANCE "dns" BACKUP 101\n')
        while not taken:
            time.sleep(0.01)
        stream.write('INSTANCE "dns" MASTER 101\nINSTANCE "dns" FAULT 101\nINSTANCE "dns" MASTER 101\n')
        time.sleep(0.2)
        slow.set()
        deadline = time.monotonic() + 10
        while len(taken) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
    thread.join(10)
    assert taken == ["standby", "active", "active", "active", "active", "standby"]
    assert said == ["not active yet: it hangs"]
