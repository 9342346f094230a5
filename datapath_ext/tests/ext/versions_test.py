# SPDX-License-Identifier: Apache-2.0
"""Which releases of DOCA the program is built against: python3 versions_test.py HEADERS SOURCES COMPILER...

The model's headers are given the version of each; others than those whose calls are known are refused by name, unless the
builder chooses a release's calls.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HEADERS, SOURCES, COMPILER = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-DDOCA_ALLOW_EXPERIMENTAL_API", "-fsyntax-only"]
TRY = "To try those of 3.3: meson setup -Ddoca_api=33"
CASES = [
    ((3, 3), [], ""),
    ((3, 1), [], "found a DOCA before 3.2 (doca_version.h), expected 3.2 or 3.3: install one of these"),
    ((2, 9), [], "found a DOCA before 3.2 (doca_version.h), expected 3.2 or 3.3: install one of these"),
    ((3, 4), [], f"found DOCA 3.4, expected 3.2 or 3.3: its calls were not compared. {TRY}"),
    ((3, 5), [], f"found DOCA 3.5, expected 3.2 or 3.3: its calls were not compared. {TRY}"),
    ((3, 6), [], "found a DOCA after 3.5 (doca_version.h), expected 3.2 or 3.3. To try the calls of 3.3"),
    ((4, 0), [], "found a DOCA after 3.5 (doca_version.h), expected 3.2 or 3.3. To try the calls of 3.3"),
    ((3, 4), ["-DCOMPAT_API=33"], ""),
    ((4, 0), ["-DCOMPAT_API=33"], ""),
    ((3, 3), ["-DCOMPAT_API=34"], "COMPAT_API: expected 32 or 33"),
]


def compile_for(version, options):
    """What the compiler says of compat.c against headers of a *version*, and whether it takes it."""
    with tempfile.TemporaryDirectory() as directory:
        headers = Path(directory) / "include"
        shutil.copytree(HEADERS, headers)
        header = headers / "doca_version.h"
        text = header.read_text()
        for name, number in zip(("MAJOR", "MINOR"), version, strict=True):
            text, changed = re.subn(rf"(#define DOCA_VERSION_{name}) \d+", rf"\1 {number}", text)
            assert changed == 1, name
        header.write_text(text)
        command = [*COMPILER, *FLAGS, *options, "-I", str(headers), "-I", str(SOURCES), str(SOURCES / "compat.c")]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.returncode == 0, done.stderr


def main():
    failed = 0
    for version, options, expected in CASES:
        taken, said = compile_for(version, options)
        good = taken if not expected else (not taken and expected in said)
        failed += not good
        if not good:
            print(f"{version} {options}: expected {expected or 'that it compiles'!r}, found:\n{said}")
    print(f"{len(CASES)} versions and choices, {failed} failed")
    return failed > 0


sys.exit(main())
