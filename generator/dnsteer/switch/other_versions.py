# SPDX-License-Identifier: Apache-2.0
"""How messages name a program of another version, by what was read of it. Imports nothing that takes long to load."""

from __future__ import annotations

import re

_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,40}")


def program_of(version: object) -> str:
    """`dnsteer 0.2.0`, or `another dnsteer` where *version* is none: it may hold whatever somebody has written."""
    return f"dnsteer {version}" if isinstance(version, str) and _VERSION.fullmatch(version) else "another dnsteer"
