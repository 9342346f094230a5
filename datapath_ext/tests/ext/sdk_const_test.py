# SPDX-License-Identifier: Apache-2.0
"""The program compiles, without a warning, where no member of the library's structures points to something const, as in
the SDK: python3 sdk_const_test.py HEADERS SOURCES COMPILER...

A copy of the model's headers gets the SDK's constness; if they have it already, this is what every build checks."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HEADERS, SOURCES, COMPILER = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
MEMBER = re.compile(r"^([ \t]+)const (struct \w+ \*\w+;)", re.MULTILINE)  # parameters end with a comma or a bracket
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-DDOCA_ALLOW_EXPERIMENTAL_API", "-DDNSTEER_ON_MODEL", "-fsyntax-only"]
WARNINGS = ["-Werror", "-Wall", "-Wextra", "-Wpedantic", "-Wcast-qual", "-Wdiscarded-qualifiers", "-Wwrite-strings"]


def main():
    sources = sorted(path for path in SOURCES.rglob("*.c") if path.name != "platform_dpdk.c")  # needs DPDK
    assert len(sources) > 20, sources
    with tempfile.TemporaryDirectory() as directory:
        headers = Path(directory) / "include"
        shutil.copytree(HEADERS, headers)
        changed, members = 0, set[str]()
        for header in headers.glob("*.h"):
            text, count = MEMBER.subn(r"\1\2", header.read_text())
            header.write_text(text)
            changed += count
            members |= {line.strip() for line in text.splitlines()}
        assert {"struct doca_flow_ordered_list_element *elements;", "struct doca_flow_nat64_action *nat64;"} <= members
        failed = 0
        for source in sources:
            command = [*COMPILER, *FLAGS, *WARNINGS, "-I", str(headers), "-I", str(SOURCES), str(source)]
            failed += subprocess.run(command, check=False).returncode != 0
    print(f"{len(sources)} files, {changed} members made as in the SDK, {failed} failed")
    return failed > 0


sys.exit(main())
