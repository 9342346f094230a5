# SPDX-License-Identifier: Apache-2.0
"""dnsdist beside the switch: in a namespace on the same fabric, with the same name servers and the same checks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bench.agent.world import FALL, INTERVAL, RISE, TIMEOUT
from dnsteer.lab import names
from dnsteer.lab.command import LabProgram, Line, run, search_path
from dnsteer.lab.errors import LabError
from dnsteer.lab.state import LabState

ADDRESS = "198.18.254.53"
PORT = 53
NAMESPACE = f"{names.PREFIX}dnsdist"
_MARKED = re.compile(r"Marking downstream (.+) as '(up|down)'")


def program() -> str:
    """Its path. Raises LabError where it, or what else the benchmark needs beside the lab, is not installed."""
    paths = {name: shutil.which(name, path=search_path()) for name in ("dnsdist", "nft")}
    if missing := [name for name, path in paths.items() if path is None]:
        raise LabError(f"missing {', '.join(missing)}: apt-get install dnsdist nftables")
    return str(paths["dnsdist"])


def version() -> str:
    """The version that is installed."""
    return " ".join(run([program(), "--version"]).split()[:2])


HASHED = "setServerPolicy(chashed)"
"""A name has one server, as a source port has here; by default it follows the load."""


def configuration(
    servers: Mapping[str, str], listens: Sequence[str] = (f"{ADDRESS}:{PORT}",), more: Sequence[str] = (HASHED,)
) -> str:
    """Its configuration for *servers*, names and addresses: it *listens* there, with *more* lines before the servers."""
    lines = [
        f'setLocal("{listens[0]}")',
        *(f'addLocal("{address}")' for address in listens[1:]),
        'setACL({"0.0.0.0/0", "::/0"})',
        'setSecurityPollSuffix("")',
        "setMaxUDPOutstanding(65535)",
        *more,
    ]
    for number, (name, address) in enumerate(servers.items()):
        # A weight of 1000, as its documentation advises for even shares with chashed; equal ones mean nothing otherwise.
        lines.append(
            f'newServer({{address="{address}:53", name="{name}", id="00000000-0000-4000-8000-{number:012x}", '
            f'weight=1000, checkType="SOA", checkName="{names.ZONE}.", mustResolve=true, '
            f"checkInterval={INTERVAL:.0f}, checkTimeout={TIMEOUT * 1000:.0f}, maxCheckFailures={FALL}, rise={RISE}}})"
        )
    return "".join(f"{line}\n" for line in lines)


def started(lab: LabState, servers: Mapping[str, str], folder: Path) -> AbstractContextManager[LabProgram]:
    """Connect it to the lab and start it. `lab down` removes its namespace. Raises LabError."""
    client = lab.client()
    fabric = f"{names.PREFIX}net-{client.uplink}"
    own = f"addr add {ADDRESS}/32 dev eth0"
    to = [f"route add {address}/32 dev eth0 src {ADDRESS}" for address in (*servers.values(), client.addresses[0])]
    run(["ip", "netns", "add", NAMESPACE])
    run(["ip", "link", "add", "dnsdist", "netns", fabric, "type", "veth", "peer", "name", "eth0", "netns", NAMESPACE])
    run(["ip", "-n", fabric, "-batch", "-"], stdin="link set dnsdist master br0\nlink set dnsdist up\n")
    lines = ["link set lo up", "link set eth0 up", own, *to]
    run(["ip", "-n", NAMESPACE, "-batch", "-"], stdin="".join(f"{line}\n" for line in lines))
    back = f"route add {ADDRESS}/32 dev eth0"
    run(["ip", "-n", client.namespace, *f"{back} src {client.addresses[0]}".split()])
    for space in dict.fromkeys(s.namespace for s in lab.servers):
        run(["ip", "-n", space, *back.split()])
    file = folder / "dnsdist.conf"
    file.write_text(configuration(servers))
    return LabProgram(NAMESPACE, [program(), "--supervised", "--disable-syslog", "--config", str(file)])


def marks(line: str, address: str) -> str:
    """`up` or `down` where the line says that it marks the server at *address* so; else empty."""
    found = _MARKED.search(line)
    return found[2] if found is not None and f"{address}:" in found[1] else ""


def marked(lines: list[Line], address: str) -> list[Line]:
    """When it marked the server at *address*, and as what."""
    return [(time, word) for time, line in lines if (word := marks(line, address))]
