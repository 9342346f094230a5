# SPDX-License-Identifier: Apache-2.0
"""DoT and DoH of BIND, DoT of Unbound, DoQ and HTTP/3 by aioquic: what of their connections and tickets passes a VIP.

The figures are those of docs/encrypted.md.
"""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import names
from dnsteer.lab.command import netns_exec, run
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from tests.system import doh_doq
from tests.system.decap_net import within
from tests.system.lab_specs import apply_in_lab
from tests.system.quic_client import WHO, QuicClient, server_name
from tests.system.test_agent import environment
from tests.unit.agent_probing import certificate, probed, target_of

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
SPEC = """
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-tls
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, "2001:db8:53::1"]
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
  ports:
    vf0:
    vf1:
  extension: {ingress: {port: ext-in}, egress: {port: ext-out}, ipv4: 10.53.0.2, ipv6: "2001:db8:53::2"}
pools:
  farm:
    selection: source-port
    slots: 16
    backends:
      - {name: a, ipv4: 10.53.0.11, ipv6: "2001:db8:53::11", mac: 02:00:00:00:05:01, port: vf0}
      - {name: b, ipv4: 10.53.0.12, ipv6: "2001:db8:53::12", mac: 02:00:00:00:05:02, port: vf1}
  hashed:
    selection: client
    slots: 16
    backends:
      - {name: a, ipv4: 10.53.0.11, ipv6: "2001:db8:53::11", mac: 02:00:00:00:05:01, port: vf0}
      - {name: b, ipv4: 10.53.0.12, ipv6: "2001:db8:53::12", mac: 02:00:00:00:05:02, port: vf1}
vips:
  direct: {addresses: [198.51.100.1, "2001:db8:1::1"], services: [dns, dot, doh, doq, doh3], pool: farm}
  translated:
    {addresses: [198.51.100.2, "2001:db8:1::2"], services: [dns, dot, doh, doq, doh3], pool: farm, forwarding: nat}
  hashed: {addresses: [198.51.100.4, "2001:db8:1::4"], services: [dns, dot, doh, doq, doh3], pool: hashed}
"""
SHARED_VIP = """\
  shared: {addresses: [198.51.100.3, "2001:db8:1::3"], services: [%s], pool: farm, forwarding: nat}
"""
VIPS = ("198.51.100.1", "2001:db8:1::1", "198.51.100.2", "2001:db8:1::2")
"""Direct server return and NAT."""
HASHED = ("198.51.100.4", "2001:db8:1::4")
"""By the extension."""
SHARED = ("198.51.100.3", "2001:db8:1::3")
"""Unbound, whose servers have the same keys of tickets."""
TYPES = ("tls", "https", "quic", "h3")
MTU = 1280
"""The least that IPv6 allows: all of this passes by such a path."""


def loaded(*changes: tuple[str, str]) -> Loaded:
    """The spec with *changes*, each a text and what takes its place everywhere."""
    text = SPEC + SHARED_VIP % "{protocol: tcp, port: 853, target_port: 8853}"
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return check_document(parse_document("spec.yaml", text))


BY_PORT, BY_ADDRESS = loaded(), loaded(("source-port", "source-address"))
KEPT = ("pool: farm", "pool: farm, keep: connections")
OTHER_WEIGHT = ("port: vf0}", "port: vf0, weight: 3}")


def named(server: str, home: Path, zone: Path) -> str:
    """BIND's configuration: DoT and DoH at all addresses."""
    at = "".join(
        f"  {listen} port {port} tls own {http} {{ any; }};\n"
        for listen, (port, http) in product(("listen-on", "listen-on-v6"), ((853, ""), (443, "http default")))
    )
    return (
        f'tls own {{ cert-file "{home}/cert.pem"; key-file "{home}/key.pem"; }};\n'
        f'options {{\n  directory "{home}/{server}"; pid-file none; session-keyfile none; recursion no;\n'
        f"  listen-on {{ none; }}; listen-on-v6 {{ none; }};\n{at}}};\n"
        f'controls {{ }};\nzone "{names.ZONE}" {{ type primary; file "{zone}"; }};\n'
    )


