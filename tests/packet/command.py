# SPDX-License-Identifier: Apache-2.0
"""The `dnsteer` command on a private switch, in this process, which is quicker; and specs that tests change a little."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli import main
from tests.packet.switches import BRIDGE, Switch

# DSR on one arm: nothing leads back, so that no change waits for answers under way.
FARM = """\
apiVersion: dnsteer/v1
switch:
  name: dpu-1
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0:
    p1:
pools:
  farm:
    slots: 32
    backends:
      - {name: ns1, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}
      - {name: ns2, ipv4: 192.0.2.12, ipv6: '2001:db8::12', mac: '02:00:00:00:01:02', weight: 2}
      - {name: ns3, ipv4: 192.0.2.13, ipv6: '2001:db8::13', mac: '02:00:00:00:01:03'}
      - {name: ns4, ipv4: 192.0.2.14, ipv6: '2001:db8::14', mac: '02:00:00:00:01:04', state: down}
  spare:
    slots: 16
    backends:
      - {name: sp1, ipv4: 192.0.2.21, ipv6: '2001:db8::21', mac: '02:00:00:00:02:01'}
      - {name: sp2, ipv4: 192.0.2.22, ipv6: '2001:db8::22', mac: '02:00:00:00:02:02'}
vips:
  dns: {addresses: [192.0.2.53, '2001:db8::53'], services: [dns], pool: farm}
  other: {addresses: [192.0.2.54], services: [dns, dot], pool: spare}
"""
OTHER = FARM.replace("weight: 2", "weight: 3").replace("192.0.2.54", "192.0.2.56")
SLOW = [r"Unreasonably long", r"faults: \d+ minor", r"disk: \d+ reads", r"context switches:"]
"""What a switch logs on a machine that has other work to do."""


@dataclass(frozen=True)
class Ran:
    """What a run of the command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output, one JSON value."""
        return json.loads(self.out)


def run(*args: object) -> Ran:
    """Run the command. An error that it does not catch comes out here, as it would as a traceback."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch().context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["dnsteer", *map(str, args)])
        patch.setattr(sys, "stdin", StringIO())
        code = main._run()
    return Ran(code, out.getvalue(), err.getvalue())


def on(switch: Switch) -> Callable[..., Ran]:
    """The command for one switch."""
    return lambda *args: run(*args, "--db", switch.database)


def spec_file(folder: Path, text: str = FARM, **changes: str) -> Path:
    """A file with a spec; *changes* are pairs of words to replace, `old` and `new`."""
    file = folder / "spec.yaml"
    if changes:
        assert changes["old"] in text
        text = text.replace(changes["old"], changes["new"], 1)
    file.write_text(text)
    return file


def all_of(switch: Switch) -> tuple[object, ...]:
    """All that a verb may change: the database but for statistics, flows and groups."""
    tables = (
        ("Open_vSwitch", "external_ids,other_config"),
        ("Bridge", "name,external_ids,flow_tables,ports,fail_mode"),
        ("Flow_Table", "name,external_ids"),
    )
    lists = [word for table, columns in tables for word in ("--", f"--columns={columns}", "list", table)]
    lines = switch.vsctl("--format=json", *lists).splitlines()
    found = [sorted(map(str, json.loads(line)["data"])) for line in lines]
    return (*found, *(switch.tables() if any(f"'{BRIDGE}'" in row for row in found[1]) else ()))


@contextmanager
def nothing_changes(switch: Switch) -> Iterator[None]:
    """The block leaves database and tables alone."""
    before = all_of(switch)
    yield
    assert all_of(switch) == before


def fresh(switch: Switch) -> None:
    """Take the bridge and the switch's name away."""
    ours = "external_ids", "dnsteer-switch"
    switch.vsctl("--if-exists", "del-br", BRIDGE, "--", "remove", "Open_vSwitch", ".", *ours)


def state_rows(switch: Switch) -> dict[str, str]:
    """Rows of recorded states, by the state's number."""
    out = {}
    for row in switch.vsctl("--columns=_uuid", "--bare", "list", "Flow_Table").split():
        number = switch.vsctl("--if-exists", "get", "Flow_Table", row, "external_ids:dnsteer-state").strip().strip('"')
        if number:
            out[number] = row
    return out
