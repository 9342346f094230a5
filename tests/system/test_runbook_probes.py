# SPDX-License-Identifier: Apache-2.0
"""The probe of the runbooks against real name servers: every backend, by every service, and nobody else."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import names, nameserver
from dnsteer.lab.command import netns_exec, run
from tests.system.playbooks import CLIENT, ROOT, Site, write_command, write_inventory

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
VIP4, VIP6 = "192.0.2.53", "2001:db8::53"
BACKENDS = ("ns1", "ns2", "ns3", "ns4")
_OPTIONS = {"udp": [], "tcp": ["+tcp"], "tls": ["+tls"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, no_lab: None) -> Iterator[Site]:
    """The lab up and its spec applied: the quickstart with DoT."""
    folder = tmp_path_factory.mktemp("site")
    write_command(folder)
    write_inventory(folder)
    made = Site(folder)
    spec = made.spec("dot", **{"services: [dns]": "services: [dns, dot]"})
    try:
        lab.up(load_spec(spec).spec)
        made.apply(spec)
        yield made
    finally:
        lab.down()


@pytest.fixture(autouse=True)
def everybody_in(site: Site) -> Iterator[None]:
    yield
    site.everybody_in()


def probes(site: Site, *options: str) -> dict[str, object]:
    said: dict[str, object] = json.loads(
        run([str(site.folder / "dnsteer"), "probes", "--json", "--db", names.db_target(), *options])
    )
    return said


def queries() -> Counter[tuple[str, str]]:
    """Queries that each name server has had, by transport."""
    found: Counter[tuple[str, str]] = Counter()
    for index, name in enumerate(BACKENDS):
        said = run(["nsd-control", "-c", str(nameserver.config_file(index)), "stats_noreset"])
        for transport in ("udp", "tcp", "tls"):
            for key in (transport, f"{transport}6"):
                found[name, transport] += int(re.search(rf"^num\.{key}=(\d+)$", said, re.M)[1])  # type: ignore[index]
    return found


@contextmanager
def silent(backend: str) -> Iterator[None]:
    """The name server stands still."""
    stopped = [int(pid) for pid in run(["ip", "netns", "pids", f"dnst-b-{backend}"]).split()]
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def test_every_question_is_answered_by_the_backend_that_it_is_for(site: Site) -> None:
    found = probes(site, "--ports", "3")
    questions = found["questions"]
    assert isinstance(questions, list) and found["unasked"] == []
    assert Counter((q["address"], q["transport"], q["backend"]) for q in questions) == Counter(
        (address, transport, backend) for address in (VIP4, VIP6) for transport in _OPTIONS for backend in BACKENDS
    )
    for q in questions:
        assert len(set(q["source_ports"])) == 3
        for port in q["source_ports"]:
            wildcard = "::" if ":" in q["address"] else "0.0.0.0"
            argv = [
                "kdig",
                f"@{q['address']}",
                "-p",
                str(q["port"]),
                "-b",
                f"{wildcard}#{port}",
                "h0.dnsteer.test",
                "A",
                "+nsid",
                "+retry=0",
                "+timeout=2",
                *_OPTIONS[q["transport"]],
            ]
            done = subprocess.run(netns_exec(CLIENT, argv), capture_output=True, text=True, check=False, timeout=20)
            assert f'"{q["backend"]}"' in done.stdout, (argv, done.stdout, done.stderr)


def test_deploy_asks_every_backend_by_each_service(site: Site) -> None:
    before = queries()
    spec = site.spec("dot", **{"services: [dns]": "services: [dns, dot]"})
    played = site.play("deploy.yml", "--limit", "dpu-1", dnsteer_spec=spec, dnsteer_probe_count=2)
    assert played.code == 0, played.output
    asked = queries()
    asked.subtract(before)
    assert asked == dict.fromkeys(before, 4), played.output  # two addresses, twice


def test_a_backend_that_does_not_answer_is_named_and_one_that_is_drained_is_not_asked(site: Site) -> None:
    site.apply(site.spec("dot", **{"services: [dns]": "services: [dns, dot]"}))
    before, state = site.flows(), site.state()
    other = site.spec("heavier", **{"services: [dns]": "services: [dns, dot]", "weight: 3": "weight: 4"})
    with silent("ns2"):
        played = site.play("deploy.yml", "--limit", "dpu-1", dnsteer_spec=other)
        assert played.code != 0
        assert played.said(
            "dpu-1: the VIPs do not answer as they should before the change already; nothing was changed. Ask the VIPs: "
            "6 of 24 questions got no good answer at client:"
        ), played.output
        for address in (VIP4, VIP6):
            for transport in ("udp/53", "tcp/53", "tls/853"):
                assert played.said(f"{address} {transport} (ns2): "), played.output
        assert (site.flows(), site.state()) == (before, state)
        played = site.play("deploy.yml", "--limit", "dpu-1", dnsteer_spec=other, dnsteer_probe_baseline=False)
        assert played.said(f"dpu-1: rolled back to state {state}. BUT THIS FAILED AFTERWARDS"), played.output
        assert site.flows() == before
        site.take_out("ns2", "down")
        played = site.play("deploy.yml", "--limit", "dpu-1", dnsteer_spec=other)
        assert played.code == 0, played.output


def test_a_service_is_left_out_when_that_is_asked_for(site: Site) -> None:
    found = probes(site, "--skip", "tcp/853", "--address", VIP6)
    questions = found["questions"]
    assert isinstance(questions, list)
    assert {(q["address"], q["transport"]) for q in questions} == {(VIP6, "udp"), (VIP6, "tcp")}
    assert found["unasked"] == [f"VIP dns {VIP6} tcp/853: left out by --skip"]


def test_rolling_upgrade_asks_the_backend_itself_by_each_service(site: Site) -> None:
    site.apply(site.spec("dot", **{"services: [dns]": "services: [dns, dot]"}))
    before = queries()
    played = site.play("rolling-upgrade.yml", dnsteer_backends="ns1", dnsteer_hook_command=["true"])
    assert played.code == 0, played.output
    asked = queries()
    asked.subtract(before)
    assert +asked == {("ns1", transport): 2 for transport in _OPTIONS}, played.output  # before and after


def test_source_ports_that_are_in_use_are_passed_over(site: Site) -> None:
    """Also those that wait at the client after a connection, which two deploys within a minute would meet."""
    questions = probes(site, "--address", VIP4, "--ports", "2")["questions"]
    assert isinstance(questions, list)
    taken = sorted({q["source_ports"][0] for q in questions})
    hold = (
        "import errno, socket, sys\nheld = []\nfor port in map(int, sys.argv[1:]):\n"
        "    held.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)); held[-1].bind(('0.0.0.0', port))\n"
        "    try: held.append(socket.create_server(('0.0.0.0', port)))\n"
        "    except OSError as err:\n"  # a connection of an earlier test waits there: the port is in use as it is
        "        assert err.errno == errno.EADDRINUSE\n"
        "print('held', flush=True); sys.stdin.read()\n"
    )
    argv = netns_exec(CLIENT, ["python3", "-c", hold, *map(str, taken)])
    play = site.folder / "ask.yml"
    play.write_text(
        "- hosts: client\n  gather_facts: false\n  tasks:\n    - dnsteer_ask:\n"
        f"        questions: {json.dumps(questions)}\n        name: h0.dnsteer.test\n        type: A\n"
        "        options: [+retry=0, +timeout=1]\n"
    )
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        played = site.play(str(play))
        holder.stdin.close()
    assert played.code == 0, played.output
    before = len(questions)
    assert before == 3 * len(BACKENDS)


def test_an_unknown_backend_on_the_switch_is_named(site: Site) -> None:
    command = [str(site.folder / "dnsteer"), "probes", "--db", names.db_target(), "--backend", "authoritative/ns9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    assert done.returncode == 1
    assert "found authoritative/ns9; expected a backend of the spec that is applied: authoritative/ns1," in done.stderr
