# SPDX-License-Identifier: Apache-2.0
"""The agent tells neighbours of VIPs and gateways: when it begins, of another spec, and after a repair; on a real switch."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from scapy.layers.inet6 import ICMPv6ND_NA
from scapy.layers.l2 import ARP
from scapy.utils import rdpcap

from tests.packet.agents import agent, wait
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.switches import Switch

EXPECTED = [*SLOW, "connection dropped", "Broken pipe"]
READY = "state 1"
VIPS = ("192.0.2.53", "2001:db8::53", "192.0.2.54")
GATEWAYS = ("192.0.2.1", "2001:db8::1")


def spec(folder: Path, rules: str = "{repeat: 2}") -> str:
    def port(name: str) -> str:
        return f"{{type: dummy, options: {{tx_pcap: {folder}/{name}.pcap}}}}"

    uplinks = f"    p0: {port('p0')}\n    p1: {port('p1')}\n"
    text = FARM.replace("    p0:\n    p1:\n", f"{uplinks}  ports:\n    vf0: {port('vf0')}\n")
    keys = f"  gateways: [{', '.join(map(repr, GATEWAYS))}]\n  gratuitous: {rules}\n"
    return text.replace("  uplinks:\n", f"{keys}  uplinks:\n")


def told(folder: Path, port: str) -> Counter[str]:
    """How often neighbours at a port were told of each address."""
    found = Counter[str]()
    for packet in rdpcap(f"{folder}/{port}.pcap"):
        if packet.haslayer(ARP):
            assert packet[ARP].psrc == packet[ARP].pdst
            found[packet[ARP].psrc] += 1
            mac = packet[ARP].hwsrc
        elif packet.haslayer(ICMPv6ND_NA):
            found[packet[ICMPv6ND_NA].tgt] += 1
            mac = packet.src
        else:
            continue
        last = packet[ARP].psrc if packet.haslayer(ARP) else packet[ICMPv6ND_NA].tgt
        assert mac == ("02:00:00:00:00:52" if last in GATEWAYS else "02:00:00:00:00:53")
    return found


def all_of(times: int, *addresses: str) -> Counter[str]:
    return Counter(dict.fromkeys(addresses, times))


def test_neighbours_get_gratuitous_announcements(shared: Switch, tmp_path: Path) -> None:
    fresh(shared)
    text = spec(tmp_path)
    done = on(shared)("apply", spec_file(tmp_path, text), "--yes")
    assert done.code == 0, done.err
    with agent(shared, tmp_path, READY) as running:
        running.waits_for("told neighbours of 3 VIP addresses and 2 gateways")
        wait(lambda: told(tmp_path, "p1") == all_of(2, *VIPS, *GATEWAYS), lambda: str(told(tmp_path, "p1")))
        time.sleep(1.5)  # longer than one is apart from the next
        assert told(tmp_path, "p0") == told(tmp_path, "p1") == all_of(2, *VIPS, *GATEWAYS), "no more than twice"
        assert told(tmp_path, "vf0") == all_of(2, *GATEWAYS)
        done = on(shared)("apply", spec_file(tmp_path, text.replace("192.0.2.54", "192.0.2.55")), "--yes")
        assert done.code == 0, done.err
        wait(lambda: told(tmp_path, "p0")["192.0.2.55"] == 2, running.said)
        assert told(tmp_path, "p0")["192.0.2.53"] == 4 and told(tmp_path, "p0")["192.0.2.54"] == 2
        shared.ofctl("del-flows")
        running.waits_for("repaired: ")
        wait(lambda: told(tmp_path, "p0")["192.0.2.53"] >= 6, running.said)
        assert on(shared)("verify", tmp_path / "spec.yaml").code == 0


def test_announcements_repeat_at_the_interval_and_can_be_off(shared: Switch, tmp_path: Path) -> None:
    for rules, least in (("{repeat: 1, refresh: 1s}", 4), ("", 0)):
        fresh(shared)
        text = spec(tmp_path, rules) if rules else spec(tmp_path).replace("  gratuitous: {repeat: 2}\n", "")
        assert on(shared)("apply", spec_file(tmp_path, text), "--yes").code == 0
        before = told(tmp_path, "p0")
        with agent(shared, tmp_path, READY, f"agent{least}") as running:
            if least:
                wait(lambda: told(tmp_path, "p0")["192.0.2.53"] >= 4, running.said)
            else:
                time.sleep(2)
                assert told(tmp_path, "p0") == before or not told(tmp_path, "p0")
                assert "told neighbours" not in running.said()
