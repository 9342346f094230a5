# SPDX-License-Identifier: Apache-2.0
"""Reading counters, and rates from two samples of them."""

from __future__ import annotations

import re
from ipaddress import ip_address

import pytest

from dnsteer.status.counters import BackendKey, Count, CountedService, Sample, parse_counters, take_round
from dnsteer.status.rates import Rate, rates_between, total
from dnsteer.tables.order import PIPELINE

NS1, NS1_TCP, NS2 = (
    BackendKey(0xF5C1, 0xE352AE, "udp"),
    BackendKey(0xF5C1, 0xE352AE, "tcp"),
    BackendKey(0xF5C1, 0xC044AF, "udp"),
)
V6 = ip_address("2001:db8::53")
VIP, SLOT, FORWARD, EGRESS = (PIPELINE.tables[name].number for name in ("vip", "slot", "forward", "egress"))
DUMP = f"""\
OFPST_FLOW reply (OF1.5) (xid=0x2):
 cookie=0xd45305d5aae914da, duration=3.050s, table={VIP}, n_packets=17, n_bytes=9, idle_age=0, priority=100,udp,nw_dst=192.0.2.53,tp_dst=53 actions=goto_table:{SLOT}
 cookie=0xd453053fe6568ad1, duration=3.050s, table={VIP}, n_packets=4, n_bytes=0, idle_age=3, priority=100,tcp6,ipv6_dst=2001:db8::53,tp_dst=853 actions=goto_table:{SLOT}
 cookie=0xd453010000000000, duration=3.050s, table={VIP}, n_packets=99, n_bytes=0, idle_age=0, priority=0 actions=drop
 cookie=0x5, duration=3.050s, table={VIP}, n_packets=99, n_bytes=0, idle_age=0, priority=9,udp,nw_dst=192.0.2.53,tp_dst=54 actions=drop
 cookie=0xd45308e352aef5c1, duration=9s, table={FORWARD}, n_packets=5, n_bytes=0, idle_age=0, priority=100,reg0=0xf5c1,reg2=0xe352ae,reg3=0x1,reg7=0x1 actions=goto_table:{EGRESS}
 cookie=0xd45308e352aef5c1, duration=9s, table={FORWARD}, n_packets=2, n_bytes=0, idle_age=0, priority=100,ip,reg0=0xf5c1,reg2=0xe352ae,reg3=0x2,reg7=0x1 actions=goto_table:{EGRESS}
 cookie=0xd45308e352aef5c1, duration=9s, table={FORWARD}, n_packets=3, n_bytes=0, idle_age=0, priority=100,ipv6,reg0=0xf5c1,reg2=0xe352ae,reg3=0x2,reg7=0x2 actions=goto_table:{EGRESS}
"""  # noqa: E501 - as printed


def test_counters_of_services_and_backends_are_read_and_those_of_others_are_not() -> None:
    found = [(key, count) for (key, _), count in parse_counters(DUMP)]
    assert found == [
        (CountedService("udp", ip_address("192.0.2.53"), 53), Count(17, 3.05, 9)),
        (CountedService("tcp", V6, 853), Count(4, 3.05)),
        (NS1, Count(5, 9.0)),
        (NS1, Count(2, 9.0)),
        (NS1_TCP, Count(3, 9.0)),
    ]


def sample(**flows: tuple[BackendKey, int, float]) -> Sample:
    return {(way, name): Count(packets, age) for name, (way, packets, age) in flows.items()}


def test_rates_are_by_the_time_that_passed_and_ways_of_one_backend_add_up() -> None:
    before = sample(dsr=(NS1, 100, 5.0), nat=(NS1, 0, 5.0), tcp=(NS1_TCP, 7, 5.0))
    after = sample(dsr=(NS1, 400, 7.5), nat=(NS1, 50, 7.5), tcp=(NS1_TCP, 12, 7.5))
    rates = rates_between(before, after)
    assert rates.seconds == 2.5
    assert rates.of([NS1, NS1_TCP]) == Rate(packets=142.0, queries=140.0)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ((100, 5.0), (40, 7.0)),  # went backwards
        ((100, 5.0), (400, 1.0)),  # began again, and came further
        ((0, 0.1), (3, 0.8)),  # began again, and is older than it was
        ((100, 5.0), (100, 5.0)),  # no time passed
        (None, (100, 1.0)),  # is new
        ((100, 5.0), None),  # is gone
    ],
)
def test_a_counter_that_began_again_gives_no_rate(was: tuple[int, float] | None, now: tuple[int, float] | None) -> None:
    def both(of_ns1: tuple[int, float] | None, of_ns2: tuple[int, float]) -> Sample:
        flows = {"two": (NS2, *of_ns2)}
        return sample(**flows, **({"one": (NS1, *of_ns1)} if of_ns1 else {}))

    rates = rates_between(both(was, (10, 5.0)), both(now, (30, 7.0)))
    assert rates.of([NS1]) == Rate(None, None)
    assert rates.of([NS2]) == Rate(10.0, 10.0)
    assert rates.of([NS1, NS2]) == Rate(None, None)


def test_a_table_that_was_dumped_late_makes_no_other_one_young() -> None:
    """On a busy machine the second dump of one table may come much later than that of the other."""
    service = CountedService("udp", V6, 53)
    before: Sample = {(service, "vip"): Count(10, 0.02), (NS1, "way"): Count(10, 0.1)}
    after: Sample = {(service, "vip"): Count(13, 0.32), (NS1, "way"): Count(17, 0.8)}
    rates = rates_between(before, after)
    assert [rates.of([key]).packets for key in (service, NS1)] == pytest.approx([10.0, 10.0])
    assert rates.seconds == pytest.approx(0.7)


class Counting:
    """OpenFlow of a switch that adds a round of packets to both tables whenever it was asked so many times."""

    def __init__(self, *rounds: int) -> None:
        self.asked, self.rounds = 0, rounds

    def ofctl(self, verb: str, match: str, *_: str) -> str:
        self.asked += 1
        packets = 100 * sum(at <= self.asked for at in self.rounds)
        if verb == "dump-aggregate":
            return f"packet_count={packets} byte_count=0 flow_count=1"
        lines = [line for line in DUMP.splitlines() if match in line][:1]
        return "".join(re.sub(r"n_packets=\d+", f"n_packets={packets}", line) + "\n" for line in lines)


@pytest.mark.parametrize("rounds", [(), (1,), (2,), (3,), (4,), (3, 6), (2, 4, 6)])
def test_services_and_backends_are_counted_in_one_round(rounds: tuple[int, ...]) -> None:
    found = take_round(Counting(*rounds))  # type: ignore[arg-type]
    assert len(found) == 2 and len({count.packets for count in found.values()}) == 1


def test_an_unknown_rate_makes_the_total_unknown() -> None:
    assert total([Rate(1.0, 0.5), Rate(2.0, 2.0)]) == Rate(3.0, 2.5)
    assert total([Rate(1.0, 0.5), Rate(None, 2.0)]) == Rate(None, 2.5)


def test_tcp_alone_is_packets_but_no_queries() -> None:
    rates = rates_between(sample(a=(NS1_TCP, 0, 1.0)), sample(a=(NS1_TCP, 8, 3.0)))
    assert rates.of([NS1_TCP]) == Rate(4.0, 0.0)
    assert rates.of([NS1_TCP]).as_json() == {"packets_per_second": 4.0, "queries_per_second": 0.0}
