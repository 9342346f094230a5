# SPDX-License-Identifier: Apache-2.0
"""Programs of name servers that tests need, and what becomes of a test where one is not installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

SET_UP = ("nsd", "named", "unbound")
"""Those that set-up installs (`scripts/packages.sh`)."""


def need_server(program: str) -> None:
    """Skip the test where the program is not installed. With CI=true fail it, if set-up installs the program: a skip there
    would hide that nothing was tried."""
    if shutil.which(program) is None:
        leave_out(program, f"needs {program}: scripts/packages.sh{'' if _is_set_up(program) else ' servers'}")


def leave_out(program: str, why: str) -> NoReturn:
    """Skip the test, which cannot try the program; with CI=true fail it, if set-up installs the program."""
    if _is_set_up(program) and os.environ.get("CI") == "true":
        pytest.fail(f"{why}; CI=true")
    pytest.skip(why)


def _is_set_up(program: str) -> bool:
    return Path(program).name in SET_UP
