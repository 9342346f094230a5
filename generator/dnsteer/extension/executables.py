# SPDX-License-Identifier: Apache-2.0
"""Find the extension's executables: `dnsteer-ext`, which serves, and `dnsteer-ext-frames`, which `dnsteer check` runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dnsteer.switch.tools import SwitchError

FOLDER = "DNSTEER_EXT"
"""Environment variable with the folder of the executables; unset: use a source checkout's build, else search the PATH."""
_BUILT = Path("build", "plain", "src")


def executable(name: str) -> Path:
    """Return the path of the extension's executable *name*. Raises SwitchError when it is not found."""
    given = os.environ.get(FOLDER)
    built = Path(__file__).resolve().parents[3] / _BUILT / name
    candidates = [Path(given) / name] if given else [built, Path(shutil.which(name) or built)]
    for path in candidates:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise SwitchError(
        f"no program {name}, which this spec needs: build it (`make extension` in a source checkout), or name its folder in "
        f"the environment variable {FOLDER}"
    )
