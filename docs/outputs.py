# SPDX-License-Identifier: Apache-2.0
"""The outputs of commands that README.md and docs/*.md show, made by running the commands. Used by docs/generate.py.

A comment before an indented block says where the block is from:

    <!-- output -->             commands after `$ `, and below each what it prints
    <!-- output: COMMAND -->    what the command prints; ` | grep PATTERN` keeps the lines that the pattern is in
    <!-- run: COMMAND -->       not shown, only run; no block follows
    <!-- kept: REASON -->       not made here

`output 1: ...` or `run 1: ...` is for a command that is to end with exit code 1. The commands of a page run one after the
other, in a folder with examples/ and FILES, on a private switch of the page. A line `...` in a block stays: it stands for all
lines between those that are shown above and below it. Lines longer than WIDTH are cut, and end in ` ...`. A block
that shows an output of dnsteer and has no such comment is an error.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from io import StringIO
from pathlib import Path

from dnsteer.cli import main
from dnsteer.deploy import decision
from dnsteer.switch.private_switch import PrivateSwitch

WIDTH = 150
"""Columns of a line, without the block's indent."""
_INDENT = "    "
_MARK = re.compile(r"<!-- (output|run|kept)(?: (\d+))?(?:: (.*))? -->\s*\Z")
_GOOD = {0, 2}  # 2: the switch differs, there are warnings
_SHOWS = re.compile(
    r"\$ dnsteer |dnsteer: |warning: |drift: |interrupted: |FAILED |(?:view|query|bridge|state|applied|tables|program) {2,}\S"
    r"|br-dns: |\S+\.yaml(?::\d+)?: |.* flows, \d+ groups on Open vSwitch"
)
"""How lines begin that dnsteer prints."""

BAD = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks: {p0: }
pools:
  resolvers:
    backends:
      - {name: ns1, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01, weight: heavy}
vips:
  dns: {addresses: [192.0.2.53], services: [dnss], pool: resolvers, forwardin: dsr}
"""

BAD_VARIABLE = """\
apiVersion: dnsteer/v1
vars:
  site: 300
switch: {flavor: ovs-netdev, bridge: br-dns, mac: 02:00:00:00:00:53, uplinks: {p0: }}
pools:
  resolvers:
    backends:
      - {name: ns1, ipv4: "10.53.${site}.11", mac: 02:00:00:00:01:01}
      - {name: ns2, ipv4: "10.53.${site}.12", mac: 02:00:00:00:01:02}
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: resolvers}
"""


class OutputError(Exception):
    """A block that cannot be made; the message names file and line."""


@dataclass
class _Block:
    """The lines of an indented block, without indent, and where they are in the page."""

    first: int
    last: int
    lines: list[str]


def files(root: Path) -> dict[str, str]:
    """The specs that the pages name, besides examples/."""
    quickstart = (root / "examples" / "quickstart.yaml").read_text(encoding="utf-8")
    ns2 = re.search(r".*name: ns2,.*", quickstart)
    assert ns2 is not None
    return {
        "new.yaml": quickstart.replace(ns2[0], ns2[0].replace("weight: 2", "weight: 5")),
        "bad.yaml": BAD,
        "bad-variable.yaml": BAD_VARIABLE,
    }


def page(root: Path, name: str) -> str:
    """The page *name* with all outputs made anew. Raises OutputError."""
    lines = (root / name).read_text(encoding="utf-8").split("\n")
    out: list[str] = []
    at = 0
    with _Shell(root) as shell:
        while at < len(lines):
            mark = _MARK.match(lines[at])
            block = _block(lines, at + 1 if mark else at)
            if mark is None and block is not None and block.first == at:
                _must_not_show(block, f"{name}:{at + 1}")
                out += lines[at : block.last]
                at = block.last
                continue
            out.append(lines[at])
            at += 1
            if mark is None or mark[1] == "kept" or mark[1] == "run":
                if mark is not None and mark[1] == "run":
                    shell.run(mark[3], int(mark[2] or 0), f"{name}:{at}")
                elif mark is not None and block is not None:
                    out += lines[at : block.last]
                    at = block.last
                continue
            if block is None:
                raise OutputError(f"{name}:{at}: found no indented block after this comment")
            out += lines[at : block.first]
            made = _made(block, mark, shell, name)
            out += [(_INDENT + line).rstrip() for line in made]
            at = block.last
    return "\n".join(out)


def _block(lines: list[str], at: int) -> _Block | None:
    """The indented block that begins at line *at*, or after empty ones; a fence is none."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at >= len(lines) or not lines[at].startswith(_INDENT):
        return None
    last = at
    for n in range(at, len(lines)):
        if lines[n].strip() and not lines[n].startswith(_INDENT):
            break
        if lines[n].strip():
            last = n + 1
    return _Block(at, last, [line[len(_INDENT) :] for line in lines[at:last]])


