# SPDX-License-Identifier: Apache-2.0
"""`explain` against the slots: the backend it names is the one that a packet really goes to."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from dnsteer.checks.load import check_document, load_spec
from dnsteer.plan.build import build_plan
from dnsteer.plan.pool_slots import slots_of
from dnsteer.proof.explain import QueryPath, explain_cookie, explain_query
from dnsteer.render.flows import flows_of
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.read import parse_document
from tests.packet.command import run
from tests.unit.extension_cases import SPEC

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("sport", [1, 40001, 65535])
def test_explain_predicts_the_source_port_slot(sport: int) -> None:
    loaded = load_spec(EXAMPLES / "quickstart.yaml")
    path = explain_query(loaded, ip_address("198.51.100.7"), sport, ip_address("192.0.2.53"), 53, Protocol.UDP, "p0")
    slots = slots_of(loaded.spec, loaded.spec.pools["authoritative"], "ipv4")
    assert path.as_expected
    assert path.slot == (sport >> 1) % len(slots)
    assert path.backend == slots[path.slot]
    tables = [s.table for s in path.steps]
    assert (tables[0], tables[-4:]) == ("ingress", ["vip", "slot", "forward", "egress"])
    assert all(s.line for s in path.steps)
    assert path.passes == 1
    assert len(path.out) == 1


def test_dp_hash_takes_two_passes() -> None:
    loaded = load_spec(EXAMPLES / "own-ports.yaml")
    path = explain_query(loaded, ip_address("2001:db8::7"), 40001, ip_address("2001:db8:1::53"), 53, Protocol.TCP, "p0")
    assert path.passes == 2
    assert path.slot is None
    assert path.backend in {"a", "b"}


def test_explain_says_that_open_connections_go_by_the_tracker() -> None:
    keep, nat = load_spec(EXAMPLES / "keep.yaml"), load_spec(EXAMPLES / "ct-nat.yaml")
    assert explained(keep, "198.51.100.7", "192.0.2.53", Protocol.TCP).kept
    assert explained(nat, "2001:db8::7", "2001:db8:1::53", Protocol.TCP).kept
    assert not explained(keep, "198.51.100.7", "192.0.2.53").kept
    assert not explained(load_spec(EXAMPLES / "quickstart.yaml"), "198.51.100.7", "192.0.2.53", Protocol.TCP).kept
    done = run("explain", str(EXAMPLES / "keep.yaml"), "--client", "198.51.100.7:4000", "--vip", "192.0.2.53:53/tcp")
    (line,) = [line for line in done.out.splitlines() if line.startswith("kept")]
    assert "an open one stays with the backend that it began with" in line


def test_a_query_to_no_service_is_dropped() -> None:
    loaded = load_spec(EXAMPLES / "quickstart.yaml")
    path = explain_query(loaded, ip_address("198.51.100.7"), 9, ip_address("192.0.2.53"), 80, Protocol.TCP, "p0")
    assert path.out == ()
    assert path.backend is None
    assert path.as_expected


def explained(
    loaded: Loaded, client: str, vip: str, protocol: Protocol = Protocol.UDP, uplink: str = "p0"
) -> QueryPath:
    return explain_query(loaded, ip_address(client), 40001, ip_address(vip), 53, protocol, uplink)


EVERYTHING = check_document(parse_document("spec.yaml", SPEC))
SLOT = (40001 >> 1) % 16


def test_explain_shows_an_ipip_tunnel() -> None:
    path = explained(EVERYTHING, "198.51.100.7", "192.0.2.1", uplink="p1")
    assert path.as_expected
    assert (path.selection, path.slot, path.passes) == ("source-port", SLOT, 2)
    assert path.extension is not None
    assert path.extension.pipes[:3] == ("classifier", "slots16-ipip", "slots-ipip")
    assert path.extension.pipes[3] in ("encap4", "encap6")
    assert path.extension.target is not None
    assert path.extension.target.startswith(f"far/{path.backend}/")
    assert (path.extension.verdict, path.extension.slots) == ("sent", 16)
    assert [s.table for s in path.steps][-2:] == ["vip", "egress"]
    assert [s.table for s in path.returned_steps] == ["ingress", "extension"]
    assert path.backend is not None
    assert path.backend in path.returned_steps[-1].about
    ((port, frame),) = path.out
    assert port in ("p1", "vf0", "vf1")
    assert "carrying 198.51.100.7 > 192.0.2.1" in frame
    assert path.extension.sent == (("ext-out", frame),)


def test_explain_shows_a_siit_translation() -> None:
    path = explained(EVERYTHING, "198.51.100.7", "192.0.2.3", Protocol.TCP)
    assert path.as_expected
    assert path.extension is not None
    assert path.extension.pipes == ("classifier", "slots16-siit", "slots-siit", "to-ipv6", "translated")
    assert "64:ff9b::c633:6407 > 2001:db8:a::2" in path.out[0][1]


@pytest.mark.parametrize(("vip", "selection"), [("192.0.2.4", "client"), ("192.0.2.6", "spray")])
def test_explain_shows_an_unpredicted_slot(vip: str, selection: str) -> None:
    path = explained(EVERYTHING, "198.51.100.7", vip)
    assert path.as_expected
    assert (path.selection, path.slot) == (selection, None)
    assert path.extension is not None
    assert path.extension.pipes == ("classifier", f"{selection}16-l2", "slots-l2")
    assert path.extension.target is not None
    assert path.extension.target.split("/")[1] == path.backend
    assert 0 < path.extension.share < 16


def test_the_extension_drops_queries_of_an_empty_pool() -> None:
    path = explained(EVERYTHING, "198.51.100.7", "192.0.2.9")
    assert path.as_expected
    assert path.extension is not None
    assert path.extension.verdict == "dropped"
    assert (path.extension.pipes, path.extension.target, path.returned_steps, path.out) == (
        ("classifier",),
        None,
        (),
        (),
    )
    assert "no backend left" in path.why


NAMED = [*(load_spec(EXAMPLES / f"{name}.yaml") for name in ("own-ports", "ipip", "siit")), EVERYTHING]


@pytest.mark.parametrize("loaded", NAMED, ids=lambda loaded: str(loaded.file).rpartition("/")[2])
def test_every_cookie_is_named(loaded: Loaded) -> None:
    for flow in flows_of(build_plan(loaded)):
        subject = explain_cookie(loaded, flow.cookie)
        assert subject is not None
        assert subject.line > 0
    assert explain_cookie(loaded, 0xD453_0F_0000000000) is None
