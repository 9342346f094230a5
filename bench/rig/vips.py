# SPDX-License-Identifier: Apache-2.0
"""1,000 VIPs of one pool under load of all at once, in two passes and in one, beside one VIP. Needs root. Prints JSON.

    client, balancer, four servers (NSD)      each in a namespace of its own, all on one Linux bridge

The VIPs are of both families, with DNS and direct server return: a query goes by the switch, which is one-armed, and its
answer does not. Queries over UDP come from 512 sockets of each family; VIP and socket of each are drawn at random. Right
before each run the control: the same load on as many other addresses of one server, on the same bridge without the switch.
In each round every variant is measured once, in random order, from a switch without megaflows.

python -m bench.rig.vips [--variants auto,two,one] [--vips 1000] [--rate 20000] [--seconds 8] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.agent.usage import Usage
from bench.events import spread
from bench.hosts import Servers, build, inside, link, remove
from bench.machine import idle_seconds, machine
from bench.repeated import repeated
from bench.rig.__main__ import words
from bench.rig.asker import Asker, built_asker
from bench.rig.network import BALANCER_MAC, SERVERS, UPLINK, missing, neighbour, server_mac
from bench.rig.peers import Dnsteer
from dnsteer.checks.load import check_document
from dnsteer.lab.errors import LabCommandError
from dnsteer.lab.names import ZONE
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.spec.derived import slot_count
from dnsteer.spec.read import parse_document

NEEDED = ("ovs-vswitchd", "ovsdb-server", "nsd", "kdig", "gcc", "ip", "ethtool")
CLIENT, BALANCER = ("10.99.0.10", "fd00:99::10"), ("10.99.0.53", "fd00:99::53")
LOCAL = (("198.18.0.0/22", "2001:db8:1::/64"), ("198.19.0.0/22", "2001:db8:2::/64"))
"""What servers answer for: the VIPs, and the addresses of the control."""
_SETTINGS = ("net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.default.accept_dad=0")
_EVERY = 0.5
"""Seconds between looks at the switch during a load."""
_PATIENCE = 30.0


@dataclass(frozen=True)
class Variant:
    """How many VIPs, and what the spec says of the pool."""

    says: str
    pool: str
    many: bool = True


VARIANTS = {
    "single": Variant("one VIP, nothing said of passes and slots", "", many=False),
    "auto": Variant("nothing said of passes and slots", ""),
    "two": Variant("two passes", "    passes: 2\n"),
    "one": Variant("one pass, with the slots that so many services get", "    passes: 1\n"),
    "one-256": Variant("one pass, 256 slots", "    passes: 1\n    slots: 256\n"),
}


def addresses(count: int, network: int) -> list[str]:
    """So many addresses of each family: of the VIPs (*network* 0) or of the control (1)."""
    return [
        address
        for n in range(count)
        for address in (f"198.{18 + network}.{n // 250}.{n % 250 + 1}", f"2001:db8:{1 + network}::{n + 1:x}")
    ]


def server_addresses(number: int) -> tuple[str, str]:
    """A server's own addresses, from 1."""
    return f"10.99.0.{10 + number}", f"fd00:99::{10 + number}"


def vips_spec(variant: Variant, vips: int) -> str:
    """The spec of a variant."""
    own = [server_addresses(n) for n in range(1, SERVERS + 1)]
    backends = "".join(
        f"      - {{name: s{n}, ipv4: {four}, ipv6: '{six}', mac: '{server_mac(n)}'}}\n"
        for n, (four, six) in enumerate(own, 1)
    )
    pairs = addresses(vips if variant.many else 1, 0)
    served = "".join(
        f"  vip{n}: {{addresses: [{four}, '{six}'], services: [dns], pool: zones}}\n"
        for n, (four, six) in enumerate(zip(pairs[::2], pairs[1::2], strict=True))
    )
    return (
        "apiVersion: dnsteer/v1\n"
        f"switch: {{flavor: ovs-netdev, bridge: br-dns, mac: '{BALANCER_MAC}', uplinks: {{{UPLINK}: }}}}\n"
        f"pools:\n  zones:\n{variant.pool}    backends:\n{backends}vips:\n{served}"
    )