def _must_not_show(block: _Block, where: str) -> None:
    for line in block.lines:
        if _SHOWS.match(line):
            raise OutputError(
                f"{where}: found {line[:60]!r} in a block without a comment that says which command makes it; "
                "docs/outputs.py says how"
            )


def _made(block: _Block, mark: re.Match[str], shell: _Shell, name: str) -> list[str]:
    """The lines of a block, made by its commands."""
    code = int(mark[2] or 0)
    if mark[3]:
        return _cut(shell.run(mark[3], code, f"{name}:{block.first}"), block.lines, f"{name}:{block.first}")
    out: list[str] = []
    starts = [n for n, line in enumerate(block.lines) if line.startswith("$ ")]
    if not starts or starts[0] != 0:
        raise OutputError(f"{name}:{block.first + 1}: found no command; expected a block that begins with `$ `")
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        where = f"{name}:{block.first + start + 1}"
        shown = block.lines[start + 1 : end]
        printed = shell.run(
            re.sub(r"\s+#\s.*", "", block.lines[start][2:]), code if end == len(block.lines) else 0, where
        )
        out += [block.lines[start], *_cut(printed, shown, where)]
        while shown and not shown[-1].strip():  # between commands
            out.append("")
            shown.pop()
    return out


def _cut(printed: list[str], shown: list[str], where: str) -> list[str]:
    """*printed*, with long lines cut, and left out what the block as *shown* leaves out."""
    printed = [line if len(line) <= WIDTH else line[: WIDTH - 4].rstrip() + " ..." for line in printed]
    while shown and not shown[-1].strip():
        shown = shown[:-1]
    gaps = [n for n, line in enumerate(shown) if line.strip() == "..."]
    if not gaps:
        return printed
    if len(gaps) > 1:
        raise OutputError(f"{where}: found several lines `...`; expected one for each command")
    above, below = gaps[0], len(shown) - gaps[0] - 1
    if above + below >= len(printed):
        raise OutputError(f"{where}: found `...`, and the command prints {len(printed)} lines: nothing is left out")
    return [*printed[:above], shown[gaps[0]], *printed[len(printed) - below :]]


