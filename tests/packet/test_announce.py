# SPDX-License-Identifier: Apache-2.0
"""The agent announces VIPs through a real BIRD while they work, and withdraws them otherwise; on a real switch."""

from __future__ import annotations

import signal
import stat
import time
from pathlib import Path

import pytest

from tests.packet.agents import agent, wait
from tests.packet.announcing import (
    DNS,
    EXPECTED,
    OTHER,
    READY,
    announced,
    announces,
    applied,
    folder,
    healthy,
    hung,
    spec,
)
from tests.packet.birds import bird, needs_bird
from tests.packet.command import FARM, nothing_changes, on, spec_file
from tests.packet.switches import BRIDGE, SLOT_TABLE, Switch

__all__ = ["EXPECTED", "folder"]  # for pytest
pytestmark = needs_bird


def test_a_vip_is_announced_while_it_works(shared: Switch, folder: Path) -> None:
    of_dns = ", announce: {med: 50, communities: ['64500:53', '64500:1:2'], min_healthy: 2}"
    applied(shared, folder, spec(folder, of_dns=of_dns))
    with bird(folder) as own:
        with agent(shared, folder, READY) as running:
            announces(own, DNS | OTHER)
            about = own.ask("show", "route", "192.0.2.53/32", "all")
            assert all(word in about for word in ("BGP.med: 50", "(64500,53)", "(64500, 1, 2)")), about
            assert "BGP" not in own.ask("show", "route", "192.0.2.54/32", "all")
            healthy(folder, "ns1")  # one is fewer than min_healthy
            announces(own, OTHER)
            running.waits_for("VIP dns is withdrawn: pool farm: healthy backends in service: 1, needed: 2 (ns2: ")
            healthy(folder, "ns1", "ns3")
            announces(own, DNS | OTHER)
            assert on(shared)("drain", "farm/ns1", "--yes").code == 0
            announces(own, OTHER)
            assert on(shared)("undrain", "farm/ns1").code == 0
            announces(own, DNS | OTHER)
        assert own.routes() == DNS | OTHER  # on_stop: keep
        healthy(folder)
        with agent(shared, folder, READY, "later"):
            announces(own, OTHER)


def test_nothing_is_announced_before_health_is_known_and_nothing_withdrawn(shared: Switch, folder: Path) -> None:
    slow = spec(folder).replace("interval: 500ms, timeout: 490ms", "interval: 3s, jitter: 0%, timeout: 2900ms")
    applied(shared, folder, slow)
    with bird(folder) as own:
        healthy(folder)
        with agent(shared, folder, READY) as running:
            announces(own, OTHER)  # a pool without checks works while the switch does
            time.sleep(0.5)
            assert own.routes() == OTHER
            assert "VIP dns is announced" not in running.said()
        healthy(folder, "ns1", "ns2", "ns3")
        with agent(shared, folder, READY, "again"):
            announces(own, DNS | OTHER)
        with agent(shared, folder, READY, "third"):
            until = time.monotonic() + 1
            while time.monotonic() < until:
                assert own.routes() == DNS | OTHER


def test_a_switch_that_dies_or_hangs_is_not_announced(shared: Switch, folder: Path) -> None:
    with announced(shared, folder, spec(folder)) as (own, running):
        shared.kill_switch()
        announces(own, set())
        running.waits_for("VIP dns is withdrawn: ovs-vswitchd does not answer")
        shared.start_switch()
        announces(own, DNS | OTHER)
        running.waits_for("the switch has lost its tables")
        with hung(shared):
            announces(own, set())
        announces(own, DNS | OTHER)


def test_differences_that_are_left_are_not_announced(shared: Switch, folder: Path) -> None:
    text = spec(folder).replace("  bridge: br-dns\n", "  bridge: br-dns\n  repair: report\n")
    with announced(shared, folder, text) as (own, running):
        shared.ofctl("del-flows", SLOT_TABLE)
        announces(own, set())
        running.waits_for("differences from the record")
        assert on(shared)("restore").code == 0
        announces(own, DNS | OTHER)


