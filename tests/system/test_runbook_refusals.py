# SPDX-License-Identifier: Apache-2.0
"""What the runbooks find on a switch before they change it: what they refuse, and what they change all the same."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import bring_back, take_out
from dnsteer.deploy.run import deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Kind
from dnsteer.status.record import RecordReading, read_record
from dnsteer.switch.openflow import PROTOCOL
from tests.packet.switches import VIP_TABLE
from tests.packet.test_bringup import Running
from tests.system.playbooks import Played, Site
from tests.system.runbook_machine import SPEC, machine

pytestmark = [pytest.mark.system, pytest.mark.root("network and mount namespaces")]
POLICED = "port changed: port p0"
FOREIGN = f"cookie=0x8,{VIP_TABLE},priority=65000,udp,actions=drop"
REFUSED = "dpu-1: this differs already, and a deploy does not put it right; nothing was changed."
NO_ANSWER = "{query: {name: example.com, type: SOA}}"
_numbers = count(2)


@dataclass
class Bench:
    """The controller, and its switch."""

    site: Site
    running: Running

    @property
    def switch(self) -> TargetSwitch:
        return TargetSwitch(self.running.database)

    def begin(self, text: str = SPEC) -> None:
        """Bring the switch to a spec."""
        file = self.site.folder / "applied.yaml"
        file.write_text(text)
        deploy(FileSource(load_spec(file)), self.switch)

    def deploy(self, text: str, **given: object) -> Played:
        (self.site.folder / "specs" / "dpu-1.yaml").write_text(text)
        return self.site.play("deploy.yml", **given)

    def record(self) -> RecordReading:
        return read_record(self.switch.remote, None, 10)

    def applied(self) -> str:
        state = self.record().state
        assert state is not None
        return state.text

    def ofctl(self, command: str, flow: str) -> None:
        target = f"unix:{self.running.dir}/br-dns.mgmt"
        subprocess.run(["ovs-ofctl", "-O", PROTOCOL, command, target, flow], check=True, timeout=30)

    def police(self, kbits: int) -> None:
        """Limit the input of the uplink, as somebody else."""
        self.running.vsctl("set", "Interface", "p0", f"ingress_policing_rate={kbits}")


def another(check: str = "") -> str:
    """The spec with a weight that it did not have before, and a health check where one is given."""
    text = SPEC.replace("mac: '02:00:00:00:01:03'", f"mac: '02:00:00:00:01:03', weight: {next(_numbers)}")
    return text.replace("    slots: 16\n", f"    slots: 16\n    health: {check}\n") if check else text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("site")
    with machine(folder) as (site, running):
        yield Bench(site, running)


@pytest.fixture
def bench(made: Bench) -> Iterator[Bench]:
    """With the spec applied, and nothing of others on the switch before and after."""
    made.begin()
    yield made
    made.police(0)
    made.ofctl("del-flows", "cookie=0x8/-1")
    for entry in made.record().overlay or ():
        change_overlay(made.switch, None, bring_back(entry.name, entry.kind))


def test_deploy_refuses_a_spec_that_would_be_rolled_back(bench: Bench) -> None:
    """A limit that somebody set is there before and after, whatever the spec: it says nothing of that."""
    before = bench.record().revision
    bench.police(1000)
    played = bench.deploy(another())
    assert played.code != 0 and played.said(REFUSED), played.output
    assert played.said(f"{POLICED} (line 7 of the spec): ingress_policing_rate is 1000"), played.output
    assert played.said("Put it right first; to deploy with it: -e dnsteer_verify_baseline=false"), played.output
    assert bench.record().revision == before
    planned = bench.site.play("deploy.yml", "--check")
    assert planned.code != 0 and planned.said(REFUSED), planned.output


def test_deploy_tolerates_earlier_differences(bench: Bench) -> None:
    bench.police(1000)
    good = another()
    played = bench.deploy(good, dnsteer_verify_baseline=False, dnsteer_probe_host="client")
    assert (played.code, bench.applied()) == (0, good), played.output
    assert played.said("as before the change:") and played.said(POLICED), played.output
    again = bench.deploy(good, dnsteer_verify_baseline=False)
    assert (again.code, again.changed()) == (0, 0), again.output
    bad = another(NO_ANSWER)
    played = bench.deploy(bad, dnsteer_verify_baseline=False, dnsteer_probe_host="client", dnsteer_probe_baseline=False)
    assert played.code != 0 and bench.applied() == good
    assert played.said("It was verified and its VIPs answer."), played.output
    assert played.said("The reason: Ask the VIPs: "), played.output


def test_deploy_repairs_dnsteer_settings(bench: Bench) -> None:
    bench.ofctl("del-flows", VIP_TABLE)
    bench.running.vsctl("set", "Bridge", "br-dns", "stp_enable=true")
    good = another()
    played = bench.deploy(good)
    assert (played.code, bench.applied()) == (0, good), played.output


def test_deploy_repairs_a_record_without_a_state(bench: Bench) -> None:
    bench.running.vsctl("clear", "Bridge", "br-dns", "flow_tables")
    good = another()
    played = bench.deploy(good, dnsteer_yes=True)
    assert (played.code, bench.applied()) == (0, good), played.output


def test_a_rollback_is_no_failure_for_what_differed_before(bench: Bench) -> None:
    bench.begin(another())
    bench.ofctl("add-flow", FOREIGN)
    played = bench.site.play("rollback.yml")
    assert (played.code, bench.applied()) == (0, SPEC), played.output
    assert played.said("as before the change:") and played.said("foreign flow: table vip: not"), played.output


MEDDLER = f"""\
#!/bin/sh
# dnsteer, and a flow of somebody else once it has rolled back
/opt/dnsteer/bin/dnsteer "$@"
code=$?
case "$*" in
    *--dry-run*) ;;
    rollback*) ovs-ofctl -O {PROTOCOL} add-flow unix:/run/openvswitch/br-dns.mgmt {FOREIGN} ;;
