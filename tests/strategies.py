# SPDX-License-Identifier: Apache-2.0
"""Random valid specs for property tests: any topology, all selections and forwardings, one or two families."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import assume
from hypothesis import strategies as st

from dnsteer.checks.load import check_document
from dnsteer.spec.errors import SpecError
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.extension import HASH_FIELDS
from dnsteer.spec.read import parse_document


def loaded_from(value: dict[str, Any]) -> Loaded:
    """Load a spec given as a value, by way of YAML as a user would."""
    return check_document(parse_document("random.yaml", yaml.safe_dump(value, sort_keys=False)))


@st.composite
def spec_values(draw: st.DrawFn, *, extension: bool = True) -> dict[str, Any]:
    """A spec as a value. Nearly all are valid; the few that are not are for `specs` to skip."""
    uplinks = [f"p{i}" for i in range(draw(st.integers(1, 2)))]
    ports = [f"vf{i}" for i in range(draw(st.integers(0, 3)))]
    extended = extension and draw(st.booleans())
    pools = draw(_pools(uplinks, ports, extended))
    vips = draw(_vips(pools, extended))
    _add_health(draw, pools, vips)
    _add_workers(draw, pools, vips)
    _add_passes(draw, pools, vips)
    _add_limits(draw, vips)
    _add_keep(draw, pools, vips)
    switch: dict[str, Any] = {
        "flavor": "ovs-netdev",
        "bridge": "br-dns",
        "mac": "02:00:00:00:00:53",
        "gateways": ["10.53.0.1", "2001:db8:53::1"],
        "uplinks": {u: {"next_hop": f"02:00:00:00:00:f{i}"} for i, u in enumerate(uplinks)},
        "ports": dict.fromkeys(ports),
    }
    if extended:
        switch["extension"] = {
            "ingress": {"port": "ext-in"},
            "egress": {"port": "ext-out"},
            "ipv4": "10.53.9.4",
            "ipv6": "2001:db8:53:9::4",
        }
    if draw(st.booleans()):
        addresses = draw(
            st.sampled_from([["10.53.0.9/24"], ["2001:db8:53::9/64"], ["10.53.0.9/24", "2001:db8:53::9/64"]])
        )
        switch["probe"] = {"addresses": addresses, "uplink": draw(st.sampled_from(uplinks))}
    if len(uplinks) == 2 and draw(st.booleans()):
        switch["uplinks"]["p1"] = {"answers": draw(st.sampled_from(["p0"]))}
    if ports and draw(st.booleans()):
        switch["ports"][ports[0]] = {
            "answers": draw(st.sampled_from([u for u in uplinks if "next_hop" in switch["uplinks"][u]]))
        }
    if not extended and draw(st.integers(0, 2)) == 0:
        _add_vlans(draw, switch, pools)
    if not extended and draw(st.integers(0, 2)) == 0:
        _add_tunnels(draw, switch, pools, vips)
    if not extended and draw(st.integers(0, 3)) == 0:
        switch["uplinks"]["p0"]["members"] = {"m0": {}, "m1": {}}
    behind = {b.get("port", "p0") in ports for pool in pools.values() for b in pool["backends"]}
    if len(behind) == 1 and draw(st.integers(0, 2)) == 0:  # else those at ports and those behind uplinks are mixed
        switch["pass"] = "backends"
    return {"apiVersion": "dnsteer/v1", "switch": switch, "pools": pools, "vips": vips}


def _add_vlans(draw: st.DrawFn, switch: dict[str, Any], pools: dict[str, Any]) -> None:
    """Give uplinks, ports and backends VLANs, or none; a backend without a port needs one where the uplinks' differ."""
    vlans = st.sampled_from([None, "untagged", 100, 200])
    for part in ("uplinks", "ports"):
        for name, port in switch[part].items():
            if (vlan := draw(vlans)) is not None:
                switch[part][name] = {**(port or {}), "vlan": vlan}
    for pool in pools.values():
        for backend in pool["backends"]:
            if (vlan := draw(vlans) or (None if "port" in backend else "untagged")) is not None:
                backend["vlan"] = vlan


def _add_tunnels(draw: st.DrawFn, switch: dict[str, Any], pools: dict[str, Any], vips: dict[str, Any]) -> None:
    """Send queries through tunnels that would go by direct server return, where a pool has no others."""
    backup = [pools[name]["backup"]["pool"] for name in pools if "backup" in pools[name]]
    for name, pool in pools.items():
        served = [vip for vip in vips.values() if vip["pool"] == name]
        if any(vip["forwarding"] != "dsr" for vip in served) or not served or "backup" in pool or name in backup:
            continue
        switch["tunnel"] = {"ipv4": "10.53.9.8", "ipv6": "2001:db8:53:9::8", "key": draw(st.sampled_from([0, 53]))}
        for vip in served:
            vip["forwarding"] = draw(st.sampled_from(["vxlan", "geneve", "gre"]))
            if vip.get("errors") == "copy":
                del vip["errors"]
        for backend in pool["backends"]:
            for key in ("port", "vlan"):
                backend.pop(key, None)


