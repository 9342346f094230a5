# SPDX-License-Identifier: Apache-2.0
"""The page Path of a real agent on a private switch: what `explain --live` says, live, and bad input."""

from __future__ import annotations

import html
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from dnsteer.console.path_page import MAX_FOLLOWED
from tests.packet.agents import agent, wait
from tests.packet.command import SLOW, fresh, on, spec_file
from tests.packet.scraping import get, get_read, shows
from tests.packet.status_cases import insert_by_start
from tests.packet.switches import LARGE, SLOT_TABLE, Switch
from tests.unit.console_cases import words_of

EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]


@pytest.fixture(scope="module")
def console(shared: Switch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where an agent serves the console of a switch that has LARGE."""
    folder = tmp_path_factory.mktemp("path")
    fresh(shared)
    assert on(shared)("apply", spec_file(folder, LARGE), "--yes").code == 0
    with agent(shared, folder, "pools with health checks", "agent", "--console", "127.0.0.1:0") as running:
        found = re.search(r"console at (http://\S+)/\n", running.said())
        assert found is not None
        wait(lambda: shows(f"{found[1]}/path", "straight"), running.said)
        yield found[1]


def asked(console: str, **fields: object) -> tuple[int, str]:
    """Status and text of the page for a query, once it is traced."""
    try:
        return 200, get_read(f"{console}/path?{urlencode(fields)}")
    except urllib.error.HTTPError as err:
        return err.code, err.read().decode()


def explained(switch: Switch, client: str, vip: str) -> dict[str, Any]:
    found: dict[str, Any] = on(switch)("explain", "--live", "--client", client, "--vip", vip, "--json").json
    return found


def test_the_page_shows_what_explain_says(shared: Switch, console: str) -> None:
    status, page = asked(console, client="198.51.100.7", port=40001, vip="198.51.100.54", service="53/udp")
    path = explained(shared, "198.51.100.7:40001", "198.51.100.54:53/udp")
    said = words_of(page)
    assert status == 200
    assert f"Slot {path['slot']} of 32 Backend {path['backend']} Why {path['why']}" in said
    assert re.findall(r'<h3><span class="quiet">table \d+</span> (\w+)</h3>', page)[: len(path["steps"])] == [
        step["table"] for step in path["steps"]
    ]
    for step in path["steps"]:
        assert f"Match {step['match']} priority" in said and step["about"] in said
    ((port, frame),) = path["out"]
    to_mac = frame.partition(" > ")[2].partition(",")[0]
    assert re.search(rf"Leaves by port {port} MAC \S+ to {to_mac} Address", said)
    assert re.search(r"Leaves by port p0 MAC 02:00:00:00:00:53 to 02:00:00:00:00:fe Address 198.51.100.54", said)
    assert "does not do what was applied" not in said


def test_a_drained_backend_is_shown_with_its_note(shared: Switch, console: str) -> None:
    before = explained(shared, "198.51.100.7:40001", "198.51.100.54:53/udp")["backend"]
    assert on(shared)("drain", f"direct/{before}", "--note", "<b>CHG</b> 4711", "--yes").code == 0
    try:
        other = explained(shared, "198.51.100.7:40001", "198.51.100.54:53/udp")["backend"]

        def shown() -> str:
            return asked(console, client="198.51.100.7", port=40001, vip="straight", service="53/udp")[1]

        wait(lambda: f"<strong>{other}</strong>" in shown(), shown)
        assert f"Backend when all are up {before}, which is drained since" in words_of(shown()) and other != before
        assert "&lt;b&gt;CHG&lt;/b&gt; 4711" in shown() and "<b>CHG" not in shown()
    finally:
        assert on(shared)("undrain", f"direct/{before}", "--yes").code == 0


def test_a_pool_by_dp_hash_shows_its_buckets(shared: Switch, console: str) -> None:
    _, page = asked(console, client="2001:db8::7", port=40001, vip="nat", service="53/tcp")
    said = words_of(page)
    assert "The switch's trace ends at the group" in said and "Leaves after a second pass" in said
    (group,) = re.findall(r"Group (\d+) in the switch: 16 buckets", said)
    held = {name: int(n) for name, n in re.findall(r'<th scope="row">(\w)</th><td class="n">(\d+)</td>', page)}
    dumped = shared.ofctl("dump-groups", group)
    numbers = re.findall(r"set_field:(0x[0-9a-f]+)->reg2", dumped)
    assert sorted(held.values()) == sorted(numbers.count(n) for n in set(numbers)) and set(held) == {"a", "b"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"port": 40000}, "Client address: found nothing; expected an IPv4 or IPv6 address"),
        ({"client": "198.51.100", "port": 1}, "Client address: found '198.51.100'"),
        ({"client": "fe80::1%eth0", "port": 1}, "Client address: found 'fe80::1%eth0'"),
        ({"client": "198.51.100.7"}, "Source port: found nothing"),
        ({"client": "198.51.100.7", "port": 0}, "Source port: found '0'; expected a number from 1 to 65535"),
        ({"client": "198.51.100.7", "port": 70000}, "Source port: found '70000'"),
        ({"client": "198.51.100.7", "port": "٤"}, "Source port: found '٤'"),
        ({"client": "198.51.100.7", "port": 1, "vip": "203.0.113.1"}, "VIP: found '203.0.113.1'; expected a VIP of"),
        (
            {"client": "2001:db8::7", "port": 1, "vip": "198.51.100.54"},
            "The client has an IPv6 address, and 198.51.100.54",
        ),
        (
            {"client": "198.51.100.7", "port": 1, "vip": "nat", "service": "53"},
            "Service: found '53'; expected a port and",
        ),
        ({"client": "198.51.100.7", "port": 1, "vip": "nat", "service": "0/udp"}, "Service: found '0'"),
        (
            {"client": "198.51.100.7", "port": 1, "vip": "nat", "uplink": "vf0"},
            "Uplink: found 'vf0'; expected one of p0",
        ),
        ({"client": "<script>alert(1)</script>"}, "Client address: found '<script>alert(1)</script>'"),
        ({"client": "\0\x1b[31m", "port": 1}, "Client address: found"),
        ({"client": "9" * 5000, "port": 1}, "client: found more than 100 characters"),
    ],
)
def test_bad_input_is_named_on_the_page(console: str, fields: dict[str, object], says: str) -> None:
    status, page = asked(console, **fields)
    assert status == 400 and says in words_of(page)
    field = page.partition('aria-describedby="wrong-')[2].partition('"')[0]
    assert f'<p class="wrong" id="wrong-{field}">' in page and "<script>alert" not in page
    assert page.count('class="hop"') == 0
    assert page.count('aria-invalid="true"') == 1 and page.count(" autofocus>") == 1


def test_an_empty_form_is_no_error(console: str) -> None:
    status, page = asked(console)
    assert status == 200 and "Enter a client's address" in words_of(page)
    assert page.count("<option") == 4 + 2


def test_an_unknown_service_is_dropped_as_expected(console: str) -> None:
    status, page = asked(console, client="198.51.100.7", port=1, vip="nat", service="853/tcp")
    assert status == 200 and "nowhere: it is dropped" in words_of(page)
    assert "does not do what was applied" not in words_of(page)


class Stream:
    """Events of a page, by a connection that stays open."""

    def __init__(self, console: str, page: str) -> None:
        self.answer = urllib.request.urlopen(f"{console}/events?{urlencode({'page': page})}", timeout=20)

    def update(self) -> dict[str, Any]:
        """The next update."""
        for line in self.answer:
            if line.startswith(b'data: {"parts"'):
                found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
                return found
        raise AssertionError("the stream ended")

    def close(self) -> None:
        self.answer.close()


def key_of(page: str) -> str:
    """What the browser names the page by."""
    found = re.search(r'data-page="([^"]*)" data-since="([^"]*)"', page)
    assert found is not None
    return html.unescape(found[1])


def test_counters_of_the_path_come_live(shared: Switch, console: str) -> None:
    _, page = asked(console, client="198.18.0.1", port=20000, vip="198.51.100.54", service="53/udp")
    steps = re.findall(r'data-number="n-q-(\d+)">([\d,]+)<', page)
    assert [n for n, _ in steps] == [str(n) for n in range(8)], "each flow of the path has a counter"
    stream = Stream(console, key_of(page))
    try:
        insert_by_start(shared, "198.51.100.54", udp=40, tcp=0)

        def more() -> bool:
            found = stream.update()["numbers"]
            return "n-q-2" in found and int(found["n-q-2"]) >= int(steps[2][1]) + 39

        wait(more, lambda: "no counter moved")
    finally:
        stream.close()


def test_a_broken_flow_is_seen(shared: Switch, console: str) -> None:
    _, page = asked(console, client="198.51.100.7", port=1000, vip="198.51.100.54", service="53/udp")
    (match,) = set(re.findall(r"reg0=0x[0-9a-f]+,reg1=0x[0-9a-f]+", page))
    stream = Stream(console, key_of(page))
    try:
        stream.update()
        flow = f"{SLOT_TABLE},priority=101,{match},actions=drop"
        shared.ofctl("add-flow", flow)
        wait(
            lambda: "The switch does not do what was applied" in stream.update()["parts"].get("summary", ""),
            lambda: flow,
        )
    finally:
        stream.close()
        shared.ofctl("del-flows", f"{SLOT_TABLE},{match},cookie=0/-1")
    _, page = asked(console, client="198.51.100.7", port=1002, vip="198.51.100.54", service="53/udp")
    assert "does not do what was applied" not in words_of(page)


def test_followed_paths_are_limited(console: str) -> None:
    pages = [asked(console, client="198.51.100.8", port=5000 + n, vip="nat", service="53/udp")[1] for n in range(6)]
    streams = [Stream(console, key_of(page)) for page in pages]
    try:
        for stream in streams[:MAX_FOLLOWED]:
            stream.update()
            assert "read" in stream.update()["parts"], "traced again"
        late = asked(console, client="198.51.100.8", port=5005, vip="nat", service="53/udp")[1]
        assert f"{MAX_FOLLOWED} other paths are followed" in words_of(late)
        early = asked(console, client="198.51.100.8", port=5000, vip="nat", service="53/udp")[1]
        assert "other paths are followed" not in words_of(early)
    finally:
        for stream in streams:
            stream.close()


def test_a_page_of_an_unknown_key_is_not_found(console: str) -> None:
    for key in (
        "path?vip=nat&client=1.2.3.4",
        "path?x=1",
        "path?" + "&".join(["client=1"] * 2000),
        "path?client=%ff",
        "path/x",
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(f"{console}/events?{urlencode({'page': key})}")
        assert refused.value.code == 404, key
