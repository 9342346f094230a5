# SPDX-License-Identifier: Apache-2.0
"""The extension for tests: dnsteer-ext on the software model, beside a private switch, and specs that it serves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from dnsteer.extension.executables import executable
from dnsteer.plan.build import build_plan
from dnsteer.render.program import program_of
from dnsteer.switch.signals import ends_with_parent
from tests.packet.command import Ran
from tests.packet.switches import Switch, spec_of

# An extension behind one port, with VIPs that it serves and one that it does not.
EXTENDED = """\
apiVersion: dnsteer/v1
switch:
  name: dpu-1
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, '2001:db8:53::1']
  uplinks:
    p0: {next_hop: '02:00:00:00:00:fe'}
  ports:
    vf0:
  extension:
    ingress: {port: ext-in}
    egress: {port: ext-out}
    ipv4: 192.0.2.2
    ipv6: '2001:db8::2'
pools:
  far:
    slots: 16
    backends:
      - {name: f1, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01'}
      - {name: f2, ipv4: 192.0.2.12, mac: '02:00:00:00:01:02'}
      - {name: f3, ipv4: 192.0.2.13, mac: '02:00:00:00:01:03'}
  sprayed:
    selection: spray
    slots: 16
    backends:
      - {name: s1, ipv4: 192.0.2.21, mac: '02:00:00:00:02:01'}
      - {name: s2, ipv4: 192.0.2.22, mac: '02:00:00:00:02:02'}
  near:
    slots: 16
    backends:
      - {name: n1, ipv4: 192.0.2.31, mac: '02:00:00:00:03:01', port: vf0}
      - {name: n2, ipv4: 192.0.2.32, mac: '02:00:00:00:03:02', port: vf0}
vips:
  tunneled: {addresses: [198.51.100.53], services: [dns], pool: far, forwarding: ipip}
  sprayed: {addresses: [198.51.100.54], services: [{protocol: udp, port: 53}], pool: sprayed}
  plain: {addresses: [198.51.100.55], services: [dns], pool: near}
"""
START = 20.0


HEAVY = EXTENDED.replace("'02:00:00:00:01:02'}", "'02:00:00:00:01:02', weight: 2}")
DSR = EXTENDED.replace(", forwarding: ipip", "")
NO_EXTENSION = DSR.replace("    selection: spray\n", "").replace(
    EXTENDED[EXTENDED.index("  extension:\n") : EXTENDED.index("pools:\n")], ""
)

Run = Callable[..., Ran]
"""The command, as the fixture `do` runs it."""


def program_for(text: str = EXTENDED) -> dict[str, Any]:
    """The program of a spec with nobody out."""
    extension = build_plan(spec_of(text)).extension
    return program_of(extension) if extension else {"backends": [], "vips": []}


class Extension:
    """A context manager: dnsteer-ext, started with a program that serves nobody unless another one is given."""

    def __init__(self, folder: Path, start: dict[str, Any] | None = None) -> None:
        self.socket = folder / "control.sock"
        self.log = folder / "extension.log"
        self._file = folder / "program.json"
        self.write(start or {**program_for(), "backends": [], "vips": []})
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, value: dict[str, Any]) -> None:
        """Write the program to start with."""
        self._file.write_text(json.dumps(value))

    def __enter__(self) -> Extension:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill(signal.SIGTERM)

    def start(self) -> None:
        """Start it, at first or again."""
        ports = json.loads(self._file.read_text())["ports"]
        env = {**os.environ, "DOCA_FLOW_MODEL_DEVICES": f"{ports['in']} {ports['out']}"}
        argv = [str(executable("dnsteer-ext")), "--program", str(self._file), "--socket", str(self.socket)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(argv, stderr=log, env=env, preexec_fn=ends_with_parent(signal.SIGKILL))
        deadline = time.monotonic() + START
        while True:
            try:
                self.ask("status")
            except OSError:
                assert time.monotonic() < deadline and self._process.poll() is None, self.log.read_text()
                time.sleep(0.01)
            else:
                return

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Let it end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START)

    def stop(self, number: signal.Signals) -> None:
        """Send it a signal that it does not end by."""
        assert self._process is not None
        self._process.send_signal(number)

    def ask(self, command: str, **more: Any) -> dict[str, Any]:
        """Ask it, without the code that is tested."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(START)
            connection.connect(str(self.socket))
            connection.sendall(json.dumps({"command": command, **more}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
            return answer

    @property
    def program(self) -> dict[str, Any]:
        """The program that runs, and what hardware does for each slot, in an order of its own."""
        dump = self.ask("dump")
        assert dump["ok"]
        vips = {v["name"]: v for v in dump["program"]["vips"]}
        slots = {s["vip"]: [slot["backend"] for slot in s["slots"]] for s in dump["services"]}
        assert slots == {name: v["slots"] for name, v in vips.items()}
        backends = {b["name"]: b for b in dump["program"]["backends"]}
        rest = {k: v for k, v in dump["program"].items() if k not in ("vips", "backends", "about")}
        return {**rest, "vips": vips, "backends": backends}

    @property
    def loads(self) -> int:
        """How many programs it has run."""
        return int(self.ask("status")["loads"])


def good(done: Ran) -> Ran:
    assert done.code == 0, done.err
    return done


def held(switch: Switch, extension: Extension) -> tuple[object, ...]:
    """All that there is, without the times."""
    return (*switch.tables(), switch.ports(), extension.program)