@st.composite
def _pools(draw: st.DrawFn, uplinks: list[str], ports: list[str], extended: bool) -> dict[str, Any]:
    pools: dict[str, Any] = {}
    number = 10
    # What comes back from the extension does not say by which uplink it came in.
    places = [*([None] if len(uplinks) == 1 or not extended else []), *uplinks, *ports]
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
            port = draw(st.sampled_from(places))
            if port:
                backend["port"] = port
            backends.append(backend)
        if extended and p and draw(st.integers(0, 3)) == 0:
            keys = "name", "mac", "ipv4", "ipv6", "port"  # the same servers once more
            backends = [{key: b[key] for key in keys if key in b} for b in pools["pool0"]["backends"]]
        for b, backend in enumerate(backends):
            backend["weight"] = draw(st.integers(1, 5)) if b == 0 else draw(st.integers(0, 5))
            backend["state"] = draw(st.sampled_from(["up", "up", "up", "down"]))
        pool: dict[str, Any] = {"backends": backends, "slots": draw(st.sampled_from([4, 8, 16]))}
        more = ["client", "spray"] if extended else []
        pool["selection"] = draw(st.sampled_from(["source-port", "source-port", "source-address", "dp-hash", *more]))
        if pool["selection"] == "source-address" and draw(st.booleans()):
            pool["client_prefix"] = {"ipv4": draw(st.integers(12, 32)), "ipv6": draw(st.integers(20, 128))}
        if pool["selection"] == "client":
            pool["hash_fields"] = draw(st.lists(st.sampled_from(HASH_FIELDS), min_size=1, unique=True))
        pool["on_all_down"] = draw(st.sampled_from(["keep", "keep", "drop"]))
        if pool["selection"] != "spray" and sum(1 for b in backends if b["weight"]) > 1 and draw(st.booleans()):
            pool["balance"] = {"by": "slots"}
        pools[f"pool{p}"] = pool
    return pools


@st.composite
def _vips(draw: st.DrawFn, pools: dict[str, Any], extended: bool) -> dict[str, Any]:
    vips: dict[str, Any] = {}
    used: set[tuple[str, str]] = set()
    for v in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(pools)))
        selection = pools[name]["selection"]
        ways = ["dsr", *([] if selection in ("client", "spray") else ["nat", "ct-nat"])]
        ways += ["ipip", "siit"] if extended and selection not in ("dp-hash", "source-address") else []
        # The answers of a pool that are translated lead to one VIP, whichever way.
        mode = draw(st.sampled_from([way for way in ways if way in ("dsr", "ipip") or (name, way[-3:]) not in used]))
        used.add((name, mode[-3:]))
        words = ["dns", "dot", "doq", "doh", "doh3"]
        services: list[Any] = draw(st.lists(st.sampled_from(words), min_size=1, max_size=2, unique=True))
        if selection == "spray":
            services = [{"protocol": "udp", "port": draw(st.sampled_from([53, 5353]))}]
        if mode == "nat" and draw(st.booleans()):
            services = [{"protocol": "udp", "port": 53, "target_port": draw(st.sampled_from([53, 5353]))}]
        if mode == "ct-nat":
            services = [
                draw(st.sampled_from(["dns", "dot", "doh", {"protocol": "tcp", "port": 853, "target_port": 8853}]))
            ]
        families = draw(st.sampled_from([["4", "6"], ["4"], ["6"]])) if mode != "siit" else ["4"]
        shown = {"4": f"198.51.100.{v + 53}", "6": f"2001:db8:1::{v + 53}"}
        vips[f"vip{v}"] = {
            "addresses": [shown[f] for f in families],
            "services": services,
            "pool": name,
            "forwarding": mode,
            "fragments": draw(st.sampled_from(["restore", "restore", "drop"]))
            if mode in ("nat", "ct-nat")
            else "restore",
            "echo": draw(st.booleans()),
        }
        if draw(st.booleans()):
            vips[f"vip{v}"]["errors"] = draw(st.sampled_from(["copy", "drop"] if mode == "dsr" else ["drop"]))
    return vips


_CHECK_OF = {"dns": "tcp", "dot": "tls", "doq": "quic", "doh": "https"}


