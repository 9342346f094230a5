# SPDX-License-Identifier: Apache-2.0
"""The runbooks for real: every playbook against the lab, through the connection plugin for network namespaces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import names
from dnsteer.lab.command import run
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.switch.state import PENDING_KEY, Pending
from tests.packet.command import run as dnsteer
from tests.system.playbooks import (
    CLIENT,
    QUICKSTART,
    Played,
    Site,
    another_bridge,
    answers,
    asking,
    by_tcp,
    make_wheel,
    write_command,
    write_inventory,
)

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces and raw sockets"),
]
WIDTH = 200
"""Columns that no line of a playbook's output may have."""
OLD, NEW, UNOWNED = "192.0.2.53", "192.0.2.54", "192.0.2.99"
DOT = {"services: [dns]": "services: [dns, dot]"}
EVERY_ONE_UP = {"ns1": "up", "ns2": "up", "ns3": "up", "ns4": "up"}


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The controller, without a lab."""
    folder = tmp_path_factory.mktemp("site")
    write_command(folder)
    write_inventory(folder)
    return Site(folder)


@pytest.fixture(scope="module", autouse=True)
def installing(controller: Site, request: pytest.FixtureRequest) -> Iterator[Future[list[Played]] | None]:
    """The runs of install.yml: they need no lab, and take their time beside the tests that do."""
    if not any(item.name == test_the_playbook_installs_a_wheel_and_again.__name__ for item in request.session.items):
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(install, controller)


@pytest.fixture(scope="module")
def site(controller: Site, no_lab: None) -> Iterator[Site]:
    """The lab up, its name servers owning the old and the new VIP, and nothing applied yet."""
    both = controller.spec("lab", f"[{OLD}, 2001:db8::53, {NEW}]", **DOT)
    try:
        lab.up(load_spec(both).spec)
        # The client is a router's neighbour: it would ask for any VIP, also for one that no server owns.
        run(["ip", "-n", CLIENT, "route", "add", f"{UNOWNED}/32", "dev", "eth0", "src", "198.18.0.2"])
        yield controller
    finally:
        lab.down()


@pytest.fixture
def deployed(site: Site) -> Iterator[Site]:
    """The lab with the quickstart applied, the folders of the playbooks, and nobody out before and after."""
    site.apply(QUICKSTART)
    for host in ("dpu-1", "dpu-2"):
        (site.folder / f"etc-{host}").mkdir(exist_ok=True)
    yield site
    site.everybody_in()


def test_first_deploy_that_does_not_answer_says_that_there_is_no_way_back_and_the_next_one_works(site: Site) -> None:
    played = site.play("deploy.yml", "--limit", "dpu-1", dnsteer_spec=site.spec("unowned", f"[{UNOWNED}]"))
    assert played.code != 0
    assert played.said("this was the first deploy, there is no state to roll back to"), played.output
    every = "(ns1, ns2, ns3, ns4)"
    assert played.said(f"8 of 8 questions got no good answer at client: {UNOWNED} udp/53 {every}: response timeout")
    assert played.said(f"{UNOWNED} tcp/53 {every}: connection timeout"), played.output
    assert re.search(r"to try it there: kdig @192\.0\.2\.99 -p 53 -b '0\.0\.0\.0#\d+' \+noidn -q h0\.", played.text), (
        played.output
    )
    assert max(map(len, played.output.splitlines())) < WIDTH, played.output
    assert site.state() == 1

    played = site.play("deploy.yml", dnsteer_spec=QUICKSTART)
    assert played.code == 0, played.output
    assert played.changed("dpu-1") == 2  # the switch and spec.yaml
    assert played.changed("dpu-2") == 2  # its folder and spec.yaml; the switch has it already
    assert answers(OLD)
    assert (site.folder / "etc-dpu-1" / "spec.yaml").read_text() == QUICKSTART.read_text()


def test_check_mode_only_plans(deployed: Site) -> None:
    before = deployed.flows(), deployed.state()
    planned = deployed.play("deploy.yml", "--check", "--limit", "dpu-1", dnsteer_spec=deployed.spec("new", f"[{NEW}]"))
    assert (planned.code, planned.changed()) == (0, 1), planned.output
    assert (deployed.flows(), deployed.state()) == before


def test_deploy_of_a_bad_spec_changes_nothing(deployed: Site) -> None:
    before = deployed.flows(), deployed.state()
    bad = deployed.spec("bad", **{"weight: 3": "weight: heavy"})
    played = deployed.play("deploy.yml", dnsteer_spec=bad)
    assert played.code != 0
    assert played.said('found "heavy"'), played.output
    assert played.said("NO MORE HOSTS LEFT"), played.output
    assert (deployed.flows(), deployed.state()) == before


def test_a_canary_that_does_not_answer_is_rolled_back_and_the_others_are_left_alone(deployed: Site) -> None:
    before = deployed.flows(), deployed.state()
    unowned = deployed.spec("unowned", f"[{UNOWNED}]")
    played = deployed.play("deploy.yml", dnsteer_spec=unowned)
    assert played.code != 0
    assert played.said(f"dpu-1: rolled back to state {before[1]}. It was verified and its VIPs answer."), played.output
    assert played.said(f"The reason: Ask the VIPs: 8 of 8 questions got no good answer at client: {UNOWNED} "), (
        played.output
    )
    assert max(map(len, played.output.splitlines())) < WIDTH, played.output
    assert re.search(r"^dpu-2\s+: ok=1 ", played.output, re.MULTILINE), played.output  # the look at the spec's file
    assert answers(OLD)
    assert deployed.flows() == before[0]
    assert (deployed.folder / "etc-dpu-1" / "spec.yaml").read_text() == QUICKSTART.read_text()


def test_the_playbook_drains_and_undrains(deployed: Site) -> None:
    which = {"dnsteer_pool": "authoritative", "dnsteer_backend": "ns1"}
    tried = deployed.play("drain-backend.yml", "--check", "--limit", "dpu-1", **which)
    assert (tried.code, tried.changed(), deployed.backends()) == (0, 1, EVERY_ONE_UP), tried.output
    given = {**which, "dnsteer_note": "new kernel"}
    drained = deployed.play("drain-backend.yml", "--limit", "dpu-1", **given, dnsteer_over="1s")
    assert (drained.code, deployed.backends()) == (0, {**EVERY_ONE_UP, "ns1": "drained"}), drained.output
    again = deployed.play("drain-backend.yml", "--limit", "dpu-1", **given)
    assert (again.code, again.changed()) == (0, 0), again.output
    with by_tcp() as elsewhere:
        back = deployed.play("drain-backend.yml", **which, dnsteer_state="undrained", **elsewhere)
    assert (back.code, deployed.backends()) == (0, EVERY_ONE_UP), back.output
    for played, line in (
        (drained, "- authoritative/ns1 is drained\n"),
        (again, "authoritative/ns1 is drained already: nothing"),
    ):
        said = played.output.partition("TASK [dnsteer : Say what dnsteer did]")[2].partition("PLAY RECAP")[0]
        assert line in said and len(said.splitlines()) < 9 and not re.search(r'["{}]', said), played.output
    unknown = deployed.play("drain-backend.yml", "--limit", "dpu-1", **{**which, "dnsteer_backend": "ns9"})
    assert unknown.code != 0 and "stdout" not in unknown.output and len(unknown.output.splitlines()) < 30, (
        unknown.output
    )


def test_the_playbook_denies_and_admits_clients(deployed: Site) -> None:
    which = {"dnsteer_clients": "203.0.113.7", "dnsteer_vip": "dns", "dnsteer_port": 53}
    before = deployed.flows()
    tried = deployed.play("deny-clients.yml", "--limit", "dpu-1", "--check", **which)
    assert (tried.code, deployed.flows()) == (0, before), tried.output
    assert "203.0.113.7/32 port 53 to VIP dns is denied" in tried.output
    denied = deployed.play("deny-clients.yml", "--limit", "dpu-1", **which, dnsteer_for="1h")
    assert (denied.code, denied.changed()) == (0, 1), denied.output
    again = deployed.play("deny-clients.yml", "--limit", "dpu-1", **which)
    assert (again.code, again.changed()) == (0, 0), again.output
    other = deployed.play("deny-clients.yml", "--limit", "dpu-1", dnsteer_clients="203.0.113.7", dnsteer_denied=False)
    assert (other.code, other.changed()) == (0, 0), other.output
    assert "203.0.113.7 is not denied: nothing to change" in other.output
    ended = deployed.play("deny-clients.yml", "--limit", "dpu-1", **which, dnsteer_denied=False)
    assert (ended.code, ended.changed(), deployed.flows()) == (0, 1, before), ended.output


HOOK = """
- name: Write down what the switch says while this backend is worked on
  ansible.builtin.command:
    argv: [sh, -c, "{folder}/dnsteer status --json --no-verify --no-rates > {folder}/during-$(ip netns identify)"]
  changed_when: true
