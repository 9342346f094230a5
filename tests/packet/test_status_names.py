# SPDX-License-Identifier: Apache-2.0
"""`status NAME`: only these pools, backends and VIPs; and `--wait`, of `status` and of `drain`."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer.cli.output import Exit
from tests.packet.agents import agent, checked_by_files, wait
from tests.packet.command import SLOW, on, spec_file
from tests.packet.status_cases import backends, load, status
from tests.packet.switches import LARGE, VIP_TABLE, Switch, unexpected


@pytest.fixture
def large(shared: Switch, tmp_path: Path) -> Iterator[Switch]:
    """The module's switch with the spec LARGE, and a backend of one of its two pools drained."""
    assert on(shared)("apply", spec_file(tmp_path, LARGE), "--yes", "--adopt", "--rename").code == 0
    assert on(shared)("drain", "direct/a", "--note", "CHG 4711", "--yes").code == 0
    yield shared
    assert on(shared)("undrain", "direct/a", "direct/c").code == 0


EXPECTED = [*SLOW, "Broken pipe", "connection dropped"]


def named(found: dict[str, object]) -> tuple[list[str], list[str]]:
    """The pools and VIPs of a status."""
    return tuple([part["name"] for part in found[what]] for what in ("pools", "vips"))  # type: ignore[index,attr-defined,return-value]


def test_status_selects_pools_vips_and_backends(large: Switch) -> None:
    quick = ("--no-rates", "--no-verify")
    pool = status(large, "direct", *quick)
    assert named(pool) == (["direct"], ["straight"]) and len(backends(pool, "direct")) == 2
    titles = [item["title"] for item in pool["attention"]]
    assert titles == ["Pool direct: one backend is left in service", "direct/a is drained"]
    assert len(pool["overlay"]) == 1
    vip = status(large, "nat", *quick)
    assert named(vip) == (["hashed"], ["nat"]) and vip["attention"] == [] == vip["overlay"]
    backend = status(large, "direct/a", *quick)
    assert named(backend) == (["direct"], []) and list(backends(backend, "direct")) == ["a"]
    assert named(status(large, "straight", "hashed/b", *quick)) == (["hashed", "direct"], ["straight"])
    text = on(large)("status", "hashed", *quick).out
    assert "hashed" in text and "direct" not in text and "straight" not in text


@pytest.mark.parametrize(
    ("name", "hint"),
    [("direkt", "did you mean 'direct'?"), ("direct/b", "did you mean 'direct/"), ("x", "pools are hashed")],
)
def test_an_unknown_name_is_refused(large: Switch, name: str, hint: str) -> None:
    done = on(large)("status", name)
    assert done.code == Exit.ERROR and f"found {name!r}" in done.err and hint in done.err


def test_the_exit_code_is_about_the_names(shared: Switch, tmp_path: Path) -> None:
    spec = spec_file(tmp_path, checked_by_files(tmp_path, "200ms", "150ms"))
    assert on(shared)("apply", spec, "--yes", "--adopt", "--rename").code == 0
    with agent(shared, tmp_path):
        (tmp_path / "a").unlink()
        here = on(shared)
        wait(lambda: here("status", "direct", "--no-rates").code == Exit.ATTENTION, lambda: here("status").out)
        # Not at once: while the agent's change is pending, that is said whatever the names.
        wait(lambda: here("status", "hashed", "--no-rates").code == Exit.OK, lambda: here("status", "hashed").out)
        (tmp_path / "a").touch()
        done = here("status", "direct", "--wait", "30s", "--no-rates")
        assert done.code == Exit.OK and "direct" in done.out


def test_a_dropping_pool_is_shown_for_each_of_its_names(large: Switch, tmp_path: Path) -> None:
    text = LARGE.replace("  direct:\n", "  direct:\n    on_all_down: drop\n")
    assert on(large)("apply", spec_file(tmp_path, text), "--yes").code == 0
    assert on(large)("drain", "direct/c", "--yes").code == 0
    for names in ("direct", "straight", "direct/a", "nat direct/a", "hashed", "nat", "hashed/b"):
        lost = [["straight"]] if "direct" in names or names == "straight" else []
        found = status(large, *names.split(), "--no-rates", "--no-verify", code=4 if lost else 0)
        assert found["ok"] is (not lost), names
        critical = [item for item in found["attention"] if item["level"] == "critical"]
        assert [item["vips_that_do_not_serve"] for item in critical] == lost, names


def test_warnings_of_other_backends_are_left_out(shared: Switch, tmp_path: Path) -> None:
    third = "      - {name: d, ipv4: 10.53.0.14, ipv6: '2001:db8:53::14', mac: '02:00:00:00:03:04', port: vf2}\n"
    text = checked_by_files(tmp_path, "200ms", "150ms").replace("port: vf2}\n", f"port: vf2}}\n{third}")
    (tmp_path / "d").touch()
    assert on(shared)("apply", spec_file(tmp_path, text), "--yes", "--adopt", "--rename").code == 0
    with agent(shared, tmp_path):
        (tmp_path / "a").unlink()
        here = on(shared)
        wait(lambda: here("status", "direct/a", "--no-rates").code == Exit.ATTENTION, lambda: here("status").out)
        assert here("status", "direct/d", "--no-rates").code == Exit.OK
        assert here("status", "direct/d", "--wait", "1s", "--no-rates").code == Exit.OK


def test_a_family_that_a_backend_is_not_in_is_not_shown(shared: Switch, tmp_path: Path) -> None:
    spec = spec_file(tmp_path, LARGE.replace("ipv6: '2001:db8:53::13', ", ""))
    assert on(shared)("apply", spec, "--yes", "--adopt", "--rename").code == 0
    titles = {
        name: [pool["title"] for pool in status(shared, name, "--no-rates", "--no-verify")["pools"]]
        for name in ("direct", "direct/a", "direct/c")
    }
    both = ["pool direct IPv4", "pool direct IPv6"]
    assert titles == {"direct": both, "direct/a": both, "direct/c": both[:1]}


def test_wait_ends_when_status_is_in_order(large: Switch) -> None:
    large.ofctl("del-flows", VIP_TABLE)
    done = on(large)("status", "--wait", "0.1s", "--no-rates")
    assert done.code == Exit.DIFFERENT and "not in order after 0.1 s: " in done.err
    argv = [sys.executable, "-m", "dnsteer", "status", "--wait", "60s", "--no-rates", "--json", "--db", large.database]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert on(large)("restore").code == 0
        text, _ = process.communicate(timeout=90)
        assert process.returncode == Exit.OK and '"ok": true' in text
    assert on(large)("status", "--wait", "5s", "--watch").code == Exit.USAGE


def test_a_drain_waits_until_no_packet_goes_there(large: Switch) -> None:
    with load(large, "198.51.100.54", udp=200, tcp=0):
        done = on(large)("drain", "direct/a", "--wait", "60s", "--json", "--yes")
        assert (done.code, done.json["quiet"]) == (0, True), done.err
        assert on(large)("undrain", "direct/a").code == 0
        argv = [sys.executable, "-m", "dnsteer", "drain", "direct/a", "--wait", "60s", "--yes", "--db", large.database]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline().startswith("br-dns: changed: "), "at once"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "direct/a is drained; nothing waits until nobody is served there" in said
        # With none left the slots stay where they are, and so do the packets.
        done = on(large)("drain", "direct/a", "direct/c", "--wait", "0.1s", "--yes")
        assert done.code == Exit.ATTENTION, done.err
        assert "after 0.1 s " in done.err and "direct/c gets " in done.err and "packets/s" in done.err
    assert unexpected(large) == []
