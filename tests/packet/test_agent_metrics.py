# SPDX-License-Identifier: Apache-2.0
"""A real agent's /metrics on a private switch: totals that go on, states with reasons, formats, a switch that is away."""

from __future__ import annotations

import signal
import socket
import urllib.error
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dnsteer.metrics.families import FAMILIES, SERIES
from dnsteer.metrics.family import ALWAYS, APPLIED, CHECKS
from tests.packet.agents import Agent, agent, checked_by_files, wait
from tests.packet.command import SLOW, fresh, on, run, spec_file
from tests.packet.scraping import METRICS, OPENMETRICS, Scraped, address, get, scrape, value
from tests.packet.status_cases import insert_by_start
from tests.packet.switches import BRIDGE, Switch

ENDED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]
EXPECTED = ENDED
ASKED, SERVICE = "198.51.100.54", {"vip": "straight", "service": "53/udp"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("metrics")


@pytest.fixture(scope="module")
def served(shared: Switch, folder: Path) -> Iterator[tuple[Agent, str]]:
    """An agent with metrics beside the module's switch, and where it serves."""
    fresh(shared)
    assert on(shared)("apply", spec_file(folder, checked_by_files(folder, "1s", "900ms")), "--yes").code == 0
    with agent(shared, folder, "pools with health checks: 1", "agent", *METRICS) as running:
        yield running, address(running)


def until(at: str, holds: Callable[[Scraped], object]) -> Scraped:
    """Scrape until it holds."""
    found: list[Scraped] = []

    def scraped() -> object:
        found.append(scrape(at))
        return holds(found[-1])

    wait(scraped, lambda: "\n".join(f"{name} {dict(labels)} {n}" for (name, labels), n in found[-1].items()))
    return found[-1]


def packets(found: Scraped) -> float:
    return value(found, "dnsteer_service_packets_total", **SERVICE) or 0


def test_every_family_is_there_with_its_labels_and_no_other(served: tuple[Agent, str], shared: Switch) -> None:
    """Those that need a fault, or more than a private switch has, are in the other tests."""
    insert_by_start(shared, ASKED, udp=4, tcp=2)
    found = until(
        served[1],
        lambda now: packets(now) >= 4 and value(now, "dnsteer_check_results_total", outcome="good"),
    )
    names = {name for name, _ in found}
    promised = {n for family in FAMILIES if family.when in (APPLIED, ALWAYS, CHECKS) for n in family.series}
    assert promised <= names
    assert {n for n in names if n.startswith("dnsteer_")} <= SERIES.keys()
    for name, labels in found:
        if name in SERIES:
            assert {n for n, _ in labels} - {"le"} == set(SERIES[name].all_labels), name
            assert ("bridge", BRIDGE) in labels
        assert ("switch", "dpu-1") in labels, name


def test_series_have_the_name_that_open_vswitch_has_until_a_spec_names_the_switch(
    switch: Switch, tmp_path: Path
) -> None:
    switch.expected = EXPECTED
    switch.vsctl("--no-wait", "set", "Open_vSwitch", ".", "external_ids:system-id=dpu-of-ovs")
    assert on(switch)("apply", spec_file(tmp_path, old="  name: dpu-1\n", new=""), "--yes").code == 0
    with agent(switch, tmp_path, "metrics at", "agent", *METRICS) as running:
        at = address(running)
        until(at, lambda now: {dict(labels)["switch"] for _, labels in now} == {"dpu-of-ovs"})
        assert on(switch)("apply", spec_file(tmp_path), "--yes").code == 0
        until(at, lambda now: {dict(labels)["switch"] for _, labels in now} == {"dpu-1"})


def test_packets_and_bytes_are_counted_by_vip_backend_port_and_drop(served: tuple[Agent, str], shared: Switch) -> None:
    at = served[1]
    before = scrape(at)
    insert_by_start(shared, ASKED, udp=40, tcp=20)
    insert_by_start(shared, "198.51.100.99", udp=7, tcp=0)

    def more(now: Scraped, name: str, **labels: str) -> float:
        return (value(now, name, **labels) or 0) - (value(before, name, **labels) or 0)

    found = until(at, lambda now: more(now, "dnsteer_dropped_packets_total", table="address1") >= 7)
    found = until(at, lambda now: more(now, "dnsteer_service_packets_total", vip="straight") >= 60)
    assert more(found, "dnsteer_service_packets_total", **SERVICE) == 40
    assert more(found, "dnsteer_backend_packets_total", pool="direct", protocol="udp") == 40
    assert more(found, "dnsteer_backend_packets_total", pool="direct", protocol="tcp") == 20
    assert (
        more(found, "dnsteer_dropped_packets_total")
        == more(found, "dnsteer_dropped_packets_total", table="address1")
        == 7
    )
    assert more(found, "dnsteer_service_bytes_total", **SERVICE) >= 40 * 42
    assert more(found, "dnsteer_port_receive_packets_total", port="p0") == 67
    upcalls, hits = (more(found, f"dnsteer_datapath_{n}_total") for n in ("upcalls", "hits"))
    assert upcalls + hits == 67
    assert more(found, "dnsteer_agent_panics_total") == 0


def test_totals_go_on_after_an_apply_and_a_restart_of_the_switch(
    served: tuple[Agent, str], shared: Switch, folder: Path
) -> None:
    at = served[1]
    first = packets(scrape(at)) + 40
    insert_by_start(shared, ASKED, udp=40, tcp=0)
    assert packets(until(at, lambda now: packets(now) >= first)) == first
    changes = value(scrape(at), "dnsteer_changes_total", kind="apply") or 0
    fewer = folder / "fewer.yaml"
    fewer.write_text(checked_by_files(folder, "1s", "900ms").replace("addresses: [198.51.100.54, ", "addresses: ["))
    for spec in (fewer, folder / "spec.yaml"):  # the flow is gone, and comes back at 0
        assert on(shared)("apply", spec, "--yes", "--grace", "0").code == 0
        changes += 1
        until(at, lambda now: value(now, "dnsteer_changes_total", kind="apply") == changes)  # noqa: B023
    assert packets(scrape(at)) == first
    insert_by_start(shared, ASKED, udp=10, tcp=0)
    second = packets(until(at, lambda now: packets(now) >= first + 10))
    assert second == first + 10
    shared.kill_switch()
    found = until(at, lambda now: value(now, "dnsteer_switch_up") == 0)
    assert packets(found) == second
    assert value(found, "dnsteer_pool_backends_in_service", pool="direct") == 2
    assert value(found, "dnsteer_tables_as_recorded") is None
    shared.start_switch()
    found = until(at, lambda now: value(now, "dnsteer_tables_as_recorded") == 1)
    assert packets(found) == second
    insert_by_start(shared, ASKED, udp=10, tcp=0)
    assert packets(until(at, lambda now: packets(now) >= second + 10)) == second + 10
    assert (value(found, "dnsteer_drift_repaired_total", kind="flows") or 0) > 100


def test_out_of_service_backends_are_exported_with_their_reason(
    served: tuple[Agent, str], shared: Switch, folder: Path
) -> None:
    at = served[1]
    (folder / "c").unlink()
    info = "dnsteer_backend_out_info"
    found = until(at, lambda now: value(now, info, pool="direct", backend="c", state="unhealthy"))
    labels = next(dict(has) for name, has in found if name == info)
    assert labels["reason"].startswith("command ") and "test ended with 1" in labels["reason"]
    assert value(found, "dnsteer_backend_slots", pool="direct", backend="c") == 0
    assert value(found, "dnsteer_backend_slots", pool="direct", backend="a") == 32
    assert value(found, "dnsteer_backend_own_slots", pool="direct", backend="c") == 16
    assert value(found, "dnsteer_backend_in_service", pool="direct", backend="c") == 0
    assert value(found, "dnsteer_check_healthy", pool="direct", backend="c", check="command") == 0
    assert value(found, "dnsteer_maintenance_entries", kind="health") == 1
    assert (value(found, "dnsteer_agent_slots_moved_total") or 0) >= 16
    assert (value(found, "dnsteer_agent_effect_duration_seconds_count") or 0) >= 1
    (folder / "a").unlink()  # now too many are
    found = until(at, lambda now: value(now, "dnsteer_pool_panic", pool="direct") == 1)
    assert value(found, "dnsteer_agent_panics_total", pool="direct") == 1
    for name in "ac":
        (folder / name).touch()
    until(
        at,
        lambda now: value(now, "dnsteer_pool_panic") == 0 and value(now, "dnsteer_check_healthy", pool="direct") == 2,
    )
    assert on(shared)("drain", "direct/a", "--note", 'a "note" \\ of mine', "--yes").code == 0
    found = until(at, lambda now: value(now, info, backend="a", state="drained"))
    assert value(found, info, reason='a "note" \\ of mine') == 1
    assert packets(scrape(at, OPENMETRICS)) == packets(found)
    assert on(shared)("undrain", "direct/a").code == 0
    until(at, lambda now: value(now, info) is None)


def test_metrics_formats_methods_and_unknown_paths(served: tuple[Agent, str]) -> None:
    at = served[1]
    plain, headers = get(f"{at}/metrics")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "server" not in headers
    opened, headers = get(f"{at}/metrics", OPENMETRICS)
    assert headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert opened.endswith("# EOF\n") and not plain.endswith("# EOF\n")
    assert "# TYPE dnsteer_service_packets counter" in opened
    assert "/metrics" in get(at)[0]
    assert get(f"{at}/metrics", method="HEAD")[0] == ""
    for path, method, code in (
        ("/none", "GET", 404),
        ("/metrics/", "GET", 404),
        ("/metrics", "POST", 405),
        ("/", "PUT", 405),
    ):
        with pytest.raises(urllib.error.HTTPError) as failed:
            get(at + path, method=method)
        assert failed.value.code == code, (path, method)


def test_half_a_request_does_not_block_other_clients(served: tuple[Agent, str]) -> None:
    at = served[1]
    host, port = at.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as half, socket.create_connection((host, int(port))) as long:
        half.sendall(b"GET /metrics HTTP/1.1\r\n")
        long.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000)
        long.settimeout(20)
        assert b" 431 " in long.recv(1000)
        assert value(scrape(at), "dnsteer_switch_up") == 1


