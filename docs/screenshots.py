# SPDX-License-Identifier: Apache-2.0
"""Pictures for docs/console.md and docs/report.md: a private switch with packets, an agent beside it, and Chromium.

Needs the extra `browser` and Chromium; takes about two minutes. `python -m docs.screenshots [-o FOLDER] [--seconds N]`;
`--demo PAGE` makes that of docs/lab.md from the page that `make demo` wrote.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

from bench.chromium import chromium
from bench.console import queries
from bench.repeated import repeated
from bench.specs import many_vips
from playwright.sync_api import Page
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from dnsteer.switch.control_socket import DIRECTORY
from dnsteer.switch.private_switch import PrivateSwitch

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"phone": (375, 800), "desk": (1280, 800), "wall": (1920, 1080)}
TALL = 1500
"""Pixels of a report that are shown."""
TALLEST = {"offload": 1200, "many": 1200}
"""Pixels of a picture at most: a table of flows has thousands."""
PAGES = {
    "overview": "/",
    "pool": "/pools/authoritative",
    "pools": "/pools",
    "changes": "/changes",
    "offload": "/offload",
    "path": "/path?client=198.18.0.1&port=40066&vip=192.0.2.53&service=53/udp",
    "vip": "/vips/dns",
    "many": "/",
}
SPEC = """\
apiVersion: dnsteer/v1
switch:
  name: dpu-1
  flavor: ovs-netdev
  hardware: bluefield-3
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0:
pools:
  authoritative:
    slots: 64
    health: {check: command, command: [test, -e, 'up/{backend}'], interval: 1s, timeout: 900ms, fall: 1, rise: 1}
    slow_start: 10s
    backends:
      - {name: ns1, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}
      - {name: ns2, ipv4: 192.0.2.12, ipv6: '2001:db8::12', mac: '02:00:00:00:01:02', weight: 2}
      - {name: ns3, ipv4: 192.0.2.13, ipv6: '2001:db8::13', mac: '02:00:00:00:01:03', weight: 2}
      - {name: ns4, ipv4: 192.0.2.14, ipv6: '2001:db8::14', mac: '02:00:00:00:01:04', weight: 3}
      - {name: ns5, ipv4: 192.0.2.15, ipv6: '2001:db8::15', mac: '02:00:00:00:01:05', weight: 2}
  resolvers:
    slots: 256
    health: {check: command, command: [test, -e, 'up/{backend}'], interval: 1s, timeout: 900ms, fall: 1, rise: 1}
    backends:
RESOLVERS
vips:
  dns: {addresses: [192.0.2.53, '2001:db8::53'], services: [dns, dot], pool: authoritative}
  secondary: {addresses: [192.0.2.54, '2001:db8::54'], services: [dns], pool: authoritative}
  resolver-1: {addresses: [198.51.100.53, '2001:db8:1::53'], services: [dns, dot, doh], pool: resolvers}
  resolver-2: {addresses: [198.51.100.54], services: [dns], pool: resolvers}
