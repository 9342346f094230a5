# SPDX-License-Identifier: Apache-2.0
"""Predictions for the page Offload of the console, in a process of their own.

They take seconds of computing, and the health checks of the agent come first: the process has a low priority.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dnsteer.console.prediction import PredictedRate, Prediction
from dnsteer.switch.signals import ends_with_parent

if TYPE_CHECKING:
    from dnsteer.capacity.service_rates import LimitedRate
    from dnsteer.spec.loaded import Loaded
    from dnsteer.switch.state import AppliedState

TIMEOUT = 180.0
"""Seconds that a prediction may take."""
_NICENESS = 10


async def predict(state: AppliedState) -> Prediction:
    """Predict what hardware does with the spec of a state. Without a result it says why."""
    process = None
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dnsteer.cli.prediction",
            state.file,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            preexec_fn=ends_with_parent(signal.SIGTERM),
        )
        printed, said = await asyncio.wait_for(process.communicate(state.text.encode()), TIMEOUT)
    except asyncio.TimeoutError:
        return Prediction(why_not=f"it took more than {TIMEOUT:g} s")
    except OSError as err:
        return Prediction(why_not=f"it failed: {err}")
    finally:
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
    return _read(printed, said)


def _read(printed: bytes, said: bytes) -> Prediction:
    try:
        found: dict[str, Any] = json.loads(printed)
    except ValueError:
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        return Prediction(why_not=f"it failed: {' '.join(last) or 'it said nothing'}")
    rates = {name: PredictedRate(**found[name]) for name in ("queries", "connections") if found[name] is not None}
    lists = {name: tuple(found[name]) for name in ("notes", "because", "sources")}
    return Prediction(**{**found, "queries": None, "connections": None, **rates, **lists})


def predicted(loaded: Loaded) -> Prediction:
    """Predict, in this process."""
    from dnsteer.lint.masks.bound import mask_bound
    from dnsteer.plan.build import build_plan

    masks, budget = mask_bound(build_plan(loaded)).total, loaded.spec.lint.masks
    if importlib.util.find_spec("scipy") is None:
        return Prediction(masks, budget, why_not="it needs scipy: pip install 'dnsteer[capacity]'")
    from dnsteer.capacity.capacity_report import beyond_limits, capacity_report
    from dnsteer.capacity.card_setup import NoHardwareError, card_setup, hardware_of
    from dnsteer.capacity.paths import paths_of
    from dnsteer.offload.profile import profile

    try:
        hardware_of(loaded, None)
    except NoHardwareError:
        return Prediction(masks, budget, why_not="the spec does not say on which card it runs: switch.hardware")
    judge = profile(loaded.spec.switch.flavor.value)
    found = paths_of(loaded, judge)
    setup = card_setup(loaded, found.paths)
    beyond = tuple(beyond_limits(setup, judge, found.flows))
    report = capacity_report(loaded, setup, found.paths, ("query",))
    rates = [rate for rate in (report.all.queries, report.all.connections) if rate is not None]
    rests_on = dict.fromkeys(name for rate in rates for name in rate.most.rests_on)
    return Prediction(
        masks,
        budget,
        report.setup.hardware.value,
        report.setup.flavor.value,
        queries=_rate(report.all.queries),
        connections=_rate(report.all.connections),
        notes=(*beyond, *report.notes),
        because=tuple(dict.fromkeys(why for rate in rates for why in rate.most.because)),
        sources=tuple("; ".join(report.cite(name)) for name in rests_on),
    )


def _rate(rate: LimitedRate | None) -> PredictedRate | None:
    if rate is None:
        return None
    most = rate.most.times(1e6)
    return PredictedRate(most.value, most.low, most.high, most.kind, rate.limit)


def main() -> None:
    """Predict of the spec on standard input, and print it as JSON."""
    from dnsteer.checks.load import check_document
    from dnsteer.spec.errors import SpecError
    from dnsteer.spec.read import parse_recorded
    from dnsteer.switch.tools import SwitchError

    os.nice(_NICENESS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order: the private switch ends too
    try:
        found = predicted(check_document(parse_recorded(sys.argv[1], sys.stdin.buffer.read().decode())))
    except (SpecError, SwitchError) as err:
        found = Prediction(why_not=str(err))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