def test_many_scrapers_share_one_reading(served: tuple[Agent, str]) -> None:
    with ThreadPoolExecutor(10) as threads:
        found = list(threads.map(lambda _: value(scrape(served[1]), "dnsteer_reading_duration_seconds"), range(30)))
    assert len(set(found)) <= 4, found


def test_a_metrics_address_in_use_is_reported_and_tried_again(
    served: tuple[Agent, str], shared: Switch, tmp_path: Path
) -> None:
    at = served[1].removeprefix("http://")
    with agent(shared, tmp_path, "standing by", "second", "--metrics", at) as second:
        second.waits_for(f"no metrics at {at} yet, tried again every 5 s: Address already in use")


def test_a_standby_agent_exports_only_its_own_state(served: tuple[Agent, str], shared: Switch, tmp_path: Path) -> None:
    with agent(shared, tmp_path, "standing by", "second", *METRICS) as second:
        found = scrape(address(second))
    assert value(found, "dnsteer_agent_claim_held") == 0
    assert value(found, "dnsteer_switch_up") == 1
    assert value(found, "dnsteer_service_packets_total") is None


@pytest.mark.parametrize(
    "wrong", ["9853", "localhost:9853", "127.0.0.1", "127.0.0.1:65536", "::1:9853", "[127.0.0.1]:1", "127.0.0.1:-1"]
)
def test_a_wrong_address_is_refused(wrong: str) -> None:
    done = run("agent", "--metrics", wrong, "--db", "unix:/nowhere")
    assert done.code == 64, done.err
    assert f"found '{wrong}'; expected an IP address and a port" in " ".join(done.err.replace("│", "").split())


def test_a_switch_that_was_never_there(tmp_path: Path) -> None:
    class Nowhere:
        database = f"unix:{tmp_path}/db.sock"

    running = Agent(Nowhere(), tmp_path / "log", *METRICS)  # type: ignore[arg-type]
    try:
        running.waits_for("the switch stays as it is")
        found = scrape(address(running))
        assert value(found, "dnsteer_switch_up") == 0
        assert value(found, "dnsteer_agent_claim_held") == 0
        assert running.end() == 0
    finally:
        running.end(signal.SIGKILL)
