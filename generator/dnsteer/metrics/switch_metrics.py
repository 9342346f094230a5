"""The metrics that OVS-DOCA has of itself: `metrics/show` prints them as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from dnsteer.switch.thread_counters import UnknownFormatError
from dnsteer.switch.tools import SwitchError, UnavailableError
from dnsteer.switch.unixctl import Appctl

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
