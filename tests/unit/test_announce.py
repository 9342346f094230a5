# SPDX-License-Identifier: Apache-2.0
"""Which VIPs may be announced, the file for BIRD, and what BIRD says on its control socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from pathlib import Path

import pytest

from dnsteer.agent.announce.bird import Bird, BirdError, BirdRefusedError
from dnsteer.agent.announce.bird_routes import RouteOwner, file_text, owner_of, routes_in
from dnsteer.agent.announce.conditions import find_obstacles, serving_backends, vips_withheld_by_people
from dnsteer.agent.backend_health import Health
from dnsteer.agent.health import Result
from dnsteer.agent.probes.targets import probe_targets
from dnsteer.checks.load import check_document
from dnsteer.slots.maintenance import NO_OVERLAY, Kind, Maintenance, Overlay
from dnsteer.spec import derived
from dnsteer.spec.announced import routes_of
from dnsteer.spec.loaded import digest
from dnsteer.spec.model.announce import Announce, AnnouncedPrefix, VipAnnounce
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.read import parse_document

SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  announce: {via: bird}
  uplinks: {p0: }
pools:
  farm:
    health: {check: dns, interval: 1s}
    backends:
      - {name: a, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01'}
      - {name: b, ipv4: 192.0.2.12, mac: '02:00:00:00:01:02'}
      - {name: idle, ipv4: 192.0.2.13, mac: '02:00:00:00:01:03', weight: 0}
      - {name: gone, ipv4: 192.0.2.14, mac: '02:00:00:00:01:04', state: down}
  unchecked:
    backends: [{name: a, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01'}]
vips:
  one: {addresses: [192.0.2.53], services: [dns], pool: farm}
  two: {addresses: [192.0.2.54, 192.0.2.55], services: [dns], pool: farm, announce: {min_healthy: 2}}
  free: {addresses: [192.0.2.56], services: [dns], pool: unchecked}
  hidden: {addresses: [192.0.2.57], services: [dns], pool: farm, announce: never}
"""
FIRST = SPEC.replace("  announce: {via: bird}\n", "")


def spec_of(text: str = SPEC) -> Spec:
    return check_document(parse_document("spec.yaml", text)).spec


def health_of(spec: Spec, results: Mapping[str, str | None]) -> Health:
    """Health after two results for each backend: its reason, empty for a good one; None: not asked yet."""
    health = Health()
    health.adopt(list(probe_targets(spec)), NO_OVERLAY, 0.0)
    for target in probe_targets(spec):
        why = results[target.backend]
        if why is not None:
            for time in (1.0, 2.0):
                health.add(target, Result(time, why))
    return health


def out(backend: str, kind: Kind, weight: int | None = None) -> Maintenance:
    return Maintenance("farm", backend, kind, "2026-01-01T00:00:00+00:00", "me", weight=weight)


GOOD = {"a": "", "b": "", "idle": "", "gone": ""}


def test_vips_of_healthy_backends_may_be_announced() -> None:
    spec = spec_of()
    assert find_obstacles(spec, NO_OVERLAY, health_of(spec, GOOD), "") == {"one": "", "two": "", "free": ""}


def test_unknown_health_neither_announces_nor_withdraws() -> None:
    spec = spec_of()
    unknown = find_obstacles(spec, NO_OVERLAY, health_of(spec, {**GOOD, "b": None}), "")
    assert unknown == {"one": "", "two": None, "free": ""}
    assert find_obstacles(spec, NO_OVERLAY, health_of(spec, GOOD), None) == dict.fromkeys(("one", "two", "free"))
    ill = find_obstacles(
        spec, NO_OVERLAY, health_of(spec, {"a": "no answer", "b": "no answer", "idle": "", "gone": ""}), None
    )
    assert ill["one"] and ill["two"] and ill["free"] is None


def test_a_vip_is_announced_once_it_was_probed_itself() -> None:
    """Through the bridge, where they are asked by turns; what asks a backend itself is needed for all."""
    text = SPEC.replace("  announce:", "  probe: {port: probe0, addresses: [192.0.2.9/24]}\n  announce:")
    spec = spec_of(
        text.replace("    health: {check: dns, interval: 1s}", "    health: [{check: dns}, {check: tcp, via: network}]")
    )
    health, targets = Health(), [t for t in probe_targets(spec) if t.pool == "farm" and t.backend in "ab"]
    health.adopt(targets, NO_OVERLAY, 0.0)
    for address in ("192.0.2.53", "192.0.2.55"):
        for target in targets:
            if target.address == address:
                health.add(target, Result(1.0))
    assert {*find_obstacles(spec, NO_OVERLAY, health, "").values()} == {None, ""}
    for target in targets:
        if not target.vip:
            health.add(target, Result(1.0))
    assert find_obstacles(spec, NO_OVERLAY, health, "") == {"one": "", "two": None, "free": ""}, (
        "192.0.2.54 was not asked"
    )


