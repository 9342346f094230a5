# SPDX-License-Identifier: Apache-2.0
"""What keepalived writes to its FIFO, as roles of the switch."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dnsteer.deploy import vrrp
from dnsteer.switch.role import RoleName
from dnsteer.switch.tools import UnavailableError


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ('INSTANCE "dns" MASTER 102', "active"),
        ('INSTANCE "dns" BACKUP 101', "standby"),
        ('GROUP "dns" FAULT 0', "standby"),
        ('INSTANCE "dns" STOP 0', "standby"),
        ('INSTANCE "dns" MASTER_RX_LOWER_PRI 102', None),
        ("junk", None),
        ("", None),
        ('INSTANCE "other" MASTER 102', None),
    ],
)
def test_roles_are_read_from_fifo_lines(line: str, role: RoleName | None) -> None:
    assert vrrp.ROLES.get(vrrp.state_in(line, "dns")) == role
    assert vrrp.state_in('INSTANCE "other" MASTER 1', None) == "MASTER"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrrp, "_AGAIN", 0.5)
    monkeypatch.setattr(vrrp, "_LINGER", 0.05)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """keepalived, the parent of the process, ends right after the last line."""
    parents = iter([4711])
    monkeypatch.setattr(vrrp.os, "getppid", lambda: next(parents, 1))


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


@pytest.mark.usefixtures("quick", "ends")
@pytest.mark.parametrize("fails", [0, 2])
def test_when_keepalived_ends_it_stands_by(fails: int) -> None:
    assert followed("", fails) == (["standby"] * (1 + fails), [])


@pytest.mark.usefixtures("quick", "ends")
def test_a_failure_at_the_end_is_reported() -> None:
    _, said = followed("", fails=100)
    assert said == ["keepalived has ended, and the switch is not on standby: it hangs"]


@pytest.mark.usefixtures("quick")
def test_a_continuing_keepalived_keeps_the_role() -> None:
    assert followed('INSTANCE "dns" MASTER 101\n') == (["active"], [])
    assert followed('INSTANCE "dns" MASTER 101\nINSTANCE "dns" STOP 101\n') == (["standby"], [])


def gave(until: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.usefixtures("quick")
def test_the_last_role_counts_and_is_tried_again(tmp_path: Path) -> None:
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
        gave(lambda: taken)
        stream.write('INSTANCE "dns" MASTER 101\nINSTANCE "dns" FAULT 101\nINSTANCE "dns" MASTER 101\n')
        time.sleep(0.2)
        slow.set()
        gave(lambda: len(taken) >= 5)
        stream.write('INSTANCE "dns" STOP 101\n')
        gave(lambda: len(taken) >= 6)
    thread.join(10)
    assert taken == ["standby", "active", "active", "active", "active", "standby"]
    assert said == ["not active yet: it hangs"]


FOLLOWS = """\
import sys, time
from pathlib import Path
from dnsteer.cli import main
from dnsteer.deploy import vrrp

def take(role):
    print("takes", role, flush=True)
    time.sleep(0.3)
    print("took", role, flush=True)

main._install_signal_handlers()
with Path(sys.argv[1]).open() as lines:
    vrrp.follow(lines, None, take, print)
"""


@pytest.mark.parametrize("early", [True, False], ids=["before the last state", "while it stands by"])
def test_requests_to_end_do_not_keep_it_from_standing_by(tmp_path: Path, early: bool) -> None:
    """keepalived's and systemd's come within milliseconds."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    argv = [sys.executable, "-c", FOLLOWS, str(fifo)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as follower:
        assert follower.stdout is not None
        with fifo.open("w", buffering=1) as stream:
            stream.write('INSTANCE "dns" MASTER 101\n')
            said = [follower.stdout.readline(), follower.stdout.readline()]
            if not early:
                stream.write('INSTANCE "dns" STOP 101\n')
                said.append(follower.stdout.readline())
            follower.send_signal(signal.SIGTERM)
            time.sleep(0.005)
            follower.send_signal(signal.SIGTERM)
            if early:
                time.sleep(0.1)
                stream.write('INSTANCE "dns" STOP 101\n')
            said += follower.stdout.readlines()
    assert [line.strip() for line in said] == ["takes active", "took active", "takes standby", "took standby"]
