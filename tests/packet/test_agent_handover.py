# SPDX-License-Identifier: Apache-2.0
"""Two agents on one machine, of which one has lost the claim to the other while it hung."""

from __future__ import annotations

import signal
from pathlib import Path

from dnsteer.switch.agent_answer import ask_knowledge
from tests.packet.agents import Agent, agent, wait
from tests.packet.announcing import kill_database, start_database
from tests.packet.command import on, spec_file
from tests.packet.switches import BRIDGE, Switch
from tests.packet.test_agent_defects import checked
from tests.packet.test_announce_faults import EXPECTED

AGAIN = "made again"


def test_verbs_reach_the_active_agent(switch: Switch, tmp_path: Path) -> None:
    switch.expected += EXPECTED
    done = on(switch)("apply", spec_file(tmp_path, checked(tmp_path)), "--yes")
    assert done.code == 0, done.err
    path = switch.dir / "dnsteer" / f"{BRIDGE}.sock"
    first = Agent(switch, tmp_path / "first.log")
    try:
        first.waits_for("control socket")
        with agent(switch, tmp_path, "standing by", "second") as second:
            first.hang(switch)
            kill_database(switch)
            start_database(switch)
            second.waits_for("control socket")
            first.process.send_signal(signal.SIGCONT)
            first.waits_for("standing by")
            wait(lambda: ask_knowledge(switch.database, BRIDGE).value is not None, second.said)
            before = first.said().count(AGAIN), second.said().count(AGAIN)
            for count in range(1, 5):
                for verb in ("drain", "undrain"):
                    done = on(switch)(verb, "farm/ns2")
                    assert (done.code, done.err) == (0, "")
                wait(lambda count=count: second.said().count(": undrain farm/ns2") == count, second.said)
            assert (first.said().count(AGAIN), second.said().count(AGAIN)) == before
            assert "drain" not in first.said()
            assert first.end() == 0
            assert path.exists()
            assert on(switch)("drain", "farm/ns2").code == 0
            second.waits_for("drain farm/ns2")
    finally:
        first.end(signal.SIGKILL)
