"""Directories of private switches: locked while in use, and removed at the next start when nobody holds the lock any more.

A process that is killed cannot remove its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "dnsteer-"
"""What the names of the directories begin with."""

_LOCK = "lock"


def new_directory() -> tuple[Path, int | None]:
    """Make a directory, and the descriptor that holds it until it is closed. Raises OSError.

    With DNSTEER_KEEP in the environment there is none: the directory is to stay.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX)).absolute()
        if "DNSTEER_KEEP" in os.environ:
            return folder, None
        lock = folder / _LOCK
        held = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        if lock.exists():
            return folder, held
        os.close(held)  # removed by another process, which took the lock in between


def remove_leftovers() -> None:
    """Remove this user's directories whose process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or somebody else removes it now
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