def unbound(server: str, home: Path, addresses: tuple[str, ...]) -> str:
    """Unbound's configuration: DoT at its own addresses, with the tests' keys of tickets."""
    return (
        "server:\n"
        + "".join(f"  interface: {address}@8853\n" for address in addresses)
        + f'  tls-port: 8853\n  tls-service-key: "{home}/key.pem"\n  tls-service-pem: "{home}/cert.pem"\n'
        f'  tls-session-ticket-keys: "{home}/tickets.key"\n  directory: "{home}/{server}"\n  pidfile: ""\n'
        '  chroot: ""\n  username: ""\n  do-daemonize: no\n  use-syslog: no\n  access-control: 0.0.0.0/0 allow\n'
        f"  access-control: ::/0 allow\n  local-data: 'whoami.{names.ZONE}. TXT \"{server}\"'\n"
        "remote-control:\n  control-enable: no\n"
    )


@pytest.fixture(scope="module")
def client(no_lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The client's namespace, with the servers beside the lab's own, NSD.

    That has no DoT, for which it would take udp/853 too, nor Unbound's port.
    """
    home = tmp_path_factory.mktemp("tls")
    certificate(home)
    (home / "tickets.key").write_bytes(bytes(range(80)))
    running: list[subprocess.Popen[bytes]] = []
    try:
        state = lab.up(loaded(("dot, ", ""), ("853, target_port: 8853", "5399")).spec)
        run(["ip", "-n", state.client().namespace, "link", "set", "eth0", "mtu", str(MTU)])
        apply_in_lab(BY_PORT)
        for server in state.servers:
            (home / server.name).mkdir()
            own = tuple(a.partition("/")[0] for a in server.addresses)
            bind, other = home / f"{server.name}.bind", home / f"{server.name}.unbound"
            bind.write_text(named(server.name, home, names.RUN_DIR / f"ns{server.index}" / "zone"))
            other.write_text(unbound(server.name, home, own))
            quic = [sys.executable, doh_doq.__file__, f"{home}/cert.pem", f"{home}/key.pem", own[0], "quic,h3"]
            quic += [*own, *VIPS[:2], *HASHED]
            commands = (["named", "-f", "-n", "1", "-c", str(bind)], ["unbound", "-c", str(other)], quic)
            for number, words in enumerate(commands):
                with (home / f"{server.name}{number}.log").open("w") as log:
                    argv = netns_exec(server.namespace, words)
                    running.append(subprocess.Popen(argv, stdout=log, stderr=log, env=environment()))
        for server in state.servers:
            _await_listening(server.namespace, running, home)
        yield state.client().namespace
    finally:
        for process in running:
            process.kill()
            process.wait()
        lab.down()


def _await_listening(namespace: str, running: list[subprocess.Popen[bytes]], home: Path) -> None:
    """Wait until all services of a server are served at all its addresses."""
    wanted = {("tcp", 853): 6, ("tcp", 443): 6, ("udp", 853): 6, ("udp", 443): 6, ("tcp", 8853): 2}
    deadline = time.monotonic() + 15
    while True:
        found = run(netns_exec(namespace, ["ss", "-Hlntu"]))
        pairs = re.findall(r"^(tcp|udp) .*?(?:\[[0-9a-f:]*\]|[\d.]+):(\d+) ", found, re.MULTILINE)
        if all(pairs.count((protocol, str(port))) >= least for (protocol, port), least in wanted.items()):
            return
        ended = [process.args for process in running if process.poll() is not None]
        logs = "".join(file.read_text()[-500:] for file in home.glob("*.log"))
        assert not ended and time.monotonic() < deadline, f"{ended} {found} {logs}"
        time.sleep(0.1)


class FreeSources:
    """Sources of a slot of which each is used once: a server may still have what another connection left there."""

    def __init__(self) -> None:
        self._used = Counter[tuple[bool, int]]()

    def take(self, vip: str, slot: int) -> tuple[str, int]:
        """An address and port of the client."""
        six = ":" in vip
        self._used[six, slot] += 1
        return "2001:2::2" if six else "198.18.0.2", 20_000 + 2 * slot + 32 * self._used[six, slot]


SOURCES = FreeSources()


@dataclass
class TlsClient:
    """A connection by DoT. With a session of another one in *resume* it asks to go on with that."""

    namespace: str
    vip: str
    source: tuple[str, int]
    context: ssl.SSLContext = field(default_factory=lambda: tls_context())
    resume: ssl.SSLSession | None = None

    def __post_init__(self) -> None:
        with within(self.namespace):
            made = socket.socket(socket.AF_INET6 if ":" in self.vip else socket.AF_INET)
        made.settimeout(3)
        made.bind(self.source)
        made.connect((self.vip, 853))
        self.socket = self.context.wrap_socket(made, server_hostname="dnsteer.test", session=self.resume)

    def name(self) -> str | None:
        """The name of the server; None where the connection has ended."""
        try:
            self.socket.sendall(len(WHO).to_bytes(2, "big") + WHO)
            answer = b""
            while len(answer) < 2 or len(answer) < 2 + int.from_bytes(answer[:2], "big"):
                more = self.socket.recv(4096)
                if not more:
                    return None
                answer += more
        except OSError:
            return None
        return server_name(answer[2:])


def tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def slots_of(client: str, vip: str) -> dict[int, str]:
    """Which server answers at each slot, by plain DNS."""
    found = dict[int, str]()
    for slot in range(16):
        with within(client):
            own = socket.socket(socket.AF_INET6 if ":" in vip else socket.AF_INET, socket.SOCK_DGRAM)
        with own:
            own.settimeout(3)
            own.bind(SOURCES.take(vip, slot))
            own.sendto(WHO, (vip, 53))
            found[slot] = server_name(own.recv(4096))
    return found


def test_clients_reach_the_server_of_their_slot_by_every_transport(client: str) -> None:
    apply_in_lab(BY_PORT)
    for vip in VIPS:
        by_slot = slots_of(client, vip)
        assert {*by_slot.values()} == {"a", "b"}
        for server, kind in product("ab", TYPES):
            slot = next(s for s, name in by_slot.items() if name == server)
            source = SOURCES.take(vip, slot)
            if kind == "h3":
                found = QuicClient(client, vip, "h3", source).name()
            else:
                words = (
                    f"kdig @{vip} whoami.dnsteer.test TXT +{kind} +short +timeout=3 +retry=0 -b {source[0]}#{source[1]}"
                )
                argv = netns_exec(client, words.split())
                found = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20).stdout.strip(
                    '"\n'
                )
            assert found == server, f"{vip} {kind}"


@pytest.mark.parametrize(
    ("kind", "vip", "port"),
    [("tls", VIPS[0], 853), ("tls", SHARED[1], 853), ("https", VIPS[3], 443), ("quic", VIPS[2], 853)],
    ids=["dot-bind", "dot-unbound", "doh-bind", "doq"],
)
def test_health_checks_are_answered(client: str, kind: str, vip: str, port: int) -> None:
    apply_in_lab(BY_PORT)
    query = {"name": "whoami.dnsteer.test", "type": "TXT"}
    with within(client):  # so are all sockets that the probe makes
        said = probed(lambda _: target_of(kind, port, address=vip, query=query))
    assert said == ["", ""]


def resumed(client: str, vip: str, slots: list[int]) -> list[tuple[bool, bool]]:
    """Of connections one after the other, each with the ticket of the one before: same server, and whether it resumed."""
    context, found = tls_context(), list[tuple[bool, bool]]()
    before: tuple[str | None, ssl.SSLSession | None] = (None, None)
    for slot in slots:
        connection = TlsClient(client, vip, SOURCES.take(vip, slot), context, before[1])
        name = connection.name()
        assert name is not None
        if before[1] is not None:
            found.append((name == before[0], bool(connection.socket.session_reused)))
        before = (name, connection.socket.session)
        connection.socket.close()
    return found


SLOTS = [(7 * n * n + n) % 16 for n in range(24)]


def test_a_ticket_is_good_for_the_server_that_made_it(client: str) -> None:
    apply_in_lab(BY_PORT)
    for vip in VIPS:
        found = resumed(client, vip, SLOTS)
        assert {same for same, _ in found} == {True, False}
        assert all(same == reused for same, reused in found), vip


def test_a_ticket_is_good_for_all_servers_with_the_same_keys(client: str) -> None:
    apply_in_lab(BY_PORT)
    for vip in SHARED:
        found = resumed(client, vip, SLOTS)
        assert {same for same, _ in found} == {True, False}
        assert all(reused for _, reused in found), vip


def test_a_client_that_stays_with_its_server_resumes(client: str) -> None:
    apply_in_lab(BY_ADDRESS)
    for vip in (*VIPS, *SHARED, *HASHED):
        assert resumed(client, vip, SLOTS[:8]) == [(True, True)] * 7


@pytest.mark.parametrize("protocol", ["doq", "h3"])
def test_early_data_is_good_for_the_server_that_made_the_ticket(client: str, protocol: str) -> None:
    """Another server takes the query all the same, after a whole handshake."""
    apply_in_lab(BY_PORT)
    for vip in (VIPS[0], VIPS[3]):
        by_slot = slots_of(client, vip)
        for slot, name in ((0, by_slot[0]), next((s, n) for s, n in by_slot.items() if n != by_slot[0])):
            first = QuicClient(client, vip, protocol, SOURCES.take(vip, 0))
            assert first.name() == by_slot[0] and not first.early
            again = QuicClient(client, vip, protocol, SOURCES.take(vip, slot), first.await_ticket())
            first.close()
            assert again.name() == name
            same = name == by_slot[0]
            assert (again.resumed, again.early) == (same, same)
            again.close()


@pytest.mark.parametrize(("protocol", "vip"), [("doq", VIPS[0]), ("h3", VIPS[1]), ("h3", VIPS[2]), ("doq", VIPS[3])])
def test_a_connection_whose_port_changes(client: str, protocol: str, vip: str) -> None:
    """It lives while its packets go on to its server: by chance with source-port, else always."""
    apply_in_lab(BY_PORT)
    by_slot = slots_of(client, vip)
    here, same = [slot for slot, name in by_slot.items() if name == "a"][:2]
    other = next(slot for slot, name in by_slot.items() if name == "b")
    connection = QuicClient(client, vip, protocol, SOURCES.take(vip, here))
    assert connection.name() == "a"
    connection.rebind(SOURCES.take(vip, same))
    assert connection.name() == "a"
    connection.rebind(SOURCES.take(vip, other))
    assert connection.name(timeout=1) is None
    apply_in_lab(BY_ADDRESS)
    for steady in (vip, next(v for v in HASHED if (":" in v) == (":" in vip))):
        connection = QuicClient(client, steady, protocol, SOURCES.take(vip, here))
        first = connection.name()
        assert first is not None
        for slot in (same, other):
            connection.rebind(SOURCES.take(vip, slot))
            assert connection.name() == first
        connection.close()


@pytest.mark.parametrize("kept", [False, True], ids=["by-slots", "kept"])
@pytest.mark.parametrize("vip", [VIPS[0], VIPS[3]], ids=["dsr", "nat"])
def test_open_connections_when_weights_change(client: str, vip: str, kept: bool) -> None:
    """Those over TCP stay with `keep`; QUIC goes by slots."""
    changes = [KEPT] * kept
    apply_in_lab(loaded(*changes))
    before = slots_of(client, vip)
    over_tcp = {slot: TlsClient(client, vip, SOURCES.take(vip, slot)) for slot in before}
    over_quic = {slot: QuicClient(client, vip, "doq", SOURCES.take(vip, slot)) for slot in before}
    assert names_of(over_tcp) == names_of(over_quic) == before
    apply_in_lab(loaded(*changes, OTHER_WEIGHT))
    after = slots_of(client, vip)
    stay = {slot: name if after[slot] == name else None for slot, name in before.items()}
    assert list(stay.values()).count(None) == 6  # of 16: five to the server of the new weight, one back
    assert names_of(over_tcp) == (before if kept else stay)
    assert {slot: each.name(timeout=0.5) for slot, each in over_quic.items()} == stay


def names_of(connections: Mapping[int, TlsClient] | Mapping[int, QuicClient]) -> dict[int, str | None]:
    return {slot: each.name() for slot, each in connections.items()}
