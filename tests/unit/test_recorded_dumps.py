# SPDX-License-Identifier: Apache-2.0
"""Dumps of real switches (README.md beside them has the sources): what is read, judged, and told by `verify`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dnsteer.offload.datapath_flow import DatapathAction, DatapathFlow, Unreadable, read_flows
from dnsteer.offload.judge import judge
from dnsteer.offload.observe import Observation, RunningSwitch, dump, observe
from dnsteer.offload.profile import profile
from dnsteer.spec.read import read_document
from dnsteer.switch.masks import mask_of_match
from dnsteer.switch.megaflow_fields import Field
from dnsteer.switch.megaflows import masks, read_megaflows
from tests.unit.spec_text import changed, load

HERE = Path(__file__).parents[1] / "offload_dumps" / "recorded"
EXPECTED: dict[str, dict[str, Any]] = read_document(HERE / "expected.yaml").value
DATAPATH = "netdev@ovs-netdev"
ON = {"hw-offload": "true", "doca-init": "true", "dpdk-init": "true"}


def flows(name: str) -> list[DatapathFlow]:
    found = list(read_flows((HERE / name).read_text()))
    assert not [f for f in found if isinstance(f, Unreadable)]
    return [f for f in found if isinstance(f, DatapathFlow)]


def recorded(name: str, flow: DatapathFlow) -> str:
    """Where a flow was: a line without -m says it only where offloaded flows were asked for."""
    if flow.offloaded == "yes" or EXPECTED[name]["asked"] == "offloaded":
        return "yes"
    return "no" if flow.layer else "unsaid"


def matched(field: Field) -> str:
    """A field as the expectations have it: options of a tunnel by their name only."""
    return field.key if field.key == "tunnel.geneve" else str(field)


def done(action: DatapathAction) -> str:
    """An action as the expectations have it, with what is printed in brackets."""
    if action.written is not None or action.name == "output" or not action.args:
        return str(action)
    if action.name == "recirc":
        return f"recirc({action.args['value']})"
    return f"{action.name}({','.join(_args(action.args))})"


def _args(args: Mapping[str, Any]) -> Iterable[str]:
    for key, value in args.items():
        if key in ("key6", ""):
            continue  # an error that Open vSwitch prints amid a tunnel's options
        if isinstance(value, Field):
            yield matched(value).removeprefix("tunnel.")
        elif isinstance(value, Mapping):  # nat(src=192.0.2.1)
            yield f"{key}({value['type']}={value['addrs']['start']})"
        else:
            yield key if value is True else f"{key}={value}"


def test_every_recorded_dump_is_expected() -> None:
    assert set(EXPECTED) == {file.name for file in HERE.glob("*.txt")}
    readme = (HERE / "README.md").read_text()
    assert not [name for name in EXPECTED if name not in readme], "each has its source there"


@pytest.mark.parametrize("name", EXPECTED)
def test_lines_are_read_and_judged_as_expected(name: str) -> None:
    expected = EXPECTED[name]["flows"]
    found = flows(name)
    assert len(found) == len(expected)
    for flow, want in zip(found, expected, strict=True):
        state = {
            "dp": flow.layer,
            "offloaded": flow.offloaded,
            "packets": flow.packets,
            "bytes": flow.bytes,
            "used": "never" if flow.used is None else flow.used,
        }
        judgement = judge(flow, profile(EXPECTED[name]["profile"]))
        reasons = dict.fromkeys(re.split("[=:]", reason.name)[0] for reason in judgement.reasons)
        got = {
            "match": " ".join(map(matched, flow.match)),
            "actions": " ".join(map(done, flow.actions)),
            "state": " ".join(f"{key}:{value}" for key, value in state.items() if value != ""),
            "thread": flow.thread,
            "hardware": f"recorded {recorded(name, flow)}, judged {judgement.verdict}",
            "reasons": " ".join(reasons),
        }
        assert {key: value for key, value in got.items() if value} == want, flow.text
        assert flow.extra == flow.text.partition("dp-extra-info:")[2]


@pytest.mark.parametrize("name", EXPECTED)
def test_flows_recorded_in_hardware_are_not_judged_impossible(name: str) -> None:
    """And what was not is not promised, but where the recording is of a switch that could not offload."""
    differing = [
        flow.text
        for flow in flows(name)
        if recorded(name, flow) not in ("unsaid", judge(flow, profile(EXPECTED[name]["profile"])).verdict)
    ]
    assert bool(differing) == bool(EXPECTED[name].get("differs")), differing


@pytest.mark.parametrize("name", EXPECTED)
def test_masks_are_counted_on_every_switch(name: str) -> None:
    """By the reader that `check` has for its private switch, which is whatever Open vSwitch the machine has."""
    assert masks(read_megaflows((HERE / name).read_text())) == len({mask_of_match(flow.match) for flow in flows(name)})


@dataclass
class Recorded:
    """The switch of a recording: gives its lines by type, under the headings of its threads."""

    name: str

    @property
    def datapath(self) -> str:
        """That of DOCA 3.5 was doca@ovs-doca, of bridges whose type was netdev."""
        return "doca@ovs-doca" if self.name.startswith("doca-") else DATAPATH

    def run(self, command: str, *args: str) -> str:
        if command == "dpctl/dump-dps":
            return f"system@ovs-system\n{self.datapath}\n"
        assert command == "dpctl/dump-flows" and args[:2] == ("-m", self.datapath)
        out = []
        for line in (HERE / self.name).read_text().splitlines():
            flow = next((f for f in read_flows(line) if isinstance(f, DatapathFlow)), None)
            where = {"yes": "offloaded"}.get(recorded(self.name, flow), "non-offloaded") if flow else ""
            if not flow or f"type={where}" in args:
                out.append(line)
        return "\n".join(out)

    def commands(self) -> frozenset[str]:
        return frozenset(["dpctl/dump-flows"])


def port(flow: DatapathFlow) -> str:
    """The port that a flow is of, if a spec can have it: without -m it is a number, and some clouds' names begin so."""
    found = flow.get("in_port")
    return str(found.value) if found is not None and re.match("[a-z]", str(found.value)) else ""


