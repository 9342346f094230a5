# SPDX-License-Identifier: Apache-2.0
"""What bench.agent computes from queries and from the words of checkers."""

from __future__ import annotations

import dns.message
import dns.rcode
import pytest
from bench.agent import dnsdist, flap, loss, usage
from bench.agent.figures import Query, out_of_service, phase, spread, summarized
from bench.agent.message import answered, query
from bench.agent.responder import reply
from bench.agent.world import FALL, POOL, RISE, server, spec

FAULT = 100.0


def stream(*answers: tuple[float, float, str, str]) -> list[Query]:
    """Queries by the seconds after the fault at which they were sent."""
    return [Query(FAULT + sent, took, code, by) for sent, took, code, by in answers]


def test_a_fault_lasts_until_others_answer() -> None:
    queries = stream(
        (-0.1, 0.001, "NOERROR", "ns1"),
        (0.0, -1, "", ""),
        (0.1, 0.01, "SERVFAIL", "ns1"),
        (0.2, 0.9, "NOERROR", "ns1"),
        (0.3, -1, "", ""),
        (0.4, 0.05, "NXDOMAIN", "ns2"),
        (0.5, 0.01, "NOERROR", "ns3"),
        (1.0, -1, "", ""),
    )
    seen = phase(queries, "ns1", FAULT, FAULT + 1.0, late=0.5)
    assert (seen.asked, seen.lost, seen.errors, seen.late) == (6, 2, 1, 1)
    assert seen.elsewhere == pytest.approx(0.45) and seen.last_bad == pytest.approx(0.3)


def test_a_repair_is_seen_when_the_server_answers_again() -> None:
    queries = stream((0.0, 0.01, "NOERROR", "ns2"), (0.5, 0.01, "SERVFAIL", "ns1"), (0.6, 0.01, "NOERROR", "ns1"))
    seen = phase(queries, None, FAULT, FAULT + 1, late=0.5, back="ns1")
    assert seen.elsewhere == pytest.approx(0.61) and seen.lost == 0 and seen.errors == 1


def test_without_a_fault_for_them_clients_see_none() -> None:
    seen = phase(stream((0.1, 0.01, "NOERROR", "ns1")), "ns1", FAULT, FAULT + 1, late=0.5)
    assert seen.elsewhere is None and seen.last_bad is None and seen.asked == 1


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], (0, 0.0)),
        ([(2.0, False)], (1, 0.8)),
        ([(2.0, False), (4.0, True), (9.0, False)], (2, 0.3)),
        ([(2.0, False), (12.0, True)], (1, 0.8)),
        ([(-1.0, False), (1.0, True)], (0, 0.0)),
    ],
)
def test_the_time_out_of_service(marks: list[tuple[float, bool]], expected: tuple[int, float]) -> None:
    assert out_of_service(marks, 0.0, 10.0) == pytest.approx(expected)


def test_rounds_are_spreads_of_seconds_and_sums_of_counts() -> None:
    rounds = [
        {"s": 1.0, "none": None, "lost": 2},
        {"s": 3.0, "none": None, "lost": 5},
        {"s": None, "none": None, "lost": 0},
    ]
    assert summarized(rounds) == {
        "s": {"median": 2.0, "least": 1.0, "most": 3.0},
        "none": {"median": None, "least": None, "most": None},
        "lost": 7,
    }
    assert spread([]) == {"median": None, "least": None, "most": None}


def expected_share_out(loss: float) -> float:
    """The share of time out of service without a hold, in closed form: mean numbers of probes to the next run of results."""
    good = 1 - loss
    to_fall = (1 - loss**FALL) / (good * loss**FALL)
    to_rise = (1 - good**RISE) / (loss * good**RISE)
    return to_rise / (to_fall + to_rise)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5])
def test_the_simulated_loss_is_that_of_the_closed_form(part: float) -> None:
    found = loss.in_the_long_run(part, 0.0, hours=50)
    assert found["share_out"] == pytest.approx(expected_share_out(part), rel=0.15)


def test_a_hold_keeps_a_server_out_that_fails_again_and_again() -> None:
    plain, held = loss.in_the_long_run(0.3, 0.0), loss.in_the_long_run(0.3, 300.0)
    assert held["share_out"] > plain["share_out"] and held["times_out_an_hour"] < plain["times_out_an_hour"]


