# SPDX-License-Identifier: Apache-2.0
"""Sites of every kind as flags of `init`, and answers typed in a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

V4, V6 = "192.0.2.53", "2001:db8::53"
MACS = [f"02:00:00:00:01:0{n}" for n in (1, 2, 3)]
FAMILIES = {
    "v4": [(f"192.0.2.1{n}",) for n in (1, 2, 3)],
    "v6": [(f"2001:db8::1{n}",) for n in (1, 2, 3)],
    "both": [(f"192.0.2.1{n}", f"2001:db8::1{n}") for n in (1, 2, 3)],
}
VIPS = {"v4": [V4], "v6": [V6], "both": [V4, V6]}
GATEWAYS = {"v4": ["192.0.2.1"], "v6": ["2001:db8::1"], "both": ["192.0.2.1", "2001:db8::1"]}
PROBES = {"v4": ["192.0.2.9/24"], "v6": ["2001:db8::9/64"], "both": ["192.0.2.9/24", "2001:db8::9/64"]}
NEXT_HOP = "02:00:00:00:00:fe"
SITES = [
    ("dsr", False, False),
    ("dsr", True, False),
    ("nat", False, True),
    ("nat", True, True),
    ("resolvers", False, False),
    ("resolvers", True, False),
    ("resolvers", True, True),
]
"""Kinds of sites, each with whether there are probes and whether answers pass the switch."""


def flags(site: str, families: str, *, probe: bool = False, nat: bool = False) -> list[str]:
    """The flags of a site with three servers."""
    words = ["init", "--site", site, "--flavor", "ovs-netdev", "--name", "dpu-1"]
    words += [word for vip in VIPS[families] for word in ("--vip", vip)]
    for n, addresses in enumerate(FAMILIES[families]):
        words += ["--backend", ",".join([f"ns{n + 1}", *addresses, MACS[n]])]
    if nat:
        words += ["--next-hop", NEXT_HOP, *(word for gateway in GATEWAYS[families] for word in ("--gateway", gateway))]
    return (
        words
        + ([word for one in PROBES[families] for word in ("--probe", one)] if probe else [])
        + (["--zone", "example.org"] if probe and site != "resolvers" else [])
    )


def asked(answers: list[str], *words: object) -> tuple[int, str, str]:
    """The exit code of `init` with these answers typed in a terminal, what it asked, and what it printed."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "dnsteer", "init", *map(str, words)]
    with subprocess.Popen(argv, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        shown, _ = process.communicate(timeout=60)
    os.close(theirs)
    questions = os.read(ours, 1 << 16).decode()
    os.close(ours)
    return process.returncode, questions, shown