"""
RATES = {"192.0.2.53": 900, "192.0.2.54": 120, "198.51.100.53": 400, "198.51.100.54": 30}
"""Packets a second, on average."""


def spec(resolvers: int = 12) -> str:
    """The spec of the pictures."""
    lines = [
        f"      - {{name: res{n}, ipv4: 192.0.2.{100 + n}, ipv6: '2001:db8::{100 + n}', mac: '02:00:00:00:02:{n:02x}'}}"
        for n in range(1, resolvers + 1)
    ]
    return SPEC.replace("RESOLVERS", "\n".join(lines))


def frames(address: str, count: int, first: int) -> list[str]:
    """Packets to port 53, each from a source port of its own; every tenth by TCP."""
    head = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / IP(src="198.18.0.1", dst=address)
    kinds = [TCP if n % 10 == 9 else UDP for n in range(count)]
    ports = (1024 + (first + n) * 7919 % 60000 for n in range(count))
    return [bytes(head / kind(sport=port, dport=53)).hex() for kind, port in zip(kinds, ports, strict=True)]


def packets(switch: PrivateSwitch, rates: dict[str, int] = RATES) -> AbstractContextManager[None]:
    """Packets to VIPs, in waves of a minute."""
    rounds = count()

    def send() -> None:
        number = next(rounds)
        for n, (address, rate) in enumerate(rates.items()):
            wave = 1 + 0.4 * math.sin(number / 5 / 60 * 2 * math.pi + n)
            switch.appctl("netdev-dummy/receive", "p0", *frames(address, int(rate * wave / 5), number * 31 % 5000))

    return repeated(send, every=0.2)


class Scene:
    """A private switch with the spec applied, and an agent that serves the console. Everything is in *folder*."""

    def __init__(self, switch: PrivateSwitch, folder: Path, text: str, *options: str) -> None:
        self.switch, self.folder = switch, folder
        (folder / "up").mkdir(exist_ok=True)
        (folder / "dns.yaml").write_text(text)
        for name in re.findall(r"\{name: (\w+)", text):
            (folder / "up" / name).touch()
        self.env = {**os.environ, "PYTHONPATH": str(ROOT / "generator"), "SUDO_USER": "alice", "USER": "alice"}
        self.run("apply", "dns.yaml", "--yes", "--note", "first state")
        self._log = folder / "agent.log"
        argv = [sys.executable, "-m", "dnsteer", "agent", "--db", switch.database, "--console", "127.0.0.1:0", *options]
        with self._log.open("w") as log:
            self.agent = subprocess.Popen(argv, cwd=folder, env=self.env, stderr=log)
        self.url = self._wait(r"console at (http://[^ ]+)/\n")[1]
        self._wait("pools with health checks")

    def _wait(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + 20
        while (found := re.search(pattern, self._log.read_text())) is None:
            if time.monotonic() > deadline or self.agent.poll() is not None:
                raise RuntimeError(self._log.read_text())
            time.sleep(0.05)
        return found

    def run(self, verb: str, *args: str) -> None:
        """Run dnsteer on the switch."""
        argv = [sys.executable, "-m", "dnsteer", verb, *args, "--db", self.switch.database]
        done = subprocess.run(argv, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):  # 3: something needs attention, as is meant here
            raise RuntimeError(done.stderr + done.stdout)

    def end(self) -> None:
        """End the agent."""
        self.agent.terminate()
        self.agent.wait(20)


def play(scene: Scene, seconds: float) -> None:
    """What the pictures show: a spec changed, a backend that fails, two that people took out; then time passes."""
    text = (scene.folder / "dns.yaml").read_text()
    (scene.folder / "dns.yaml").write_text(text.replace("weight: 3", "weight: 4"))
    scene.run("apply", "dns.yaml", "--yes", "--note", "ns4 got more memory")
    scene.run("weight", "authoritative/ns1", "2", "--note", "tried with more load")
    time.sleep(seconds / 2)
    (scene.folder / "up" / "res7").unlink()
    scene.run("drain", "authoritative/ns2", "--note", "kernel upgrade, CHG-4711", "--for", "2h")
    time.sleep(2)
    (scene.folder / "up" / "ns3").unlink()
    time.sleep(seconds / 2)


@contextmanager
def new_page() -> Iterator[Page]:
    """A page of a browser with a profile of its own."""
    with chromium() as browser:
        page = browser.new_page()
        page.on("console", lambda m: sys.stderr.write(f"{m.type}: {m.text}\n"))
        yield page


def shoot(
    url: str,
    folder: Path,
    names: Sequence[str] = tuple(PAGES),
    sizes: Sequence[str] = tuple(SIZES),
    schemes: Sequence[str] = ("light", "dark"),
) -> list[Path]:
    """Take pictures of pages."""
    made = []
    with new_page() as page:
        for size in sizes:
            page.set_viewport_size({"width": SIZES[size][0], "height": SIZES[size][1]})
            for scheme in schemes:
                page.emulate_media(color_scheme=scheme)
                for name in names:
                    page.goto(url + PAGES[name])
                    page.wait_for_selector("#link[data-state=live]")
                    if name == "pool":
                        page.wait_for_selector("svg.heat path.h5[d^=M]")
                    elif name == "path":
                        page.wait_for_selector('[data-number=r-q-1]:text-matches("[0-9]")')
                    elif name == "vip":
                        page.wait_for_selector("#offload >> text=datapath flows now")
                    elif name == "offload":
                        page.wait_for_selector("#prediction >> text=redicted", timeout=180_000)
                    path = folder / f"{name}-{size}-{scheme}.png"
                    tall = page.evaluate("document.documentElement.scrollHeight")
                    clip = {"x": 0, "y": 0, "width": SIZES[size][0], "height": min(tall, TALLEST.get(name, tall))}
                    page.screenshot(path=path, full_page=True, clip=clip)
                    made.append(path)
    return made


def shoot_many(folder: Path, seconds: float) -> None:
    """Take the picture of an overview of 200 VIPs."""
    with PrivateSwitch() as switch, tempfile.TemporaryDirectory() as name:
        scene = Scene(switch, Path(name), many_vips(200, pools=50, backends=4))
        try:
            for pool in range(3, 8):
                scene.run("drain", f"pool{pool}/ns{pool % 4}", "--note", "kernel upgrade, CHG-4711", "--for", "2h")
            with queries(switch, 200):
                time.sleep(seconds)
                shoot(scene.url, folder, ("many",), ("desk",), ("light",))
        finally:
            scene.end()


def shoot_file(
    file: Path,
    folder: Path,
    name: str,
    sizes: Sequence[str] = ("desk",),
    schemes: Sequence[str] = ("light",),
    element: str = "",
) -> None:
    """Take pictures of a page in a file: of its top, or of an element."""
    with new_page() as page:
        for size in sizes:
            page.set_viewport_size({"width": SIZES[size][0], "height": TALL if not element else SIZES[size][1]})
            for scheme in schemes:
                page.emulate_media(color_scheme=scheme)
                page.goto(file.absolute().as_uri())
                path = folder / f"{name}-{size}-{scheme}.png"
                if element:
                    page.locator(element).screenshot(path=path)
                else:
                    page.screenshot(path=path)


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "console")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--report", action="store_true", help="only the picture of the report")
    parser.add_argument("--demo", type=Path, metavar="PAGE", help="only the picture of this page of a demo")
    parser.add_argument("--all", action="store_true", help="all pages at all sizes, not only those of the page")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    reports = ROOT / "docs" / "report"
    reports.mkdir(exist_ok=True)
    if options.demo is not None:
        shoot_file(options.demo, reports, "demo", element="section:has(#failover)")
        return
    with PrivateSwitch() as switch, tempfile.TemporaryDirectory() as folder:
        scene = Scene(switch, Path(folder), spec())
        try:
            with packets(switch):
                play(scene, options.seconds)
                if options.all:
                    shoot(scene.url, options.output, [name for name in PAGES if name != "many"])
                elif not options.report:
                    names = ("overview", "vip", "pool", "path", "offload", "changes")
                    shoot(scene.url, options.output, names, ("desk",), ("light",))
                    shoot(scene.url, options.output, ("pool",), ("wall",), ("dark",))
                scene.run("report", "-o", "report.html")
                page = scene.folder / "report.html"
                page.write_text(
                    page.read_text().replace(switch.database, f"unix:{DIRECTORY}/db.sock")
                )  # where a real switch has it
                shoot_file(page, reports, "report")
        finally:
            scene.end()
            sys.stderr.write((Path(folder) / "agent.log").read_text())
    if not options.report:
        shoot_many(options.output, options.seconds / 3)


if __name__ == "__main__":
    main()
