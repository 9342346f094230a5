# SPDX-License-Identifier: Apache-2.0
"""The files of `dnsteer render`, loaded by hand with Open vSwitch's own programs, make what `apply` makes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.render.files import rendered, write_files
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.neighbors import is_followed
from dnsteer.status.verify import find_drift
from dnsteer.switch.database import Database
from tests.packet.apply_spec import apply
from tests.packet.switches import BRIDGE, EXAMPLES, LARGE, SMALL, VIP_TABLE, Running, Switch, spec_of, unexpected

SPECS = {**{f.stem: load_spec(f) for f in sorted(EXAMPLES.glob("*.yaml"))}, "large": spec_of(LARGE)}
# Values as people write them for DPDK and DOCA, and worse.
ODD = {
    "dpdk-devargs": "0000:03:00.0,representor=[0,1],dv_flow_en=2",
    "spaces": "  two  words ",
    "quotes": 'it\'s "quoted" `id` $(id) $HOME',
    "signs": "a=b:c;d&e|f<g>h*i?j#k!l%m^n~o{p}q\\r",
    "word": "true",
    "number": "0x10",
    "empty": "",
    "letters": "grün",
}


@pytest.fixture
def switch() -> Iterator[Switch]:
    """One that ovs-appctl finds, as on a machine."""
    with Running() as private:
        private.expected = ["Connection reset by peer", "connection dropped"]
        yield private
        found = unexpected(private)
    assert found == []


def shell(switch: Switch, folder: Path, *argv: str) -> str:
    """Run a command as an operator would whose default switch is this one."""
    env = {**os.environ, "OVS_RUNDIR": str(switch.dir), "PATH": f"{switch.dir}:{os.environ['PATH']}"}
    # The bridge's own port is a dummy device, which takes addresses by a command of its own.
    ip = switch.dir / "ip"
    ip.write_text(
        '#!/bin/sh\ncase $3 in *:*) v=6;; *) v=4;; esac\novs-appctl netdev-dummy/ip${v}addr "$5" "$3" >/dev/null\n'
    )
    ip.chmod(0o755)
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ofctl(switch: Switch, folder: Path, command: str, file: str) -> None:
    """The command that the head of the file names."""
    head = (folder / file).read_text().splitlines()[1]
    assert head == f"# load: ovs-ofctl -O OpenFlow15 --names {command} {BRIDGE} {file}"
    shell(switch, folder, *head.removeprefix("# load: ").split())


def written(spec: Loaded, folder: Path) -> Path:
    write_files(rendered(spec), folder)
    return folder


@pytest.mark.parametrize("name", SPECS)
def test_rendered_files_make_the_tables_of_apply(name: str, switch: Switch, tmp_path: Path) -> None:
    spec, folder = SPECS[name], written(SPECS[name], tmp_path)
    assert shell(switch, folder, "./bridge.sh").splitlines()[-1] == f"bridge {BRIDGE} is set up"
    shell(switch, folder, "./meters.sh")
    ofctl(switch, folder, "add-groups", "groups.txt")
    ofctl(switch, folder, "add-flows", "flows.txt")
    extended = spec.spec.switch.extension is not None
    assert [d.kind for d in find_drift(spec, switch.database) if not d.warns] == [
        "record",
        *(["extension away"] if extended else []),
    ]
    if extended:
        return  # what apply makes with a running program is in test_extension_control
    done = apply(spec, switch.database)
    assert (done.settings, done.recorded) == ([], True)
    # The files have stand-ins, and say so; an apply drops what is for neighbours that have not answered.
    followed = is_followed(spec.spec)
    assert (len(done.flows) > 0, "# stand-ins for MAC" in (folder / "flows.txt").read_text()) == (followed, followed)


def test_the_bundle_makes_the_same_as_often_as_it_is_loaded(switch: Switch, tmp_path: Path) -> None:
    spec, folder = SPECS["large"], written(SPECS["large"], tmp_path)
    shell(switch, folder, "./bridge.sh")
    tables = []
    for _ in range(2):
        shell(switch, folder, "./meters.sh")
        ofctl(switch, folder, "bundle", "bundle.txt")
        tables.append(switch.tables())
        assert [d.kind for d in find_drift(spec, switch.database) if not d.warns] == ["record"]
    assert tables[0] == tables[1]
    assert tables[0][1]


def test_the_bundle_replaces_only_dnsteers_flows(switch: Switch, tmp_path: Path) -> None:
    small, large = spec_of(SMALL), SPECS["large"]
    apply(large, switch.database)
    switch.ofctl("add-flow", f"cookie=0x5,{VIP_TABLE},priority=9,icmp,actions=drop")
    folder = written(small, tmp_path)
    ofctl(switch, folder, "bundle", "bundle.txt")
    assert any("cookie=0x5," in flow for flow in switch.flows())
    kinds = {d.kind for d in find_drift(small, switch.database)}
    assert kinds <= {"foreign flow", "record", "port added", "group added", "meter added"}


def test_the_script_is_idempotent(switch: Switch, tmp_path: Path) -> None:
    folder = written(SPECS["large"], tmp_path)
    states = []
    for _ in range(2):
        shell(switch, folder, "./bridge.sh")
        with Database(switch.database) as base:
            have = base.bridge(BRIDGE)
        assert have is not None
        states.append((have.external_ids, have.fail_mode, have.ports, {n: t.name for n, t in have.tables.items()}))
        assert len(switch.vsctl("--columns=name", "--bare", "list", "Flow_Table").split()) == len(have.tables)
    assert states[0] == states[1]


def odd_spec() -> Loaded:
    pairs = ", ".join(f"{key}: '{value.replace(chr(39), chr(39) * 2)}'" for key, value in ODD.items())
    return spec_of(SMALL.replace("p0:\n", f"p0: {{options: {{{pairs}}}}}\n"))


def test_options_of_any_kind_survive_the_shell(switch: Switch, tmp_path: Path) -> None:
    folder = written(odd_spec(), tmp_path)
    shell(switch, folder, "./bridge.sh")
    with Database(switch.database) as base:
        have = base.bridge(BRIDGE)
    assert have is not None
    assert dict(have.ports["p0"].options) == ODD


@pytest.mark.parametrize("spec", [SPECS["large"], odd_spec()], ids=["large", "odd options"])
def test_shellcheck_accepts_the_script(spec: Loaded, tmp_path: Path) -> None:
    folder = written(spec, tmp_path)
    # SC2016: a value with $ in quotes. That it does not expand is meant.
    argv = ["shellcheck", "--exclude=SC2016", str(folder / "bridge.sh"), str(folder / "meters.sh")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def test_the_files_need_no_switch_and_name_no_place(tmp_path: Path) -> None:
    """What is rendered depends on the spec alone: no path, no time."""
    one, two = (rendered(spec_of(LARGE)) for _ in range(2))
    assert one == two
    assert not any(str(tmp_path.parent) in text or str(Path.cwd()) in text for text in one.values())
    assert {p.name for p in wanted_bridge(spec_of(LARGE).spec).ports} <= set(one["bridge.sh"].replace('"', " ").split())