def observed(name: str, config: Mapping[str, str] | None = None) -> Observation:
    """What `verify --offload` sees, with a spec of the recording's ports."""
    ports = sorted({port(flow) for flow in flows(name)} - {"", "p0"})
    wanted = "".join(["  ports:\n" if ports else "", *(f"    {port}:\n" for port in ports)])
    running = RunningSwitch(DATAPATH, ON if config is None else config, {})
    loaded = load(changed(("    p0:\n", f"    p0:\n{wanted}")))
    return observe(loaded, profile(EXPECTED[name]["profile"]), Recorded(name), running, wait=lambda _: None)


@pytest.mark.parametrize("name", EXPECTED)
def test_dumps_by_type_have_every_flow_once(name: str) -> None:
    switch = Recorded(name)
    found = dump(switch, switch.datapath)
    where = [recorded(name, flow) for flow in flows(name)]
    assert Counter(verdict for _, verdict in found) == Counter({"unsaid": "no"}.get(w, w) for w in where)
    assert not [flow for flow, _ in found if isinstance(flow, Unreadable)]


@pytest.mark.parametrize("name", EXPECTED)
def test_verify_reports_the_recorded_dumps(name: str) -> None:
    """Missing is what the profile promises and the recording does not show, surprising the other way round."""
    expected = [w["hardware"] for w, flow in zip(EXPECTED[name]["flows"], flows(name), strict=True) if port(flow)]
    seen = observed(name)
    there = sum("recorded yes" in e for e in expected)
    assert [seen.count(verdict) for verdict in ("yes", "partial", "no")] == [there, 0, len(expected) - there]
    assert len(seen.missing) == expected.count("recorded no, judged yes")
    assert len(seen.surprising) == sum(
        e in ("recorded yes, judged no", "recorded yes, judged partial") for e in expected
    )
    assert seen.ok == (not seen.missing) and not seen.unreadable and not seen.settings


def test_a_card_that_does_not_offload_is_told_from_one_that_does() -> None:
    """The same card and traffic, with offload and without."""
    assert observed("tc-bluefield3.txt").ok and observed("doca-bluefield3-1.txt").ok
    off = observed("tc-bluefield3-off.txt", {"hw-offload": "false"})
    assert not off.ok and len(off.missing) == 4
    assert {str(o.flow.get("in_port")) for o in off.missing} == {
        f"in_port={p}" for p in ("p0", "p1", "pf0hpf", "pf1hpf")
    }
    assert ["hw-offload" in setting for setting in off.settings] == [True]


def test_threads_of_a_switch_have_flows_of_their_own() -> None:
    seen = observed("dpdk-software.txt")
    ufids = Counter(o.flow.ufid for o in seen.flows)
    assert max(ufids.values()) == 2 and len(seen.flows) == 12 and len(ufids) == 9
    assert {o.flow.thread for o in seen.flows} == {"pmd on cpu core: 0", "pmd on cpu core: 1"}
