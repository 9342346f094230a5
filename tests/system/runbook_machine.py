# SPDX-License-Identifier: Apache-2.0
"""A machine as the runbooks' defaults expect it, so that every variable may be left out, and what their headers document.

The switch is a private Open vSwitch whose sockets are in /run/openvswitch, `dnsteer` is in /opt/dnsteer, and /etc is a copy:
in mount namespaces that each command of the host has for itself. The host's network is a namespace with a name server in
it, which has the addresses of the backends and of the VIPs: NSD with a zone that is not the root, or another.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.packet.test_bringup import NOISE, Running
from tests.system.playbooks import RUNBOOKS, Site, write_command

NETNS = f"dnsteer-runbooks-{os.getpid()}"
OLD, NEW = "192.0.2.53", "192.0.2.54"
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0:
pools:
  farm:
    slots: 16
    backends:
      - {name: ns1, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01'}
      - {name: ns2, ipv4: 192.0.2.12, mac: '02:00:00:00:01:02'}
      - {name: ns3, ipv4: 192.0.2.13, mac: '02:00:00:00:01:03'}
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: farm}
"""
ADDRESSES = (OLD, NEW, "192.0.2.11", "192.0.2.12")
ZONE = """\
$TTL 60
@ SOA ns1.example.org. admin.example.org. 1 60 60 60 60
@ NS ns1.example.org.
ns1 A 192.0.2.11
"""
"""The zone example.org."""
Server = Callable[[Path], list[str]]
"""Writes the files of a name server for ADDRESSES into a folder, and returns the command that runs it."""
_SHELL = """\
#!/bin/sh
# The host's own /run, /opt and /etc.
exec unshare --mount sh -c '
    mount -t tmpfs none /run && mkdir /run/openvswitch && mount --bind {switch} /run/openvswitch &&
    mount --bind {folder}/opt /opt && mount --bind {folder}/etc /etc && exec /bin/sh "$@"' sh "$@"
"""


def nsd(folder: Path) -> list[str]:
    """NSD with the zone example.org."""
    (folder / "zone").write_text(ZONE)
    listen = "".join(f"    ip-address: {address}\n" for address in ADDRESSES)
    (folder / "nsd.conf").write_text(
        f'server:\n{listen}    username: ""\n    zonesdir: "{folder}"\n    pidfile: "{folder}/nsd.pid"\n'
        f'    zonelistfile: "{folder}/zone.list"\n    xfrdfile: "{folder}/xfrd"\n    xfrdir: "{folder}"\n    database: ""\n'
        f'    logfile: "{folder}/nsd.log"\n    rrl-ratelimit: 0\n    rrl-size: 1000\n    server-count: 1\n'
        'remote-control:\n    control-enable: no\nzone:\n    name: "example.org."\n    zonefile: "zone"\n'
    )
    return ["nsd", "-d", "-c", str(folder / "nsd.conf")]


@contextmanager
def machine(folder: Path, server: Server = nsd) -> Iterator[tuple[Site, Running]]:
    """The controller, the host with that name server, and its switch, with nothing applied."""
    write_command(folder)
    with Running() as running:
        running.expected = NOISE
        shell = write_host(folder, folder / "dnsteer", running)
        (folder / "specs").mkdir()
        (folder / "specs" / "dpu-1.yaml").write_text(SPEC)
        write_bare_inventory(folder, shell)
        with _network(server(folder)):
            yield Site(folder, {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}), running


def write_host(folder: Path, command: Path, running: Running) -> Path:
    """The files of a host in *folder*: its /opt with dnsteer, its /etc, and a shell that has these and that switch."""
    (folder / "opt" / "dnsteer" / "bin").mkdir(parents=True)
    shutil.copy(command, folder / "opt" / "dnsteer" / "bin")
    shutil.copytree("/etc", folder / "etc", symlinks=True)
    shell = folder / "shell"
    shell.write_text(_SHELL.format(switch=running.dir, folder=folder), encoding="ascii")
    shell.chmod(0o755)
    return shell


def write_bare_inventory(folder: Path, *shells: Path) -> None:
    """An inventory that says how hosts are reached, dpu-1 and so on by *shells*, and nothing else that can be left out."""
    reached = {
        "ansible_connection": "netns",
        "ansible_netns_name": NETNS,
        "ansible_python_interpreter": sys.executable,
    }
    groups = {
        "dpus": {
            "hosts": {f"dpu-{n}": {**reached, "ansible_shell_executable": str(s)} for n, s in enumerate(shells, 1)}
        },
        "clients": {"hosts": {"client": reached}},
        "backends": {"hosts": {f"ns{n}": {**reached, "dnsteer_backend_of": [f"farm/ns{n}"]} for n in (1, 2)}},
    }
    (folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"children": groups}}), encoding="utf-8")


@contextmanager
def _network(argv: list[str]) -> Iterator[None]:
    def run(*argv: str) -> None:
        subprocess.run(argv, check=True, timeout=30)

    run("ip", "netns", "add", NETNS)
    server = None
    try:
        run("ip", "-n", NETNS, "link", "set", "lo", "up")
        for address in ADDRESSES:
            run("ip", "-n", NETNS, "address", "add", f"{address}/32", "dev", "lo")
        run("ip", "-n", NETNS, "link", "add", "p0", "type", "veth", "peer", "name", "far")
        run("ip", "-n", NETNS, "link", "set", "p0", "up")
        server = subprocess.Popen(["ip", "netns", "exec", NETNS, *argv])
        _wait_for_answer()
        yield
    finally:
        if server is not None:
            server.terminate()
            server.wait(timeout=30)
        run("ip", "netns", "del", NETNS)


def _wait_for_answer() -> None:
    argv = ["ip", "netns", "exec", NETNS, "kdig", f"@{OLD}", "example.org", "SOA", "+retry=0", "+timeout=1"]
    deadline = time.monotonic() + 30
    while "status: " not in subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10).stdout:
        assert time.monotonic() < deadline, "the name server does not answer"
        time.sleep(0.1)


def documented(playbook: str) -> set[str]:
    """The variables in the comment at the top of a playbook."""
    text = (RUNBOOKS / "playbooks" / playbook).read_text(encoding="utf-8")
    comments = [line for line in text.split("\n- ", 1)[0].splitlines() if line.startswith("#")]
    lines = [line for line in comments if not line.startswith("#   ansible-playbook")]
    return set(re.findall(r"\bdnsteer_[a-z_]+\b", " ".join(lines)))


def defaults() -> dict[str, Any]:
    """The role's variables and their defaults, as they are written."""
    loaded: dict[str, Any] = yaml.safe_load((RUNBOOKS / "roles/dnsteer/defaults/main.yml").read_text(encoding="utf-8"))
    return loaded