class ManyVips(Dnsteer):
    """dnsteer with the spec of a variant."""

    def __init__(self, folder: Path, text: str) -> None:
        super().__init__(folder)
        self._text = text

    def spec(self, denied_file: str = "") -> str:
        """The variant's."""
        return self._text


class Fabric:
    """The network without the switch, as a context manager."""

    def __init__(self, folder: Path, vips: int) -> None:
        self._folder, self._vips = folder, vips
        self._servers: list[Servers] = []

    def __enter__(self) -> Fabric:
        try:
            self._build()
            served = addresses(self._vips, 0) + addresses(self._vips, 1)
            for n in range(1, SERVERS + 1):
                own = self._folder / f"server{n}"
                own.mkdir()
                self._servers.append(Servers(f"server{n}", own, f"server{n}", served))
                self._servers[-1].start()
            for address in addresses(self._vips, 1)[-2:]:
                wait_for_answer_of(address)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.kill()
        remove()

    def _build(self) -> None:
        hosts = [f"server{n}" for n in range(1, SERVERS + 1)]
        settings: dict[str, tuple[str, ...]] = dict.fromkeys(("client", *hosts), _SETTINGS)
        settings |= {"balancer": (), "fabric": ()}
        links = [
            link("balancer", UPLINK, "fabric", "balancer", BALANCER_MAC),
            link("client", "eth0", "fabric", "client"),
        ]
        links += [link(name, "eth0", "fabric", name, server_mac(n)) for n, name in enumerate(hosts, 1)]
        given = {name: [f"{a}/24 dev eth0" for a in server_addresses(n)[:1]] for n, name in enumerate(hosts, 1)}
        for n, name in enumerate(hosts, 1):
            given[name].append(f"{server_addresses(n)[1]}/64 dev eth0")
        given["client"] = [f"{CLIENT[0]}/24 dev eth0", f"{CLIENT[1]}/64 dev eth0"]
        build(settings, links, given)
        inside("fabric", "ip", "link", "add", "br0", "type", "bridge")
        for port in ("balancer", "client", *hosts):
            inside("fabric", "ip", "link", "set", port, "master", "br0")
        inside("fabric", "ip", "link", "set", "br0", "up")
        for vip, control, balancer, server in zip(*LOCAL, BALANCER, server_addresses(1), strict=True):
            inside("client", "ip", "route", "add", vip, "via", balancer, "dev", "eth0")
            inside("client", "ip", "route", "add", control, "via", server, "dev", "eth0")
            neighbour("client", balancer, "eth0", BALANCER_MAC)
            for name in hosts:
                for prefix in (vip, control):
                    inside(name, "ip", "route", "add", "local", prefix, "dev", "lo")


