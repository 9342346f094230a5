"""Programs of name servers that tests need, and what becomes of a test where one is not installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

SET_UP = ("nsd", "named", "unbound")
"""Those that set-up installs (`scripts/packages.sh`)."""


def need_server(program: str) -> None:
    """Skip the test where the program is not installed. With CI=true fail it, if set-up installs the program: a skip there
    would hide that nothing was tried."""
    if shutil.which(program) is not None:
        return
    set_up = Path(program).name in SET_UP
    why = f"needs {program}: scripts/packages.sh{'' if set_up else ' servers'}"
    if set_up and os.environ.get("CI") == "true":
        pytest.fail(f"{why}; CI=true")
    pytest.skip(why)