def test_people_withdraw_and_announce(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    run = on(shared)
    with bird(folder) as own, agent(shared, folder, READY) as running:
        announces(own, DNS | OTHER)
        with nothing_changes(shared):
            assert "VIP dns would be withdrawn" in run("withdraw", "dns", "--dry-run").out
        done = run("withdraw", "dns", "--note", "new router")
        assert (done.code, own.routes()) == (0, OTHER), done.err
        assert "VIP dns is withdrawn" in done.out
        running.waits_for("VIP dns is withdrawn: asked by ")
        warned = run("status", "--no-rates").err + run("status", "--no-rates").out
        assert "VIP dns is withdrawn: asked by" in warned and "(new router)" in warned
        withdrawn = run("status", "--no-rates", "--json").json["withdrawn"]
        assert (list(withdrawn), withdrawn["dns"]["note"], withdrawn["dns"]["until"]) == (["dns"], "new router", None)
        assert "by the record" in run("withdraw", "dns", "--note", "new router").out
        assert run("withdraw", "--all", "--json").json["left"] == []
        assert own.routes() == set()
        done = run("announce", "dns")
        assert (done.code, own.routes()) == (0, DNS), done.err
        assert run("announce", "--all").code == 0
        assert own.routes() == DNS | OTHER
        assert run("withdraw", "other", "--for", "1s").code == 0
        assert own.routes() == DNS
        announces(own, DNS | OTHER)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["withdraw", "dsn"], 'did you mean "dns"'),
        (["withdraw", "other"], "its announce is never"),
        (["announce", "nobody"], "expected a VIP of the applied spec"),
    ],
)
def test_bad_names_are_refused(words: list[str], said: str, shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder).replace("pool: spare}", "pool: spare, announce: never}"))
    with nothing_changes(shared):
        done = on(shared)(*words)
    assert (done.code, said in done.err) == (1, True), done.err


def test_withdraw_without_announce_is_refused_and_usage_is_checked(shared: Switch, folder: Path) -> None:
    applied(shared, folder, FARM)
    run = on(shared)
    with nothing_changes(shared):
        done = run("withdraw", "--all")
        assert (done.code, "it has no switch.announce" in done.err) == (1, True), done.err
        for words in ([], ["dns", "--all"]):
            done = run("withdraw", *words)
            assert (done.code, "expected the names of VIPs, or --all" in done.err) == (64, True), done.err


