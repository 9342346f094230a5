# SPDX-License-Identifier: Apache-2.0
"""The lab for real: namespaces, daemons, wires, and that nothing of it is left behind."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import names, processes, topology, traffic
from dnsteer.lab.openvswitch import direct_path
from dnsteer.lab.zone import LARGE, WHOAMI
from dnsteer.spec.model.spec import Spec
from tests import worker_machine
from tests.system.lab_specs import EVERYTHING, EXAMPLES, spec_of

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces and raw sockets"),
]
ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.yaml"
TUNNELS = ROOT / "examples" / "ipip.yaml"


def interfaces() -> set[str]:
    return {p.name for p in Path("/sys/class/net").iterdir()}


def mentions_of_run_dir() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if f"{names.RUN_DIR}/".encode() in command and worker_machine.has(int(entry.name)):
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


def assert_nothing_left() -> None:
    assert processes.namespaces() == []
    assert not names.RUN_DIR.exists()
    left = mentions_of_run_dir()
    assert left == [], left
    assert lab.status() is None


@pytest.fixture(autouse=True)
def _no_lab_before_or_after(no_lab: None) -> Iterator[None]:
    before = interfaces()
    yield
    lab.down()
    assert_nothing_left()
    assert interfaces() == before, "the machine's own namespace was altered"


def start_up(spec: Path) -> subprocess.Popen[str]:
    program = (
        "import sys; from pathlib import Path; from dnsteer import lab; from dnsteer.checks.load import load_spec\n"
        "lab.up(load_spec(Path(sys.argv[1])).spec, progress=lambda line: print(line, flush=True))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    return subprocess.Popen(
        [sys.executable, "-c", program, str(spec)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        stderr=subprocess.DEVNULL,
    )


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    for said in process.stdout:
        if said.startswith(line):
            return
    raise AssertionError(f"`lab up` ended without saying {line!r}")


def test_lab_up_status_and_down() -> None:
    said: list[str] = []
    built = lab.up(load_spec(QUICKSTART).spec, progress=said.append)
    assert built.phase == "up" and not built.applied
    assert sorted(p.program for p in built.processes) == ["nsd"] * 4 + ["ovs-vswitchd", "ovsdb-server"]
    assert {p.namespace for p in built.processes} <= set(built.namespaces)
    assert lab.status() == built
    assert "lab is up" in said[-1]
    with pytest.raises(lab.LabExistsError, match="a lab is up already"):
        lab.up(load_spec(QUICKSTART).spec)
    assert lab.status() == built
    os.kill(next(p.pid for p in built.processes if p.program == "ovs-vswitchd"), signal.SIGKILL)
    time.sleep(0.1)
    broken = lab.status()
    assert broken is not None and broken.phase == "broken" and "ovs-vswitchd" in broken.problem
    lab.down()
    assert_nothing_left()
    lab.down()


SHARED = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1]
  uplinks: {p0: {next_hop: 02:00:00:00:00:fe}}
pools:
  far:
    backends:  # two behind one router, one not
      - {name: r1, ipv4: 10.54.0.31, mac: 02:00:00:00:05:05}
      - {name: r2, ipv4: 10.54.0.32, mac: 02:00:00:00:05:05}
      - {name: s1, ipv4: 10.54.0.33, mac: 02:00:00:00:05:06}
vips:
  dns: {addresses: [198.51.100.3], services: [dns], pool: far, forwarding: nat}
"""


def test_status_shows_the_processes_of_name_servers_that_share_a_mac(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SHARED)
    built = lab.up(load_spec(file).spec)
    places = {s.name: s.namespace for s in built.servers}
    assert places["r1"] == places["r2"] != places["s1"]
    pid = {s.name: int((names.RUN_DIR / f"ns{s.index}" / "nsd.pid").read_text()) for s in built.servers}
    assert {p.server: p.pid for p in built.processes if p.program == "nsd"} == pid

    def rows() -> dict[str, str]:
        said = io.StringIO()
        lab.print_status(Console(file=said, width=120), lab.status())
        cells = [[c.strip() for c in line.split("│")[1:-1]] for line in said.getvalue().splitlines()]
        return {row[0].removeprefix("name server "): row[-1] for row in cells if row and row[0].startswith("name")}

    assert rows() == {name: f"nsd {number}" for name, number in pid.items()}
    os.kill(pid["r2"], signal.SIGKILL)
    time.sleep(0.1)
    assert rows() == {"r1": f"nsd {pid['r1']}", "r2": "none", "s1": f"nsd {pid['s1']}"}
    broken = lab.status()
    assert broken is not None
    assert broken.problem == "processes have ended: nsd (2 of 3 run); without a process: r2"


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.06])
@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (QUICKSTART, "creating"),
        (QUICKSTART, "starting a private"),
        (QUICKSTART, "starting 4"),
        (TUNNELS, "attaching"),
        (TUNNELS, "starting the extension"),
    ],
)
def test_down_after_a_kill_leaves_nothing(spec: Path, line: str, delay: float) -> None:
    process = start_up(spec)
    wait_for(process, line)
    time.sleep(delay)
    process.kill()
    process.wait()
    left = lab.status()
    # `building`: a child that was being started holds the lock for a moment more.
    assert left is not None and left.phase in ("building", "broken", "up")
    with pytest.raises(lab.LabExistsError, match="dnsteer lab down"):
        lab.up(load_spec(QUICKSTART).spec)
    lab.down()
    assert_nothing_left()


