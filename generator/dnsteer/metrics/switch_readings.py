# SPDX-License-Identifier: Apache-2.0
"""Counters of ports, and OVS-DOCA's own metrics, as the switch prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from dnsteer.switch.thread_counters import UnknownFormatError
from dnsteer.switch.tools import SwitchError, UnavailableError
from dnsteer.switch.unixctl import Appctl

_PORT = re.compile(r"\s*port\s+(\S.*?):\s+rx (.*)")
_SENT = re.compile(r"\s+tx (.*)")
_VALUES = re.compile(r"(pkts|bytes|drop|errs)=(\d+)")
_WORDS = {"pkts": "packets", "bytes": "bytes", "drop": "dropped", "errs": "errors"}


def read_ports(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield port, counter such as `receive_packets`, and value; those that a device does not count are left out."""
    name = ""
    for line in text.splitlines():
        if m := _PORT.match(line):
            name = _unquoted(m[1])
            found, way = m[2], "receive"
        elif name and (m := _SENT.match(line)):
            found, way = m[1], "transmit"
        else:
            continue
        for word, value in _VALUES.findall(found):
            yield name, f"{way}_{_WORDS[word]}", int(value)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('\\"', '"').replace("\\\\", "\\") if name.startswith('"') else name


COMMAND = "metrics/show"
MAX_SERIES = 5_000
"""Series up to which they are passed on."""
_MAX_TEXT = 2_000_000
_OURS = ("dnsteer_", "process_", "python_")
"""How names begin that /metrics has of its own."""


def read_switch_metrics(control: Appctl) -> list[Metric]:
    """Read the metrics of a switch under their own names, counters with `_total`; none where it has no such command.

    Raises UnknownFormatError where it prints something else, or too much; UnavailableError if it does not answer.
    """
    try:
        text = control.run(COMMAND)
    except UnavailableError:
        raise
    except SwitchError:
        return []
    if len(text) > _MAX_TEXT:
        raise UnknownFormatError(_left_out(f"{len(text):,} characters, expected at most {_MAX_TEXT:,}"))
    try:
        found = _passed_on(text)
    except (ValueError, KeyError, IndexError) as err:  # the library's, of a line that is none of a metric
        raise UnknownFormatError(
            _left_out(f"a line that is no metric ({err}), expected Prometheus's text format")
        ) from None
    series = sum(len(metric.samples) for metric in found)
    if series > MAX_SERIES:
        raise UnknownFormatError(_left_out(f"{series:,} series, expected at most {MAX_SERIES:,}"))
    return found


def _passed_on(text: str) -> list[Metric]:
    found: dict[str, Metric] = {}
    for metric in text_string_to_metric_families(text):
        if metric.name in found:  # without a TYPE line each series comes alone
            found[metric.name].samples += metric.samples
        elif not metric.name.startswith(_OURS):
            found[metric.name] = metric
    return list(found.values())


def _left_out(what: str) -> str:
    return (
        f"the switch's own metrics are left out: {COMMAND} answers in a form that dnsteer does not know: found {what}"
    )
