# SPDX-License-Identifier: Apache-2.0
"""`capacity` of many VIPs: those of one shape are examined once, and limits that they pass are said first."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dnsteer.capacity import paths
from dnsteer.checks.load import load_spec
from dnsteer.cli import main
from dnsteer.offload.examine import Examination
from dnsteer.offload.profile import profile

HEAD = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-doca
  hardware: bluefield-3
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0: {next_hop: 02:00:00:00:00:01}
  gateways: [10.9.255.254]
pools:
"""


def spec(folder: Path, groups: int) -> Path:
    """For each of *groups* a pool with DSR, another one with NAT, and a VIP of each of some shapes."""
    pools, vips = "", "vips:\n"
    for n in range(groups):
        for kind, mac in (("direct", 1), ("nat", 2)):
            pools += f"  {kind}{n}:\n    slots: 16\n    backends:\n" + "".join(
                f"      - {{name: {kind}{n}-{b}, ipv4: 10.9.{n}.{10 * mac + b}, mac: '02:00:00:00:0{mac}:0{b}'"
                f"{', weight: 2' if b == 2 else ''}}}\n"
                for b in (1, 2, 3)
            )
        vips += f"  a{n}: {{addresses: [192.0.2.{n}], services: [dns], pool: direct{n}}}\n"
        vips += f"  b{n}: {{addresses: [198.51.100.{n + 1}, 198.51.100.{n + 101}], services: [dns, dot], pool: direct{n}}}\n"
        vips += f"  c{n}: {{addresses: [203.0.113.{n + 1}], services: [dns], pool: nat{n}, forwarding: nat}}\n"
    file = folder / "spec.yaml"
    file.write_text(HEAD + pools + vips.replace("192.0.2.0]", "192.0.2.200]"))
    return file


def with_help(folder: Path, groups: int) -> Path:
    """The same, where other pools help those with DSR, and the agent moves slots of those with NAT."""
    file = spec(folder, groups)
    text, spare = file.read_text(), ""
    for n in range(groups):
        backup = f"    backup: {{pool: spare{n}, below: 2}}\n    health: {{query: {{name: example.org}}}}\n"
        policy = ("by: slots", f"policy: spill, to: nat{n}/nat{n}-3, above: {80 + n}%, source: push")[n % 2]
        text = text.replace(f"  direct{n}:\n", f"  direct{n}:\n{backup}")
        text = text.replace(f"  nat{n}:\n", f"  nat{n}:\n    balance: {{{policy}}}\n")
        mac = "mac: '02:00:00:00:02:03'"
        text = text.replace(f"ipv4: 10.9.{n}.23, {mac}", f"ipv4: 10.9.{n}.23, {mac}, weight: 0")
        spare += f"  spare{n}: {{backends: [{{name: s{n}, ipv4: 10.9.{n}.99, mac: '02:00:00:00:03:01'}}]}}\n"
        text += f"  d{n}: {{addresses: [203.0.113.{n + 101}], services: [dns], pool: spare{n}}}\n"
    file.write_text(text.replace("vips:\n", f"{spare}vips:\n"))
    return file


@pytest.mark.parametrize(("make", "kinds"), [(spec, "abc"), (with_help, "abcd")])
def test_paths_and_flows_are_those_of_each_vip_examined_by_itself(
    make: Callable[[Path, int], Path], kinds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, judge = load_spec(make(tmp_path, 4)), profile("ovs-doca")
    examined: list[list[str]] = []
    real = paths.examine

    def examine(loaded: object, *args: object, **more: object) -> Examination:
        examined.append(list(loaded.spec.vips))  # type: ignore[attr-defined]
        return real(loaded, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(paths, "examine", examine)
    shared = paths.paths_of(loaded, judge)
    monkeypatch.setattr(paths, "_shape", lambda _, name: name)
    single = paths.paths_of(loaded, judge)
    assert examined == [[vip for vip in loaded.spec.vips if vip[1] in "01"], list(loaded.spec.vips)]
    assert {vip[0] for vip in loaded.spec.vips} == {*kinds}
    assert shared == single


def test_exceeded_limits_are_named_before_any_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = spec(tmp_path, 1)
    text = file.read_text().replace("slots: 16", "slots: 4096\n    passes: 1", 1)
    vips = "".join(f"  v{n}: {{addresses: [192.0.2.{n}], services: [dns], pool: direct0}}\n" for n in range(10, 40))
    file.write_text(text + vips)

    def run(*options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["dnsteer", "capacity", str(file), *options])
        assert main._run() == 0
        return capsys.readouterr().out

    lines = run().splitlines()
    assert lines[1].startswith("BEYOND LIMITS: not all of this spec fits")
    assert "datapath flows exceed the default flow-limit of 200,000" in lines[2]
    found = json.loads(run("--json", "--flavor", "ovs-doca-2"))["beyond_limits"]
    assert len(found) == 2 and "datapath flows exceed the 65,536 counters, of which each" in found[1]
    file.write_text(text)
    assert "BEYOND" not in run() and json.loads(run("--json"))["beyond_limits"] == []
