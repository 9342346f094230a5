# SPDX-License-Identifier: Apache-2.0
"""What the extension serves, on a real switch with its program beside it: all of it is proven, and every damage is seen."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dnsteer.checks.load import check_document, load_spec
from dnsteer.extension.executables import FOLDER
from dnsteer.plan.build import build_plan
from dnsteer.proof.check import prove
from dnsteer.proof.check_report import CheckReport
from dnsteer.proof.harness import extension_process, switch
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.outcome import Frame
from dnsteer.render.flows import Flow, parse_flow
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.order import PIPELINE
from tests.packet.command import run
from tests.unit.extension_cases import SPEC

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("ipip", "spray", "client-hash", "siit", "everything")
Program = dict[str, Any]


def loaded(name: str) -> Loaded:
    if name == "everything":
        return check_document(parse_document("spec.yaml", SPEC))
    return load_spec(ROOT / "examples" / f"{name}.yaml")


def failures(report: CheckReport) -> str:
    return "\n".join(f"{f.vector}: {f.problem}" for f in report.failures)


@pytest.mark.parametrize("name", NAMES)
def test_examples_pass_the_proof(name: str) -> None:
    report = prove(loaded(name))
    assert report.ok, report.failures[:1]
    assert report.extended > 100
    assert "dnsteer-ext on the software model" in report.extension
    assert report.as_json()["extended"] == report.extended


def test_a_sample_passes_the_proof() -> None:
    report = prove(loaded("everything"), per_service=3)
    assert report.ok, report.failures[:1]


@pytest.mark.parametrize("fields", ["[dst_port]", "[dst_ip, dst_port]"])
def test_one_backend_for_all_queries_of_a_service_is_as_the_spec_says(fields: str) -> None:
    text = (ROOT / "examples" / "client-hash.yaml").read_text()
    text = text.replace("hash_fields: [src_ip]", f"hash_fields: {fields}")
    spec = check_document(parse_document("spec.yaml", text))
    assert "18: $.pools.resolvers.hash_fields: found fields that all clients of a service share" in (
        spec.warnings[0].text("spec.yaml")
    )
    report = prove(spec)
    assert report.ok, report.failures[:1]


def test_without_an_extension_none_is_named() -> None:
    report = prove(load_spec(ROOT / "examples" / "quickstart.yaml"))
    assert (report.extension, report.extended) == ("", 0)


def test_an_extension_that_no_vip_needs_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    text = (ROOT / "examples" / "client-hash.yaml").read_text()
    text = text.replace("    selection: client\n    hash_fields: [src_ip]\n", "")
    report = prove(check_document(parse_document("spec.yaml", text)))
    assert report.ok, report.failures[:1]
    assert (report.extension, report.extended) == ("", 0)


def of_table(name: str) -> Callable[[Flow], bool]:
    return lambda flow: flow.table == PIPELINE.tables[name].number and bool(flow.priority)


def to(actions: str) -> Callable[[Flow], Flow]:
    return lambda flow: replace(flow, actions=actions)


FLOWS = {
    # what is broken: (spec, which flows, what becomes of them: None removes them)
    "a service does not go to the extension": (
        "ipip",
        lambda f: f.match == "udp,nw_dst=198.51.100.53,tp_dst=53",
        to("drop"),
    ),
    "what comes back leaves by another port": (
        "everything",
        lambda f: "dl_dst=02:00:00:00:0b:31" in f.match,
        to("output:p2"),
    ),
    "an exit has another MAC": (
        "everything",
        lambda f: of_table("extension")(f) and "0b:03" in f.match,
        lambda f: replace(f, match=f.match.replace("0b:03", "0b:99")),
    ),
    "an exit is missing": ("everything", lambda f: of_table("extension")(f) and "0b:22" in f.match, None),
    "frames for anybody are let out": (
        "everything",
        lambda f: of_table("extension")(f) and "0b:31" in f.match,
        lambda f: replace(f, match=f.match.replace(",dl_dst=02:00:00:00:0b:31", ""), priority=f.priority - 1),
    ),
    "the router's MAC goes to the extension": (
        "client-hash",
        lambda f: of_table("egress")(f) and "ext-in" in f.actions,
        to("output:ext-in"),
    ),
    "answers to translate are taken for others": (
        "siit",
        lambda f: of_table("return")(f) and "ext-out" not in f.actions and "64:ff9b::/96" in f.match,
        None,
    ),
    "translated answers do not come back": (
        "siit",
        lambda f: of_table("extension")(f) and "ext-in" in f.match,
        to("drop"),
    ),
    "answers go to the extension by the wrong MAC": (
        "siit",
        lambda f: of_table("egress")(f) and "ext-out" in f.actions,
        lambda f: replace(f, actions=f.actions.replace("00:fe", "00:fd")),
    ),
    "answers of a tunnel's end are forgotten": (
        "everything",
        lambda f: of_table("return")(f) and "nw_src=192.0.2.1" in f.match,
        None,
    ),
}


def with_broken_flows(
    spec: Loaded,
    touches: Callable[[Flow], bool],
    change: Callable[[Flow], Flow] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> CheckReport:
    """What is said of the spec where some flows are changed, or left out."""
    original = switch.lines_of
    touched: list[Flow] = []

    def broken(plan: Any, **_: bool) -> list[str]:
        out = []
        for flow in map(parse_flow, original(plan)):
            if touches(flow):
                touched.append(flow)
            if not touches(flow) or change is not None:
                out.append((change(flow) if touches(flow) else flow).line())
        return out

    monkeypatch.setattr(switch, "lines_of", broken)
    report = prove(spec)
    assert touched
    return report


@pytest.mark.parametrize("what", FLOWS)
def test_broken_flows_are_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, touches, change = FLOWS[what]
    assert not with_broken_flows(loaded(name), touches, change, monkeypatch).ok


def vip(program: Program, part: str) -> dict[str, Any]:
    return next(each for each in program["vips"] if part in each["name"])


def another(program: Program, part: str) -> None:
    """Slot 5 gets the backend of a slot that has another."""
    slots = vip(program, part)["slots"]
    slots[5] = next(name for name in slots if name != slots[5])


def backend(program: Program, part: str) -> dict[str, Any]:
    return next(each for each in program["backends"] if part in each["name"])


PROGRAMS: dict[str, tuple[str, Callable[[Program], object], str]] = {
    # what is broken: (spec, how, what is said of it among the failures)
    "a slot by source port": ("ipip", lambda p: another(p, "/tcp/"), "slot 5"),
    "a slot of clients": ("client-hash", lambda p: another(p, "/tcp/"), "slot 5 is"),
    "a slot of spray": ("spray", lambda p: another(p, "/udp/"), "slot 5 is"),
    "a slot of a translation": ("siit", lambda p: another(p, "/udp/"), "slot 5"),
    "half of the slots": (
        "client-hash",
        lambda p: vip(p, "/udp/").update(slots=vip(p, "/udp/")["slots"][:32]),
        "32 slots",
    ),
    "a service is missing": ("ipip", lambda p: p["vips"].pop(), "does not have it"),
    "a service of nobody": (
        "ipip",
        lambda p: p["vips"].append({**p["vips"][0], "name": "x", "port": 54}),
        "no such service",
    ),
    "a backend's MAC": (
        "client-hash",
        lambda p: p["backends"][0].update(mac="02:00:00:00:09:09"),
        "left with wrong bytes",
    ),
    "a backend's address": ("ipip", lambda p: p["backends"][0].update(address="192.0.2.99"), "left with wrong bytes"),
    "a translated address": (
        "siit",
        lambda p: p["backends"][0].update(address="2001:db8:53::99"),
        "left with wrong bytes",
    ),
    "the tunnels' source": ("ipip", lambda p: p["tunnel"].update(ipv6="2001:db8::3"), "left with wrong bytes"),
    "the tunnels' MAC": ("ipip", lambda p: p["tunnel"].update(mac="02:00:00:00:09:09"), "left with wrong bytes"),
    "no tunnel": ("ipip", lambda p: vip(p, "198.51.100.53/udp").update(forward="l2"), "left with wrong bytes"),
    "clients are sprayed": (
        "client-hash",
        lambda p: vip(p, "/udp/").update(select="spray", hash_fields=None),
        "has the same hash fields",
    ),
    "spray keeps clients": (
        "spray",
        lambda p: vip(p, "/udp/").update(select="client", hash_fields=["src_ip"]),
        "that differ in nothing: all",
    ),
    "spray goes by port": ("spray", lambda p: vip(p, "/udp/").update(select="slots"), "that differ in nothing: all"),
    "clients are known by their port too": (
        "client-hash",
        lambda p: vip(p, "/udp/").update(hash_fields=["src_ip", "src_port"]),
        "has the same hash fields",
    ),
    "clients are known by nothing": (
        "client-hash",
        lambda p: [each.update(hash_fields=["dst_ip"]) for each in p["vips"]],
        "the queries for",
    ),
    "ports of clients do not count": (
        "everything",
        lambda p: vip(p, "192.0.2.5/udp/53").update(hash_fields=["src_ip", "dst_port"]),
        "differ in src_port: all",
    ),
}


def with_wrong_program(
    spec: Loaded, change: Callable[[Program], object], monkeypatch: pytest.MonkeyPatch
) -> CheckReport:
    """What is said of the spec with a program that is changed."""
    original = extension_process.program_of

    def broken(extension: Any) -> Program:
        program = original(extension)
        change(program)
        for each in program["vips"]:
            if each.get("hash_fields") is None:
                each.pop("hash_fields", None)
        return program

    monkeypatch.setattr(extension_process, "program_of", broken)
    return prove(spec)


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_wrong_program_is_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, change, problem = PROGRAMS[what]
    report = with_wrong_program(loaded(name), change, monkeypatch)
    assert not report.ok
    assert problem in failures(report)


def test_a_program_that_is_no_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension_process, "program_of", lambda _: {"version": 1})
    with pytest.raises(SwitchError, match=r"dnsteer-ext-frames: \$"):
        prove(loaded("ipip"))


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(SwitchError, match="no program dnsteer-ext-frames, which this spec needs"):
        prove(loaded("ipip"))
    assert prove(load_spec(ROOT / "examples" / "quickstart.yaml"), per_service=1).ok  # which does not need it


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo no use >&2; exit 3", r"ended \(exit status 3\): no use"),
        ("read line; echo '{\"ok\": true'", "no JSON"),
        ("read line; echo '{\"ok\": false}'", "gives no reason"),
        ("sleep 60", "did not answer within 1 s"),
    ],
)
def test_a_failing_program_is_reported(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / extension_process.NAME
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(extension_process, "_ANSWER_TIMEOUT", 1.0)
    with pytest.raises(SwitchError, match=message):
        prove(loaded("ipip"))


def test_a_dying_program_is_reported_and_leaves_nothing() -> None:
    with Harness(build_plan(loaded("ipip"))) as switch:
        assert switch.extension is not None
        process = switch.extension._process
        assert process is not None
        os.kill(process.pid, signal.SIGSEGV)
        with pytest.raises(SwitchError, match="ended"):
            switch.extension.run([("in", bytes(60))])
    assert process.poll() is not None


def test_looping_packets_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    original = switch.lines_of

    def looping(plan: Any, **_: bool) -> list[str]:
        flows = [flow for flow in map(parse_flow, original(plan)) if not of_table("extension")(flow)]
        back = replace(
            flows[0],
            table=PIPELINE.tables["extension"].number,
            priority=9,
            match="in_port=ext-out",
            actions="output:ext-in",
        )
        return [flow.line() for flow in [*flows, back]]

    monkeypatch.setattr(switch, "lines_of", looping)
    with pytest.raises(SwitchError, match="packets loop between"):
        prove(loaded("client-hash"), per_service=1)


def test_the_program_ends_with_the_harness() -> None:
    with Harness(build_plan(loaded("spray"))) as switch:
        assert switch.extension is not None
        process = switch.extension._process
        assert process is not None
        assert process.poll() is None
        assert switch.send([Frame("p0", bytes(60))]) == []
    assert process.poll() is not None


def test_the_command_counts_packets_through_the_extension() -> None:
    file = ROOT / "examples" / "ipip.yaml"
    ran = run("check", file, "--sample", 2)
    assert ran.code == 0
    assert re.search(
        r"\n  \d+ packets through the extension, dnsteer-ext on the software model of DOCA Flow \d", ran.out
    )
    ran = run("check", file, "--sample", 2, "--json")
    assert ran.json["ok"]
    assert ran.json["extended"] > 10
    assert "through the extension" not in run("check", ROOT / "examples" / "quickstart.yaml", "--sample", 2).out


def test_the_command_shows_a_failure_in_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    original = extension_process.program_of
    monkeypatch.setattr(extension_process, "program_of", lambda e: {**(p := original(e)), "vips": p["vips"][:-1]})
    ran = run("check", ROOT / "examples" / "ipip.yaml")
    assert ran.code == 1
    assert "FAILED dns 2001:db8:1::53 tcp/53 at ext-in: the extension's program does not have it" in ran.out
    assert "the extension: dropped what came in by its port in, classifier: forward to drop" in ran.out


def test_the_command_explains_the_way_through() -> None:
    query = ("--client", "198.51.100.7:40001", "--vip", "192.0.2.53:53/udp")
    ran = run("explain", ROOT / "examples" / "client-hash.yaml", *query)
    assert ran.code == 0
    for words in (
        "slot     chosen by the extension's hash",
        "extension sent by slots-l2",
        "pipes     classifier > client64-l2 > slots-l2",
        "of 64 slots",
        "sent      ext-out:",
        "extension in_port=ext-out",
        "passes   2",
        "note     the hash is the software model's",
    ):
        assert words in ran.out
    way = run("explain", ROOT / "examples" / "client-hash.yaml", *query, "--json").json
    assert (way["extension"]["verdict"], len(way["back"]), way["selection"]) == ("sent", 2, "client")
    cookie = hex(way["back"][-1]["cookie"])
    named = run("explain", ROOT / "examples" / "client-hash.yaml", "--cookie", cookie)
    assert named.out.startswith(f"{cookie}: extension, ")
    assert named.out.endswith("$.switch.extension\n")


HELD = """
import sys
from pathlib import Path
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.checks.load import load_spec
with Harness(build_plan(load_spec(Path(sys.argv[1])))) as switch:
    print(switch.extension._process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_program_ends_with_its_parent(number: signal.Signals) -> None:
    with tempfile.TemporaryDirectory(prefix="t-") as place:  # short: sockets have names of 107 characters at most
        _ends_with_its_starter(number, place)


def _ends_with_its_starter(number: signal.Signals, place: str) -> None:
    argv = [sys.executable, "-c", HELD, str(ROOT / "examples" / "spray.yaml")]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "generator"), "TMPDIR": place}
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
    ) as holder:
        assert holder.stdout is not None
        pid = holder.stdout.readline().strip()
        assert pid, "the holder did not start"
        program = Path("/proc", pid)
        assert program.exists()
        holder.send_signal(number)
    deadline = time.monotonic() + 10
    while _runs(program) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(program)


def _runs(process: Path) -> bool:
    """One that has ended stays listed until its new parent has asked for its exit code."""
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