esac
exit $code
"""


def test_differences_that_appear_after_the_change_are_a_failure(bench: Bench) -> None:
    bench.begin(another())
    bench.police(1000)
    meddler = bench.site.folder / "opt" / "dnsteer" / "bin" / "meddler"
    meddler.write_text(MEDDLER)
    meddler.chmod(0o755)
    played = bench.site.play("rollback.yml", dnsteer_bin="/opt/dnsteer/bin/meddler")
    assert played.code != 0 and bench.applied() == SPEC, played.output
    assert played.said("as before the change:"), played.output
    assert played.said("msg: 'foreign flow: table vip: not"), played.output


WORKERS = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [192.0.2.1]
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
pools:
  farm:
    slots: 16
    backends:
      - {name: ns1, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01', workers: 2}
      - {name: ns2, ipv4: 192.0.2.12, mac: '02:00:00:00:01:02'}
      - {name: ns3, ipv4: 192.0.2.13, mac: '02:00:00:00:01:03'}
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: farm, forwarding: nat}
"""


@pytest.mark.parametrize(("kind", "ended"), [("drain", "`dnsteer undrain farm/ns1.0`"), ("health", "the agent")])
def test_rolling_upgrade_refuses_a_host_of_which_a_worker_is_out(bench: Bench, kind: Kind, ended: str) -> None:
    """Giving back the host would give back the worker that somebody drained."""
    bench.begin(WORKERS)
    change_overlay(bench.switch, None, take_out("farm/ns1.0", kind, note="disk"))
    given = {"dnsteer_hook_command": ["true"], "dnsteer_probe_baseline": False}
    played = bench.site.play("rolling-upgrade.yml", dnsteer_backends="ns1", **given)
    assert played.code != 0 and played.said("ns1 is out already on dpu-1: "), played.output
    assert played.said(f"{kind} by") and played.said(f"ended by {ended}"), played.output
    assert [entry.name for entry in bench.record().overlay or ()] == ["farm/ns1.0"]


def test_a_check_that_takes_a_name_for_gone_as_well(bench: Bench) -> None:
    """NXDOMAIN has no records, and IDNA knows no such name."""
    good = another("{query: {name: ab--cd.example.org, type: A, expect: {rcode: [NOERROR, NXDOMAIN], aa: true}}}")
    played = bench.deploy(good, dnsteer_probe_host="client")
    assert (played.code, bench.applied()) == (0, good), played.output
