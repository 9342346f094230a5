# SPDX-License-Identifier: Apache-2.0
"""Atomic writes: a file is written completely or left as it was, and errors name it."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PATIENCE = 5.0
"""Seconds to wait for a reader to open a pipe."""
_POLL = 0.02
_OPEN_ALREADY = ("/dev/std", "/dev/fd/", "/proc/")


def write_file(file: Path, content: str | bytes) -> None:
    """Write *file*, text as UTF-8. After an error an existing file is unchanged, and no temporary file is left behind.

    A symbolic link is followed. Devices, pipes and open descriptors (/dev/stdout) are written to directly. Raises OSError
    that names the file, also when the disk is full or no reader opens a pipe within PATIENCE seconds.
    """
    data = content.encode() if isinstance(content, str) else content
    other = file.exists() and not file.is_file() and not file.is_dir()
    if other or str(file.absolute()).startswith(_OPEN_ALREADY):
        with naming(file):
            _write_to(file, data)
    else:
        replace_files({file: data})


def replace_files(contents: Mapping[Path, bytes], modes: Mapping[Path, int] | None = None) -> None:
    """Write all these files; none is replaced before all are on the disk. Raises OSError that names the file.

    *modes* has the permissions by file; without one an existing file keeps its own, and a new one follows the umask.
    """
    ready: list[tuple[Path, Path, Path]] = []
    with ExitStack() as scraps:
        for file, data in contents.items():
            with naming(file):
                target = Path(os.path.realpath(file))
                ready.append((file, _beside(target, data, (modes or {}).get(file), scraps), target))
        for file, temporary, target in ready:
            with naming(file):
                temporary.replace(target)


@contextmanager
def naming(file: Path | str) -> Iterator[None]:
    """Make every OSError name *file*: one from a write names no file, and a temporary name means nothing to the user."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(file)) from error


def _beside(target: Path, data: bytes, mode: int | None, scraps: ExitStack) -> Path:
    """Write *data* to a temporary file next to *target*, to replace it; *scraps* removes the file if it does not."""
    refused = errno.ELOOP if target.is_symlink() else errno.EISDIR if target.is_dir() else 0
    if refused:  # realpath stops at links that lead to each other
        raise OSError(refused, os.strerror(refused))
    before = target.stat() if target.exists() else None
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:64]}.")
    scraps.callback(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(handle)  # a disk may find only now that it is full
        if before is not None:
            with suppress(PermissionError):
                os.fchown(handle, before.st_uid, before.st_gid)
        os.fchmod(handle, _mode(mode, before))
    return Path(name)


def _mode(mode: int | None, before: os.stat_result | None) -> int:
    if mode is not None:
        return mode
    if before is not None:
        return stat.S_IMODE(before.st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _write_to(file: Path, data: bytes) -> None:
    """Write to an existing device or pipe. A pipe is opened without blocking, since it may never have a reader."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            handle = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
            break
        except OSError as error:
            if error.errno != errno.ENXIO or not file.is_fifo():
                raise
            if time.monotonic() > until:
                raise OSError(error.errno, f"a pipe that nobody reads ({PATIENCE:g} s waited)") from None
            time.sleep(_POLL)
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
