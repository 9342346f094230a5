# SPDX-License-Identifier: Apache-2.0
"""What the agent's probes say of a server: the checks of a pool, asked once each, from the probe's namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dnsteer.agent.health import Result
from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.targets import ProbeTarget, probe_targets
from dnsteer.agent.probes.udp import UdpProbe
from dnsteer.checks.load import check_document
from dnsteer.spec.read import parse_document
from tests.servers.network import ADDRESS, PROBE, inside

_SPEC = """\
apiVersion: dnsteer/v1
switch: {{flavor: ovs-netdev, bridge: br-dns, mac: "02:00:00:00:00:53", uplinks: {{p0: }}}}
vips:
  dns: {{addresses: [203.0.113.53], services: [dns], pool: farm}}
pools:
  farm:
    backends: [{{name: b, ipv4: {address}, mac: "02:00:00:00:01:01"}}]
    {pool}
"""
PATIENCE = 20.0
"""Seconds until what settles in a second must have settled."""


def targets(pool: str) -> list[ProbeTarget]:
    """What is asked of the server for a pool with these keys."""
    text = _SPEC.format(address=ADDRESS, pool=pool.replace("\n", "\n    "))
    return list(probe_targets(check_document(parse_document("spec.yaml", text)).spec))


def ask(pools: Mapping[str, str]) -> dict[str, str]:
    """Ask the server by the checks of each pool at the same time: what is wrong, by the pool's name, empty for nothing."""
    return inside(PROBE, lambda: asyncio.run(_ask({name: targets(pool) for name, pool in pools.items()})))


async def _ask(of: Mapping[str, list[ProbeTarget]]) -> dict[str, str]:
    loop = asyncio.get_running_loop()
    found: dict[str, asyncio.Future[str]] = {}
    for name, (target,) in of.items():
        done = found[name] = loop.create_future()

        def report(_: ProbeTarget, result: Result, done: asyncio.Future[str] = done) -> None:
            done.set_result(result.why.partition(": ")[2])

        UdpProbe(target, Question(target.query), report, loop, keep=False).ask()
    await asyncio.wait_for(asyncio.gather(*found.values()), PATIENCE)
    return {name: done.result() for name, done in found.items()}
