# SPDX-License-Identifier: Apache-2.0
"""The program that takes the outer header off IP-in-IP packets, on the lab's name servers that tunnels lead to.

Its source is in datapath_ext/decap.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path

from dnsteer.lab import names
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.errors import LabCommandError, LabError, MissingProgramError
from dnsteer.lab.topology import Host, Topology

ANYONE = ("0.0.0.0/0", "::/0")
"""The prefixes of all senders: the lab's networks have no untrusted hosts."""

_HEADERS = {
    "bpf/bpf_helpers.h": "libbpf-dev",
    "bpf/bpf_endian.h": "libbpf-dev",
    "linux/bpf.h": "linux-libc-dev",
    "asm/types.h": "linux-libc-dev",
}
_PROGRAM = names.RUN_DIR / "decap.o"


def sources_dir() -> Path:
    """Return the directory of the program and of decapctl.py: in the installed package, or in a source checkout."""
    packaged = Path(str(resources.files("dnsteer"))) / "decap"
    found = packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "datapath_ext" / "decap"
    if not (found / "decap.bpf.c").is_file():
        raise LabError("decap.bpf.c is not there: tunnels to name servers need a source checkout of dnsteer")
    return found


def build(target: Path) -> None:
    """Compile the program to *target*. Raises MissingProgramError when clang or a header is not installed."""
    source = sources_dir() / "decap.bpf.c"
    headers = f"-I/usr/include/{platform.machine()}-linux-gnu"  # Debian's, where clang does not look for this target
    argv = ["clang", "-O2", "-g", "-target", "bpf", headers, "-Wall", "-Wextra", "-Werror", "-fno-caret-diagnostics"]
    try:
        run([*argv, "-c", str(source), "-o", str(target)], timeout=60)
    except LabCommandError as err:
        if isinstance(err.__cause__, FileNotFoundError):
            raise MissingProgramError({"clang": "clang"}) from err
        for header, package in _HEADERS.items():
            if f"'{header}' file not found" in str(err):
                raise MissingProgramError({header: package}) from err
        raise


def attach(
    namespace: str,
    device: str,
    program: Path,
    *,
    remotes: Iterable[str] = ANYONE,
    locals_: Iterable[str] = (),
    vips: Iterable[str] = (),
) -> None:
    """Attach *program* to *device*, replacing any that is attached, and let it decapsulate packets from *remotes*.

    *locals_* are the outer destinations, by default the device's global addresses; *vips* are the inner destinations, by
    default the global addresses of lo. So assign the addresses before calling this.
    """
    run(netns_exec(namespace, ["ip", "-force", "link", "set", "dev", device, "xdp", "obj", str(program), "sec", "xdp"]))
    options = [
        word
        for option, values in (("remote", remotes), ("local", locals_), ("vip", vips))
        for value in values
        for word in (f"--{option}", value)
    ]
    control = [sys.executable, str(sources_dir() / "decapctl.py")]
    run(netns_exec(namespace, [*control, "allow", device, *options]))


def attach_decap(topology: Topology, progress: Callable[[str], None]) -> None:
    """Attach the decapsulation program to every device that receives tunnels. The devices must have their addresses."""
    hosts = [host for host in topology.hosts if host.tunneled]
    if not hosts:
        return
    progress(f"attaching the decapsulation program on {len(hosts)} name servers (XDP)")
    build(_PROGRAM)
    for host in hosts:
        for segment in host.queries_by:
            attach(host.namespace, host.device(segment), _PROGRAM, remotes=_remotes(topology, host))


def _remotes(topology: Topology, host: Host) -> list[str]:
    """The only allowed tunnel sources: the extension's addresses, in the families that tunnels to *host* can use."""
    part = topology.spec.switch.extension
    assert part is not None
    own = {a.version for server in host.servers for a in server.addresses}
    return [str(a) for a in (part.ipv4, part.ipv6) if a is not None and a.version in own]
