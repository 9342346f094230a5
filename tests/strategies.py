"""Random valid specs for property tests: any topology, both selections, both forwardings, one or two families."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import assume
from hypothesis import strategies as st

from dnsteer.spec.document import parse_document
from dnsteer.spec.errors import SpecError
from dnsteer.spec.load import Loaded, check_document


def loaded_from(value: dict[str, Any]) -> Loaded:
    """Load a spec given as a value, by way of YAML as a user would."""
    return check_document(parse_document("random.yaml", yaml.safe_dump(value, sort_keys=False)))


@st.composite
def spec_values(draw: st.DrawFn) -> dict[str, Any]:
    """A spec as a value. Nearly all are valid; the few that are not are for `specs` to skip."""
    uplinks = [f"p{i}" for i in range(draw(st.integers(1, 2)))]
    ports = [f"vf{i}" for i in range(draw(st.integers(0, 3)))]
    pools: dict[str, Any] = {}
    number = 10
    for p in range(draw(st.integers(1, 3))):
        backends = []
        for b in range(draw(st.integers(1, 4))):
            number += 1
            families = draw(st.sampled_from(["46", "46", "46", "4", "6"])) if b else "46"
            backend: dict[str, Any] = {"name": f"b{b}", "mac": f"02:00:00:00:01:{number:02x}"}
            if "4" in families:
                backend["ipv4"] = f"10.53.0.{number}"
            if "6" in families:
                backend["ipv6"] = f"2001:db8:53::{number:x}"
            port = draw(st.sampled_from([None, *uplinks, *ports]))
            if port:
                backend["port"] = port
            backend["weight"] = draw(st.integers(1, 5)) if b == 0 else draw(st.integers(0, 5))
            backend["state"] = draw(st.sampled_from(["up", "up", "up", "down"]))
            backends.append(backend)
        pool: dict[str, Any] = {"backends": backends, "slots": draw(st.sampled_from([4, 8, 16]))}
        pool["selection"] = draw(st.sampled_from(["source-port", "source-port", "dp-hash"]))
        pools[f"pool{p}"] = pool
    vips: dict[str, Any] = {}
    nat_pools: set[str] = set()
    for v in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(pools)))
        nat = draw(st.booleans()) and name not in nat_pools
        services: list[Any] = draw(
            st.lists(st.sampled_from(["dns", "dot", "doq", "doh"]), min_size=1, max_size=2, unique=True)
        )
        if nat:
            nat_pools.add(name)
            if draw(st.booleans()):
                services = [{"protocol": "udp", "port": 53, "target_port": draw(st.sampled_from([53, 5353]))}]
        vips[f"vip{v}"] = {
            "addresses": draw(st.sampled_from([["4", "6"], ["4"], ["6"]])),
            "services": services,
            "pool": name,
            "forwarding": "nat" if nat else "dsr",
            "fragments": draw(st.sampled_from(["restore", "restore", "drop"])) if nat else "restore",
            "echo": draw(st.booleans()),
        }
        shown = {"4": f"198.51.100.{v + 53}", "6": f"2001:db8:1::{v + 53}"}
        vips[f"vip{v}"]["addresses"] = [shown[f] for f in vips[f"vip{v}"]["addresses"]]
    switch: dict[str, Any] = {
        "flavor": "ovs-netdev",
        "bridge": "br-dns",
        "mac": "02:00:00:00:00:53",
        "gateways": ["10.53.0.1", "2001:db8:53::1"],
        "uplinks": {u: {"next_hop": f"02:00:00:00:00:f{i}"} for i, u in enumerate(uplinks)},
        "ports": dict.fromkeys(ports),
    }
    if len(uplinks) == 2 and draw(st.booleans()):
        switch["uplinks"]["p1"] = {"answers": draw(st.sampled_from(["p0"]))}
    if ports and draw(st.booleans()):
        switch["ports"][ports[0]] = {
            "answers": draw(st.sampled_from([u for u in uplinks if "next_hop" in switch["uplinks"][u]]))
        }
    return {"apiVersion": "dnsteer/v1", "switch": switch, "pools": pools, "vips": vips}


@st.composite
def specs(draw: st.DrawFn) -> Loaded:
    """A valid spec, loaded."""
    try:
        return loaded_from(draw(spec_values()))
    except SpecError:
        assume(False)
        raise
