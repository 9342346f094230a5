# SPDX-License-Identifier: Apache-2.0
"""Files of access lists that change beside a running agent: what it applies by itself, and what it leaves."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from dnsteer.checks.load import load_spec
from dnsteer.status.denials import DENYING_FLOWS
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import FARM, Ran, on
from tests.packet.switches import BRIDGE, Switch

READY = "bridge br-dns: state"
LIST = "  follow_lists: {}\n  access: {{deny: [10.9.0.0/16], deny_file: lists/denied.txt}}\n  uplinks:\n"
ONE = "# who floods\n203.0.113.0/24\n"
ALWAYS = "10.9.0.0/16"


def site(folder: Path, every: str = "1s") -> tuple[Path, Path]:
    """A spec, and the file of its list."""
    file = folder / "lists" / "denied.txt"
    file.parent.mkdir()
    file.write_text(ONE)
    spec = folder / "spec.yaml"
    spec.write_text(FARM.replace("  uplinks:\n", LIST.format(every)))
    return spec, file


def replace(file: Path, content: str | bytes) -> None:
    """Put a new file into its place, as one that is whole."""
    new = file.with_name("new")
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    new.rename(file)


def denied(switch: Switch) -> set[str]:
    """The sources of the flows that deny."""
    return set(re.findall(r"(?:nw_src|ipv6_src)=([^ ,]+)", switch.ofctl("dump-flows", DENYING_FLOWS)))


def applied(switch: Switch) -> AppliedState:
    with Session(switch.database, 5) as session:
        record = session.record_of(BRIDGE)
        return session.state(record, record.number)


def becomes(switch: Switch, running: Agent, *sources: str) -> None:
    wait(lambda: denied(switch) == {ALWAYS, *sources}, lambda: f"{denied(switch)}; {running.said()}")


def attention(do: Callable[..., Ran]) -> list[str]:
    return [f"{item['title']}: {item['detail']}" for item in do("status", "--no-rates", "--json").json["attention"]]


def test_a_changed_file_is_applied_as_an_apply_of_its_spec_would(shared: Switch, tmp_path: Path) -> None:
    spec, file = site(tmp_path)
    do = on(shared)
    assert do("apply", spec).code == 0
    first = applied(shared).number
    with agent(shared, tmp_path, READY) as running:
        replace(file, "2001:db8:bad::/48 53  # since Tuesday\n198.51.100.7\n")
        becomes(shared, running, "2001:db8:bad::/48", "198.51.100.7")
        running.waits_for(f"applied as state {first + 1}")
        state, wanted = applied(shared), load_spec(spec)
        assert (state.text, state.digest, state.file) == (wanted.document.text, wanted.digest, str(spec))
        assert state.by.startswith("agent@")
        note = "lists/denied.txt: +2 entries: 2001:db8:bad::/48 port 53, 198.51.100.7/32; -1 entry: 203.0.113.0/24"
        assert state.note == note
        assert note in do("history").out.replace("\n", " ") or "lists/denied.txt" in do("history").out
        assert do("verify", spec).code == 0
        assert "nothing to change" in do("apply", spec).out

        replace(file, "# another comment\n198.51.100.7\n2001:db8:bad::/48 53\n\n")  # and another order
        running.waits_for(f"in another order; applied as state {first + 2}")
        replace(file, "198.51.100.7 # why\n2001:db8:bad::/48 53\n")  # a comment is no change
        replace(file.with_name("unread.txt"), "10.0.0.0/8\n")
        with file.open("a") as written:  # in steps, as an editor writes
            for part in ("192.0.", "2.128/25\n"):
                written.write(part)
                written.flush()
                os.fsync(written.fileno())
        becomes(shared, running, "2001:db8:bad::/48", "198.51.100.7", "192.0.2.128/25")
        running.waits_for(f"applied as state {first + 3}")
        assert applied(shared).number == first + 3
        assert attention(do) == []


def test_a_file_that_is_wrong_changes_nothing_and_is_said_once(shared: Switch, tmp_path: Path) -> None:
    spec, file = site(tmp_path, "500ms")
    do = on(shared)
    assert do("apply", spec).code == 0
    first = applied(shared).number
    wrong: list[tuple[str | bytes | None, str]] = [
        ("203.0.113.0/24\n203.0.113.1/24\n", 'denied.txt:2: found "203.0.113.1/24"; expected a prefix without bits'),
        (None, 'denied.txt: found "lists/denied.txt", which is not there'),
        (b"10.0.0.0/8 # caf\xe9\n", "denied.txt:1: found the byte 0xe9, which is not UTF-8"),
        ("0.0.0.0/1\n128.0.0.0/1\n", "every client"),
    ]
    with agent(shared, tmp_path, READY) as running:
        for number, (content, said) in enumerate(wrong, 1):
            if content is None:
                file.unlink()
            else:
                replace(file, content)
            wait(lambda said=said: any(said in text for text in attention(do)), lambda: f"{attention(do)}")
            assert denied(shared) == {ALWAYS, "203.0.113.0/24" if number == 1 else f"198.51.100.{number - 1}"}
            replace(file, f"198.51.100.{number}\n")  # right again
            becomes(shared, running, f"198.51.100.{number}")
            wait(lambda: attention(do) == [], lambda: f"{attention(do)}")
        assert running.said().count("an access list is wrong, so what is applied stays") == len(wrong)
        assert applied(shared).number == first + len(wrong)
        link = file.with_name("link")
        link.symlink_to("/etc/hostname")
        link.rename(file)
        running.waits_for("a link out of the folder that it was applied from")


def test_what_somebody_brought_back_stays_until_the_file_changes(shared: Switch, tmp_path: Path) -> None:
    spec, file = site(tmp_path)
    do = on(shared)
    assert do("apply", spec).code == 0
    first = applied(shared).number
    with agent(shared, tmp_path, READY) as running:
        replace(file, "198.51.100.7\n")
        becomes(shared, running, "198.51.100.7")
        running.waits_for(f"applied as state {first + 1}")
        assert do("rollback", "--yes").code == 0
        running.waits_for("denied.txt has other entries than what is applied, and is left so")
        replace(file, "198.51.100.7\n")  # as by a job that writes it each minute
        wait(lambda: running.process.poll() is None and not file.with_name("new").exists(), running.said)
    with agent(shared, tmp_path, "is left so", "again") as running:  # nor does another agent
        assert denied(shared) == {ALWAYS, "203.0.113.0/24"}
        assert applied(shared).number == first + 2
        replace(file, "198.51.100.8\n")
        becomes(shared, running, "198.51.100.8")
        running.waits_for(f"applied as state {first + 3}")

    # By a spec that follows none, whatever happens to the file.
    spec.write_text(spec.read_text().replace("follow_lists: 1s", "follow_lists: 0"))
    assert do("apply", spec).code == 0
    replace(file, "198.51.100.9\n")
    with agent(shared, tmp_path, READY, "third") as running:
        assert do("apply", spec, "--dry-run").out.count("198.51.100.9") == 1
        assert denied(shared) == {ALWAYS, "198.51.100.8"}
        assert "198.51.100.9" not in running.said()
