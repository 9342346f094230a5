# SPDX-License-Identifier: Apache-2.0
"""Serials that are compared within a pool, and checks that only warn."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dnsteer.agent.backend_health import Health, Serials
from dnsteer.agent.health import Result
from dnsteer.agent.probes.targets import ProbeTarget, probe_targets
from dnsteer.slots.maintenance import NO_OVERLAY
from tests.unit.spec_text import load

SPEC = """\
apiVersion: dnsteer/v1
switch: {flavor: ovs-netdev, bridge: br-dns, mac: '02:00:00:00:00:53', uplinks: {p0: }}
pools:
  ns:
    serves: authoritative
    backends:
      - {name: a, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01'}
      - {name: b, ipv4: 192.0.2.12, mac: '02:00:00:00:01:02'}
    health: [HEALTH]
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: ns}
"""
LAG = "{fall: 1, query: {name: example.org, expect: {serial_lag: 10s}}}"


def adopted(health: str) -> tuple[Health, dict[str, ProbeTarget]]:
    targets = list(probe_targets(load(SPEC.replace("HEALTH", health)).spec))
    known = Health()
    known.adopt(targets, NO_OVERLAY, 0.0)
    return known, {target.backend: target for target in targets}


def said(known: Health, target: ProbeTarget, time: float, serial: int | None, why: str = "") -> str:
    result = known.compare_serials(target, Result(time, why, serial=serial))
    known.add(target, result)
    return result.why


def test_a_zone_that_stays_behind_fails() -> None:
    known, of = adopted(LAG)
    assert said(known, of["a"], 0, 7) == said(known, of["b"], 0.5, 7) == ""
    assert said(known, of["a"], 1, 8) == "" and said(known, of["b"], 10.5, 7) == "", "10 s are allowed"
    why = "dns 192.0.2.12:53: answered serial 7, behind 8 of another backend for more than 10 s"
    assert said(known, of["b"], 11.5, 7) == why
    assert known.unhealthy("ns") == {"b": why}
    assert said(known, of["b"], 12.5, 8) == "", "it has caught up"


def test_a_zone_that_changes_all_the_time_is_behind_by_its_own_lag() -> None:
    """The newest is never reached, but each serial is 5 s late."""
    known, of = adopted(LAG)
    for second in range(200):
        assert said(known, of["a"], second, second) == ""
        assert said(known, of["b"], second + 0.5, max(0, second - 5)) == ""


def test_a_failed_or_reset_server_makes_no_other_late() -> None:
    known, of = adopted(LAG)
    said(known, of["a"], 0, 9)
    assert said(known, of["b"], 1, 7) == ""
    said(known, of["a"], 2, None, "no answer within 0.5 s")
    assert said(known, of["b"], 30, 7) == "", "the one that was before it does not answer"
    said(known, of["a"], 31, 9)
    said(known, of["a"], 32, 7)
    assert said(known, of["b"], 60, 7) == "", "the other one has gone back to 7"


def test_a_lost_probe_of_the_newest_server_brings_no_late_server_back() -> None:
    """Nor does a spec that is applied again; a server that is out is nobody's measure."""
    known, of = adopted("{fall: 2, query: {name: example.org, expect: {serial_lag: 10s}}}")
    said(known, of["a"], 0, 8)
    said(known, of["b"], 1, 7)
    assert said(known, of["b"], 12, 7)
    said(known, of["a"], 13, None, "no answer within 0.5 s")
    assert said(known, of["b"], 14, 7)
    known.adopt(of.values(), NO_OVERLAY, 14.5)
    assert said(known, of["b"], 15, 7)
    said(known, of["a"], 16, None, "no answer within 0.5 s")
    assert said(known, of["b"], 17, 7) == "", "the newest one that serves"
    said(known, of["a"], 18, 8)
    assert said(known, of["b"], 19, 7), "it has been behind all along"
    others = {**of, "a": replace(of["a"], query=replace(of["a"].query, name="example.net."))}
    known.adopt(others.values(), NO_OVERLAY, 20)
    assert said(known, of["b"], 21, 7) == "", "the other one is asked for another zone"


def test_serials_wrap_around() -> None:
    known, of = adopted(LAG)
    said(known, of["a"], 0, 3)
    assert said(known, of["b"], 11, 4294967290).startswith("dns 192.0.2.12:53: answered serial 4294967290, behind 3 ")
    known, of = adopted(LAG)
    said(known, of["a"], 0, 4294967290)
    assert said(known, of["b"], 11, 3) == ""


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**32 - 1)), max_size=400))
def test_random_serials_compare_without_error(answers: list[tuple[int, int]]) -> None:
    serials = Serials()
    for second, (target, serial) in enumerate(answers):
        newest, lag = serials.lag(target, serial, float(second))
        assert 0 <= newest < 2**32 and 0 <= lag <= second


def test_a_warning_check_takes_no_backend_out() -> None:
    known, of = adopted(LAG[:-1] + ", on_failure: warn}")
    said(known, of["a"], 0, 8)
    assert said(known, of["b"], 1, 7) == "" and said(known, of["b"], 12, 7)
    assert known.states[of["b"].key].healthy is False, "which the log, the metrics and the console say"
    assert known.unhealthy("ns") == {} and known.untested("ns") == {}
    assert of["b"].label == ("ns", "b", "dns-warn"), "apart from checks of that kind that take backends out"