def _add_health(draw: st.DrawFn, pools: dict[str, Any], vips: dict[str, Any]) -> None:
    """Give pools health checks, some of one service alone, which then has slots of its own; and the first one a backup."""
    for name, pool in pools.items():
        if draw(st.booleans()):
            continue
        pool["health"] = [{"check": "dns"}]
        served = [vip for vip in vips.values() if vip["pool"] == name]
        words = {word for vip in served for word in vip["services"] if isinstance(word, str)} & {*_CHECK_OF}
        extended = pool["selection"] in ("client", "spray") or any(v["forwarding"] in ("ipip", "siit") for v in served)
        if words and not extended and draw(st.booleans()):
            check = draw(st.sampled_from([_CHECK_OF[word] for word in sorted(words)]))
            pool["health"].append({"check": check, "per": "service"})
    own, spare = pools["pool0"], pools.get("pool1", {"backends": []})
    servers = {b["mac"] for b in own["backends"]} | {b["mac"] for b in spare["backends"]}
    if "health" in own and len(servers) == len(own["backends"]) + len(spare["backends"]) and spare["backends"]:
        takers = sum(1 for b in own["backends"] if b["weight"])
        for number, backend in enumerate(spare["backends"]):
            backend["name"] = f"spare{number}"
        own["slots"] = 16
        own["backup"] = {"pool": "pool1", "below": draw(st.integers(1, takers))}


def _add_passes(draw: st.DrawFn, pools: dict[str, Any], vips: dict[str, Any]) -> None:
    """Say how often queries pass for pools whose slots the switch selects."""
    for name, pool in pools.items():
        ways = {vip["forwarding"] for vip in vips.values() if vip["pool"] == name}
        if pool["selection"] == "source-port" and ways & {"dsr", "nat", "ct-nat"}:
            pool["passes"] = draw(st.sampled_from([1, 2, 2, "auto"]))


def _add_limits(draw: st.DrawFn, vips: dict[str, Any]) -> None:
    """Give some VIPs limits of clients, which others share, and of what begins TCP connections."""
    for vip in vips.values():
        limits: dict[str, Any] = {}
        if draw(st.integers(0, 3)) == 0:
            limits["clients"] = {"rate": "900k/s", "buckets": draw(st.sampled_from([16, 32]))}
        if {"dns", "dot", "doh"} & {word for word in vip["services"] if isinstance(word, str)} and draw(st.booleans()):
            limits["tcp_syn"] = "900k/s"
        if limits:
            vip["limits"] = limits


def _add_keep(draw: st.DrawFn, pools: dict[str, Any], vips: dict[str, Any]) -> None:
    """Have some VIPs with TCP keep connections, unless the extension forwards."""
    for vip in vips.values():
        over_tcp = {"dns", "dot", "doh"} & {word for word in vip["services"] if isinstance(word, str)}
        by_switch = vip["forwarding"] in ("dsr", "nat") and pools[vip["pool"]]["selection"] not in ("client", "spray")
        if over_tcp and by_switch and draw(st.integers(0, 2)) == 0:
            vip["keep"] = "connections"


def _add_workers(draw: st.DrawFn, pools: dict[str, Any], vips: dict[str, Any]) -> None:
    """Give backends of pools that are served by NAT alone several workers. A pool of a single VIP may become one."""
    for name, pool in pools.items():
        served = [v for v in vips.values() if name in (v["pool"], pools[v["pool"]].get("backup", {}).get("pool"))]
        if len(served) == 1 and pool["selection"] in ("source-port", "dp-hash") and draw(st.integers(0, 2)) == 0:
            served[0] |= {"forwarding": "nat", "fragments": draw(st.sampled_from(["restore", "drop"]))}
            served[0].pop("errors", None)
        if not served or any(not _may_have_workers(vip) for vip in served) or draw(st.integers(0, 2)) == 0:
            continue
        for number, backend in enumerate(pool["backends"]):
            if not number or draw(st.booleans()):
                backend["workers"] = draw(st.integers(2, 3))
        for each in pools.values():
            if each is pool or each.get("backup", {}).get("pool") == name:
                each["slots"] = 32


def _may_have_workers(vip: dict[str, Any]) -> bool:
    """Whether the answers of workers, which have other ports each, can be told apart."""
    udp = sum(1 for s in vip["services"] if s in ("dns", "doq") or isinstance(s, dict))
    return vip["forwarding"] == "nat" and (udp < 2 or vip["fragments"] == "drop")


@st.composite
def specs(draw: st.DrawFn, *, extension: bool = True) -> Loaded:
    """A valid spec, loaded. Where its extension would have to run it can be done without: *extension* is False then."""
    try:
        return loaded_from(draw(spec_values(extension=extension)))
    except SpecError:
        assume(False)
        raise
