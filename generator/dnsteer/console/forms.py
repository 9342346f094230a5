# SPDX-License-Identifier: Apache-2.0
"""Forms that browsers send: read in bounded time and memory, and only those that a page of this console has sent.

Starlette's own parser needs another package; forms here are urlencoded alone, which the standard library reads.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

MAX_FORM_BYTES = 64 << 10
"""Largest form."""
FORM_TIMEOUT = 10.0
"""Seconds in which a form must have come whole."""
_KIND = "application/x-www-form-urlencoded"
_MAX_FIELDS = 32


class FormError(Exception):
    """A form that is refused: the status of HTTP, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def read_form(request: Request, most: int = MAX_FORM_BYTES, thread: Executor | None = None) -> Mapping[str, str]:
    """The fields of a form of at most so many bytes; large ones are parsed in a *thread*. Raises FormError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _KIND:
        raise FormError(415, f"expected a form ({_KIND})")
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > most:
        raise FormError(413, f"expected a form of at most {most >> 10} KiB")
    try:
        data = await asyncio.wait_for(_body(request, most), FORM_TIMEOUT)
    except (asyncio.TimeoutError, TimeoutError):
        raise FormError(408, f"the form did not come within {FORM_TIMEOUT:g} s") from None
    except ClientDisconnect:
        raise FormError(400, "the browser went away") from None
    if thread is None:
        return _fields(data)
    return await asyncio.get_running_loop().run_in_executor(thread, _fields, data)


def _fields(data: bytes) -> Mapping[str, str]:
    """The fields of a form. Raises FormError."""
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except (ValueError, UnicodeError):
        raise FormError(400, "the form cannot be read") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise FormError(400, "the form has a field twice")
    return fields


async def _body(request: Request, most: int) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise FormError(413, f"expected a form of at most {most >> 10} KiB")
    return bytes(data)


def is_same_origin(scope: Mapping[str, Any]) -> bool:
    """Whether a browser says that a page of this console sent the request. Programs send neither header, and no form."""
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value)
    site, origin = headers.get(b"sec-fetch-site", []), headers.get(b"origin", [])
    own = scope["scheme"].encode() + b"://" + headers.get(b"host", [b""])[0]
    if site not in ([], [b"same-origin"]) or (not site and not origin):
        return False
    return origin == [] or (len(origin) == 1 and origin[0].lower() == own.lower())


def has_session_token(fields: Mapping[str, str], csrf: str) -> bool:
    """Whether a form carries the word of its session."""
    return bool(csrf) and hmac.compare_digest(fields.get("csrf", "").encode(), csrf.encode())
