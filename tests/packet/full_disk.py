# SPDX-License-Identifier: Apache-2.0
"""A database whose file can be kept from growing, which its server meets as a full disk."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dnsteer.switch.tools import find_program
from tests.packet.switches import Switch

NEVER = resource.RLIM_INFINITY
IGNORING = "#!/bin/sh\ntrap '' XFSZ\nexec {real} \"$@\"\n"
REFUSED = ["write failed", "I/O error"]
"""What the server logs."""


def leave(switch: Switch, size: int | None) -> None:
    """Leave so many bytes of room; None: enough."""
    limit = NEVER if size is None else (switch.dir / "conf.db").stat().st_size + size
    resource.prlimit(switch._processes["ovsdb-server"].pid, resource.RLIMIT_FSIZE, (limit, NEVER))


@contextmanager
def enduring(folder: Path) -> Iterator[None]:
    """Switches that are started here get an ovsdb-server that is not killed when it crosses its limit."""
    script = folder / "ovsdb-server"
    script.write_text(IGNORING.format(real=find_program("ovsdb-server")))
    script.chmod(0o755)
    with pytest.MonkeyPatch().context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        yield
