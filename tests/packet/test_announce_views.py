# SPDX-License-Identifier: Apache-2.0
"""What `status` says of VIPs that the agent has withdrawn or holds, and of a BIRD that refuses its configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dnsteer.cli.output import Exit
from tests.packet.agents import agent, wait
from tests.packet.announcing import DNS, OTHER, READY, announces, applied, folder, healthy, spec
from tests.packet.birds import bird
from tests.packet.command import FARM, SLOW, on, spec_file
from tests.packet.switches import Switch

__all__ = ["folder"]

EXPECTED = [*SLOW, "connection dropped", "Broken pipe"]


def status(switch: Switch) -> dict[str, Any]:
    done = on(switch)("status", "--json", "--no-rates")
    return {"exit": done.code, **done.json}


def settles(switch: Switch, code: Exit) -> dict[str, Any]:
    """The status once its exit code is this one."""
    found = [status(switch)]

    def is_so() -> bool:
        found[0] = status(switch)
        return bool(found[0]["exit"] == code)

    wait(is_so, lambda: json.dumps([found[0]["exit"], found[0]["attention"]], indent=1))
    return found[0]


def test_a_withdrawn_then_held_vip_needs_attention(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder, ", hold_max: 300s"))
    with bird(folder) as own, agent(shared, folder, READY):
        announces(own, DNS | OTHER)
        settles(shared, Exit.OK)
        for _ in range(2):  # the second time it is held
            healthy(folder)
            announces(own, OTHER)
            healthy(folder, "ns1")
            if _ == 0:
                announces(own, DNS | OTHER)
        found = settles(shared, Exit.NOT_SERVING)
        (vip,) = found["agent"]["knows"]["unannounced"]
        assert (vip["vip"], vip["by_people"]) == ("dns", False)
        assert vip["until"] is not None and vip["since"] < vip["until"]
        (item,) = [item for item in found["attention"] if item["title"] == "VIP dns is withdrawn"]
        assert item["vips_that_do_not_serve"] == ["dns"] and "; held until " in item["detail"]


def test_a_vip_withdrawn_by_operators_is_no_outage(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    with bird(folder) as own, agent(shared, folder, READY):
        announces(own, DNS | OTHER)
        assert on(shared)("withdraw", "dns", "--note", "a disk").code == 0
        wait(
            lambda: (
                [(v["vip"], v["by_people"]) for v in status(shared)["agent"]["knows"]["unannounced"]] == [("dns", True)]
            ),
            lambda: json.dumps(status(shared)["agent"]),
        )
        found = settles(shared, Exit.OK)
        assert ("note", "VIP dns is withdrawn") in [(item["level"], item["title"]) for item in found["attention"]]


def test_a_configuration_that_bird_refuses_needs_attention(shared: Switch, folder: Path) -> None:
    applied(shared, folder, spec(folder))
    with bird(folder) as own, agent(shared, folder, READY) as running:
        announces(own, DNS | OTHER)
        own.write(own.including + "protocol nonsense;\n")
        healthy(folder)
        running.waits_for("BIRD refuses its configuration, so routes stay as they were: ")
        titles = [item["title"] for item in settles(shared, Exit.NOT_SERVING)["attention"]]
        assert "VIPs are not announced as they should be" in titles and "Pool farm: PANIC" in titles
        own.write(own.including)
        healthy(folder, "ns1", "ns2", "ns3")
        settles(shared, Exit.OK)


def test_announcements_removed_from_the_spec_need_no_attention(shared: Switch, folder: Path) -> None:
    """No BIRD runs, and then no VIP is to be announced any more."""
    applied(shared, folder, spec(folder))
    with agent(shared, folder, READY) as running:
        running.waits_for("VIPs are not announced as they should be: ")
        titles = [item["title"] for item in settles(shared, Exit.NOT_SERVING)["attention"]]
        assert "VIPs are not announced as they should be" in titles
        assert on(shared)("apply", spec_file(folder, FARM), "--yes").code == 0
        assert settles(shared, Exit.OK)["agent"]["knows"]["troubles"] == []
