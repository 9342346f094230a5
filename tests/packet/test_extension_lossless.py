# SPDX-License-Identifier: Apache-2.0
"""Changes of the extension and the tables together: at every step of them each query arrives, and each answer."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.send import BundleSender
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.extension import handover, program_diff
from dnsteer.extension.client import ExtensionClient
from dnsteer.extension.handover import FlowStages, Handover
from dnsteer.metrics.agent_metrics import AgentMetrics
from dnsteer.metrics.collect import Collector
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.extension_process import ExtensionProcess
from dnsteer.status.extension_view import take_extension_slots
from dnsteer.status.verify import find_drift
from dnsteer.switch.openflow import OpenFlow
from tests.packet.agents import wait
from tests.packet.extension_beside_switch import EXTENDED, program_for
from tests.packet.packets_across_changes import Crossing, Relay, captured, revalidated
from tests.packet.switches import STATE_TABLE, Switch, spec_of

PORTS = ("p0", "vf0", "vf1", "ext-in", "ext-out")
BASE = EXTENDED.replace("    vf0:\n", "    vf0:\n    vf1:\n")


def edited(*changes: tuple[str, str]) -> str:
    """The spec, changed."""
    text = BASE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


F2 = "- {name: f2, ipv4: 192.0.2.12, mac: '02:00:00:00:01:02'}"
F3 = "- {name: f3, ipv4: 192.0.2.13, mac: '02:00:00:00:01:03'}\n"
F4 = "- {name: f4, ipv4: 192.0.2.14, mac: '02:00:00:00:01:04', port: vf0}\n"
NO_EXTENSION = edited(
    ("  extension:\n    ingress: {port: ext-in}\n    egress: {port: ext-out}\n", ""),
    ("    ipv4: 192.0.2.2\n    ipv6: '2001:db8::2'\n", ""),
    (", forwarding: ipip", ""),
    ("    selection: spray\n", ""),
)
SIIT = edited(
    (
        "vips:\n",
        "  six:\n    slots: 16\n    backends:\n"
        "      - {name: x1, ipv6: '2001:db8:53::11', mac: '02:00:00:00:04:01'}\n"
        "      - {name: x2, ipv6: '2001:db8:53::12', mac: '02:00:00:00:04:02', port: vf1}\n"
        "      - {name: x3, ipv6: '2001:db8:53::13', mac: '02:00:00:00:04:03', port: vf0}\nvips:\n",
    ),
    ("pool: far, forwarding: ipip", "pool: six, forwarding: siit"),
)
ALL_MOVED = edited(
    ("mac: '02:00:00:00:01:01'}", "mac: '02:00:00:00:11:01', port: vf1}"),
    ("192.0.2.11,", "192.0.2.111,"),
    ("192.0.2.12,", "192.0.2.112,"),
    ("192.0.2.13,", "192.0.2.113,"),
    ("mac: '02:00:00:00:01:02'}", "mac: '02:00:00:00:11:02', port: vf1}"),
    ("mac: '02:00:00:00:01:03'}", "mac: '02:00:00:00:11:03', port: vf1}"),
    ("pool: sprayed}", "pool: near}"),
)
PROBE = ("  extension:\n", "  probe: {addresses: [10.53.0.9/24, '2001:db8:53::9/64']}\n  extension:\n")
SPECS = {
    "base": BASE,
    "probed": BASE.replace(*PROBE),
    "siit, probed": SIIT.replace(*PROBE),
    "siit, probed, with other backends": SIIT.replace(*PROBE).replace("x1,", "y1,").replace("53::11", "53::21"),
    "weights": edited((F2, F2.replace("}", ", weight: 5}"))),
    "backend behind another port": edited((F3, F3 + "      " + F4)),
    "backends swapped": edited((F3, F4)),
    "all backends elsewhere": ALL_MOVED,
    "tunnel to none": edited((", forwarding: ipip", "")),
    "plain to tunnel": edited(("pool: near}", "pool: near, forwarding: ipip}"), ("far, forwarding: ipip", "far")),
    "spray to slots": edited(("    selection: spray\n", "")),
    "slots to client": edited(("  near:\n", "  near:\n    selection: client\n")),
    "VIP renumbered": edited(("198.51.100.53", "198.51.100.63")),
    "siit": SIIT,
    "siit with other backends": SIIT.replace("x1,", "y1,").replace("53::11", "53::21").replace("04:01", "04:11"),
    "siit with a backend renamed": SIIT.replace("x3,", "y3,"),
    "no extension": NO_EXTENSION,
    "other address of a backend": edited(
        ("192.0.2.12,", "192.0.2.112,"), ("'02:00:00:00:01:02'", "'02:00:00:00:01:42'")
    ),
}
PAIRS = [("base", name) for name in SPECS if name != "base" and not name.startswith("siit, probed")] + [
    ("siit, probed", "siit, probed, with other backends"),
    ("siit, probed", "no extension"),
    ("siit", "siit with other backends"),
    ("siit", "siit with a backend renamed"),
    ("siit", "no extension"),
    ("siit with other backends", "siit with a backend renamed"),
    ("all backends elsewhere", "backends swapped"),
    ("all backends elsewhere", "no extension"),
    ("backend behind another port", "plain to tunnel"),
    ("VIP renumbered", "all backends elsewhere"),
    ("other address of a backend", "spray to slots"),
]


@pytest.fixture(scope="module")
def crossing(shared: Switch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Crossing, Relay]]:
    shared.expected += ["Dropped", "receive error", "Connection reset"]
    shared.vsctl("set", "Open_vSwitch", ".", "other_config:max-revalidator=100")  # each step waits for two rounds
    folder = tmp_path_factory.mktemp("x")
    extension = build_plan(spec_of(BASE)).extension
    assert extension is not None
    extension.services.clear()
    extension.targets.clear()
    with ExtensionProcess(extension) as process, Relay(folder / "control.sock", process._exchange) as relay:
        yield Crossing(shared, process, folder), relay


TRANSLATED = re.compile(
    "the extension: Ether / IPv6 / UDP .*:domain > 64:ff9b::|the extension: Ether / IPv6 / TCP .*:domain >"
)


def translates_no_more(old: str, new: str) -> bool:
    """Whether the extension stops to translate for a VIP that it goes on to serve: answers under way may be lost then."""
    was, becomes = ({program_diff.key_of(v): v["forward"] for v in program_for(text)["vips"]} for text in (old, new))
    return any(way == "siit" and becomes.get(key, way) != "siit" for key, way in was.items())


def change(crossing: Crossing, relay: Relay, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one spec to another, with packets at every step."""
    first, second = (spec_of(captured(text, crossing.folder, PORTS)) for text in (old, new))
    target = TargetSwitch(crossing.switch.database, extension=str(relay.path))
    deploy(FileSource(first), target, Options(grace=0))
    revalidated(crossing.switch)
    crossing.watch(first, second)
    crossing.lost.clear()
    crossing.moments.clear()
    bundle, load, steps = OpenFlow.bundle, ExtensionClient.load, iter(range(100))

    def sent(self: OpenFlow, lines: list[str]) -> None:
        crossing.moment(f"{next(steps)} before a bundle")
        bundle(self, lines)
        revalidated(crossing.switch)
        if any(f"{STATE_TABLE}," in line for line in lines):
            crossing.turn()
        crossing.moment(f"{next(steps)} after a bundle")

    def loaded(self: ExtensionClient, program: dict[str, Any]) -> dict[str, Any]:
        crossing.moment(f"{next(steps)} before a load")
        answer = load(self, program)
        crossing.moment(f"{next(steps)} after a load")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(OpenFlow, "bundle", sent)
        patch.setattr(ExtensionClient, "load", loaded)
        patch.setattr(BundleSender, "_pause", lambda _self, seconds: crossing.pause() if seconds > 1 else None)
        deploy(FileSource(second), target, Options(grace=2))
        crossing.moment("in the end")
    assert [line for line in crossing.lost if not (translates_no_more(old, new) and TRANSLATED.search(line))] == []
    assert [d for d in find_drift(second, target.remote, extension=target.extension) if not d.warns] == []


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=[" to ".join(pair) for pair in PAIRS])
def test_no_packet_is_lost_between_two_specs(
    one: str, other: str, crossing: tuple[Crossing, Relay], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There and back."""
    change(*crossing, SPECS[one], SPECS[other], monkeypatch)
    change(*crossing, SPECS[other], SPECS[one], monkeypatch)


BACKENDS = [  # name, IPv4, IPv6, MAC
    (f"b{i}", f"192.0.2.{100 + i}", f"2001:db8:53::{100 + i}", f"02:00:00:00:07:{i:02x}") for i in range(8)
]


def drawn(draw: random.Random) -> str:
    """A spec with VIPs of all kinds. Each pool has backends of its own, so that translated answers lead to one VIP."""
    text = BASE[: BASE.index("pools:\n")] + "pools:\n"
    backends = draw.sample(BACKENDS, len(BACKENDS))
    vips = ""
    for name in draw.sample(["one", "two", "three"], draw.randint(1, 3)):
        mode = draw.choice(["dsr", "nat", "ipip", "siit"])
        choices = ["source-port", "client", "dp-hash", "spray"]
        selection = draw.choice(choices[:2] if mode in ("siit", "ipip") else choices[::2] if mode == "nat" else choices)
        services = "{protocol: udp, port: 53}" if selection == "spray" else "dns"
        text += f"  {name}:\n    selection: {selection}\n    slots: {draw.choice([8, 16])}\n    backends:\n"
        mine, backends = backends[:2], backends[2:]
        for backend, ipv4, ipv6, mac in mine:
            place = draw.choice(["", ", port: vf0", ", port: vf1"])
            weight = draw.randint(1, 3)
            text += (
                f"      - {{name: {backend}, ipv4: {ipv4}, ipv6: '{ipv6}', mac: '{mac}', weight: {weight}{place}}}\n"
            )
        family = "" if mode == "siit" else f", '2001:db8:1::{len(vips)}'" if draw.random() < 0.3 else ""
        address = {"one": 61, "two": 62, "three": 63}[name]
        vips += f"  {name}: {{addresses: [198.51.100.{address}{family}], services: [{services}], pool: {name}, "
        vips += f"forwarding: {mode}}}\n"
    return text + "vips:\n" + vips


@pytest.mark.parametrize("seed", range(int(os.environ.get("DNSTEER_CHANGES", "4"))))
def test_no_packet_is_lost_in_random_changes(
    seed: int, crossing: tuple[Crossing, Relay], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any spec to any other."""
    draw = random.Random(f"changes {seed}")
    old, new = drawn(draw), drawn(draw)
    while program_diff.combine(program_for(old), program_for(new)).left_out:  # what leaves then leaves a moment earlier
        new = drawn(draw)
    change(*crossing, old, new, monkeypatch)


MISTAKES: dict[str, tuple[str, str, Callable[[pytest.MonkeyPatch], None]]] = {
    "the new program at once": (
        "base",
        "tunnel to none",
        lambda patch: patch.setattr(
            program_diff, "combine", lambda old, new, unserved: program_diff.CombinedProgram(new, ())
        ),
    ),
    "nothing sent early": (
        "base",
        "backend behind another port",
        lambda patch: patch.setattr(Handover, "stages", altered(lambda stages: replace(stages, early=()))),
    ),
    "nothing stays": (
        "all backends elsewhere",
        "no extension",
        lambda patch: patch.setattr(handover, "_staying", lambda *_: ()),
    ),
}


def altered(change: Callable[[FlowStages], FlowStages]) -> Callable[..., FlowStages]:
    original = Handover.stages
    return lambda *args: change(original(*args))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_would_be_seen(
    mistake: str, crossing: tuple[Crossing, Relay], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, make = MISTAKES[mistake]
    with monkeypatch.context() as patch:
        make(patch)
        with pytest.raises(AssertionError):
            change(*crossing, SPECS[one], SPECS[other], patch)
    assert crossing[0].lost


def test_metrics_count_what_the_extension_forwards(crossing: tuple[Crossing, Relay]) -> None:
    """Its backends and drops as it counts them, its services as the bridge does; also while it is away, and after that."""
    packets, relay = crossing
    first = spec_of(captured(BASE, packets.folder, PORTS))
    target = TargetSwitch(packets.switch.database, extension=str(relay.path))
    deploy(FileSource(first), target, Options(grace=0))
    with target.session() as session:
        record = session.record_of("br-dns")
        known = AppliedBridge("br-dns", session.state(record, record.number), first.spec)
    agent = AgentMetrics()
    agent.claim_changed("br-dns", held=True)
    agent.adopted(known, ())
    agent.followed(record)

    def counted(by: Collector) -> Counter[str]:
        found = Counter[str]()
        for sample in (sample for metric in by.collect() for sample in metric.samples):
            pool = sample.labels.get("pool", "")
            if sample.name.startswith("dnsteer_extension") or pool in ("far", "sprayed"):
                found[sample.name] += int(sample.value)
        return found

    def by_slots() -> int:
        return sum(
            sum(slots.values()) for slots in take_extension_slots(target, first.spec, known.state.members).values()
        )

    collector, served, in_slots = Collector(target, agent), 0, by_slots()
    gone = Collector(replace(target, extension=str(packets.folder / "nobody.sock")), agent)
    before = counted(collector)

    def grown() -> Counter[str]:
        return counted(collector) - before

    def agree(count: int) -> bool:
        found = grown()
        return found["dnsteer_backend_packets_total"] == found["dnsteer_service_packets_total"] == count

    for _ in range(2):
        packets.watch(first, first)
        earlier = packets.process.ask(command="counters")
        packets.moment("counted")
        revalidated(packets.switch)
        later = packets.process.ask(command="counters")
        served += sum(a["packets"] - b["packets"] for a, b in zip(later["vips"], earlier["vips"], strict=True))
        assert served > 0
        # On a busy machine a round of the switch's statistics may come later.
        wait(partial(agree, served), lambda: f"{grown()}")
        assert grown()["dnsteer_backend_bytes_total"] > 40 * served
        assert by_slots() - in_slots == served
    packets.process.run([("in", b"\0" * 60)] * 3)
    now = grown()
    assert now["dnsteer_extension_dropped_packets_total"] == 3
    assert now["dnsteer_backend_packets_total"] == served
    assert before["dnsteer_extension_up"] == 1
    away = counted(gone)
    assert away["dnsteer_extension_up"] == 0 and not away["dnsteer_backend_packets_total"]