def test_backends_under_maintenance_are_no_failure() -> None:
    spec = spec_of()
    drained = Overlay((out("a", "drain"),))
    assert vips_withheld_by_people(spec, drained, health_of(spec, GOOD)) == {"two"}
    assert vips_withheld_by_people(spec, NO_OVERLAY, health_of(spec, GOOD)) == set()
    assert vips_withheld_by_people(spec, drained, health_of(spec, {**GOOD, "b": "no answer"})) == {"one"}, (
        "two would fail anyway"
    )


def test_obstacles_name_pool_backends_and_reason() -> None:
    spec = spec_of()
    health = health_of(spec, {**GOOD, "a": "no answer"})
    assert find_obstacles(spec, NO_OVERLAY, health, "") == {
        "one": "",
        "free": "",
        "two": "pool farm: healthy backends in service: 1, needed: 2 (a: no answer)",
    }
    assert set(find_obstacles(spec, NO_OVERLAY, health, "it is away").values()) == {"it is away"}


@pytest.mark.parametrize(
    ("entries", "serving"),
    [
        ([], ["a", "b"]),
        ([out("a", "drain")], ["b"]),
        ([out("a", "down"), out("b", "drain")], []),
        ([out("a", "weight", 0), out("idle", "weight", 3)], ["b", "idle"]),
        ([out("a", "health")], ["a", "b"]),
    ],
)
def test_serving_backends_follow_maintenance_and_weights(entries: list[Maintenance], serving: list[str]) -> None:
    assert serving_backends(spec_of(), "farm", Overlay(tuple(entries))) == serving


def test_backends_of_a_backup_serve() -> None:
    backup = "  farm:\n    backup: unchecked\n".replace("unchecked", "more")
    more = "  more:\n    backends: [{name: z, ipv4: 192.0.2.20, mac: '02:00:00:00:02:01'}]\n"
    spec = spec_of(SPEC.replace("  farm:\n", backup).replace("  unchecked:\n", f"{more}  unchecked:\n"))
    assert serving_backends(spec, "farm", NO_OVERLAY) == ["a", "b", "z"]
    ill = {**GOOD, "a": "no answer", "b": "no answer", "z": ""}
    assert find_obstacles(spec, NO_OVERLAY, health_of(spec, ill), "")["one"] == ""


def test_a_service_with_slots_of_its_own_counts() -> None:
    checks = "[{check: dns}, {check: tls, per: service}]"
    text = SPEC.replace("{check: dns, interval: 1s}", checks).replace(
        "services: [dns], pool: farm}", "services: [dns, dot], pool: farm}"
    )
    spec = spec_of(text)
    health = Health()
    health.adopt(list(probe_targets(spec)), NO_OVERLAY, 0.0)
    for target in probe_targets(spec):
        for time in (1.0, 2.0):
            health.add(target, Result(time, "refused" if target.port == 853 else ""))
    found = find_obstacles(spec, NO_OVERLAY, health, "")["one"]
    assert found is not None and found.startswith("pool farm (853/tcp): healthy backends in service: 0, needed: 1"), (
        found
    )


def test_an_address_of_two_vips_needs_both() -> None:
    spec = spec_of(
        SPEC.replace(
            "hidden: {addresses: [192.0.2.57], services: [dns], pool: farm, announce: never}",
            "three: {addresses: [192.0.2.53], services: [dot], pool: farm}",
        )
    )
    both = {"one": True, "two": False, "free": True, "three": True}
    assert {*map(str, routes_of(spec, both))} == {"192.0.2.53/32", "192.0.2.56/32"}
    assert {*map(str, routes_of(spec, {**both, "three": False}))} == {"192.0.2.56/32"}
    assert routes_of(spec, {}) == {}


PREFIXES = (
    "announce: {via: bird, when_none_pass: {med: 900}, "
    "prefixes: [{prefix: 192.0.2.0/24, min_vips: 2, med: 5}, 192.0.2.52/30]}"
)


def test_a_prefix_is_announced_while_enough_vips_in_it_are() -> None:
    spec = spec_of(SPEC.replace("announce: {via: bird}", PREFIXES))

    def meds(*working: str, last_resort: tuple[str, ...] = ()) -> dict[str, int | None]:
        found = routes_of(spec, dict.fromkeys(working, True), last_resort)
        return {str(route): how.med for route, how in found.items() if route.prefixlen < 32}

    assert meds("one", "two", "free") == {"192.0.2.0/24": 5, "192.0.2.52/30": None}
    assert meds("one", "free") == {"192.0.2.0/24": 5, "192.0.2.52/30": None}
    assert meds("one") == {"192.0.2.52/30": None}
    assert meds("free", "hidden") == {}  # one that is never announced does not count
    # for routers that have nothing better, where it would not be announced without such VIPs
    assert meds("one", "free", last_resort=("one",)) == {"192.0.2.0/24": 900, "192.0.2.52/30": 900}
    assert meds("one", "two", "free", last_resort=("one",)) == {"192.0.2.0/24": 5, "192.0.2.52/30": None}
    # Somebody behind a router chooses all addresses that are announced.
    assert {str(prefix) for prefix in derived.routed_prefixes(spec)} == {"192.0.2.0/24"}


