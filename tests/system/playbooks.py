# SPDX-License-Identifier: Apache-2.0
"""A controller for the runbooks: its inventory, its switch, which is the lab's, and what a run of a playbook gave."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dnsteer import __version__
from dnsteer.checks.load import load_spec
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import bring_back, take_out
from dnsteer.deploy.run import deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.lab import names
from dnsteer.lab.command import netns_exec, run
from dnsteer.slots.maintenance import Kind
from dnsteer.status.pools import view_pools
from dnsteer.status.rates import Rates
from dnsteer.status.record import RecordReading, read_record

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "runbooks"
PROGRAMS = Path(sys.executable).parent
"""Where the programs of this environment are: dnsteer, ansible-playbook."""
_ENVIRONMENT = {"ANSIBLE_CONFIG": str(RUNBOOKS / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
QUICKSTART = ROOT / "examples" / "quickstart.yaml"
ADDRESSES = "[192.0.2.53, 2001:db8::53]"
SWITCHES = ("dpu-1", "dpu-2")
"""Two names of the lab's one switch, so that there is one to spare when the canary fails."""
CLIENT = "dnst-c-p0"
_ASK = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
query = b"\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x02h0\\x07dnsteer\\x04test\\0\\0\\x01\\0\\x01"
for _ in range(1200):
    s.sendto(query, (sys.argv[1], 53))
    time.sleep(0.05)
"""


@dataclass(frozen=True)
class Played:
    """What a run of ansible-playbook gave."""

    code: int
    output: str

    def changed(self, host: str = "dpu-1") -> int:
        """The number of changed tasks in the recap of *host*."""
        found = re.search(rf"^{host}\s.*changed=(\d+)", self.output, re.MULTILINE)
        assert found is not None, self.output
        return int(found.group(1))

    @property
    def text(self) -> str:
        """The output in one line, as nobody knows where its lines were broken."""
        return " ".join(self.output.split())

    def said(self, text: str) -> bool:
        """Whether the output has *text*, wherever its lines were broken."""
        return " ".join(text.split()) in self.text


@dataclass(frozen=True)
class Site:
    """A controller with its inventory, and the lab as its network."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    """More for ansible-playbook."""

    @property
    def switch(self) -> TargetSwitch:
        """The lab's. What a test does to it goes by the library: that is much faster than the command."""
        return TargetSwitch(names.db_target())

    def spec(self, name: str, addresses: str = ADDRESSES, **changes: str) -> Path:
        """A spec like the lab's, with other VIP addresses, and each of *changes* replaced by its value."""
        text = QUICKSTART.read_text(encoding="utf-8").replace(ADDRESSES, addresses)
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        file = self.folder / f"{name}.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    def play(self, playbook: str, *options: str, **variables: Any) -> Played:
        """Run a playbook; *variables* are given with -e."""
        argv = [str(PROGRAMS / "ansible-playbook"), "-i", str(self.folder / "inventory.yml")]
        argv += [str(RUNBOOKS / "playbooks" / playbook), *options]
        argv += ["-e", json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in variables.items()})]
        environment = {**os.environ, **_ENVIRONMENT, "ANSIBLE_HOME": str(self.folder / "ansible"), **self.environment}
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=300, check=False, cwd=self.folder, env=environment
        )
        return Played(done.returncode, done.stdout + done.stderr)

    def apply(self, spec: Path) -> None:
        """Bring the switch to *spec*."""
        deploy(FileSource(load_spec(spec)), self.switch)

    def record(self) -> RecordReading:
        """What the switch's record says."""
        return read_record(names.db_target(), None, 10)

    def state(self) -> int:
        """Number of the state that is applied."""
        state = self.record().state
        assert state is not None
        return state.number

    def take_out(self, backend: str, kind: Kind) -> None:
        """Drain a backend or take it down, as somebody else."""
        change_overlay(self.switch, None, take_out(f"authoritative/{backend}", kind, note="disk"))

    def everybody_in(self) -> None:
        """End what takes backends out."""
        for entry in self.record().overlay or ():
            change_overlay(self.switch, None, bring_back(entry.name, entry.kind))

    def backends(self) -> dict[str, str]:
        """The state of each backend, as the record says."""
        record = self.record()
        assert record.state is not None
        (pool,) = view_pools(record.state.members, record.overlay, Rates(), now())
        return {b.name: b.state for b in pool.backends}

    def flows(self) -> list[str]:
        """The flows of the switch, without their counters."""
        said = run(["ovs-ofctl", "-O", "OpenFlow15", "--no-stats", "dump-flows", f"unix:{names.RUN_DIR}/br-dns.mgmt"])
        return sorted(said.splitlines())


