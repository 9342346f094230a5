# SPDX-License-Identifier: Apache-2.0
"""The test suite as a whole: its options, its markers, and what may run beside what."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from dnsteer.cli import output
from tests import worker_machine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate",
        action="store_true",
        help="write golden files and expected errors anew; read the diff afterwards",
    )
    parser.addoption(
        "--slow",
        action="store_true",
        help="also the tests that are marked slow: `make test-alerts`, `make test-servers`",
    )
    parser.addoption("--quick", action="store_true", help="only the tests for work in progress: `make test-quick`")


QUICK_PACKET = ("apply", "atomic", "check", "reconcile", "explain", "rendered_files", "restore", "verify_extension")
"""Packet tests for work in progress: what an apply and a restore do to a switch, and the proof of random specs."""
SLOW_UNIT = (
    "bench",
    "capacity",
    "cli_database",
    "masks",
    "monitoring",
    "reference_slots",
    "sarif",
    "slots",
    "source",
    "spec_fuzz",
    "vectors",
    "weights",
    "writing",
)
"""What the names of unit tests begin with that wait for `make test`: two thirds of the time of all unit tests."""
SLOW_TESTS = ("test_broken_flows_are_seen", "test_a_switch_that_breaks_off_makes_no_traceback")
"""Of the files that are left, what waits too."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out with --quick what is not for work in progress."""
    if not config.getoption("--quick") or collection_path.suffix != ".py":
        return None
    name, folder = collection_path.stem.removeprefix("test_"), collection_path.parent.name
    quick = {"unit": not name.startswith(SLOW_UNIT), "packet": name in QUICK_PACKET, "system": False, "servers": False}
    return None if not collection_path.stem.startswith("test_") or quick.get(folder, True) else True


@pytest.fixture(autouse=True)
def restore_signals() -> Iterator[None]:
    """Leave the handlers of signals as they were: a verb in this process may have changed them, as the agent does."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def pytest_configure(config: pytest.Config) -> None:
    """Signals as in a terminal, as who runs the suite in the background lets it ignore some; no width; kept bytecode."""
    # In CI the same examples each time, so that what fails is of the change, and other ones each time elsewhere. No
    # deadline: the machine may have other work.
    settings.register_profile(
        "untimed", settings.get_profile("default"), deadline=None, derandomize=os.environ.get("CI") == "true"
    )
    settings.load_profile("untimed")
    if hasattr(config, "workerinput") and worker_machine.possible():
        worker_machine.enter()
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.dont_write_bytecode = False  # else each worker rewrites the assertions of all tests anew, 5 s of each
    os.environ.pop("COLUMNS", None)  # readline sets it in the environment of the workers


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Root's tests say so where they cannot run."""
    mark = item.get_closest_marker("root")
    if mark and os.geteuid() != 0:
        pytest.skip(f"needs root: {mark.args[0]}")


@pytest.fixture(autouse=True)
def consoles_are_new() -> None:
    """The width of a console is that of when it was made, perhaps by another test."""
    for stream in (output.out, output.err):
        stream._here = None


def pytest_xdist_auto_num_workers() -> int:
    """Workers with `-n auto`: six for two cores, as many tests wait for switches, servers and playbooks most of the time."""
    return 3 * len(os.sched_getaffinity(0))


LABS = (
    (
        "extension",
        "agent_services",
        "probes",
        "agent_extension",
        "examples_in_lab",
        "small_fragments",
        "failover",
        "announce_by_bgp",
        "take_over",
    ),
    (
        "lab",
        "agent",
        "agent_backup",
        "agent_per_service",
        "lab_refusals",
        "console_under_load",
        "lab_agent",
        "workers",
        "farms",
        "bench_rig",
    ),
)
"""System tests with labs, which measure what is lost: two such labs at a time, as servers and switches need a core."""
LONG = (
    "system/runbooks",
    "system/runbook_variables",
    "system/runbook_refusals",
    "system/runbook_servers",
    "system/runbook_proof",
    "system/runbook_probes",
    "system/runbook_parts",
    "packet/extension_killed",
    "packet/full_disk",
    "packet/announce",
    "packet/signals",
    "packet/agent_control",
    "packet/damaged_records",
    "packet/killed_changes",
    "packet/console",
    "packet/check_large",
    "unit/vectors",
)
"""Files that take minutes beside others, such as those that run playbooks."""


def by_turns(waiting: Iterable[str], computing: Iterable[str]) -> list[str]:
    """What waits and what computes by turns, so that no core is idle."""
    return [scope for pair in zip_longest(waiting, computing) for scope in pair if scope is not None]


FIRST = ["lab 0", "lab 1", *(f"tests/{file.replace('/', '/test_')}.py" for file in LONG)]
"""What is begun first, so that no worker is left with it at the end."""


def scope_of(nodeid: str) -> str:
    """Tests of one scope run one after the other: those of a file, and those of some labs."""
    file = nodeid.partition("::")[0]
    if file == "tests/unit/test_vectors_fragments.py":
        return "tests/unit/test_vectors.py"  # of the same vectors, which take as long as all their tests
    if not file.startswith("tests/system/"):
        return file
    if not worker_machine.possible():
        return "lab 0"  # workers share the machine
    name = Path(file).stem.removeprefix("test_")
    return next((f"lab {number}" for number, names in enumerate(LABS) if name in names), file)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long, then by turns tests of switches and others; and leave out what is slow."""
    if not config.getoption("--slow"):
        items[:] = [item for item in items if item.get_closest_marker("slow") is None]
    if config.getoption("--quick"):
        items[:] = [item for item in items if not item.name.startswith(SLOW_TESTS)]
    others = [scope for scope in dict.fromkeys(scope_of(item.nodeid) for item in items) if scope not in FIRST]
    of_switches = [scope for scope in others if scope.startswith("tests/packet/")]
    order = [*FIRST, *by_turns(of_switches, (scope for scope in others if scope not in of_switches))]
    rank = {scope: number for number, scope in enumerate(order)}
    items.sort(key=lambda item: rank[scope_of(item.nodeid)])


class ByScope(LoadScopeScheduling):
    """Gives scopes to workers in the order of their tests."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByScope:
    """The order of tests with -n."""
    config.option.loadscopereorder = False  # it would begin with the scopes of most tests
    return ByScope(config, log)


@pytest.fixture(scope="module")
def goes_first() -> Iterator[None]:
    """What is started here has the processor before other tests, so that a lab loses no query to them."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, before - 10)
    yield
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, before)