@pytest.mark.parametrize("line", ["creating", "starting a private", "starting 4"])
def test_an_interrupted_up_cleans_up_after_itself(line: str) -> None:
    process = start_up(QUICKSTART)
    wait_for(process, line)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) != 0
    assert_nothing_left()


def test_up_and_down_exclude_each_other() -> None:
    process = start_up(QUICKSTART)
    wait_for(process, "creating")
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(lab.LabBusyError):
        lab.down()
    with pytest.raises(lab.LabBusyError):
        lab.up(load_spec(QUICKSTART).spec)
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(20) == 0


def test_down_leaves_foreign_namespaces_alone() -> None:
    """A pidfile with a number that another program has now, and a namespace name bound to the machine's own."""
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        names.RUN_DIR.mkdir()
        (names.RUN_DIR / "ovs-vswitchd.pid").write_text(f"{stranger.pid}\n")
        subprocess.run(["ip", "netns", "attach", f"{names.PREFIX}stray", str(stranger.pid)], check=True)
        lab.down()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def switch_on(spec: Spec, built: lab.LabState) -> None:
    """A bridge without flows: this is about the wires, not about what dnsteer makes of them."""
    bridge = spec.switch.bridge
    argv = ["ovs-vsctl", f"--db={built.db}", "--timeout=10", "add-br", bridge]
    argv += ["--", "set", "bridge", bridge, "datapath_type=netdev", "fail_mode=secure"]
    for port in (*spec.switch.uplinks, *spec.switch.ports):
        argv += ["--", "add-port", bridge, port]
    subprocess.run(argv, check=True, timeout=20)


@pytest.mark.parametrize(
    "spec",
    [*(load_spec(f).spec for f in EXAMPLES), spec_of(EVERYTHING)],
    ids=[*(f.stem for f in EXAMPLES), "everything"],
)
def test_every_server_answers_every_client_by_the_direct_path(spec: Spec) -> None:
    built = lab.up(spec)
    switch_on(spec, built)
    plan = topology.plan_network(spec)
    for client in plan.clients:
        for _, server in plan.servers():
            with direct_path(plan, server.name, client):
                for address in server.addresses:
                    port = next(p for a, p in server.listen if a == address and p != server.tls_port)
                    for transport in ("udp", "tcp"):
                        said = traffic.ask(
                            built, str(address), WHOAMI, "TXT", port=port, transport=transport, uplink=client.uplink
                        )
                        assert said is not None, (client.uplink, server.name, address, transport)
                        assert (said.records, said.nsid) == ((f'"{server.name}"',), server.name)
                    large = traffic.ask(
                        built, str(address), LARGE, "TXT", port=port, bufsize=4096, uplink=client.uplink
                    )
                    assert large is not None
                    if server.small:
                        assert large.size <= 1232 and "tc" in large.flags
                    else:
                        assert large.size > 3000 and "tc" not in large.flags
                if server.tls_port is not None:
                    said = traffic.ask(
                        built,
                        str(server.addresses[0]),
                        WHOAMI,
                        "TXT",
                        port=server.tls_port,
                        transport="tls",
                        uplink=client.uplink,
                    )
                    assert said is not None and said.nsid == server.name
    counted = traffic.query_counters(built)
    for _, server in plan.servers():
        asked = len(plan.clients) * len(server.addresses)
        tls = len(plan.clients) if server.tls_port is not None else 0
        assert counted[server.name] == {"udp": 2 * asked, "tcp": asked + tls}


def test_dnsperf_counts_what_the_server_counts() -> None:
    spec = load_spec(QUICKSTART).spec
    built = lab.up(spec)
    switch_on(spec, built)
    plan = topology.plan_network(spec)
    with direct_path(plan, "ns1", plan.clients[0]):
        for transport in ("udp", "tcp"):
            load = traffic.Load("192.0.2.11", transport=transport, repeats=5, local=built.client().direct[0])
            for _ in range(2):  # the second run must not stumble over the first one's ports
                with traffic.start_dnsperf(built, load) as running:
                    result = running.wait(30)
                assert result.sent == result.completed == 5 * traffic.queries_in_file()
                assert result.lost == 0
        load = traffic.Load("192.0.2.11", seconds=30, local=built.client().direct[0])
        with traffic.start_dnsperf(built, load) as running:
            time.sleep(0.3)
            stopped = running.stop()
        assert stopped.lost == 0
    sent = 10 * traffic.queries_in_file()
    counted = traffic.query_counters(built)["ns1"]
    assert counted["tcp"] == sent
    assert counted["udp"] == sent + stopped.sent