def test_the_routes_file_has_every_setting() -> None:
    owner, announce = RouteOwner("br-dns", "unix:/run/db.sock"), Announce(via="bird")
    how = VipAnnounce(med=5, communities=["64500:53", "64500:1:53"])
    routes = {
        ip_network("192.0.2.54"): VipAnnounce(),
        ip_network("2001:db8::53"): how,
        ip_network("192.0.2.9"): VipAnnounce(),
        ip_network("192.0.2.0/24"): AnnouncedPrefix(prefix=ip_network("192.0.2.0/24"), med=7),
    }
    content = file_text(owner, announce, routes)
    assert content.splitlines() == [
        "# Routes of bridge br-dns in OVSDB at unix:/run/db.sock",
        "# dnsteer agent writes this file: what is changed here is lost.",
        "protocol static dnsteer4 {",
        "  ipv4;",
        "  route 192.0.2.0/24 blackhole { bgp_med = 7; };",
        "  route 192.0.2.9/32 blackhole;",
        "  route 192.0.2.54/32 blackhole;",
        "}",
        "protocol static dnsteer6 {",
        "  ipv6;",
        "  route 2001:db8::53/128 blackhole { bgp_med = 5; bgp_community.add((64500,53)); "
        "bgp_large_community.add((64500,1,53)); };",
        "}",
    ]
    assert (routes_in(content), owner_of(content)) == (routes.keys(), owner)
    assert (owner_of("protocol static x { }"), owner_of("")) == (None, None)


def test_the_digest_is_as_before_where_nothing_is_announced() -> None:
    first = FIRST.replace(", announce: {min_healthy: 2}", "").replace(", announce: never", "")
    assert digest(spec_of(first)) == "5649afc007e330b43c360b54d7c54dc89522db5465f494c9871da875013a029c"


@contextmanager
def answering(folder: Path, *replies: bytes) -> Iterator[str]:
    """A control socket that gives these replies, each to what is sent; the first one at once."""
    path = str(folder / "ctl")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()

    def serve() -> None:
        client, _ = server.accept()
        with client, suppress(BrokenPipeError):
            for reply in replies:
                client.sendall(reply)
                if not client.recv(4096):
                    return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield path
    finally:
        thread.join(30)
        server.close()


WELCOME = b"0001 BIRD 2.0.12 ready.\n"


def test_answers_of_bird_are_parsed(tmp_path: Path) -> None:
    shown = (
        b"2002-Name       Proto      Table      State  Since         Info\n"
        b"1002-device1    Device     ---        up     10:00\n"
        b" dnsteer4   Static     master4    up     10:00\n dnsteer6   Static     master6    down   10:00\n0000 \n"
    )
    routes = b"1007-Table master4:\n 192.0.2.53/32        blackhole [dnsteer4 10:00:00.000] * (200)\n0000 \n"
    refused = b"0002-Reading configuration from /etc/bird.conf\n8002 /etc/bird.conf:4:10 syntax error, unexpected ';'\n"
    with answering(tmp_path, WELCOME, shown, routes, b"0000 \n", refused) as path, Bird(path) as bird:
        assert bird.states(["dnsteer4", "dnsteer6", "other"]) == {"dnsteer4": "up", "dnsteer6": "down"}
        assert bird.routes(["dnsteer4", "dnsteer6"]) == {"192.0.2.53/32"}
        with pytest.raises(BirdRefusedError, match=r"^/etc/bird\.conf:4:10 syntax error, unexpected ';'$"):
            bird.configure()


STOPPED = b"1007-Table master4:\n8004 Stopped due to reconfiguration\n"


def test_truncated_output_of_bird_is_requested_again(tmp_path: Path) -> None:
    routes = b"1007-Table master4:\n 192.0.2.53/32        blackhole [dnsteer4 10:00:00.000] * (200)\n0000 \n"
    with answering(tmp_path, WELCOME, STOPPED, STOPPED, routes) as path, Bird(path) as bird:
        assert bird.routes(["dnsteer4"]) == {"192.0.2.53/32"}


def test_requests_for_truncated_output_are_bounded(tmp_path: Path) -> None:
    said = r"kept being reconfigured for 0\.1 s; what runs birdc configure\?$"
    with (
        answering(tmp_path, WELCOME, *100 * [STOPPED]) as path,
        pytest.raises(BirdError, match=said),
        Bird(path, timeout=0.1) as bird,
    ):
        bird.routes(["dnsteer4"])


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        ([b"220 mail.example ESMTP\n0000 \n"], "who answers there is not BIRD"),
        ([WELCOME, b"0002-Reading"], "did not answer within 0.2 s"),
        ([b"0001 BI"], "did not answer within 0.2 s"),
        ([WELCOME, b"x" * (5 << 20)], "ended the connection"),
    ],
)
def test_a_server_that_is_not_bird_is_named(replies: list[bytes], said: str, tmp_path: Path) -> None:
    with answering(tmp_path, *replies) as path, pytest.raises(BirdError, match=said), Bird(path, timeout=0.2) as bird:
        bird.configure()


def test_a_missing_bird_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(BirdError, match="cannot be reached: No such file or directory; is it running"):
        Bird(str(tmp_path / "none"))
