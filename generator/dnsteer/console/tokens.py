# SPDX-License-Identifier: Apache-2.0
"""Tokens of the console: the file that holds their hashes, and what a browser or program shows is compared with.

Only the hash of a token is kept. A token has 256 random bits, so that a plain SHA-256 of it cannot be guessed from.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dnsteer.render.atomic_files import naming, replace_files
from dnsteer.switch.tools import SwitchError

Role = Literal["read", "change"]
ROLES: tuple[Role, ...] = ("read", "change")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FORM = "NAME ROLE SHA256"
PREFIX = "dnsteer-"
"""What tokens begin with, so that one that was published by mistake is found by a search."""
MAX_TOKEN_FILE_BYTES = 1 << 20
"""Largest file that is read."""
_HASH = re.compile(r"[0-9a-f]{64}")
_AGAIN = 1.0
"""Seconds for which the file is not looked at again."""
_MAKE = "make one with: dnsteer console-token NAME --role read"


@dataclass(frozen=True)
class Token:
    """A token: whose it is, what it allows, and its SHA-256 in hexadecimal."""

    name: str
    role: Role
    digest: str

    @property
    def line(self) -> str:
        """Its line in the file."""
        return f"{self.name} {self.role} {self.digest}"


def digest_of(secret: str) -> str:
    """The SHA-256 of a token, in hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_token(name: str, role: Role) -> tuple[str, Token]:
    """Make a token: the secret, which is shown once, and what is kept of it."""
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, Token(name, role, digest_of(secret))


def read_tokens(file: Path) -> tuple[Token, ...]:
    """Read a file of tokens. Raises SwitchError that names file and line, what was found and what to do."""
    return _parse(file, _read(file))


def append_token(file: Path, token: Token) -> None:
    """Add a token to a file, which is made where there is none, for its owner only; whole or not at all.

    Raises SwitchError where the file is none of tokens or has the name already, and OSError.
    """
    text = _read(file) if file.exists() else ""
    known = _parse(file, text, may_be_empty=True)
    if token.name in (other.name for other in known):
        raise SwitchError(f"{file}: has a token {token.name} already; give another name, or remove that line first")
    text += "" if not text or text.endswith("\n") else "\n"
    replace_files({file: f"{text}{token.line}\n".encode()}, {file: 0o600})


def _read(file: Path) -> str:
    with naming(file), file.open("rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise SwitchError(f"{file}: expected a file of tokens, found something that is no file")
        if stat.S_IMODE(found.st_mode) & 0o077:
            mode = stat.S_IMODE(found.st_mode)
            raise SwitchError(f"{file}: others than its owner may use it (mode {mode:04o}): chmod 600 {file}")
        if found.st_uid not in (0, os.geteuid()):
            raise SwitchError(f"{file}: belongs to user {found.st_uid}; expected root or the agent's user: chown it")
        data = stream.read(MAX_TOKEN_FILE_BYTES + 1)
    if len(data) > MAX_TOKEN_FILE_BYTES:
        raise SwitchError(
            f"{file}: found more than {MAX_TOKEN_FILE_BYTES >> 20} MiB; expected a line for each token: {FORM}"
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SwitchError(f"{file}: found what is not UTF-8; expected a line for each token: {FORM}") from None


def _parse(file: Path, text: str, *, may_be_empty: bool = False) -> tuple[Token, ...]:
    found: dict[str, Token] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{file}:{number}"
        if len(words) != 3:
            raise SwitchError(f"{where}: found {len(words)} words; expected {FORM} ({_MAKE})")
        name, role, digest = words
        if not NAME.fullmatch(name):
            raise SwitchError(f"{where}: found the name {name[:70]!a}; expected letters, digits and . _ -, at most 64")
        if role not in ROLES:
            raise SwitchError(f"{where}: found the role {role[:20]!a}; expected read or change")
        if not _HASH.fullmatch(digest):
            # Without what was found: it may be the token itself.
            raise SwitchError(f"{where}: found no SHA-256 after the role; expected 64 digits 0-9 and a-f ({_MAKE})")
        if name in found:
            raise SwitchError(f"{where}: found the name {name} a second time; expected each name once")
        found[name] = Token(name, role, digest)
    if not found and not may_be_empty:
        raise SwitchError(f"{file}: found no token, so that nobody could sign in; {_MAKE} --append {file}")
    return tuple(found.values())


class TokenFile:
    """The tokens of a file, read again when it changes. As long as it cannot be read, no token is valid: *log* says so."""

    def __init__(self, file: Path, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file. Raises SwitchError and OSError."""
        self._file, self._log, self._clock = file.absolute(), log, clock
        self._tokens: Sequence[Token] = read_tokens(self._file)
        self._seen, self._looked, self._wrong = _signature(self._file), clock(), ""

    def tokens(self) -> Sequence[Token]:
        """The tokens that are valid now."""
        now = self._clock()
        if now - self._looked >= _AGAIN:
            self._looked = now
            signature = _signature(self._file)
            if signature != self._seen:
                self.read_again()
        return self._tokens

    def find(self, secret: str) -> Token | None:
        """The token of a secret. Takes as long whichever it is, and whether it is one."""
        digest, found = digest_of(secret), None
        for token in self.tokens():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def has(self, token: Token) -> bool:
        """Whether a token that was found before is valid still."""
        return token in self.tokens()

    def read_again(self) -> None:
        """Read the file again, whether it has changed or not."""
        self._seen = _signature(self._file)
        try:
            self._tokens, wrong = read_tokens(self._file), ""
        except (SwitchError, OSError) as error:
            self._tokens = ()
            wrong = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        if wrong:
            self._log(f"console: no token is valid until this is put right: {wrong}")
        else:
            self._log(f"console: tokens read again: {len(self._tokens)}")
        self._wrong = wrong


def _signature(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode, found.st_uid