def answers(address: str) -> bool:
    """Whether the client gets an answer from *address*."""
    argv = ["kdig", f"@{address}", "h0.dnsteer.test", "A", "+retry=0", "+timeout=1"]
    done = subprocess.run(netns_exec(CLIENT, argv), capture_output=True, text=True, timeout=10, check=False)
    return done.returncode == 0 and "NOERROR" in done.stdout


@contextmanager
def asking(address: str) -> Iterator[None]:
    """Twenty queries a second to *address*, for a minute at most."""
    with subprocess.Popen(netns_exec(CLIENT, [sys.executable, "-c", _ASK, address])) as process:
        try:
            yield
            assert process.poll() is None
        finally:
            process.kill()


@contextmanager
def by_tcp() -> Iterator[dict[str, str]]:
    """The lab's switch as one that is elsewhere: the variables that say where it is."""
    here = "127.0.0.1"
    vsctl = ["ovs-vsctl", f"--db={names.db_target()}"]
    server = ["ovs-appctl", "-t", str(names.RUN_DIR / "ovsdb-server.ctl")]
    run([*server, "ovsdb-server/add-remote", f"ptcp:6640:{here}"])
    run([*vsctl, "set-controller", "br-dns", f"ptcp:6653:{here}"])
    try:
        yield {"dnsteer_db": f"tcp:{here}:6640", "dnsteer_openflow": f"tcp:{here}:6653"}
    finally:
        run([*vsctl, "del-controller", "br-dns"])
        run([*server, "ovsdb-server/remove-remote", f"ptcp:6640:{here}"])


@contextmanager
def another_bridge(name: str) -> Iterator[None]:
    """A second bridge that is marked as dnsteer's, with nothing applied to it."""
    vsctl = ["ovs-vsctl", f"--db={names.db_target()}"]
    mark = ["--", "set", "bridge", name, "datapath_type=netdev", "external_ids:dnsteer=bridge"]
    try:
        run([*vsctl, "add-br", name, *mark])
        yield
    finally:
        run([*vsctl, "--if-exists", "del-br", name])


def write_inventory(folder: Path) -> None:
    """An inventory of the lab: two switches, which are one, a client, and the name servers."""
    host = {"ansible_netns_name": names.SWITCH_NAMESPACE, "dnsteer_probe_host": "client"}
    backends = {
        f"ns{n}": {
            "ansible_netns_name": f"dnst-b-ns{n}",
            "dnsteer_backend_of": [f"authoritative/ns{n}"],
            "dnsteer_backend_addresses": [f"192.0.2.1{n}"],
        }
        for n in (1, 2, 3, 4)
    }
    common = {
        "ansible_connection": "netns",
        "ansible_python_interpreter": sys.executable,
        "ansible_remote_tmp": str(folder / "remote"),
        "dnsteer_bin": str(folder / "dnsteer"),
        "dnsteer_check_bin": str(folder / "dnsteer"),
        "dnsteer_db": names.db_target(),
        "dnsteer_folder": str(folder / "etc-{{ inventory_hostname }}"),
        "dnsteer_probe_name": "h0.dnsteer.test",
        "dnsteer_probe_type": "A",
        "dnsteer_probe_count": 1,
        "dnsteer_health_tries": 3,
        "dnsteer_ovs_rundir": str(names.RUN_DIR),
        "dnsteer_ovs_logdir": str(names.RUN_DIR),
        "dnsteer_quiet_for": "1s",
        "dnsteer_yes": True,
    }
    groups = {
        "dpus": {"hosts": dict.fromkeys(SWITCHES, host)},
        "canary": {"hosts": {"dpu-1": {}}},
        "clients": {"hosts": {"client": {"ansible_netns_name": CLIENT}}},
        "backends": {"hosts": backends},
        "controller": {"hosts": {"here": {"ansible_netns_name": ""}, "nowhere": {"ansible_netns_name": "dnst-none"}}},
    }
    inventory = {"all": {"vars": common, "children": groups}}
    (folder / "inventory.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")


def write_command(folder: Path) -> None:
    """The command `dnsteer` of this tree."""
    (folder / "dnsteer").symlink_to(PROGRAMS / "dnsteer")


def make_wheel(folder: Path) -> Path:
    """A wheel of the tree, packed here: building one properly would fetch the build system from the network."""
    wheel = folder / f"dnsteer-{__version__}-py3-none-any.whl"
    info = f"dnsteer-{__version__}.dist-info"
    with zipfile.ZipFile(wheel, "w") as packed:
        for top, inside_it in ((ROOT / "generator" / "dnsteer", "dnsteer"), (ROOT / "templates", "dnsteer/templates")):
            for file in sorted(top.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    packed.write(file, f"{inside_it}/{file.relative_to(top)}")
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: dnsteer\nVersion: {__version__}\n")
        packed.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{info}/entry_points.txt", "[console_scripts]\ndnsteer = dnsteer.cli.main:run\n")
        packed.writestr(f"{info}/RECORD", "")
    return wheel
