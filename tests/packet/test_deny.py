# SPDX-License-Identifier: Apache-2.0
"""`deny` and `undeny`: what they drop and nothing else, what they record, refuse and ask, and how denials end."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from dnsteer.checks.load import load_spec
from dnsteer.cli.output import Exit
from dnsteer.deploy.recorded_spec import load_state
from dnsteer.proof import check
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.model.access import AccessEntry
from dnsteer.switch.session import Session
from tests.packet.agents import agent, wait
from tests.packet.capturing import send, sent
from tests.packet.command import FARM, OTHER, SLOW, fresh, nothing_changes, on, spec_file
from tests.packet.extension_beside_switch import EXTENDED, Extension
from tests.packet.maintenance_specs import in_terminal, make_overdue, overlay
from tests.packet.scraping import get
from tests.packet.switches import BRIDGE, EXAMPLES, NUMBER, ROOT, Switch
from tests.unit.test_access import by_hand

EXPECTED = [*SLOW, "Broken pipe", "connection dropped", "Connection reset by peer", "could not open network device"]
LISTED = FARM.replace(
    "  uplinks:\n",
    "  access:\n    deny: [198.51.100.0/24]\n    allow: [198.51.100.64/26, 203.0.113.32/27]\n  uplinks:\n",
)


def query(client: str, sport: int = 40001, vip: str = "192.0.2.53", *, tcp: bool = False, port: int = 53) -> bytes:
    kind = TCP if tcp else UDP
    return bytes(
        Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53")
        / IP(src=client, dst=vip)
        / kind(sport=sport, dport=port)
        / b"\0\7\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1"
    )


def passes(switch: Switch, *frames: bytes) -> int:
    """How many of the frames leave again."""
    before = sent(switch)
    send(switch, *frames)
    switch.appctl("netdev-dummy/receive", "p0", query("198.18.0.1").hex())  # passes, so that all before it are through
    wait(lambda: sent(switch) > before, lambda: "nothing leaves")
    return sent(switch) - before - 1


def denials(switch: Switch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = on(switch)("status", "--json", "--no-rates").json["denials"]
    return found


def test_denied_clients_are_dropped_and_admitted_again(applied: Switch) -> None:
    """A spec without lists gets their pass for it. What goes leaves tables as they were; in between the proof holds."""
    base = applied.tables()
    assert passes(applied, query("203.0.113.9")) == 1
    done = on(applied)("deny", "203.0.113.0/24", "2001:db8:bad::/48", "--note", "floods", "--for", "1h")
    assert done.code == 0, done.err
    assert done.out == f"{BRIDGE}: changed: 203.0.113.0/24 is denied\n{BRIDGE}: changed: 2001:db8:bad::/48 is denied\n"
    denied = query("203.0.113.9"), query("203.0.113.9", vip="192.0.2.54"), query("203.0.113.255", tcp=True)
    assert passes(applied, *denied, query("203.0.112.255"), query("203.0.114.0", tcp=True)) == 2
    first, second = denials(applied)
    assert (first["prefix"], first["port"], first["vip"], first["note"]) == ("203.0.113.0/24", None, None, "floods")
    assert 3500 < first["seconds_left"] <= 3600 and not first["overdue"] and "@" in first["by"] and first["decision"]
    assert second["prefix"] == "2001:db8:bad::/48"
    shown = on(applied)("status", "--no-rates").out
    assert re.search(r"denied by hand .*\n203\.0\.113\.0/24 .*5\d min left .*floods", shown), shown
    with nothing_changes(applied):
        assert on(applied)("undeny", "203.0.113.0/24", "--dry-run").out.startswith(f"{BRIDGE}: would change: denial")
        again = on(applied)("deny", "203.0.113.0/24")
        assert (again.code, again.out) == (0, f"{BRIDGE}: nothing to change; 203.0.113.0/24 is denied already\n")
    tables = applied.tables()
    longer = on(applied)("deny", "203.0.113.0/24", "--for", "3h", "--json").json
    assert longer["changed"] and longer["words"][0].startswith("denial of 203.0.113.0/24: until ")
    assert applied.tables() == tables
    assert denials(applied)[0]["seconds_left"] > 10_000
    back = on(applied)("undeny", "203.0.113.0/24", "2001:db8:bad::/48", "203.0.113.0/24", "--json").json
    assert (back["changed"], back["denials"]) == (True, [])
    assert applied.tables() == base
    assert passes(applied, *denied) == 3
    assert overlay(applied) == []


def test_one_vip_or_one_port_alone(applied: Switch) -> None:
    assert on(applied)("deny", "203.0.113.0/24", "--vip", "other", "--port", "853").code == 0
    assert on(applied)("deny", "198.51.100.7", "--vip", "dns").code == 0
    asked = [
        (0, query("203.0.113.9", vip="192.0.2.54", port=853, tcp=True)),
        (1, query("203.0.113.9", vip="192.0.2.54")),
        (1, query("203.0.113.9")),
        (0, query("198.51.100.7")),
        (1, query("198.51.100.8")),
        (1, query("198.51.100.7", vip="192.0.2.54")),
    ]
    assert [(passes(applied, frame), frame) for _, frame in asked] == asked
    assert [(a["prefix"], a["port"], a["vip"]) for a in denials(applied)] == [
        ("203.0.113.0/24", 853, "other"),
        ("198.51.100.7/32", None, "dns"),
    ]
    only = on(applied)("status", "dns", "--json", "--no-rates").json["denials"]
    assert [a["vip"] for a in only] == ["dns"]


def test_a_denial_by_hand_counts_more_than_what_the_spec_allows(applied: Switch, tmp_path: Path) -> None:
    """It asks where the spec allows a part; what the spec denies stays denied when it goes."""
    run = on(applied)
    assert run("apply", spec_file(tmp_path, LISTED), "--yes").code == 0
    base = applied.tables()
    with nothing_changes(applied):
        refused = run("deny", "203.0.113.0/24")
        assert refused.code == 1
        said = r"203\.0\.113\.0/24 has clients that the spec allows, who are denied too: 203\.0\.113\.32/27 \(.+:9\)"
        assert re.search(said, refused.err), refused.err
        assert in_terminal(applied, "n\n", "deny", "203.0.113.0/24").code == 1
    assert in_terminal(applied, "y\n", "deny", "203.0.113.0/24").code == 0
    assert passes(applied, query("203.0.113.40"), query("198.51.100.70")) == 1
    assert run("deny", "198.51.100.64/26", "--port", "53", "--yes").code == 0
    assert passes(applied, query("198.51.100.70"), query("203.0.113.40")) == 0
    assert passes(applied, query("198.51.100.70", vip="192.0.2.54", port=853, tcp=True)) == 1
    done = run("undeny", "198.51.100.64/26", "--port", "53")
    assert "stays denied by the spec" in done.err and "$.switch.access.deny[0]" in done.err
    assert run("undeny", "203.0.113.0/24").code == 0
    assert applied.tables() == base
    by_spec = run("undeny", "198.51.100.0/24")
    assert by_spec.code == 1
    assert re.search(r"is not denied by hand; the spec denies it \(.+:8 \$\.switch\.access\.deny\[0\]\)", by_spec.err)


REFUSED = {
    "203.0.113.5/24": "expected a prefix without bits behind its length: write 203.0.113.0/24, or the address alone",
    "0.0.0.0/0": "0.0.0.0/0 is every client over IPv4; to stop a VIP, take it out of the spec",
    "::/0": "::/0 is every client over IPv6",
    "203.0.113.0/24 --vip otter": "there is no VIP 'otter'; did you mean \"other\"?",
    "2001:db8:bad::/48 --vip other": "would do nothing: VIP other has no address of IPv6",
    "203.0.113.0/24 --port 99": "would do nothing: no service is at port 99; there are 53, 853",
    "example.com": "expected a prefix such as 192.0.2.0/24 or 2001:db8::/32: names are not looked up",
    "::ffff:203.0.113.0/120": "write the prefix of IPv4 instead",
    "64.0.0.0/3": "64.0.0.0/3 is one in 8 of all addresses of IPv4\nnothing was changed; to do it anyway: --yes",
}


def test_what_is_refused_changes_nothing(applied: Switch) -> None:
    with nothing_changes(applied):
        for words, why in REFUSED.items():
            done = on(applied)("deny", *words.split())
            assert done.code == 1 and why in done.err, done.err
        done = on(applied)("undeny", "203.0.113.0/24")
        assert (done.code, done.err) == (1, "dnsteer: 203.0.113.0/24 is not denied by hand; nobody is\n")
    assert on(applied)("deny", "203.0.113.0/24", "--vip", "dns").code == 0
    with nothing_changes(applied):
        done = on(applied)("undeny", "203.0.113.9")
        assert done.err.endswith("VIP dns is: dnsteer undeny 203.0.113.0/24 --vip dns\n")
        done = on(applied)("deny", "128.0.0.0/1", "0.0.0.0/2", "64.0.0.0/2", "--vip", "other")
        assert "no client over IPv4 may ask port 53 of VIP other any more" in done.err
    done = on(applied)("deny", "192.0.2.0/28", "--dry-run")
    assert "192.0.2.0/28 has backend farm/ns1" in done.err and "answers, probes and ARP pass as before" in done.err


def test_it_stays_over_apply_rollback_and_a_restart_until_it_ends(applied: Switch, tmp_path: Path) -> None:
    run, spec = on(applied), spec_file(tmp_path)
    run("drain", "farm/ns1")
    base = applied.tables()
    assert run("deny", "203.0.113.0/24", "--for", "1h").code == 0
    assert run("deny", "203.0.113.0/24", "--vip", "other").code == 0
    listed = applied.tables()
    assert run("verify", spec).code == 0
    flow = next(f for f in listed[0] if ",ip,nw_src=203.0.113.0/24" in f and "goto_table" not in f)
    applied.ofctl("del-flows", re.sub(r" actions=.*|cookie=\S+ ", "", flow).strip(), "--strict")
    drift = run("verify", spec)
    assert drift.code == Exit.DIFFERENT and "203.0.113.0/24 denied by " in drift.out, drift.out
    assert run("apply", spec, "--yes").code == 0
    assert applied.tables() == listed
    with nothing_changes(applied):
        assert run("apply", spec, "--yes").code == 0
    gone = run("apply", spec_file(tmp_path, OTHER.replace("  other:", "  third:")), "--yes")
    assert "denial of 203.0.113.0/24 to VIP other does nothing while the spec has no such VIP" in gone.err
    assert passes(applied, query("203.0.113.9")) == 0
    assert run("rollback", "--yes").code == 0
    assert applied.tables() == listed
    applied.kill_switch()
    applied.start_switch()
    assert run("restore").code == 0
    assert applied.tables() == listed
    make_overdue(applied)
    late = run("status", "--no-rates")
    assert late.code == Exit.ATTENTION and "denial of 203.0.113.0/24 should have ended" in late.out, late.out
    ended = run("reconcile")
    assert ended.out == f"{BRIDGE}: changed: denial of 203.0.113.0/24 ends\n", ended.out
    assert [a["vip"] for a in denials(applied)] == ["other"]
    assert run("undeny", "203.0.113.0/24", "--vip", "other").code == 0
    assert applied.tables() == base


def test_a_plan_counts_what_is_over(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("deny", "203.0.113.0/24", "--for", "1h").code == 0
    make_overdue(applied)
    done = on(applied)("apply", spec_file(tmp_path), "--yes")
    assert "denial of 203.0.113.0/24 is over" in done.out
    assert denials(applied) == []


def test_others_lose_no_query_while_clients_are_denied_and_admitted(applied: Switch) -> None:
    """The pass of lists comes and goes under them, three times each."""
    verbs = "for i in 1 2 3; do {0} deny 203.0.113.0/24 {1} && {0} undeny 203.0.113.0/24 {1} || exit 1; done"
    dnsteer = f"{sys.executable} -m dnsteer"
    process = subprocess.Popen(
        ["sh", "-c", verbs.format(dnsteer, f"--db {applied.database}")],
        env={"PYTHONPATH": str(ROOT / "generator"), "PATH": "/usr/bin:/usr/sbin:/bin:/sbin"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    before, asked = sent(applied), 0
    while process.poll() is None:
        frames = [query(f"198.51.{asked % 250}.{i}", 1024 + 16 * i, tcp=i % 5 == 0) for i in range(1, 101)]
        applied.appctl("netdev-dummy/receive", "p0", *(frame.hex() for frame in frames))
        asked += len(frames)
        time.sleep(0.01)
    assert process.returncode == 0
    wait(lambda: sent(applied) - before >= asked, lambda: f"{asked - sent(applied) + before} of {asked} are lost")
    assert asked > 1000
    assert sent(applied) - before == asked


def test_the_reference_proves_what_is_denied_by_hand(applied: Switch, tmp_path: Path) -> None:
    """With lists of the switch and of a VIP, and entries that allow below what is denied."""
    denied = ("203.0.113.0/25", "203.0.113.32/28", "2001:db8::/32", "100.0.0.0/8", "10.1.0.0/16")
    hand = by_hand([AccessEntry(prefix=prefix) for prefix in denied])
    hand += by_hand([AccessEntry(prefix="10.2.0.0/16", port=53), AccessEntry(prefix="203.0.113.0/24")], vip="resolver")
    report = check._prove(load_spec(EXAMPLES / "access.yaml"), Overlay(denials=hand), 4, lambda *_: None)
    assert report.ok, report.failures[:2]
    assert on(applied)("deny", "203.0.113.0/24", "--port", "53").code == 0
    with Session(applied.database, 10) as session:
        record = session.record_of(None)
        loaded = load_state(session.state(record, record.number))
    assert check._prove(loaded, record.overlay, 4, lambda *_: None).ok


def test_explain_names_who_denied(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("deny", "203.0.113.0/24", "--note", "a botnet", "--for", "2h").code == 0
    asked = "--client", "203.0.113.9:40001", "--vip", "192.0.2.53:53/udp"
    shown = on(applied)("explain", "--live", *asked)
    assert shown.code == 0
    assert "denied by hand: 203.0.113.0/24\n" in shown.out
    why = r"203\.0\.113\.0/24 denied by \S+ since \S+ \S+ UTC until \S+ \S+ UTC: a botnet"
    assert re.search(rf"backend  none  \(query for dns 192\.0\.2\.53 udp/53, denied by hand: {why}\)", shown.out)
    (cookie,) = set(re.findall(r"a botnet  +cookie (0x[0-9a-f]+)", shown.out))
    assert re.fullmatch(rf"{cookie}: {why}, by hand\n", on(applied)("explain", "--live", "--cookie", cookie).out)
    assert "by hand" not in on(applied)("explain", spec_file(tmp_path), *asked).out
    assert on(applied)("deny", "2001:db8:bad::/48").code == 0  # without an end
    page = tmp_path / "report.html"
    assert on(applied)("report", "-o", page).code == 0
    assert "until ended by hand" in page.read_text()
    assert (
        on(applied)("report", "-o", page, "--without", "addresses", "--without", "people", "--without", "notes").code
        == 0
    )
    text = page.read_text()
    assert "Denied by hand" in text and "a botnet" not in text
    assert "203.0.113" not in text and "2001:db8:bad" not in text


def test_an_agent_denies_counts_and_ends(applied: Switch, tmp_path: Path) -> None:
    base = applied.tables()
    with agent(applied, tmp_path, "state 1", "agent", "--console", "127.0.0.1:0") as running:
        console = re.search(r"console at (http://\S+)/\n", running.said())
        assert console is not None
        metrics = f"{console[1]}/metrics"
        assert on(applied)("deny", "203.0.113.0/24", "--for", "12s", "--note", "a botnet").code == 0
        assert "deny has ended with 0" in running.said()
        assert passes(applied, *[query("203.0.113.9", 1024 + i) for i in range(20)]) == 0
        counted = r'dnsteer_denied_packets_total{[^}]*denial="203\.0\.113\.0/24"[^}]*list="by hand"[^}]*} 20\.0'
        wait(lambda: re.search(counted, get(metrics)[0]), lambda: get(metrics)[0])
        assert re.search(r"dnsteer_denials{[^}]*} 1\.0", get(metrics)[0])
        overview, changes = get(console[1])[0], get(f"{console[1]}/changes")[0]
        assert "203.0.113.0/24 is denied by hand" in overview and "a botnet" in overview
        assert "Denied by hand" in changes and "203.0.113.0/24 is denied" in changes
        assert on(applied)("deny", "198.51.100.0/24").code == 0
        wait(lambda: "until ended by hand" in get(f"{console[1]}/changes")[0], lambda: get(f"{console[1]}/changes")[0])
        assert on(applied)("undeny", "198.51.100.0/24").code == 0
        asked = "client=203.0.113.9&port=40001&vip=192.0.2.53&service=53/udp"
        wait(lambda: "a botnet" in get(f"{console[1]}/path?{asked}")[0], lambda: get(f"{console[1]}/path?{asked}")[0])
        assert "does not do what was applied" not in get(f"{console[1]}/path?{asked}")[0]
        running.waits_for("denial of 203.0.113.0/24 ends: its time has passed")
        wait(lambda: applied.tables() == base, lambda: "the tables are not as they were")
        assert denials(applied) == []
        assert on(applied)("undeny", "203.0.113.0/24").code == 1


def test_beside_an_extension_and_on_standby(switch: Switch, tmp_path: Path) -> None:
    """Without its extension too: no slot moves, so that it is not asked for one."""
    run = on(switch)
    with Extension(tmp_path) as extension:
        spec = spec_file(
            tmp_path, EXTENDED.replace("  extension:\n", f"  extension:\n    control: {extension.socket}\n")
        )
        assert run("apply", spec, "--yes").code == 0
        base = switch.tables()
        assert run("role", "standby").code == 0
        assert run("deny", "203.0.113.0/24").code == 0
        assert "on standby" in run("role").out or "standby" in run("role").out
        assert f"table={NUMBER['admit']}" in " ".join(switch.flows())
        extension.kill()
        assert run("undeny", "203.0.113.0/24").code == 0
        assert run("role", "active").code == 0
    assert switch.tables() == base
    fresh(switch)


@pytest.mark.parametrize("words", ["undeny ", "deny --vip "])
def test_shells_complete_what_is_denied_and_vips(applied: Switch, words: str) -> None:
    assert on(applied)("deny", "203.0.113.0/24").code == 0
    env = {
        "_DNSTEER_COMPLETE": "complete_bash",
        "COMP_WORDS": f"dnsteer {words}",
        "COMP_CWORD": str(len(words.split()) + 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "dnsteer"],
        env={"PYTHONPATH": str(ROOT / "generator"), "PATH": "/usr/bin:/bin", "DNSTEER_DB": applied.database, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == (["203.0.113.0/24"] if words == "undeny " else ["dns", "other"])
