# SPDX-License-Identifier: Apache-2.0
"""Source ports of the probes: fixed, outside of the ranges that others use, and the same number for each slot."""

from __future__ import annotations

from dnsteer.lab import names

PROBE_PORTS = range(1024, names.DNSPERF_PORTS.start)
"""Below those of dnsperf; programs that ask for no port get one from above. TCP and UDP do not share ports."""


def slot_of(port: int, slots: int) -> int:
    """The slot that a client at source port *port* has in a pool of *slots* slots (docs/forwarding.md)."""
    return (port >> 1) % slots


def source_ports(count: int, slots: int) -> list[int]:
    """*count* source ports, in ascending order, that cover *slots* slots evenly: no slot has two more than another.

    Where there are fewer ports than slots, the slots covered are evenly spaced. Raises ValueError when the range of the
    probes does not hold so many ports.
    """
    if count < 1 or slots < 1:
        raise ValueError(f"{count} ports for {slots} slots; expected at least one of each")
    by_slot = [
        [port for port in range(2 * slot, PROBE_PORTS.stop - 1, 2 * slots) if port in PROBE_PORTS]
        for slot in range(slots)
    ]
    chosen: list[int] = []
    for number in range(count):
        turn, slot = divmod(number, slots) if count >= slots else (0, number * slots // count)
        pair, bit = divmod(turn, 2)  # both values of the bit that chooses nothing
        if pair >= len(by_slot[slot]):
            most = 2 * slots * min(map(len, by_slot))
            raise ValueError(f"{count} source ports for {slots} slots; there are {most} from {PROBE_PORTS.start} on")
        chosen.append(by_slot[slot][pair] + bit)
    return sorted(chosen)
