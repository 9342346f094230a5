# SPDX-License-Identifier: Apache-2.0
"""What the announcer says of files that it may not write, processes that do not start, and records that are damaged."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dnsteer.agent.announce import announcer, bird_routes
from dnsteer.agent.announce.announcer import Announcer, Situation
from dnsteer.agent.announce.bird_routes import ForeignFileError, Publisher, PublishError, RouteOwner, file_text
from dnsteer.agent.event_reporter import EventReporter
from dnsteer.metrics.observer import Observers
from dnsteer.slots.maintenance import NO_OVERLAY
from dnsteer.spec.model.announce import Announce, VipAnnounce
from dnsteer.switch.agent_record import recorded_route_locations, route_location
from dnsteer.switch.state import BridgeRecord, DamagedError
from dnsteer.switch.withdrawals import withdrawals_of
from dnsteer.view.snapshot import SnapshotRecorder
from tests.unit.test_announce import GOOD, SPEC, health_of, spec_of

ROUTES = {ip_network("192.0.2.53"): VipAnnounce()}


def settings(folder: Path) -> Announce:
    return Announce(via="bird", include=f"{folder}/dnsteer.conf", control=f"{folder}/none.ctl")


def record(**ids: str) -> BridgeRecord:
    named = {name.replace("_", "-"): value for name, value in ids.items()}
    return BridgeRecord("u", "v", "br-dns", named, {}, "s", "", False)


def test_another_path_of_the_ovsdb_socket_is_the_same_bridge(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to(tmp_path)
    announce = settings(tmp_path)
    file = tmp_path / "dnsteer.conf"
    file.write_text(file_text(RouteOwner("br-dns", f"unix:{tmp_path}/run/db.sock"), announce, ROUTES))
    assert Publisher(RouteOwner("br-dns", f"unix:{tmp_path}/var/run/db.sock"), announce).present() == ROUTES.keys()
    for other in (RouteOwner("br-1", f"unix:{tmp_path}/run/db.sock"), RouteOwner("br-dns", "tcp:127.0.0.1:6640")):
        with pytest.raises(ForeignFileError, match="is that of another bridge"):
            Publisher(other, announce).present()


def test_a_file_system_that_the_unit_may_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", f"{tmp_path}/dnsteer.conf")

    monkeypatch.setattr(bird_routes, "replace_files", refuses)
    said = r"Read-only file system; .*ReadWritePaths.*systemctl restart dnsteer-agent"
    with pytest.raises(PublishError, match=said):
        Publisher(RouteOwner("br-dns", "unix:/x"), settings(tmp_path)).publish(ROUTES)


def test_withdrawing_works_without_bird(tmp_path: Path) -> None:
    publisher = Publisher(RouteOwner("br-dns", "unix:/x"), settings(tmp_path))
    publisher.withdraw()
    assert not (tmp_path / "dnsteer.conf").exists()
    with pytest.raises(PublishError, match="is it running"):
        publisher.publish(ROUTES)
    assert publisher.present() == ROUTES.keys()
    publisher.withdraw()
    assert publisher.present() == set()


def test_a_guard_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    one = Announcer("unix:/x", EventReporter(lambda message, *_, **__: said.append(message)))
    one._settings = RouteOwner("br-dns", "unix:/x"), settings(tmp_path)

    def refuses(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(announcer, "RouteGuard", refuses)
    one._start_guard()
    assert len(said) == 1 and "if the agent is killed, VIPs are not withdrawn: no process can be started" in said[0]
    monkeypatch.setattr(announcer, "RouteGuard", lambda *_: None)
    one._start_guard()
    assert said[1:] == ["if the agent is killed, VIPs are withdrawn again"]


@pytest.mark.parametrize("until", ["2026-01-01T00:00:00", "soon", ""])
def test_a_withdrawal_that_was_changed_by_hand(until: str) -> None:
    note = f'{{"dns": {{"since": "yesterday", "by": "me", "until": "{until}"}}}}'
    with pytest.raises(DamagedError, match="external_ids:dnsteer-withdrawn of bridge br-dns in OVSDB is damaged"):
        withdrawals_of(record(dnsteer_withdrawn=note))


@pytest.mark.parametrize("value", ["junk", "3", "[3]", '[{"include": "x"}]', '[{"via": "bird"}]', '{"a": 1}'])
def test_damaged_route_places_are_refused(value: str) -> None:
    with pytest.raises(DamagedError, match="external_ids:dnsteer-announced of bridge br-dns in OVSDB is damaged"):
        recorded_route_locations(record(dnsteer_announced=value))


def test_route_places_are_read_from_the_record(tmp_path: Path) -> None:
    assert recorded_route_locations(record()) == []
    announce = settings(tmp_path).model_copy(update={"on_stop": "withdraw"})
    assert recorded_route_locations(record(dnsteer_announced=f'[{{"include": "{tmp_path}/dnsteer.conf"}}]')) == [
        route_location(announce).model_copy(update={"control": "/run/bird/bird.ctl"})
    ]


def test_an_agent_that_stands_by_has_no_trouble_with_routes() -> None:
    """Another one announces now, and says itself what does not work."""
    seen = SnapshotRecorder()
    for what in ("the announcement of VIPs", "the guard", "OpenFlow", "the withdrawn VIPs", "the former routes", "x"):
        seen.report_trouble(what, "it does not work")
    one = Announcer("unix:/nowhere", seen)
    one.record(record(dnsteer_withdrawn="{"))
    assert len(seen.snapshot().agent.troubles) == 7

    async def stand_by() -> None:
        task = asyncio.ensure_future(one.run(lambda: None))
        one.stand_by()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(stand_by())
    assert [trouble.about for trouble in seen.snapshot().agent.troubles] == ["x"]


class Told:
    """BIRD, as far as a publisher tells of it: it has the routes that it was given, once it is asked."""

    given: ClassVar[set[str]] = set()

    def __init__(self, *_: object) -> None:
        self.has = set[str]()

    def present(self) -> set[object]:
        return set()

    def publish(self, routes: Mapping[Any, object]) -> list[str]:
        Told.given = self.has = {str(prefix) for prefix in routes}
        return []

    def check(self, _routes: object) -> list[str]:
        self.has = Told.given
        return []


def test_changed_settings_report_no_vip_as_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though where a VIP stands is told in the same turn: another one fails for another reason."""
    monkeypatch.setattr(announcer, "Publisher", Told)
    said: list[str] = []
    reporter = EventReporter(lambda text, *_, **__: said.append(text))
    announcing = SPEC.replace("announce: {via: bird}", "announce: {via: bird, hold_max: 5m}")
    first, later = spec_of(announcing), spec_of(announcing.replace("5m", "4m"))
    one = Announcer("unix:/nowhere", Observers(SnapshotRecorder(), reporter))
    one.record(record())

    async def follow() -> None:
        for time, (spec, why) in enumerate([(first, "late"), (first, "late"), (later, "REFUSED")]):
            health = health_of(spec, {**GOOD, "a": "", "b": why})
            await one._follow(Situation("br-dns", spec, NO_OVERLAY, health, False, ""), float(time))

    asyncio.run(follow())
    assert {name: standing.state for name, standing in one.standings().items()} == {
        "one": "announced",
        "two": "failing",
        "free": "announced",
    }
    assert [text for text in said if "is withdrawn" in text] == [text for text in said if text.startswith("VIP two ")]