def test_the_marks_of_dnsdist_are_found_by_the_whole_address() -> None:
    line = "Marking downstream ns1 (192.0.2.65:53) as 'down'"
    assert dnsdist.marks(line, "192.0.2.65") == "down"
    assert dnsdist.marks(line, "192.0.2.6") == ""
    assert dnsdist.marks("Added downstream server 192.0.2.65:53", "192.0.2.65") == ""


@pytest.mark.parametrize(("rcode", "records"), [(0, 1), (2, 0)])
@pytest.mark.parametrize("kind", ["A", "SOA"])
def test_the_responder_answers_as_a_name_server(kind: str, rcode: int, records: int) -> None:
    asked = dns.message.make_query("dnsteer.test", kind, use_edns=0)
    said = dns.message.from_wire(reply(asked.to_wire(), b"ns7", rcode))
    assert asked.is_response(said) and said.rcode() == rcode and sum(map(len, said.answer)) == records


def test_the_answering_server_is_known() -> None:
    assert answered(reply(query("h1.dnsteer.test", 7), b"ns7", 0)) == (7, "NOERROR", "ns7")
    assert answered(reply(query("h1.dnsteer.test", 8), b"ns7", 2)) == (8, "SERVFAIL", "ns7")
    assert answered(b"\0\1nonsense") == (1, "nonsense", "")


def test_every_server_of_the_pool_is_checked() -> None:
    pool = spec(20).spec.pools[POOL]
    assert [b.name for b in pool.backends] == [server(n) for n in range(1, 21)] and pool.health is not None


def test_flapping_backends_are_summarised_from_the_log() -> None:
    lines = [
        (12.0, "pool1/b1-1 is unhealthy: dns 198.51.100.2:53 through the bridge: no answer within 0.5 s"),
        (12.1, "3 of 64 slots of pool pool1 move (3 b1-1 -> b1-2): 4.7 % of its clients"),
        (20.0, "pool1/b1-1 is healthy"),
        (30.0, "pool2/b2-2 is unhealthy: does not answer"),
        (60.0, "pool1/b1-1 is unhealthy: no answer"),
    ]
    spells = [
        ("pool1/b1-1", 10.0, 17.0),
        ("pool1/b1-1", 40.0, 42.0),
        ("pool1/b1-1", 50.0, 55.0),
        ("pool1/b1-1", 58.5, 70.0),
        ("pool1/b1-1", 71.0, 75.0),
    ]
    found = flap.transitions(lines, {"pool1/b1-1"}, spells)
    assert (found["unhealthy"], found["healthy"], found["changes_of_the_switch"]) == (3, 1, 1)
    assert found["healthy_backends_taken_for_unhealthy"] == 1
    assert (found["times_gone"], found["times_gone_for_3_s"]) == (5, 4), "one was too short"
    assert found["of_these"] == {"noticed": 2, "still_out": 1, "missed": 1}
    assert found["noticed_s"] == {"median": 1.75, "least": 1.5, "most": 2.0}


def test_queries_are_counted_by_whether_their_backend_flaps() -> None:
    counts = [[10, 8, 1, 0.01, [1.0, 2.0]], [20, 17, 0, 0.01, [5.0, 5.1, 9.0]], [5, 4, 0, 0.01, [3.0]]]
    assert flap.clients(["a/1", "b/2", "a/1"], counts, {"a/1"}, 1.0, [5.2, 9.5]) == {
        "clients_of_healthy": {
            "asked": 20,
            "lost": 3,
            "errors": 0,
            "bursts": [
                {"at_s": 4.0, "for_s": 0.1, "lost": 2, "pools": 1, "change_s": 0.2},
                {"at_s": 8.0, "for_s": 0.0, "lost": 1, "pools": 1, "change_s": 0.5},
            ],
        },
        "clients_of_flapping": {"asked": 15, "lost": 3, "errors": 1},
    }


def test_cpu_and_memory_of_a_process() -> None:
    fields = ["S", *["0"] * 10, "100", "50", "20", "30", *["9"] * 30]
    assert usage.cpu_of(f"7 (a) b) {' '.join(fields)}") == pytest.approx(200 / usage._PER_SECOND)
    assert usage.resident_of("Name:\tx\nVmRSS:\t    2048 kB\n") == 2.0


def test_frames_that_full_sockets_dropped() -> None:
    text = "p_raw UNCONN 0 0 *:p0 *\n\t skmem:(r0,rb212992,t0,tb212992,f0,w0,o0,bl0,d12)\np_raw ...skmem:(r1,rb2,d3)"
    assert usage.dropped_of(text) == 15
