# SPDX-License-Identifier: Apache-2.0
"""Unbound behind NAT that asks authoritative servers outside through the switch, for clients of the VIP."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import nameserver
from dnsteer.lab.command import netns_exec, run
from dnsteer.spec.read import parse_document
from tests.packet.switches import EXAMPLES
from tests.system.lab_specs import apply_in_lab

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
TEXT = (EXAMPLES / "resolvers-nat.yaml").read_text()
PASSING = check_document(parse_document("spec.yaml", TEXT))
CLOSED = check_document(
    parse_document("spec.yaml", TEXT.replace("  pass: backends\n", "").replace("  limits: {backends: 20k/s}", " "))
)
VIPS = ("198.51.100.53", "2001:db8:1::53")
ROOT4, FAR4, FAR6 = "203.0.113.53", "203.0.113.54", "2001:db8:9::54"
LARGE = " ".join(f'"{n:02}{"x" * 198}"' for n in range(16))
"""3,200 bytes: more than resolvers ask for over UDP (1232), so that they ask again over TCP."""
ROOT_ZONE = f"""\
. 60 SOA root. admin. 1 60 60 600 60
. 60 NS root.
root. 60 A {ROOT4}
four. 60 NS ns.four.
ns.four. 60 A {FAR4}
six. 60 NS ns.six.
ns.six. 60 AAAA {FAR6}
"""
"""Of each zone below the root the server is known by an address of one family alone."""


def _zone(name: str, glue: str) -> str:
    return (
        f"{name} 60 SOA ns.{name} admin. 1 60 60 600 60\n{name} 60 NS ns.{name}\nns.{name} 60 {glue}\n"
        f"*.{name} 60 A 192.0.2.1\n*.large.{name} 60 TXT {LARGE}\n"
    )


def _nsd(folder: Path, addresses: tuple[str, ...], zones: dict[str, str]) -> list[str]:
    """An authoritative server of these zones."""
    folder.mkdir()
    listen = "".join(f"  ip-address: {address}\n" for address in addresses)
    text = f'server:\n{listen}  server-count: 1\n  username: ""\n  chroot: ""\n  zonesdir: "{folder}"\n  database: ""\n'
    text += f'  pidfile: "{folder}/nsd.pid"\n  xfrdfile: "{folder}/xfrd"\n  zonelistfile: "{folder}/zones"\n'
    text += "remote-control:\n  control-enable: no\n"
    for name, zone in zones.items():
        file = folder / f"{name or 'root'}.zone"
        file.write_text(zone)
        text += f'zone:\n  name: "{name or "."}"\n  zonefile: "{file}"\n'
    (folder / "nsd.conf").write_text(text)
    return ["nsd", "-d", "-c", str(folder / "nsd.conf")]


def _unbound(folder: Path, addresses: tuple[str, ...]) -> list[str]:
    """A resolver for everybody, which knows the root's address and nothing else."""
    folder.mkdir()
    (folder / "hints").write_text(f". 3600 NS root.\nroot. 3600 A {ROOT4}\n")
    listen = "".join(f"  interface: {address}\n" for address in addresses)
    (folder / "unbound.conf").write_text(
        f'server:\n{listen}  access-control: 0.0.0.0/0 allow\n  access-control: ::/0 allow\n  username: ""\n  chroot: ""\n'
        f'  directory: "{folder}"\n  pidfile: "{folder}/unbound.pid"\n  root-hints: "{folder}/hints"\n'
        '  module-config: "iterator"\n  use-syslog: no\n  do-daemonize: no\nremote-control:\n  control-enable: no\n'
    )
    return ["unbound", "-d", "-c", str(folder / "unbound.conf")]


@contextmanager
def _running(commands: list[list[str]]) -> Iterator[None]:
    running = [subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for each in commands]
    time.sleep(1)
    try:
        assert all(each.poll() is None for each in running)
        yield
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait(10)


@pytest.fixture(scope="module")
def router(no_lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The namespace of the lab's client, which is the router too, and has the authoritative servers' addresses."""
    folder = tmp_path_factory.mktemp("servers")
    try:
        lab.up(CLOSED.spec)
        found = lab.status()
        assert found is not None
        space = found.client(None).namespace
        for address in (ROOT4, FAR4, FAR6):
            run(["ip", "-n", space, "addr", "add", address, "dev", "lo"])
        # Routes to the resolvers, one by one: the lab's own, by which it asks them directly, are as long.
        commands = [
            _nsd(folder / "root", (ROOT4,), {"": ROOT_ZONE}),
            _nsd(
                folder / "far",
                (FAR4, FAR6),
                {"four": _zone("four.", f"A {FAR4}"), "six": _zone("six.", f"AAAA {FAR6}")},
            ),
        ]
        commands = [netns_exec(space, command) for command in commands]
        for server in found.servers:
            nameserver.kill(server.index, server.namespace)
            for address in server.addresses:
                way = "2001:db8:1::2" if ":" in address else "198.51.100.2"
                run(["ip", "-n", space, "route", "replace", address, "via", way, "dev", "eth0", "onlink"])
            own = folder / server.namespace
            commands.append(netns_exec(server.namespace, _unbound(own, server.addresses)))
        with _running(commands):
            yield space
    finally:
        lab.down()


def answer(space: str, vip: str, name: str, kind: str = "A", *options: str) -> str:
    """The status and the number of answers; the client waits for three seconds."""
    words = ["kdig", f"@{vip}", name, kind, "+timeout=3", "+retry=0", *options]
    found = subprocess.run(netns_exec(space, words), capture_output=True, text=True, check=False, timeout=20).stdout
    status = found.partition("status: ")[2].partition(";")[0]
    return f"{status} {found.partition('ANSWER: ')[2].partition(';')[0]}" if status else "none"


def test_resolvers_behind_nat_ask_the_world(router: str) -> None:
    apply_in_lab(CLOSED)
    assert answer(router, VIPS[0], "closed.four.") != "NOERROR 1"
    apply_in_lab(PASSING)
    wanted = {}
    for vip in VIPS:
        for zone in ("four", "six"):
            for n in range(8):  # several, so that both resolvers are asked
                for over in ("+notcp", "+tcp"):
                    name = f"n{n}.v{VIPS.index(vip)}{over[1:]}.{zone}."
                    wanted[vip, name] = answer(router, vip, name, "A", over)
            name = f"n.v{VIPS.index(vip)}.large.{zone}."
            wanted[vip, name] = answer(router, vip, name, "TXT", "+tcp")
    assert set(wanted.values()) == {"NOERROR 1"}, wanted