class _Shell:
    """Runs the commands of one page."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._began = datetime.now(timezone.utc)
        self._switch: PrivateSwitch | None = None
        self._made = 0
        """Commands of dnsteer so far, by which the ids of their decisions are the same each time."""

    def __enter__(self) -> _Shell:
        self._folder = Path(tempfile.mkdtemp(prefix="dnsteer-docs-"))
        shutil.copytree(self._root / "examples", self._folder / "examples")
        for name, text in files(self._root).items():
            (self._folder / name).write_text(text, encoding="utf-8")
        return self

    def __exit__(self, *error: object) -> None:
        if self._switch is not None:
            self._switch.__exit__(None, None, None)
        shutil.rmtree(self._folder)

    def _environment(self) -> dict[str, str]:
        """What a command needs to find the page's switch, which starts when it is asked for."""
        if self._switch is None:
            self._switch = PrivateSwitch()
            self._switch.__enter__()
        return {"DNSTEER_DB": self._switch.database, **self._switch.env}

    def run(self, command: str, code: int, where: str) -> list[str]:
        """The lines that a command prints. Raises OutputError when it ends with another exit code."""
        command, _, pattern = command.partition(" | grep ")
        program, *words = shlex.split(command)
        found, text = self._dnsteer(words) if program == "dnsteer" else self._other(program, words)
        if found != code and not (code == 0 and found in _GOOD):
            raise OutputError(f"{where}: {command}: found exit code {found}; expected {code}. It printed:\n{text}")
        lines = self._usual(text).split("\n")
        if pattern:
            lines = [line for line in lines if re.search(shlex.split(pattern)[0], line)]
        while lines and not lines[0].strip():
            lines.pop(0)
        while lines and not lines[-1].strip():
            lines.pop()
        return [line.rstrip() for line in lines]

    def _dnsteer(self, words: list[str]) -> tuple[int, str]:
        """In this process, which is quicker. Standard output and error come as in a terminal."""
        said, argv, environ, here, host = StringIO(), sys.argv, dict(os.environ), Path.cwd(), socket.gethostname
        quick = {"check", "lint", "capacity", "render", "bringup", "schema", "version"}
        needs = not (words[0] in quick or (words[0] == "explain" and "--live" not in words) or "--db" in words)
        for key in [k for k in os.environ if k.startswith("DNSTEER_") or k in ("COLUMNS", "SUDO_USER")]:
            del os.environ[key]
        os.environ.update({"LOGNAME": "root", **(self._environment() if needs else {})})
        sys.argv, socket.gethostname = ["dnsteer", *words], lambda: "vm"  # as tables are as wide as names
        ids, self._made = decision.IDS.next, self._made + 1
        decision.IDS.next = lambda: f"d21gepscb{self._made:03}"  # type: ignore[method-assign]
        os.chdir(self._folder)
        try:
            with redirect_stdout(said), redirect_stderr(said):
                code = main._run()
        finally:
            sys.argv, socket.gethostname = argv, host
            decision.IDS.next = ids  # type: ignore[method-assign]
            os.chdir(here)
            os.environ.clear()
            os.environ.update(environ)
        return code, said.getvalue()

    def _other(self, program: str, words: list[str]) -> tuple[int, str]:
        env = {**os.environ, **self._environment()}
        if program == "ovs-appctl" and self._switch is not None:
            return 0, self._switch.appctl(words[0], *words[1:])
        done = subprocess.run([program, *words], cwd=self._folder, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def _usual(self, text: str) -> str:
        """The text with what is another each time as it was once. Nothing else is touched."""
        for pattern, usual in (
            (r"(?m); \d+\.\d s$", "; 1.1 s"),
            (r"Open vSwitch \d+\.\d+\.\d+", "Open vSwitch 3.1.0"),
            (r"\(\d+ s ago\)", "(7 s ago)"),
            (r"(?m)^(Datapath actions: .*,)\d+$", r"\g<1>1"),  # the datapath numbers its ports as they come
        ):
            text = re.sub(pattern, usual, text)
        text = text.replace(str(self._folder), "/root")
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?[+]00:00", self._moment, text)
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?=  )", self._second, text)
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(?= UTC|  |$)", self._minute, text, flags=re.M)

    def _since(self, when: datetime) -> timedelta:
        """Whole hours since the page began, as of drains that are to end."""
        return timedelta(hours=round((when - self._began).total_seconds() / 3600))

    def _minute(self, found: re.Match[str]) -> str:
        when = datetime.strptime(found[0], "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc)
        return (_THEN + self._since(when)).strftime("%Y-%m-%d %H:%M")

    def _second(self, found: re.Match[str]) -> str:
        then = _THEN + self._since(datetime.fromisoformat(f"{found[0]}+00:00"))
        return then.strftime("%Y-%m-%d %H:%M:07")

    def _moment(self, found: re.Match[str]) -> str:
        then = _THEN + self._since(datetime.fromisoformat(found[0]))
        return then.strftime("%Y-%m-%dT%H:%M:07.000+00:00")


_THEN = datetime(2026, 11, 21, 15, 7, tzinfo=timezone.utc)
