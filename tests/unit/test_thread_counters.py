# SPDX-License-Identifier: Apache-2.0
"""The counters of forwarding threads, in the form of each version of Open vSwitch, and in one that nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dnsteer.switch.thread_counters import (
    Counters,
    ThreadCounters,
    UnknownFormatError,
    read_counters,
    read_threads,
    show_threads,
)
from dnsteer.switch.tools import SwitchError, UnavailableError
from tests.unit.thread_texts import FROM_4_0, JUST_CLEARED, UP_TO_3_7

FIRST = ThreadCounters("numa_id 0 core_id 1", 200, 100, 20, 30, 40, 100, 1.0, 9, 2, 3.5, 1000, 9000, 10000)
SECOND = ThreadCounters("numa_id 1 core_id 2", 300, 5, 0, 4, 0, 300, 3.0, 1, 0, 1.0, 900, 100, 1000)
MAIN = ThreadCounters("main", 0, 0)


def test_thread_counters_of_ovs_up_to_3_7_are_read() -> None:
    assert read_threads(UP_TO_3_7) == [FIRST, SECOND, MAIN]
    assert read_counters(UP_TO_3_7) == Counters(500, 105)


def test_thread_counters_of_ovs_4_0_are_read_without_cycles() -> None:
    wide = replace(SECOND, simple=1234567890123, batch=0.0)
    assert read_threads(FROM_4_0) == [replace(each, idle=None, processing=None) for each in (FIRST, wide, MAIN)]
    assert read_counters(FROM_4_0) == Counters(500, 105)


def test_ovs_4_0_has_no_counters_during_a_clear() -> None:
    assert read_threads(JUST_CLEARED) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", "found 'nothing', expected a line such as 'main thread:'"),
        ('{"threads": []}', "found '{"),
        ("main thread:\n", "of thread main also: emc, lookups, lost, megaflow, received"),
        (UP_TO_3_7.replace("packet recirculations", "recirculated packets"), "recirculations"),
        (FROM_4_0.replace("Rx packets", "Received packets"), "received"),
        (FROM_4_0.replace("Datapath passes", "Passes"), "recirculations"),
        (FROM_4_0.replace("subtbl lookups/hit", "lookups"), "lookups"),
        (JUST_CLEARED.replace("0.000 s", "1.000 s"), "received"),
    ],
)
def test_unknown_output_is_refused(text: str, missing: str) -> None:
    with pytest.raises(
        UnknownFormatError, match="pmd-stats-show answers in a form that dnsteer does not know"
    ) as caught:
        read_threads(text)
    assert missing in str(caught.value)


def test_a_switch_without_the_old_name_is_asked_by_the_new_one() -> None:
    class Later:
        def run(self, command: str, *args: str) -> str:
            if command == "dpif-netdev/pmd-stats-show":
                raise SwitchError(f'"{command}" is not a valid command')
            assert (command, args) == ("dpif-netdev/pmd-perf-show", ("-nh",))
            return FROM_4_0

    class Gone:
        def run(self, command: str, *_: str) -> str:
            assert command == "dpif-netdev/pmd-stats-show"
            raise UnavailableError("gone")

    assert show_threads(Later()) == FROM_4_0
    with pytest.raises(UnavailableError):
        show_threads(Gone())
