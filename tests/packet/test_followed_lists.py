# SPDX-License-Identifier: Apache-2.0
"""Files of access lists that change beside a running agent: what it applies by itself, and what it leaves."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import raw

from dnsteer.agent.followed_state import read_followed_state
from dnsteer.agent.lists import FollowedFiles, ListSource, read_files
from dnsteer.checks.load import load_spec
from dnsteer.deploy.run import deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.parts.followed_lists import followed_lists
from dnsteer.status.denying_flows import DENYING_FLOWS
from dnsteer.switch.session import KEPT, Session
from dnsteer.switch.state import AppliedState
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import FARM, Ran, on, state_rows
from tests.packet.scraping import METRICS, address, get
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
    listed = "pool: spare, limits: {queries: 1k/s}, access: {allow: ['203.0.113.128/25', '2001:db8::/32']}}"
    spec.write_text(FARM.replace("  uplinks:\n", LIST.format(every)).replace("pool: spare}", listed))
    return spec, file


def replace(file: Path, content: str) -> None:
    """Put a new file into its place, as one that is whole."""
    new = file.with_name("new")
    new.write_text(content)
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


def history(do: Callable[..., Ran]) -> list[int]:
    return [state["state"] for state in do("history", "--json").json["states"]]


def reread(switch: Switch, file: Path, number: int) -> int:
    """Apply another list as the agent does, and return the number of its state."""
    replace(file, f"198.51.100.{number}\n")
    with Session(switch.database, 5) as session:
        record = session.record_of(BRIDGE)
        followed = read_followed_state(session, record)
    files = FollowedFiles(followed, followed_lists(followed.state.text), {"lists/denied.txt": frozenset()})
    found = read_files(files, settled=True)
    assert found.loaded is not None
    return deploy(ListSource(found.loaded, followed.state), TargetSwitch(switch.database)).state


def test_lists_read_again_push_out_no_state_of_people(shared: Switch, tmp_path: Path) -> None:
    spec, file = site(tmp_path)
    do = on(shared)
    assert do("apply", spec).code == 0
    for number in range(10):  # ten states of people, so that the ring is full
        spec.write_text(spec.read_text() + f"# {number}\n")
        replace(file, f"192.0.2.{number}\n")
        assert do("apply", spec).code == 0
    mine = history(do)
    first = mine[0]
    for number in range(12):
        assert reread(shared, file, number) == first + 1 + number
        assert history(do) == [first + 1 + number, *mine[:9]]
    assert denied(shared) == {ALWAYS, "198.51.100.11"}
    assert do("show", str(first + 11)).code == 1  # its place is another's
    assert do("show", str(mine[8])).code == 0
    assert do("show", str(mine[9])).code == 1

    back = do("rollback", "--yes")
    assert f"back to state {first}, " in back.err + back.out
    assert denied(shared) == {ALWAYS, "192.0.2.9"}
    assert reread(shared, file, 20) == first + 14  # of the rollback, which stays
    assert reread(shared, file, 21) == first + 15
    assert history(do)[:4] == [first + 15, first + 13, first + 12, first]
    rolled_back = [state["state"] for state in do("history", "--json").json["states"] if state["rolled_back"]]
    assert rolled_back == [first + 12]
    assert do("rollback", "--yes").code == 0
    assert (denied(shared), history(do)[0]) == ({ALWAYS, "192.0.2.9"}, first + 16)
    assert len(state_rows(shared)) == KEPT


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
        assert applied(shared).note.endswith(f"(since state {first + 2}, whose place this one takes)")
        assert history(do)[:2] == [first + 3, first]
        assert attention(do) == []
    counted(shared)
    (of_switch, of_vip), (limit,) = (do("status", "--no-rates", "--json").json[key] for key in ("access", "limits"))
    assert of_switch["denied_packets"] == 7
    assert of_switch["denied_most"] == [
        {"entry": "198.51.100.7/32", "packets": 4, "where": "lists/denied.txt:1"},
        {"entry": "10.9.0.0/16", "packets": 3, "where": "spec.yaml:8"},
    ]
    assert [(f["name"], f["entries"], f["now"]) for f in of_switch["files"]] == [("lists/denied.txt", 3, "as applied")]
    assert (of_vip["list"], of_vip["closed"], of_vip["denied_packets"]) == ("vips.other.access", True, 2)
    assert of_vip["denied_most"][0]["entry"] == "everybody else"
    assert (limit["vips"], limit["packets_per_second"], limit["dropped_packets"]) == (["other"], 1000, 0)
    shown = do("status", "other", "--no-rates").out
    for words in ("deny 4", "allow 2, closed", "as applied", "everybody else", "1k/s"):
        assert words in shown
    file.unlink()
    assert "gone" in do("status", "--no-rates").out


def counted(switch: Switch) -> None:
    """Send queries that lists deny, and have the switch count them."""
    for client, vip, number in (("198.51.100.7", 53, 4), ("10.9.8.7", 53, 3), ("192.0.2.77", 54, 2)):
        frame = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / IP(src=client, dst=f"192.0.2.{vip}")
        for nth in range(number):
            data = raw(frame / UDP(sport=4000 + nth, dport=53) / bytes(12))
            switch.appctl("netdev-dummy/receive", "p0", data.hex())
    switch.appctl("revalidator/purge")


def test_a_file_that_is_wrong_changes_nothing_and_is_said_once(shared: Switch, tmp_path: Path) -> None:
    spec, file = site(tmp_path, "500ms")
    do = on(shared)
    assert do("apply", spec).code == 0
    first = applied(shared).number
    wrong: list[tuple[str | None, str]] = [
        ("203.0.113.0/24\n203.0.113.1/24\n", 'denied.txt:2: found "203.0.113.1/24"; expected a prefix without bits'),
        (None, 'denied.txt: found "lists/denied.txt", which is not there'),
        ("0.0.0.0/1\n128.0.0.0/1\n", "every client"),
    ]
    with agent(shared, tmp_path, READY, "agent", *METRICS) as running:
        at = f"{address(running)}/metrics"
        for number, (content, said) in enumerate(wrong, 1):
            if content is None:
                file.unlink()
            else:
                replace(file, content)
            wait(lambda said=said: any(said in text for text in attention(do)), lambda: f"{attention(do)}")
            assert re.search(r"^dnsteer_access_list_files_wrong\{.*\} 1", get(at)[0], re.M)
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
