# SPDX-License-Identifier: Apache-2.0
"""Files that verbs write: whole or not at all, and an error names the file."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli.output import Exit
from dnsteer.render import atomic_files
from dnsteer.render.atomic_files import replace_files, write_file
from tests.unit.commands import SPEC, Command, files_of_at_most

EARLIER = "what was there before\n"
HARDWARE = ["--hardware", "bluefield-3"]
WRITERS = {
    "lint": lambda file: ["lint", SPEC, "--sarif", str(file)],
    "capacity": lambda file: ["capacity", SPEC, *HARDWARE, "--frame", "64", "--plot", str(file)],
}
FOLDERS = {
    "render": ("flows.txt", lambda folder: ["render", SPEC, "-o", str(folder), "--force"]),
    "bringup": ("bringup.sh", lambda folder: ["bringup", SPEC, "-o", str(folder), "--force"]),
}


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("verb", WRITERS)
def test_a_file_that_cannot_be_written_stays_as_it_was(
    verb: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = atomic_files._beside

    def limited(*args: Any) -> Path:
        with files_of_at_most(512):  # not sooner: the private switch has files too
            return beside(*args)

    monkeypatch.setattr(atomic_files, "_beside", limited)
    file = tmp_path / "out.svg"
    file.write_text(EARLIER)
    code, _, said = command(*WRITERS[verb](file))
    assert (code, said.splitlines()[-1]) == (Exit.ERROR, f"dnsteer: {file}: File too large")
    assert file.read_text() == EARLIER
    assert names(tmp_path) == ["out.svg"]


@pytest.mark.parametrize("verb", FOLDERS)
def test_a_folder_that_cannot_be_written_stays_as_it_was(verb: str, tmp_path: Path, command: Command) -> None:
    """Not one file is new where there is no room for the last one."""
    last, argv = FOLDERS[verb]
    with files_of_at_most(64):
        code, shown, said = command(*argv(tmp_path / "new"))
    assert (code, shown) == (Exit.ERROR, "")
    assert said.startswith(f"dnsteer: {tmp_path / 'new'}/")
    assert said.endswith(": File too large\n")
    assert not (tmp_path / "new").exists()
    assert command(*argv(tmp_path))[0] == Exit.OK
    size = max(f.stat().st_size for f in tmp_path.iterdir())
    for file in tmp_path.iterdir():
        file.write_text(EARLIER)
    before = names(tmp_path)
    with files_of_at_most(size - 1):
        code, _, said = command(*argv(tmp_path))
    assert (code, said.count("\n"), said.endswith(": File too large\n")) == (Exit.ERROR, 1, True)
    assert names(tmp_path) == before
    assert {f.read_text() for f in tmp_path.iterdir()} == {EARLIER}
    assert last in before


@pytest.mark.root("a small file system")
@pytest.mark.parametrize("verb", [*WRITERS, *FOLDERS])
def test_a_full_disk_keeps_the_earlier_file(verb: str, tmp_path: Path, command: Command) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", disk], check=True)
    try:
        file = disk / "out.svg"
        file.write_text(EARLIER)
        with pytest.raises(OSError, match="space"):
            write_to_the_end(disk / "full")
        argv = WRITERS[verb](file) if verb in WRITERS else FOLDERS[verb][1](disk)
        code, _, said = command(*argv)
        assert code == Exit.ERROR
        assert said.splitlines()[-1].startswith(f"dnsteer: {disk}/")
        assert said.endswith(": No space left on device\n")
        assert file.read_text() == EARLIER
        assert names(disk) == ["full", "out.svg"]
    finally:
        subprocess.run(["umount", disk], check=True)


def write_to_the_end(file: Path) -> None:
    with file.open("wb", buffering=0) as out:
        for _ in range(1024):
            out.write(b"x" * 1024)


@pytest.mark.parametrize("verb", WRITERS)
def test_a_device_that_is_full_is_named(verb: str, tmp_path: Path, command: Command) -> None:
    link = tmp_path / "out.svg"  # a plot's name ends so
    link.symlink_to("/dev/full")
    code, _, said = command(*WRITERS[verb](link))
    assert (code, said.splitlines()[-1]) == (Exit.ERROR, f"dnsteer: {link}: No space left on device")
    assert link.is_char_device()


def test_one_failed_file_replaces_none(tmp_path: Path) -> None:
    files = {tmp_path / name: b"new" * size for name, size in (("a", 1), ("b", 2), ("c", 999))}
    for file in files:
        file.write_text(EARLIER)
    with files_of_at_most(500), pytest.raises(OSError, match="File too large") as caught:
        replace_files(files)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "c"))
    assert [f.read_text() for f in files] == [EARLIER] * 3
    assert names(tmp_path) == ["a", "b", "c"]


def test_file_modes_follow_umask_or_are_kept(tmp_path: Path) -> None:
    """A new file is as the umask says, one that was there keeps its mode: both as with a plain write."""
    new, plain, secret = (tmp_path / name for name in ("new", "plain", "secret"))
    plain.write_text("")
    secret.write_text("")
    secret.chmod(0o600)
    for file in (new, secret):
        write_file(file, "text")
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.root("to give a file away")
def test_the_owner_of_a_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    os.chown(file, 65534, 65534)
    write_file(file, "text")
    assert (file.stat().st_uid, file.stat().st_gid, file.read_text()) == (65534, 65534, "text")


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_file(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links") as caught:
        write_file(tmp_path / "a", "text")
    assert caught.value.filename == str(tmp_path / "a")


@pytest.mark.parametrize("name", ["", "none/file"])
def test_impossible_file_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=str(tmp_path)) as caught:
        write_file(tmp_path / name, "text")
    assert caught.value.filename == str(tmp_path / name)
    assert names(tmp_path) == []


def test_a_pipe_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, got = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write_file(pipe, "text" * 50_000)
    reader.join(30)
    assert (got, pipe.is_fifo()) == (["text" * 50_000], True)
    monkeypatch.setattr(atomic_files, "PATIENCE", 0.1)
    with pytest.raises(OSError, match=r"a pipe that nobody reads \(0.1 s waited\)"):
        write_file(pipe, "text")


def test_dev_stdout_is_written(tmp_path: Path) -> None:
    """What is open already is written to, and not replaced under whoever opened it."""
    with (tmp_path / "file").open("w") as stream:
        before = os.fstat(stream.fileno()).st_ino
        write_file(Path(f"/proc/self/fd/{stream.fileno()}"), "text")
        assert (tmp_path / "file").stat().st_ino == before
    assert (tmp_path / "file").read_text() == "text"