def test_withdraw_without_an_agent_says_so(shared: Switch, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dnsteer.cli.announce._PATIENCE", 0.3)
    applied(shared, folder, spec(folder))
    done = on(shared)("withdraw", "dns")  # no BIRD
    assert (done.code, "cannot be reached" in done.err) == (0, True), done.err
    assert on(shared)("announce", "dns").code == 0
    with bird(folder) as own:
        with agent(shared, folder, READY):
            announces(own, DNS | OTHER)
        done = on(shared)("withdraw", "dns")  # no agent
        assert (done.code, "BIRD still has routes to 192.0.2.53/32, 2001:db8::53/128" in done.err) == (1, True), (
            done.err
        )
        assert "is dnsteer agent running?" in done.err
        with agent(shared, folder, READY, "again"):
            announces(own, OTHER)


def test_a_damaged_note_does_not_hide_the_rest(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    shared.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-withdrawn=junk")
    shown = on(shared)("status", "--no-rates")
    assert "external_ids:dnsteer-withdrawn of bridge br-dns in OVSDB is damaged" in shown.out + shown.err
    assert on(shared)("status", "--no-rates", "--json").json["withdrawn"] is None
    with bird(folder) as own, agent(shared, folder, READY) as running:
        running.waits_for("dnsteer-withdrawn of bridge br-dns in OVSDB is damaged")
        announces(own, DNS | OTHER)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_ends_or_is_killed_withdraws(by: signal.Signals, shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder, ", on_stop: withdraw"))
    with bird(folder) as own:
        with agent(shared, folder, READY) as running:
            announces(own, DNS | OTHER)
            if by == signal.SIGKILL:
                running.process.send_signal(by)
                announces(own, set())
                running.end = lambda *_: 0  # type: ignore[method-assign]
        announces(own, set())


def test_bird_that_is_away_gets_the_routes_when_it_is_there(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    with agent(shared, folder, READY) as running:
        running.waits_for("cannot be reached: No such file or directory; is it running?")
        wait(lambda: "192.0.2.54/32" in (folder / "dnsteer.conf").read_text(), lambda: "no file")
        with bird(folder) as own:
            announces(own, DNS | OTHER)
            running.waits_for("VIPs are announced as they should be")
            own.stop()
            healthy(folder)
            running.waits_for("cannot be reached: Connection refused") if own.control.exists() else None
            own.start()
            announces(own, OTHER)


def test_a_configuration_that_bird_refuses_is_named_and_withdrawing_works_all_the_same(
    shared: Switch, folder: Path
) -> None:
    with announced(shared, folder, spec(folder)) as (own, running):
        own.write(own.including + "protocol nonsense;\n")
        healthy(folder)
        running.waits_for("BIRD refuses its configuration, so routes stay as they were: ")
        assert own.routes() == DNS | OTHER
        assert "bird.conf:4:" in running.said() or "bird.conf, line 4" in running.said(), running.said()
        shared.kill_switch()  # nothing may be announced: that goes
        wait(
            lambda: "disabled" in own.ask("show", "protocols").lower() or not own.routes(),
            lambda: own.ask("show", "protocols"),
        )
        running.waits_for("all routes are withdrawn by disabling dnsteer4, dnsteer6")
        own.write(own.including)
        shared.start_switch()
        healthy(folder, "ns1")
        announces(own, DNS | OTHER)
        running.waits_for("VIPs are announced as they should be")


def test_a_file_that_bird_does_not_include_is_reported(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    with bird(folder, "") as own, agent(shared, folder, READY) as running:
        running.waits_for(f'BIRD does not include {folder}/dnsteer.conf: add include "{folder}/dnsteer.conf*";')
        own.write(own.including)
        announces(own, DNS | OTHER)


def test_another_announcer_of_a_vip_is_named(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    other = "protocol static mine { ipv4; route 192.0.2.53/32 blackhole; }\n"
    with bird(folder) as own:
        own.write(own.including + other)
        own.ask("configure")
        with agent(shared, folder, READY) as running:
            running.waits_for(
                "protocol mine of BIRD has a route to 192.0.2.53/32 too, which stays when dnsteer withdraws"
            )
            announces(own, DNS | OTHER)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("protocol static x { ipv4; }\n", "is not a file of dnsteer's: name another one by switch.announce.include"),
        ("# Routes of bridge br-1 in OVSDB at unix:/x\n", "is that of another bridge (# Routes of bridge br-1"),
    ],
)
def test_files_of_others_are_left_alone(content: str, said: str, shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    (folder / "dnsteer.conf").write_text(content)
    with bird(folder), agent(shared, folder, READY) as running:
        running.waits_for(said)
        assert (folder / "dnsteer.conf").read_text() == content


def test_an_applied_spec_changes_the_routes(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    run = on(shared)
    with bird(folder) as own, agent(shared, folder, READY) as running:
        announces(own, DNS | OTHER)
        never = spec(folder).replace("pool: spare}", "pool: spare, announce: never}")
        assert run("apply", spec_file(folder, never), "--yes").code == 0
        announces(own, DNS)
        assert run("apply", spec_file(folder, FARM), "--yes").code == 0
        announces(own, set())
        assert run("rollback", "--yes").code == 0
        announces(own, DNS)
        assert stat.S_IMODE((folder / "dnsteer.conf").stat().st_mode) & 0o444
        assert "Traceback" not in running.said()


def test_foreign_route_removals_are_repaired_and_changed_settings_remove_none(shared: Switch, folder: Path) -> None:
    with announced(shared, folder, spec(folder)) as (own, running):
        (folder / "dnsteer.conf").write_text(
            (folder / "dnsteer.conf").read_text().replace("route 192.0.2.54/32 blackhole;", "")
        )
        own.ask("configure")
        assert own.routes() == DNS
        announces(own, DNS | OTHER)
        running.waits_for("and has other routes than it: 192.0.2.54/32")
        said = running.said()
        assert (
            on(shared)("apply", spec_file(folder, spec(folder, ", hold_max: 1s, on_stop: withdraw")), "--yes").code == 0
        )
        running.waits_for("state 2")
        wait(lambda: (folder / "dnsteer.conf").exists(), lambda: "no file")
        time.sleep(1)
        assert own.routes() == DNS | OTHER
        assert "withdrawn" not in running.said()[len(said) :]


def test_a_flapping_vip_is_held_longer_each_time_and_reported(shared: Switch, folder: Path) -> None:
    with announced(shared, folder, spec(folder, ", hold_max: 3s")) as (own, running):
        took = []
        for _ in range(2):
            healthy(folder)
            announces(own, OTHER)
            healthy(folder, "ns1")
            began = time.monotonic()
            announces(own, DNS | OTHER)
            took.append(time.monotonic() - began)
        assert took[1] > 2.5 > took[0], took
        running.waits_for("VIP dns works again, and is held back until 20")
        assert running.said().count("is held back") == 1, running.said()


def test_repeated_withdrawals_by_operators_cause_no_hold(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder, ""))
    run = on(shared)
    with bird(folder) as own, agent(shared, folder, READY) as running:
        announces(own, DNS | OTHER)
        for _ in range(4):
            assert run("withdraw", "dns").code == 0
            assert own.routes() == OTHER
            assert run("role", "standby").code == 0
            announces(own, set())
            assert run("role", "active").code == 0
            done = run("announce", "dns")
            assert (done.code, done.err) == (0, "")
            announces(own, DNS | OTHER)
        assert run("role", "none").code == 0
        assert "held back" not in running.said()


@pytest.mark.parametrize("policy", ["keep", "{med: 900}", "withdraw"])
def test_policies_for_no_passing_backend(policy: str, shared: Switch, folder: Path) -> None:
    text = spec(folder, f", hold_max: 0s, when_none_pass: {policy}", ", announce: {med: 50, min_healthy: 2}")
    applied(shared, folder, text)
    before, after = "BGP.med: 50", {"keep": "BGP.med: 50", "{med: 900}": "BGP.med: 900", "withdraw": ""}[policy]

    def has(med: str) -> None:
        shown = lambda: own.ask("show", "route", "192.0.2.53/32", "all")  # noqa: E731
        wait(lambda: med in shown() if med else own.routes() == OTHER, shown)

    with bird(folder) as own, agent(shared, folder, READY) as running:
        announces(own, DNS | OTHER)
        has(before)
        healthy(folder)
        running.waits_for("PANIC")
        has(after)
        if policy != "withdraw":
            running.waits_for("VIP dns stays announced, though no backend passes its checks: pool farm: healthy")
        healthy(folder, "ns1")  # one passes: the checks are right, and one is too few
        announces(own, OTHER)
        healthy(folder, "ns1", "ns2")
        announces(own, DNS | OTHER)
        has(before)
        healthy(folder)
        has(after)
        with hung(shared):  # the switch is another matter
            announces(own, set())
        shared.ofctl("get-frags")


@pytest.mark.parametrize("end", ["confirm", "undo", "time"])
def test_a_configuration_that_bird_may_undo_is_left_to_the_operator(end: str, shared: Switch, folder: Path) -> None:
    with announced(shared, folder, spec(folder)) as (own, running):
        own.ask("configure", "timeout", "4" if end == "time" else "300")
        healthy(folder)
        running.waits_for(
            "BIRD is about to undo its configuration (birdc configure timeout), so routes stay as they were"
        )
        assert end == "time" or "unconfirmed" in own.ask("configure", "status")
        assert own.routes() >= {"192.0.2.53"}
        if end != "time":
            own.ask("configure", end)
        announces(own, OTHER)
        running.waits_for("VIPs are announced as they should be")
        assert "unconfirmed" not in own.ask("configure", "status")


def test_faulty_vips_are_withdrawn_while_bird_may_undo(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    with bird(folder) as own:
        with agent(shared, folder, READY) as running:
            announces(own, DNS | OTHER)
            own.ask("configure", "timeout", "300")
            with hung(shared):
                announces(own, set())
                running.waits_for("or undo; what has none is disabled")
                assert "unconfirmed" in own.ask("configure", "status")
            own.ask("configure", "confirm")
            announces(own, DNS | OTHER)
            own.ask("configure", "timeout", "300")
        with agent(shared, folder, READY, "later") as running:
            running.waits_for("VIP dns is announced")
            assert "unconfirmed" in own.ask("configure", "status")  # there was nothing to change


def test_a_prefix_is_announced_while_enough_of_its_vips_are(shared: Switch, folder: Path) -> None:
    """Beside the routes of the VIPs; by people, by failing backends, and over a new agent."""
    prefixes = ", hold_max: 0s, prefixes: [{prefix: 192.0.2.0/24, min_vips: 2}, 192.0.2.52/30, '2001:db8::/48']"
    both, one, own = "192.0.2.0/24", "192.0.2.52/30", "2001:db8::/48"
    applied(shared, folder, spec(folder, prefixes))
    run = on(shared)
    with bird(folder) as bgp:
        with agent(shared, folder, READY) as running:
            announces(bgp, DNS | OTHER | {both, one, own})
            running.waits_for("prefix 192.0.2.0/24 is announced: 2 of its 2 VIPs work, needed: 2")
            assert run("withdraw", "other").code == 0
            announces(bgp, DNS | {one, own})
            running.waits_for("prefix 192.0.2.0/24 is withdrawn: 1 of its 2 VIPs may be announced, needed: 2")
            assert "Prefix 192.0.2.0/24" not in run("status", "--no-rates").out  # people wanted it so
            assert run("announce", "other").code == 0
            announces(bgp, DNS | OTHER | {both, one, own})
            healthy(folder)
            announces(bgp, OTHER | {one})
            wait(
                lambda: "Prefix 192.0.2.0/24 is not announced" in run("status", "--no-rates").out,
                lambda: run("status", "--no-rates").out,
            )
            healthy(folder, "ns1", "ns2", "ns3")
            announces(bgp, DNS | OTHER | {both, one, own})
        assert bgp.routes() == DNS | OTHER | {both, one, own}
        with agent(shared, folder, READY, "later") as running:
            running.waits_for("prefix 192.0.2.0/24 is announced")
            assert bgp.routes() == DNS | OTHER | {both, one, own}
            assert "is withdrawn" not in running.said()
            assert run("withdraw", "--all").code == 0
            assert bgp.routes() == set()
