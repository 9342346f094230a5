"""`init`: a first spec for a site, from flags or from answers in a terminal, that `check` proves."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dnsteer.checks.load import load_spec
from dnsteer.cli.output import Exit
from tests.packet.command import run

V4, V6 = "192.0.2.53", "2001:db8::53"
MACS = [f"02:00:00:00:01:0{n}" for n in (1, 2, 3)]
FAMILIES = {
    "v4": [(f"192.0.2.1{n}",) for n in (1, 2, 3)],
    "v6": [(f"2001:db8::1{n}",) for n in (1, 2, 3)],
    "both": [(f"192.0.2.1{n}", f"2001:db8::1{n}") for n in (1, 2, 3)],
}
VIPS = {"v4": [V4], "v6": [V6], "both": [V4, V6]}
GATEWAYS = {"v4": ["192.0.2.1"], "v6": ["2001:db8::1"], "both": ["192.0.2.1", "2001:db8::1"]}
PROBES = {"v4": ["192.0.2.9/24"], "v6": ["2001:db8::9/64"], "both": ["192.0.2.9/24", "2001:db8::9/64"]}
NEXT_HOP = "02:00:00:00:00:fe"


def flags(site: str, families: str, *, probe: bool = False, nat: bool = False) -> list[str]:
    """The flags of a site with three servers."""
    words = ["init", "--site", site, "--flavor", "ovs-netdev", "--name", "dpu-1"]
    words += [word for vip in VIPS[families] for word in ("--vip", vip)]
    for n, addresses in enumerate(FAMILIES[families]):
        words += ["--backend", ",".join([f"ns{n + 1}", *addresses, MACS[n]])]
    if nat:
        words += ["--next-hop", NEXT_HOP, *(word for gateway in GATEWAYS[families] for word in ("--gateway", gateway))]
    return (
        words
        + ([word for one in PROBES[families] for word in ("--probe", one)] if probe else [])
        + (["--zone", "example.org"] if probe and site != "resolvers" else [])
    )


@pytest.mark.parametrize("families", FAMILIES)
@pytest.mark.parametrize(
    ("site", "probe", "nat"),
    [
        ("dsr", False, False), ("dsr", True, False), ("nat", False, True), ("nat", True, True),
        ("resolvers", False, False), ("resolvers", True, False), ("resolvers", True, True),
    ],
)  # fmt: skip
def test_every_site_is_proven(site: str, probe: bool, nat: bool, families: str, tmp_path: Path) -> None:
    spec = tmp_path / "site.yaml"
    done = run(*flags(site, families, probe=probe, nat=nat), "-o", spec)
    assert (done.code, done.err) == (0, ""), done.err
    checked = run("check", spec, "--sample", 4)
    assert (checked.code, checked.err) == (0, ""), checked.out + checked.err
    text = spec.read_text()
    assert text.count("#") > 6 and max(map(len, text.splitlines())) <= 125
    found = load_spec(spec).spec
    (vip,) = found.vips.values()
    assert list(map(str, vip.addresses)) == VIPS[families] and vip.forwarding.value == ("nat" if nat else "dsr")
    (pool,) = found.pools.values()
    assert [b.mac for b in pool.backends] == MACS
    assert (pool.serves == "resolver") is (site == "resolvers") and bool(found.switch.probe) is probe
    assert bool(pool.health) is (probe or site == "resolvers")


def test_what_is_said_names_the_next_commands(tmp_path: Path) -> None:
    spec = tmp_path / "s.yaml"
    done = run(*flags("resolvers", "both", probe=True), "-o", spec)
    for command in ("check", "lint", "bringup", "plan", "apply"):
        assert f"  dnsteer {command} {spec}" in done.out
    assert "  dnsteer agent " in done.out
    again = run(*flags("resolvers", "both"), "-o", spec, "--json", "--force")
    assert again.json["next"][0] == f"dnsteer check {spec}"


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    spec = tmp_path / "s.yaml"
    spec.write_text("mine\n")
    done = run(*flags("dsr", "v4"), "-o", spec)
    assert done.code == Exit.ERROR and "--force replaces it" in done.err and spec.read_text() == "mine\n"
    assert run(*flags("dsr", "v4"), "-o", spec, "--force").code == 0 and "apiVersion" in spec.read_text()
    shown = run(*flags("dsr", "v4"), "-o", "-")
    assert shown.out == spec.read_text() and yaml.safe_load(shown.out)["vips"]["dns"]["pool"] == "authoritative"


def test_without_a_terminal_and_without_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words, missing in (
        ([], "--site, --vip, --backend"),
        (["--site", "nat", "--vip", V4], "--backend, --gateway, --next-hop"),
    ):
        done = run("init", *words)
        said = " ".join(done.err.split())
        assert done.code == Exit.USAGE and "no terminal to ask" in said, said
        assert all(flag in said for flag in missing.split(", "))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flag", "value", "said", "code"),
    [
        ("--site", "anycast", "expected one of dsr, nat, resolvers", Exit.USAGE),
        ("--vip", "192.0.2", "expected an IP address", Exit.USAGE),
        ("--backend", "ns1,192.0.2.11", "expected NAME,ADDRESS,MAC", Exit.USAGE),
        ("--backend", "ns1,192.0.2.11,192.0.2.12,02:00:00:00:01:01", "expected NAME,ADDRESS,MAC", Exit.USAGE),
        ("--backend", "ns 1,192.0.2.11,02:00:00:00:01:01", "expected a name", Exit.USAGE),
        ("--mac", "01:00:5e:00:00:01", "MAC address of one station", Exit.USAGE),
        ("--probe", "192.0.2.9", "with its prefix length", Exit.USAGE),
        ("--flavor", "ovs", "expected one of ovs-doca", Exit.USAGE),
        ("--gateway", "192.0.2.1", "found --gateway for --site dsr", Exit.USAGE),
        ("--vip", V6, "without a backend for IPv6", Exit.ERROR),  # as every verb says it
        ("--probe", "192.0.2.11/24", "192.0.2.11", Exit.ERROR),
    ],
)
def test_wrong_answers_write_nothing(flag: str, value: str, said: str, code: Exit, tmp_path: Path) -> None:
    spec = tmp_path / "s.yaml"
    done = run(*flags("dsr", "v4"), flag, value, "-o", spec)
    words = " ".join("".join(c for c in done.err if c not in "\u2502\u256d\u256e\u2570\u256f\u2500").split())
    assert done.code == code and said in words, done.err
    assert not spec.exists()


def test_answers_in_a_terminal(tmp_path: Path) -> None:
    spec = tmp_path / "asked.yaml"
    ours, theirs = pty.openpty()
    answers = [
        "nowhere", "nat", "", "dpu-7", "ovs-netdev", "", "", V4, "", "ns1,192.0.2.11", f"ns1,192.0.2.11,{MACS[0]}",
        f"ns2,192.0.2.12,{MACS[1]}", "", "192.0.2.1", "", NEXT_HOP,
    ]  # fmt: skip
    argv = [sys.executable, "-m", "dnsteer", "init", "-o", str(spec)]
    with subprocess.Popen(argv, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        shown, _ = process.communicate(timeout=60)
    os.close(theirs)
    asked = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert process.returncode == 0, asked
    assert "found 'nowhere'; expected one of dsr, nat, resolvers" in asked and "expected NAME,ADDRESS,MAC" in asked
    assert b"written: site nat, 2 servers" in shown
    assert run("check", spec, "--sample", 4).code == 0
    switch = load_spec(spec).spec.switch
    assert (switch.name, switch.flavor.value, list(switch.uplinks)) == ("dpu-7", "ovs-netdev", ["p0"])