def wait_for_answer_of(server: str) -> None:
    """Wait until the client gets an answer. Raises RuntimeError where none comes for half a minute."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            inside("client", "kdig", f"@{server}", ZONE, "SOA", "+timeout=1", "+retry=0")
        except LabCommandError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"{server} does not answer after {_PATIENCE:g} s")


class Load:
    """Loads of one size, each with its seed."""

    def __init__(self, program: Path, vips: int, rate: int, seconds: float, order: random.Random) -> None:
        self._program, self._vips, self._rate, self._seconds, self._order = program, vips, rate, seconds, order

    def measure(self, variant: Variant, network: int, switch: ManyVips | None) -> dict[str, Any]:
        """One load on the VIPs or the control's addresses, and what the *switch* said meanwhile."""
        asked = addresses(self._vips if variant.many else 1, network)
        asker = Asker(self._program, "client", CLIENT, asked)
        if switch is not None:
            switch.forget()
        pid = switch.pid() if switch is not None else None
        usage = Usage(pid) if pid is not None else None
        seen: list[Mapping[str, int]] = []
        began, idle = time.monotonic(), idle_seconds()
        with ExitStack() as stack:
            running = stack.enter_context(asker.ask(self._seconds, self._rate, self._order.randrange(1 << 32)))
            if switch is not None:
                stack.enter_context(repeated(lambda: seen.append(switch.state()), _EVERY))
            found = running.figures()
        took = time.monotonic() - began
        if switch is not None:
            seen.append(switch.state())
            found |= {name: max(each[name] for each in seen) for name in ("megaflows", "revalidation_ms")}
            found["flow_limit"] = min(each["flow_limit"] for each in seen)
            found |= {name: seen[-1][name] for name in ("upcalls", "upcalls_lost", "unread")}
            found["upcalls_of_second_half"] = seen[-1]["upcalls"] - seen[len(seen) // 2]["upcalls"]
            found["over_time"] = seen
        if usage is not None:
            found["cpu_share"] = usage.figures()["cpu_share"]
        found["machine"] = round(1 - (idle_seconds() - idle) / took / (os.cpu_count() or 1), 3)
        return found


_OF_CONTROL = ("qps", "lost", "latency_ms", "machine")
_OF_RUN = (
    *("asked", "qps", "lost", "latency_ms", "latency_p99_ms", "silent", "least", "most", "megaflows", "flow_limit"),
    *("revalidation_ms", "upcalls", "upcalls_of_second_half", "upcalls_lost", "unread", "cpu_share", "machine"),
)


def vips_summary(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Spreads over the rounds, of each variant and of the controls beside it."""
    out = []
    for name in dict.fromkeys(run["variant"] for run in runs):
        those = [run for run in runs if run["variant"] == name]
        row: dict[str, Any] = {"variant": name} | {key: spread([run[key] for run in those]) for key in _OF_RUN}
        row["control"] = {key: spread([run["control"][key] for run in those]) for key in _OF_CONTROL}
        out.append(row)
    return out


def computed(text: str) -> dict[str, object]:
    """What the plan of a spec says: passes and slots of the pool, and the most datapath flows of all good traffic."""
    loaded = check_document(parse_document("vips", text))
    plan = build_plan(loaded)
    return {
        "slots": slot_count(loaded.spec, loaded.spec.pools["zones"]),
        "datapath_flows": sizes_of(loaded.spec, plan).total,
    }


def main() -> int:
    """Run the benchmark; exit status 1 when a VIP answered nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=lambda text: words(text, VARIANTS), default=list(VARIANTS))
    parser.add_argument("--vips", type=int, default=1000, help="at most 1,000")
    parser.add_argument("--rate", type=int, default=20_000, metavar="QPS", help="0: as many as are answered")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench.rig.vips needs root, for network namespaces")
    if lacking := missing(NEEDED):
        sys.exit(f"bench.rig.vips: missing on this machine: {', '.join(lacking)}: make packages")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # in order: namespaces are removed
    order = random.Random(options.seed)
    texts = {name: vips_spec(VARIANTS[name], options.vips) for name in options.variants}
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="dnsteer-vips-") as folder, Fabric(Path(folder), options.vips):
        load = Load(built_asker(Path(folder)), options.vips, options.rate, options.seconds, order)
        for turn in range(options.repeat):
            for name in order.sample(options.variants, len(options.variants)):
                with ExitStack() as stack:
                    switch = ManyVips(Path(folder), texts[name])
                    stack.callback(switch.stop)
                    switch.load(())
                    wait_for_answer_of(addresses(1, 0)[0])
                    control = load.measure(VARIANTS[name], 1, None)
                    found = load.measure(VARIANTS[name], 0, switch)
                runs.append({"round": turn + 1, "variant": name, **found, "control": control})
                shown = {key: value for key, value in runs[-1].items() if key != "over_time"}
                print(shown, file=sys.stderr, flush=True)
    report = {
        "machine": machine(),
        "variants": {name: {"is": VARIANTS[name].says, **computed(text)} for name, text in texts.items()},
        "vips": options.vips,
        "load": {"qps": options.rate, "seconds": options.seconds},
        "seed": options.seed,
        "summary": vips_summary(runs),
        "runs": runs,
    }
    json.dump(report, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if any(run["silent"] for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