"""


def test_rolling_upgrade_has_one_backend_out_at_a_time(deployed: Site) -> None:
    """Also one that has three quarters of its pool."""
    two = deployed.folder / "two.yaml"
    lines = QUICKSTART.read_text().splitlines(keepends=True)
    two.write_text("".join(line for line in lines if "{name: ns2" not in line and "{name: ns3" not in line))
    deployed.apply(two)
    hook = deployed.folder / "hook.yml"
    hook.write_text(HOOK.format(folder=deployed.folder), encoding="utf-8")
    played = deployed.play("rolling-upgrade.yml", dnsteer_hook_tasks=hook, dnsteer_backends="ns1:ns4")
    assert played.code == 0, played.output
    up = {"ns1": "up", "ns4": "up"}
    for name in up:
        (pool,) = json.loads((deployed.folder / f"during-dnst-b-{name}").read_text())["pools"]
        assert {b["name"]: b["state"] for b in pool["backends"]} == {**up, name: "drained"}
    assert deployed.backends() == up


def test_rolling_upgrade_stops_at_a_hook_that_fails_and_does_not_go_on_by_itself(deployed: Site) -> None:
    hook = ["sh", "-c", "ip netns identify | grep -qx dnst-b-ns1"]  # fails everywhere but on ns1
    played = deployed.play("rolling-upgrade.yml", dnsteer_hook_command=hook, dnsteer_backends="ns1:ns2:ns3")
    assert played.code != 0
    assert played.said(
        "ns2 answers as it should and was given back on every switch. The backends after it were not touched."
    )
    assert played.said("The hook failed. Run the command of the hook: non-zero return code"), played.output
    assert "\\n" not in played.output
    assert deployed.backends() == EVERY_ONE_UP
    deployed.take_out("ns2", "drain")
    for backend in ("ns2", "ns3"):
        deployed.take_out(backend, "down")
    again = deployed.play("rolling-upgrade.yml", dnsteer_hook_command=["true"], dnsteer_backends="ns2:ns3")
    assert again.code != 0
    assert re.search(
        r"ns2 is out already on dpu-1: drain by \S+ \(disk\), ended by `dnsteer undrain authoritative/ns2`; "
        r"down by \S+ \(disk\), ended by `dnsteer up authoritative/ns2`\. End",
        again.text,
    ), again.output
    assert re.search(r"ns3 is out already on dpu-2: down by \S+ \(disk\), ended by `dnsteer up", again.text)
    assert len(list(deployed.record().overlay or ())) == 3


STOP = "for pid in $(ip netns pids dnst-b-ns3); do case $(cat /proc/$pid/comm) in nsd*) kill -STOP $pid ;; esac; done"


def test_rolling_upgrade_leaves_a_server_drained_that_does_not_answer_after_it(deployed: Site) -> None:
    try:
        played = deployed.play(
            "rolling-upgrade.yml",
            dnsteer_backends="ns3:ns4",
            dnsteer_health_tries=1,
            dnsteer_hook_command=["sh", "-c", STOP],
        )
    finally:
        subprocess.run(["sh", "-c", STOP.replace("STOP", "CONT")], check=True)
    assert played.code != 0
    assert played.said(
        "ns3 STAYS DRAINED on every switch: it does not answer as it should. The backends after it were not"
    )
    assert played.said("192.0.2.13 udp/53 (ns3): response timeout"), played.output
    assert played.said(
        "To give it back: ansible-playbook playbooks/drain-backend.yml -e dnsteer_pool=authoritative"
        " -e dnsteer_backend=ns3 -e dnsteer_state=undrained"
    ), played.output
    assert deployed.backends() == {**EVERY_ONE_UP, "ns3": "drained"}


def test_rolling_upgrade_refuses_a_server_that_does_not_answer_before_it(deployed: Site) -> None:
    given = {
        "dnsteer_backends": "ns3",
        "dnsteer_health_tries": 1,
        "dnsteer_hook_command": ["true"],
        "dnsteer_probe_name": "not.our.zone",
    }
    played = deployed.play("rolling-upgrade.yml", **given)
    assert played.code != 0
    assert played.said("ns3: it does not answer as it should before the change already; nothing was changed."), (
        played.output
    )
    assert played.said("192.0.2.13 udp/53 (ns3): REFUSED, expected NOERROR"), played.output
    assert deployed.backends() == EVERY_ONE_UP and "is drained" not in played.output
    played = deployed.play("rolling-upgrade.yml", **given, dnsteer_probe_baseline=False)
    assert played.said("ns3 STAYS DRAINED on every switch"), played.output


def test_rolling_upgrade_refuses_a_switch_that_is_not_as_recorded(deployed: Site) -> None:
    """What it has read there of who is out may not be so."""
    given = {"dnsteer_backends": "ns1", "dnsteer_hook_command": ["true"]}
    state = deployed.record().state
    assert state is not None
    pending = Pending(
        state.number, state.digest, Overlay((Maintenance("authoritative", "ns2", "drain", state.time, "a"),))
    )
    ids = f"external_ids:{PENDING_KEY}={json.dumps(pending.to_json())}"
    try:
        run(["ovs-vsctl", f"--db={names.db_target()}", "set", "bridge", "br-dns", ids])
        played = deployed.play("rolling-upgrade.yml", **given)
        assert played.code != 0 and "changed=0" in played.output
        assert played.said("a maintenance change of bridge br-dns is pending: the tables do not have it yet"), (
            played.output
        )
        deployed.apply(QUICKSTART)
        run(["ovs-ofctl", "-O", "OpenFlow15", "del-flows", f"unix:{names.RUN_DIR}/br-dns.mgmt"])
        played = deployed.play("rolling-upgrade.yml", **given)
        assert played.code != 0 and "changed=0" in played.output
        assert played.said(
            "dpu-2: its tables are not as recorded; `dnsteer status` there says more; nothing was changed"
        )
    finally:
        deployed.apply(QUICKSTART)
    assert deployed.backends() == EVERY_ONE_UP


def test_rolling_upgrade_needs_a_hook_and_backends(deployed: Site) -> None:
    for given, said in (
        ({}, "Nothing was changed. Say what is to be done to each backend while it is drained."),
        (
            {"dnsteer_backends": "none", "dnsteer_hook_command": ["true"]},
            "The inventory has no host in none (dnsteer_backends).",
        ),
    ):
        played = deployed.play("rolling-upgrade.yml", **given)
        assert played.code != 0 and played.said(said), played.output
        assert deployed.backends() == EVERY_ONE_UP and "changed=0" in played.output


def test_rolling_upgrade_undrains_a_backend_not_drained_everywhere(deployed: Site) -> None:
    """The second switch has a command that refuses to drain."""
    command = deployed.folder / "no-drain"
    command.write_text(
        f'#!/bin/sh\n[ "$1" != drain ] || {{ echo no disk >&2; exit 1; }}\nexec {deployed.folder}/dnsteer "$@"\n'
    )
    command.chmod(0o755)
    bins = {"dpu-1": str(deployed.folder / "dnsteer"), "dpu-2": str(command)}
    played = deployed.play(
        "rolling-upgrade.yml",
        dnsteer_backends="ns1",
        dnsteer_hook_command=["touch", "hooked"],
        bins=bins,
        dnsteer_bin="{{ bins[inventory_hostname] }}",
    )
    assert played.code != 0
    assert played.said("ns1 could not be drained everywhere; nothing was done to it. Not drained: dpu-2: no disk"), (
        played.output
    )
    assert played.said("It was given back on every switch."), played.output
    assert deployed.backends() == EVERY_ONE_UP


def test_rolling_upgrade_refuses_to_leave_a_switch_out(deployed: Site) -> None:
    given = {"dnsteer_backends": "ns1", "dnsteer_hook_command": ["true"]}
    played = deployed.play("rolling-upgrade.yml", "--limit", "dpu-1", **given)
    assert played.code != 0
    assert played.said("ns1 must be drained on all its switches"), played.output
    assert deployed.backends() == EVERY_ONE_UP


def test_the_playbook_rolls_back_to_a_state(deployed: Site) -> None:
    number = deployed.state()
    deployed.apply(deployed.spec("new", f"[{NEW}]"))
    assert not answers(OLD)
    tried = deployed.play("rollback.yml", "--check", "--limit", "dpu-1", dnsteer_rollback_to=number)
    assert (tried.code, tried.changed(), answers(OLD)) == (0, 1, False), tried.output
    played = deployed.play("rollback.yml", "--limit", "dpu-1", dnsteer_probe_addresses=[OLD])
    assert (played.code, played.changed(), answers(OLD)) == (0, 1, True), played.output
    assert (deployed.folder / "etc-dpu-1" / "spec.yaml").read_text() == QUICKSTART.read_text()


def test_rollback_after_a_failed_deploy_skips_its_state(deployed: Site) -> None:
    first = deployed.state()
    deployed.apply(deployed.spec("second", **{"weight: 3": "weight: 4"}))
    played = deployed.play("deploy.yml", "--limit", "dpu-1", dnsteer_spec=deployed.spec("unowned", f"[{UNOWNED}]"))
    assert played.said(f"dpu-1: rolled back to state {first + 1}."), played.output
    played = deployed.play("rollback.yml", "--limit", "dpu-1")
    assert played.code == 0, played.output
    named = played.text.index(f"dpu-1: goes from state {first + 3} back to state {first}, applied 20")
    assert named < played.text.index("TASK [dnsteer : Roll back]")
    assert (deployed.folder / "etc-dpu-1" / "spec.yaml").read_text() == QUICKSTART.read_text()
    while dnsteer("rollback", "--yes", "--db", names.db_target()).code == 0:
        pass  # states of the tests before are there too
    nowhere = deployed.play("rollback.yml", "--limit", "dpu-1")
    assert nowhere.code != 0
    assert nowhere.said("rolled back from and can be named: -e dnsteer_rollback_to=N"), nowhere.output


def test_rotation_keeps_the_old_address_until_it_is_confirmed_and_quiet(deployed: Site) -> None:
    both, new = deployed.spec("both", f"[{OLD}, {NEW}]"), deployed.spec("only-new", f"[{NEW}]")
    given = {"dnsteer_old": OLD, "dnsteer_new": NEW, "dnsteer_spec_both": both, "dnsteer_spec_new": new}
    swapped = deployed.play("rotate-vip.yml", "--limit", "dpu-1", **{**given, "dnsteer_spec_both": new})
    assert swapped.code != 0
    assert (answers(OLD), answers(NEW)) == (True, False)
    first = deployed.play("rotate-vip.yml", "--limit", "dpu-1", **given)
    assert first.code == 0, first.output
    assert first.said("run again with -e dnsteer_confirmed=true"), first.output
    assert (answers(OLD), answers(NEW)) == (True, True)
    with asking(OLD):
        asked = deployed.play("rotate-vip.yml", "--limit", "dpu-1", **given, dnsteer_confirmed=True)
    assert asked.code != 0
    assert re.search(rf"nothing was changed\. {OLD} is still asked: [1-9][0-9.]* packets/s", asked.text), asked.output
    assert (answers(OLD), answers(NEW)) == (True, True)
    second = deployed.play("rotate-vip.yml", "--limit", "dpu-1", **given, dnsteer_confirmed=True)
    assert second.code == 0, second.output
    assert (answers(OLD), answers(NEW)) == (False, True)
    third = deployed.play("rotate-vip.yml", "--limit", "dpu-1", **given, dnsteer_confirmed=True)
    assert (third.code, third.changed()) == (0, 0), third.output


def test_diagnostics_of_two_bridges_note_missing_parts(deployed: Site) -> None:
    to = deployed.folder / "archives"
    (names.RUN_DIR / "ovsdb-server.log").unlink()
    (deployed.folder / "etc-dpu-1" / "next.yaml").write_text("# not applied\n")
    with another_bridge("br-two"):
        played = deployed.play("collect-diagnostics.yml", "--limit", "dpu-1", dnsteer_archives=to)
    assert (played.code, played.changed()) in ((0, 0), (0, 1)), played.output  # the fetched file counts as a change
    (archive,) = to.iterdir()
    with tarfile.open(archive) as tar:
        found = {Path(m.name).name: tar.extractfile(m) for m in tar.getmembers() if m.isfile()}
        texts = {name: file.read().decode() for name, file in found.items() if file is not None}
    assert texts["spec-br-dns.yaml"] == QUICKSTART.read_text()
    assert json.loads(texts["status-br-dns.json"])["ok"]
    assert json.loads(texts["history-br-dns.json"])["current"]
    assert texts["folder-next.yaml"] == "# not applied\n"
    assert "cookie=0xd453" in texts["flows-br-dns.txt"]
    assert {"flows-br-two.txt", "journal-dnsteer-restore.txt", "journal-dnsteer-reconcile.txt"} <= set(texts)
    assert "br-dns" in texts["ovs-vsctl-show.txt"]
    assert "netdev@ovs-netdev" in texts["dpif-show.txt"]
    assert "ovsdb-server.log: FAILED, exit code 1" in texts["SUMMARY"]
    failed = re.findall(r"^(\S+): FAILED", texts["SUMMARY"], re.MULTILINE)
    assert [name for name in failed if "-br-two." not in name] == ["ovsdb-server.log"], texts["SUMMARY"]
    assert played.said(f"{len(failed)} failed"), played.output


def install(controller: Site) -> list[Played]:
    """Install from a wheel, again, and once without anything to install from."""
    venv = controller.folder / "opt"
    given = {
        "dnsteer_targets": "here",
        "dnsteer_wheel": make_wheel(controller.folder),
        "dnsteer_venv": venv,
        "dnsteer_bin": venv / "bin" / "dnsteer",
        "dnsteer_python": sys.executable,
        "dnsteer_pip_options": ["--no-index", "--no-deps", "--no-compile"],
        # The dependencies are those of this environment.
        "dnsteer_environment": {"PYTHONPATH": os.pathsep.join(p for p in sys.path if "site-packages" in p)},
    }
    nothing = {**given, "dnsteer_wheel": "", "dnsteer_bin": "/nonexistent/dnsteer"}
    return [controller.play("install.yml", **variables) for variables in (given, given, nothing)]


def test_the_playbook_installs_a_wheel_and_again(installing: Future[list[Played]]) -> None:
    first, second, nothing = installing.result()
    assert first.code == 0, first.output
    assert first.changed("here") > 0
    assert (second.code, second.changed("here")) == (0, 0), second.output
    assert nothing.code != 0
    assert nothing.said("there is no /nonexistent/dnsteer on the host; give a wheel"), nothing.output


def test_a_namespace_that_is_not_there_is_an_unreachable_host(controller: Site) -> None:
    played = controller.play("collect-diagnostics.yml", dnsteer_targets="nowhere")
    assert played.code != 0
    assert played.said("no network namespace 'dnst-none'"), played.output
    assert "unreachable=1" in played.output
