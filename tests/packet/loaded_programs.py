"""Programs of Open vSwitch that stay loaded (loaded_program.c), found before those of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dnsteer.switch.tools import program

SOURCE = Path(__file__).with_name("loaded_program.c")
PROGRAMS = ("ovs-ofctl", "ovs-vsctl", "ovsdb-tool")


@contextmanager
def loaded_programs() -> Iterator[str]:
    """Load them, and yield a PATH that begins with them."""
    folder = Path(tempfile.mkdtemp(prefix="dnsteer-tests-"))  # a short name: a socket's has at most 107 bytes
    try:
        library = folder / "loaded_program.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
        with ExitStack() as running:
            for name in PROGRAMS:
                real, socket = program(name), folder / f"{name}.socket"
                defines = [f'-DSOCKET="{socket}"', f'-DPROGRAM="{real}"']
                subprocess.run(["cc", "-static", "-O1", "-DCLIENT", *defines, "-o", folder / name, SOURCE], check=True)
                env = {**os.environ, "LD_PRELOAD": str(library), "LOADED_PROGRAM": str(socket)}
                loaded = subprocess.Popen([real], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
                running.enter_context(loaded)
                running.callback(loaded.kill)
                assert loaded.stdout is not None
                assert loaded.stdout.readline() == b"ready\n"
            yield os.pathsep.join([str(folder), os.environ["PATH"]])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
