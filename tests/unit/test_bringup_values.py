# SPDX-License-Identifier: Apache-2.0
"""What bring-up renders for a spec: the values, why, and that the scripts are good shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dnsteer.bringup import sources
from dnsteer.bringup.files import bringup_files, scripts_of
from dnsteer.bringup.memory import buffer_bytes
from tests.packet.command import run
from tests.unit.bringup_cases import ALL, DOCA, DPDK, KERNEL, NETDEV, analyzed, settings, setup, written

HASHED = ("slots: 128", "selection: dp-hash")
NO_FRAGMENTS = ("forwarding: nat", "forwarding: nat, fragments: drop")


@pytest.mark.parametrize("flavor", ALL)
def test_the_same_spec_gives_the_same_bytes(flavor: str) -> None:
    assert bringup_files(setup(ALL[flavor])) == bringup_files(setup(ALL[flavor]))


def test_every_script_of_every_flavor_is_good_shell(tmp_path: Path) -> None:
    for flavor, text in ALL.items():
        written(tmp_path / flavor, text)
    checked: dict[str, str] = {}  # those that differ in more than their values
    for script in sorted(tmp_path.rglob("*.sh")):
        lines = script.read_text().splitlines()
        kind = "\n".join(line for line in lines if not line.startswith(("#", "want ", "port ", "pages ", "uplink ")))
        checked.setdefault(kind, str(script))
    scripts = list(checked.values())
    assert {Path(s).name for s in scripts} == {p.name for p in tmp_path.rglob("*.sh")}
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_each_flavor_has_the_scripts_that_it_needs() -> None:
    wanted = {
        "ovs-doca": ["10-hugepages.sh", "20-eswitch.sh", "25-functions.sh", "30-openvswitch.sh", "40-bridge.sh"],
        "ovs-dpdk": ["10-hugepages.sh", "30-openvswitch.sh", "40-bridge.sh"],
        "ovs-kernel": ["20-eswitch.sh", "30-openvswitch.sh", "40-bridge.sh"],
        "ovs-netdev": ["30-openvswitch.sh", "40-bridge.sh"],
    }
    assert {flavor: scripts_of(setup(text)) for flavor, text in ALL.items()} == wanted
    representor = ('"0000:03:00.0"', '"0000:03:00.0,representor=vf0"')
    assert "20-eswitch.sh" in scripts_of(setup(DPDK, representor))


def test_every_setting_has_a_reason_and_a_source() -> None:
    known = {v for k, v in vars(sources).items() if k.isupper()}
    for text in ALL.values():
        values = setup(text)
        script = bringup_files(values)["30-openvswitch.sh"]
        for s in values.settings:
            assert len(s.why) > 15, s
            assert any(source in s.source for source in known), s
            assert f"# {s.key}: " in script
            assert script.count(f"\nwant {s.key} ") == 1


def test_members_of_a_bond_by_lacp_are_on_one_eswitch() -> None:
    lacp = setup(KERNEL, ("    p0: ", "    bond0: {mode: lacp, members: {p0: , p1: }}")).eswitch
    assert lacp.multiport and "by one member of bond0 leaves by any" in lacp.why
    router = "next_hop: 02:00:00:00:00:fe"
    apart = (f"    p0: {{{router}}}\n    p1:", f"    b0: {{{router}, mode: lacp, members: {{p0: , p1: }}}}")
    changes = (apart, ("  bringup:\n", "  bringup:\n    multiport: false\n"), ("port: p1", "port: b0"))
    assert settings(DOCA, *changes)["doca-eswitch-max"] == "2"


def test_connection_tracking_is_on_for_a_second_pass() -> None:
    """Which keeps no connection, so that the least is enough."""
    twice = ("slots: 128", "slots: 128\n    passes: 2")
    (tracked,) = [s for s in setup(DOCA, twice, NO_FRAGMENTS).settings if s.key == "hw-offload-ct-size"]
    assert tracked.value == "4096" and "pool resolvers pass" in tracked.why and "second pass" in tracked.why


def test_connection_tracking_is_off_where_the_hash_forbids_it_or_unused() -> None:
    key = "hw-offload-ct-size"
    assert settings(DOCA)[key] == "4096"
    assert settings(DOCA, NO_FRAGMENTS)[key] == "0"
    assert settings(DOCA, HASHED)[key] == "0"
    (why,) = [s.why for s in setup(DOCA, HASHED).settings if s.key == key]
    assert "pool resolvers selects by dp-hash" in why
    assert any("4287011" in note for note in setup(DOCA, HASHED).notes)
    assert not any("4287011" in note for note in setup(DOCA).notes)


def example(name: str) -> str:
    """An example as for OVS-DOCA."""
    file = Path(__file__).parents[2] / "examples" / f"{name}.yaml"
    return file.read_text().replace("flavor: ovs-netdev", "flavor: ovs-doca")


def test_connections_of_ipv6_are_taken_where_ipv6_is_tracked() -> None:
    key = "hw-offload-ct-ipv6-enabled"
    assert (
        settings(example("keep"))[key] == settings(example("access"))[key] == settings(example("ct-nat"))[key] == "true"
    )
    (why,) = [s for s in setup(example("keep")).settings if s.key == key]
    assert why.at_start and "IPv6" in why.why
    assert settings(example("access"))["hw-offload-ct-size"] == "4096"
    only_ipv4 = [(", 2001:db8:0:53::53", ""), (", 2001:db8:1::53", "")]
    assert key not in settings(example("keep"), *only_ipv4)
    assert settings(example("keep"), *only_ipv4)["hw-offload-ct-size"] == "50000"
    hashed = ("pools:\n  authoritative:\n", "pools:\n  authoritative:\n    selection: dp-hash\n")
    assert key not in settings(example("keep"), hashed)  # where nothing tracked is offloaded
    assert key not in settings(DOCA) and key not in settings(DPDK)


def test_the_hardware_tables_are_as_large_as_the_plan_needs() -> None:
    # 3 services of 128 slots at 2 uplinks: 768 rules of one mask, and a table of 1024 would be 75 % full.
    assert settings(DOCA)["ctl-pipe-size"] == "1024"
    assert settings(DOCA, ("slots: 128", "slots: 256"))["ctl-pipe-size"] == "2048"
    assert settings(DOCA, ("slots: 128", "slots: 4096"))["ctl-pipe-size"] == "32768"
    assert settings(DOCA, ("slots: 128", "slots: 8"), ("[dns, dot]", "[doq]"))["ctl-pipe-size"] == "64"


def test_limits_follow_the_number_of_rules() -> None:
    assert settings(DOCA)["flow-limit"] == "200000"
    assert settings(DOCA)["max-revalidator"] == "2000"
    large = (
        ("slots: 128", "slots: 4096\n    passes: 1"),
        ("198.51.100.53", ", ".join(f"198.51.100.{n}" for n in range(1, 7))),
    )
    # 18 services of 4096 slots at 2 uplinks, and their answers.
    with_many = settings(DOCA, *large, (", forwarding: nat", ""))
    assert (with_many["flow-limit"], with_many["max-revalidator"]) == ("300000", "5000")
    assert any("65,536" in n for n in setup(DOCA, *large, (", forwarding: nat", "")).notes)


def test_the_cache_by_ports_is_off_where_each_query_has_another_port() -> None:
    assert settings(DPDK)["emc-insert-inv-prob"] == "0"
    assert "emc-insert-inv-prob" not in settings(DPDK, ("services: [dns]", "services: [dot, doh]"))
    assert "emc-insert-inv-prob" not in settings(DOCA)  # nearly nothing passes the CPU there


def test_multiport_only_where_packets_change_their_physical_function() -> None:
    assert setup(DOCA).eswitch.multiport
    same = (", port: p1", ""), (", port: pf0vf0", ""), ("p1:\n", "p1: {next_hop: 02:00:00:00:00:fd}\n")
    straight = setup(DOCA, *same)
    assert not straight.eswitch.multiport
    assert settings(DOCA, *same)["doca-eswitch-max"] == "2"
    assert "esw_multiport" not in bringup_files(straight)["20-eswitch.sh"]
    assert setup(DOCA, *same, ("mtu: 9000", "multiport: true")).eswitch.multiport
    assert not setup(DOCA, ("mtu: 9000", "multiport: false")).eswitch.multiport
    assert not setup(KERNEL).eswitch.multiport  # one uplink
    cards = setup(DOCA, ("p1: 0000:03:00.1", "p1: 0000:04:00.0"))
    assert any("2 NICs (0000:03:00, 0000:04:00)" in note for note in cards.notes)


def test_the_physical_function_is_that_of_the_spec_or_of_the_devargs_or_asked_for() -> None:
    assert setup(DOCA).eswitch.functions == {"p0": "0000:03:00.0", "p1": "0000:03:00.1"}
    devargs = ("p1:\n", "p1: {options: {dpdk-devargs: '04:00.1,dv_flow_en=2'}}\n")
    no_pci = ("pci: {p0: 0000:03:00.0, p1: 0000:03:00.1}", "multiport: true")
    asked = setup(DOCA, devargs, no_pci)
    assert asked.eswitch.functions == {"p0": "", "p1": "0000:04:00.1"}
    assert any("PCI address of p0 is not in the spec" in note for note in asked.notes)
    other = ("p1:\n", "p1: {options: {dpdk-devargs: '0000:03:00.0,representor=pf1'}}\n")
    assert setup(DOCA, other, no_pci).eswitch.functions["p1"] == ""  # that is the other uplink's


@pytest.mark.parametrize(("mtu", "size"), [(1500, 3008), (9000, 10176)])
def test_buffers_have_the_sizes_of_open_vswitchs_documentation(mtu: int, size: int) -> None:
    assert buffer_bytes(mtu) == size


def test_memory_is_what_the_buffers_take() -> None:
    assert settings(DPDK)["dpdk-socket-mem"] == "1024"
    large = ("pools:", "  bringup: {mtu: 9000, hugepages: {size: 1G}}\npools:")
    assert settings(DPDK, large)["dpdk-socket-mem"] == "2816"
    assert [(p.node, p.size, p.count) for p in setup(DPDK, large).memory.pages] == [(0, 1048576, 3)]
    nodes = ("pools:", "  bringup: {memory: [0, 512]}\npools:")
    assert settings(DPDK, nodes)["dpdk-socket-mem"] == "0,512"
    assert [(p.node, p.count) for p in setup(DPDK, nodes).memory.pages] == [(1, 256)]


def test_pages_of_ovs_doca_are_those_that_nvidia_reserves() -> None:
    def count(*changes: tuple[str, str]) -> list[int]:
        return [p.count for p in setup(DOCA, *changes).memory.pages]

    assert count() == [3072]
    assert count(("bluefield-3", "bluefield-2")) == [512]
    assert count(("  hardware: bluefield-3\n", "")) == [4096]
    assert count(("mtu: 9000", "hugepages: {count: 700}")) == [700]
    assert "dpdk-socket-mem" not in settings(DOCA)


def test_pmd_and_lcore_masks_follow_the_spec() -> None:
    cores = ("mtu: 9000", "pmd_cores: [3, 2]\n    main_core: 0")
    found = settings(DOCA, cores)
    assert (found["pmd-cpu-mask"], found["dpdk-lcore-mask"]) == ("0xc", "0x1")
    assert any("options: {n_rxq: 2}" in note for note in setup(DOCA, cores).notes)
    assert settings(NETDEV) == {"flow-limit": "200000"}


def test_dpdk_extra_comes_last_as_one_argument() -> None:
    change = ("mtu: 9000", "dpdk_extra: --iova-mode=va -v")
    assert settings(DOCA, change)["dpdk-extra"] == "-a 0000:00:00.0 --iova-mode=va -v"
    assert (
        "want dpdk-extra '-a 0000:00:00.0 --iova-mode=va -v' start"
        in bringup_files(setup(DOCA, change))["30-openvswitch.sh"]
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    folder = written(tmp_path / "here", DOCA)
    unit = folder / "dnsteer-bringup.service"
    unit.write_text(unit.read_text().replace("/etc/dnsteer/bringup", str(folder)))
    for other in ("ovsdb-server.service", "ovs-vswitchd.service"):
        (folder / other).write_text("[Service]\nExecStart=/bin/true\n")
    assert analyzed(unit) == (0, "")


def test_the_command_writes_files_and_lists_changes(tmp_path: Path) -> None:
    spec, folder = tmp_path / "spec.yaml", tmp_path / "out"
    spec.write_text(DOCA)
    first = run("bringup", spec, "-o", folder, "--json")
    assert (first.code, set(first.json["changed"])) == (0, {p.name for p in folder.iterdir()})
    assert {s["key"]: s["value"] for s in first.json["settings"]} == settings(DOCA)
    assert (folder / "bringup.sh").stat().st_mode & 0o111
    assert not (folder / "dnsteer-bringup.service").stat().st_mode & 0o111
    assert run("bringup", spec, "-o", folder, "--json").json["changed"] == []
    spec.write_text(DOCA.replace("mtu: 9000", "mtu: 1500"))
    changed = run("bringup", spec, "-o", folder, "--json").json["changed"]
    assert changed == ["40-bridge.sh"]
    assert run("bringup", spec).code == 64
    spec.write_text(DOCA.replace("mtu: 9000", "mtu: 90"))
    bad = run("bringup", spec, "--check")
    assert (bad.code, "$.switch.bringup.mtu: found 90" in bad.err) == (1, True)
