# SPDX-License-Identifier: Apache-2.0
"""Selection by clients' addresses: the slot, the shares of given clients, and files of clients."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, wrpcap

from dnsteer.checks.load import check_document, load_spec
from dnsteer.proof.clients import ClientsError, read_clients, shares_in_words, shares_of_pools
from dnsteer.proof.reference.packets import Reference
from dnsteer.slots.source_address import most_even_prefix, shares_of_clients, slot_of_client, unevenness
from dnsteer.spec.read import parse_document
from tests.unit.commands import in_process

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "affinity.yaml"
SERVICES = {(ip_address(vip).packed, 17, port) for vip in ("192.0.2.53", "2001:db8::53") for port in (53, 853)}


def test_the_slot_is_the_end_of_the_prefix() -> None:
    assert slot_of_client(ip_address("198.51.100.7"), 32, 256) == 7
    assert slot_of_client(ip_address("198.51.100.7"), 24, 256) == 100
    assert slot_of_client(ip_address("198.51.100.7"), 24, 16) == 100 % 16
    assert slot_of_client(ip_address("2001:db8:0:1234::1"), 64, 256) == 0x34
    assert slot_of_client(ip_address("2001:db8:0:1234::1"), 56, 256) == 0x12


@given(st.integers(0, 2**32 - 1).map(IPv4Address) | st.integers(0, 2**128 - 1).map(IPv6Address), st.integers(20, 32))
def test_clients_of_one_prefix_have_one_slot(client: IPv4Address | IPv6Address, prefix: int) -> None:
    beyond = client.max_prefixlen - prefix
    last = (
        ip_address(int(client) | (1 << beyond) - 1)
        if client.version == 4
        else IPv6Address(int(client) | (1 << beyond) - 1)
    )
    assert slot_of_client(client, prefix, 64) == slot_of_client(last, prefix, 64)
    assert 0 <= slot_of_client(client, prefix, 64) < 64


def test_shares_count_clients_and_packets() -> None:
    clients = {ip_address(f"198.51.100.{n}"): n + 1 for n in range(4)}
    found = shares_of_clients(clients, 32, ("a", "b", "a", "a"))
    assert [(s.backend, s.slots, s.clients, s.packets) for s in found] == [
        ("a", 0.75, 0.75, 0.8),
        ("b", 0.25, 0.25, 0.2),
    ]
    assert unevenness(found) == pytest.approx(0.8 / 0.75 - 1)
    with pytest.raises(ValueError, match="a client and a slot"):
        shares_of_clients({}, 32, ("a",))


def test_the_most_even_prefix_is_the_one_that_tells_the_clients_apart() -> None:
    homes = {IPv6Address(0x20010DB8 << 96 | n << 72): 1 for n in range(256)}  # a /56 each
    owners = ("a", "b", "c", "d") * 4
    assert unevenness(shares_of_clients(homes, 64, owners)) == 3
    best = most_even_prefix(homes, owners, 20, 64)
    assert unevenness(shares_of_clients(homes, best, owners)) == 0
    assert best == 56, "of those that are as even the one next to now"


def test_a_text_has_a_client_on_each_line(tmp_path: Path) -> None:
    file = tmp_path / "clients.txt"
    file.write_text("# resolvers\n198.51.100.7\n\n198.51.100.7 2 # twice\n2001:db8::7 120\n")
    assert read_clients(file, SERVICES) == {ip_address("198.51.100.7"): 3, ip_address("2001:db8::7"): 120}


@pytest.mark.parametrize(
    "line", ["elsewhere", "198.51.100.7 many", "198.51.100.7 0", "198.51.100.7 1 2", "198.51.100.0/24"]
)
def test_a_bad_line_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "clients.txt"
    file.write_text(f"198.51.100.7\n{line}\n")
    with pytest.raises(ClientsError, match=r"clients\.txt:2: found .*; expected an address"):
        read_clients(file, SERVICES)


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_of_a_capture_packets_to_vips_count(form: str, tmp_path: Path) -> None:
    frames = [
        Ether() / IP(src="198.51.100.7", dst="192.0.2.53") / UDP(dport=53),
        Ether() / IP(src="198.51.100.7", dst="192.0.2.53") / UDP(dport=853),
        Ether() / IP(src="198.51.100.8", dst="192.0.2.99") / UDP(dport=53),
        Ether() / IP(src="198.41.0.4", dst="192.0.2.53") / UDP(sport=53, dport=40001),  # an answer to a server
        Ether() / IP(src="198.51.100.9", dst="192.0.2.53") / ICMP(),
        Ether() / IP(src="10.53.0.9", dst="192.0.2.53") / UDP(dport=53),  # the agent's probe
        Ether() / IPv6(src="2001:db8::7", dst="2001:db8::53") / UDP(dport=53),
        Ether(type=0x88B5) / b"x",
    ]
    file = tmp_path / f"clients.{form}"
    if form == "pcap":
        wrpcap(str(file), frames)
    else:
        with PcapNgWriter(str(file)) as writer:
            for frame in frames:
                writer.write(frame)
    own = [ip_address("10.53.0.9").packed]
    assert read_clients(file, SERVICES, own) == {ip_address("198.51.100.7"): 2, ip_address("2001:db8::7"): 1}


def test_files_without_clients_are_refused(tmp_path: Path) -> None:
    empty, other, cut = tmp_path / "empty", tmp_path / "other.pcap", tmp_path / "cut.pcap"
    empty.write_text("# nobody\n")
    wrpcap(str(other), [Ether() / IP(src="198.51.100.8", dst="192.0.2.99") / UDP()])
    cut.write_bytes(other.read_bytes()[:10])
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x00\xff\xfe\x80")
    for file, why in (
        (empty, "it has no client"),
        (other, "it has no packet of a client"),
        (cut, "it cannot be read as a capture"),
        (binary, "neither text nor a capture"),
        (tmp_path / "missing", "No such file"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(ClientsError, match=why):
            read_clients(file, SERVICES)


def test_shares_of_a_spec_are_those_of_its_slots() -> None:
    loaded = load_spec(EXAMPLE)
    reference = Reference(loaded.spec)
    clients = {ip_address(f"198.18.{n // 256}.{n % 256}"): 1 for n in range(1024)} | {ip_address("2001:db8:9::1"): 5}
    four, six = shares_of_pools(loaded, reference, clients)
    assert (four.version, four.prefix, four.slots, four.clients) == (4, 32, 64, 1024)
    assert {s.backend: s.clients for s in four.shares} == {"ns1": 0.25, "ns2": 0.25, "ns3": 0.5}
    assert four.excess == 0
    assert (six.version, six.prefix, six.clients) == (6, 64, 1)
    words = list(shares_in_words(six))
    assert words[0] == "pool resolvers: 1 IPv6 client by their /64, 64 slots"
    assert any("100.0% of the packets" in line for line in words)


def test_clients_whom_a_list_denies_are_not_counted() -> None:
    text = EXAMPLE.read_text().replace("  uplinks:", "  access: {deny: ['2001:db8:9::/48', 198.18.0.0/24]}\n  uplinks:")
    loaded = check_document(parse_document("spec.yaml", text))
    clients = {ip_address(f"198.18.{n // 256}.{n % 256}"): 1 for n in range(512)} | {ip_address("2001:db8:9::1"): 5}
    (four,) = shares_of_pools(loaded, Reference(loaded.spec), clients)
    assert (four.version, four.clients) == (4, 256)


def test_explain_shows_shares_and_refuses_what_it_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "clients.txt"
    file.write_text("198.51.100.7 3\n")
    done = in_process("explain", str(EXAMPLE), "--clients", str(file))
    assert done.returncode == 0, done.stderr
    assert "pool resolvers: 1 IPv4 client by their /32, 64 slots" in done.stdout
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"198.51.100.7 3\n")))
    done = in_process("explain", str(EXAMPLE), "--clients", "-")
    assert done.returncode == 0, done.stderr
    assert "pool resolvers: 1 IPv4 client by their /32, 64 slots" in done.stdout
    done = in_process("explain", "-", "--clients", "-")
    assert (done.returncode, "standard input can be one of them" in done.stderr) == (64, True)
    file.write_text("x\n")
    done = in_process("explain", str(EXAMPLE), "--clients", str(file))
    assert done.returncode == 1
    assert "clients.txt:1: found 'x'" in done.stderr
    done = in_process("explain", str(EXAMPLE.with_name("quickstart.yaml")), "--clients", str(file))
    assert done.returncode == 1
    assert "no pool with a backend in service has selection: source-address" in done.stderr
    done = in_process("explain", str(EXAMPLE), "--clients", str(file), "--cookie", "0x1")
    assert done.returncode == 64
