# SPDX-License-Identifier: Apache-2.0
"""A switch elsewhere, by ssl: with real servers and real certificates, and each way in which that fails."""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from ovs import poller
from ovs.stream import Stream

from dnsteer.status.verify import find_drift
from dnsteer.switch import tls
from dnsteer.switch.database import Database
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.rpc import Rpc, parse_remote
from dnsteer.switch.tls import Tls
from dnsteer.switch.tools import SwitchError, UnavailableError
from tests.packet.apply_spec import apply
from tests.packet.certificates import SecureSwitch, secured, server, wait_for_the_end
from tests.packet.switches import BRIDGE, LARGE, SMALL, cli, spec_of, unexpected

# What servers log of a client that they refuse, or that refuses them.
REFUSED = [r"SSL_accept: (system )?error", r"(receive error:|connection dropped|send:).*(Protocol error|reset by peer)"]
PATIENCE = 0.7
"""Time limit where no answer comes, in seconds."""
AT_ONCE = 3
"""Seconds within which all else is over: far less than the default time limit of 10, far more than the work takes."""


pytestmark = pytest.mark.usefixtures("no_tls_files")


def use(pki: Path, name: str = "client", ca: str = "ca") -> None:
    tls.use(Tls(pki / f"{name}.key", pki / f"{name}.pem", pki / f"{ca}.pem"))


@pytest.fixture
def secure(pki: Path) -> Iterator[SecureSwitch]:
    with SecureSwitch() as private:
        private.listen(pki)
        yield private
        found = unexpected(private)
    assert found == []


@contextmanager
def at_once() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < AT_ONCE


@contextmanager
def in_time() -> Iterator[None]:
    """The block ends when its PATIENCE does: not before, and not with a time that begins anew, which would not end."""
    start = time.monotonic()
    yield
    assert PATIENCE * 0.9 < time.monotonic() - start < PATIENCE + 5


# A switch in order


def test_apply_and_verify_work_over_tls(secure: SecureSwitch, pki: Path) -> None:
    use(pki)
    spec = spec_of(LARGE)
    assert apply(spec, secure.db, openflow=secure.openflow, adopt=True).changed
    assert secure.ports() == {"p0", "vf0", "vf1", "vf2"}
    assert len(secure.flows()) > 100
    assert secure.groups()
    assert find_drift(spec, secure.db, openflow=secure.openflow) == []
    assert not apply(spec, secure.db, openflow=secure.openflow, adopt=True).changed
    secure.ofctl("del-groups")
    drift = find_drift(spec, secure.db, openflow=secure.openflow)
    assert {d.kind for d in drift} >= {"group missing"}
    assert apply(spec, secure.db, openflow=secure.openflow, adopt=True).changed
    assert find_drift(spec, secure.db, openflow=secure.openflow) == []
    # By its sockets, where it is seen what could not be set from afar.
    (drift,) = find_drift(spec, secure.database)
    assert drift.kind == "setting" and "smallest IPv4 fragment is 1200 bytes, should be 400" in drift.detail
    apply(spec, secure.database, adopt=True)
    assert find_drift(spec, secure.database) == []


def test_verbs_work_over_tls(secure: SecureSwitch, pki: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SMALL)
    where = [spec, "--db", secure.db, "--openflow", secure.openflow]
    files = {"DNSTEER_PRIVATE_KEY": pki / "client.key", "DNSTEER_CERTIFICATE": pki / "client.pem"}
    env = {name: str(file) for name, file in files.items()}
    done = cli("apply", *where, "--adopt", env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert "found --private-key and --certificate without --ca-cert (DNSTEER_CA_CERT)" in done.stderr
    done = cli("apply", *where, "--adopt", "--ca-cert", pki / "ca.pem", env=env)
    assert (done.returncode, done.stdout[:7]) == (0, "br-dns:")
    env["DNSTEER_CA_CERT"] = str(pki / "ca.pem")
    assert cli("verify", *where, env=env).returncode == 0
    env |= {"DNSTEER_DB": secure.db, "DNSTEER_OPENFLOW": secure.openflow}
    assert cli("verify", spec, env=env).returncode == 0
    assert cli("verify", spec, env={**env, "DNSTEER_OPENFLOW": ""}).returncode == 1
    done = cli("verify", *where)
    assert done.returncode == 1
    assert f"OVSDB at {secure.db} needs --private-key, --certificate, --ca-cert" in done.stderr


def test_a_large_database_arrives_whole(secure: SecureSwitch, pki: Path) -> None:
    """Many times what the library reads at once, and what TLS packs together."""
    use(pki)
    names = [f"port{n}" for n in range(400)]
    secure.vsctl("--no-wait", *(w for n in names for w in ("--", "add-port", BRIDGE, n)))
    with Database(secure.db, 30) as base:
        bridge = base.bridge(BRIDGE)
        base.wait_for_ports(BRIDGE, names)
    assert bridge is not None
    assert set(bridge.ports) == {*names, BRIDGE}


def test_tls_works_over_ipv6(secure: SecureSwitch, pki: Path) -> None:
    use(pki)
    secure.vsctl("set-manager", "pssl:0:[::1]")
    found = re.findall(r"\[::1\]: listening on port (\d+)", (secure.dir / "ovsdb.log").read_text())
    remote = parse_remote(f"ssl:[::1]:{found[0]}")
    with Database(remote) as base:
        assert base.bridge(BRIDGE) is not None


@pytest.mark.parametrize("kind", ["ssl", "tcp"])
def test_a_lock_outlasts_work_elsewhere(secure: SecureSwitch, pki: Path, kind: str) -> None:
    """Servers end connections that do not answer their probes: here after two seconds."""
    use(pki)
    secure.vsctl("set-manager", f"p{kind}:0:127.0.0.1", "--", "set", "Manager", ".", "inactivity_probe=1000")
    port = re.findall(r"listening on port (\d+)", (secure.dir / "ovsdb.log").read_text())[-1]
    rpc = Rpc(f"{kind}:127.0.0.1:{port}", "a server", 5)
    assert rpc.call("lock", ["one"], 5) == {"locked": True}
    time.sleep(3.5)
    guarded = [{"op": "assert", "lock": "one"}, {"op": "comment", "comment": "x"}]
    assert rpc.call("transact", ["Open_vSwitch", *guarded], 5) == [{}, {}]
    rpc.close()


# Trust


@pytest.mark.parametrize(
    ("name", "ca", "message"),
    [
        ("client", "other", r"is not trusted .*certificate verify failed.*--ca-cert must be .*, found .*other\.pem"),
        (
            "stranger",
            "ca",
            r"refused our certificate .*stranger\.pem \(.*unknown ca\); it must be valid, .*ovs-vsctl get-ssl",
        ),
        ("expired", "ca", r"refused our certificate .*expired\.pem \(.*expired\); it must be valid"),
    ],
)
def test_untrusted_certificates_are_named(secure: SecureSwitch, pki: Path, name: str, ca: str, message: str) -> None:
    secure.expected += REFUSED
    conf = secure.conf()
    use(pki, name, ca)
    with at_once(), pytest.raises(SwitchError, match=f"^OVSDB at {secure.db} {message}"):
        apply(spec_of(SMALL), secure.db, openflow=secure.openflow, adopt=True)
    # ovs-ofctl may find the connection closed before it reads why, and then the message names both causes.
    unsaid = r"did not start TLS \(Broken pipe\); .* trust the CA of .*ovs-vsctl get-ssl"
    with at_once(), pytest.raises(SwitchError, match=f"^OpenFlow at {secure.openflow} ({message}|{unsaid})"):
        apply(spec_of(SMALL), secure.database, openflow=secure.openflow, adopt=True)
    assert secure.conf() == conf
    use(pki)  # and what was wrong does not stay
    assert apply(spec_of(SMALL), secure.db, openflow=secure.openflow, adopt=True).changed


def test_a_server_that_refuses_within_the_handshake(secure: SecureSwitch, pki: Path) -> None:
    """As all do that have TLS 1.2 at most: the answer comes earlier than with TLS 1.3."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(pki / "server.pem", pki / "server.key")
    context.load_verify_locations(pki / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED

    def talk(peer: socket.socket) -> None:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(peer, server_side=True)

    use(pki, "stranger")
    with server(talk) as port, pytest.raises(SwitchError, match=r"refused our certificate .*unknown ca"):
        Database(f"ssl:127.0.0.1:{port}")


# Nobody, nothing, or something else


def test_a_port_without_listener_is_named(pki: Path) -> None:
    use(pki)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        remote = f"ssl:127.0.0.1:{probe.getsockname()[1]}"
        with at_once(), pytest.raises(UnavailableError, match=f"{remote}: nobody listens there; is it running"):
            Database(remote)
        with at_once(), pytest.raises(UnavailableError, match=rf"no OpenFlow at {remote} \(Connection refused\)"):
            OpenFlow(remote).dump()


def test_a_server_without_a_tls_handshake_times_out(pki: Path) -> None:
    use(pki)
    with server(wait_for_the_end) as port:
        remote = f"ssl:127.0.0.1:{port}"
        with (
            in_time(),
            pytest.raises(UnavailableError, match=rf"OVSDB at {remote} does not answer within {PATIENCE} s"),
        ):
            Database(remote, PATIENCE)
        with in_time(), pytest.raises(UnavailableError, match=rf"did not finish within {PATIENCE} s"):
            OpenFlow(remote, timeout=PATIENCE).ofctl("dump-flows")


def test_a_server_silent_after_the_handshake_times_out(pki: Path) -> None:
    use(pki)
    with server(secured(pki, wait_for_the_end)) as port:
        remote = f"ssl:127.0.0.1:{port}"
        with (
            in_time(),
            pytest.raises(UnavailableError, match=rf"OVSDB at {remote} does not answer within {PATIENCE} s"),
        ):
            Database(remote, PATIENCE)


def test_a_slowly_reading_server_times_out(pki: Path) -> None:
    """Each read makes room for some of the request, but that does not start the time anew."""

    def talk(peer: ssl.SSLSocket) -> None:
        with suppress(OSError):
            while peer.recv(16384):
                time.sleep(0.005)

    use(pki)
    with server(secured(pki, talk)) as port:
        rpc = Rpc(f"ssl:127.0.0.1:{port}", "a server", 5)
        with in_time(), pytest.raises(UnavailableError, match=rf"a server does not answer within {PATIENCE} s"):
            rpc.call("x", ["x" * 30_000_000], PATIENCE)
        rpc.close()


def test_a_server_silent_after_the_schema_times_out(
    secure: SecureSwitch, pki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schema comes by one connection, all else by that of the ovs library."""
    monkeypatch.setattr(logging.getLogger("ovsdbapp"), "propagate", False)  # pytest fails to print what it logs
    schema = Rpc(secure.database, "x", 5).call("get_schema", ["Open_vSwitch"], 5)
    rest = [json.dumps({"id": 1, "result": schema, "error": None}).encode()]

    def talk(peer: ssl.SSLSocket) -> None:
        if rest:
            peer.sendall(rest.pop())
        wait_for_the_end(peer)

    use(pki)
    with server(secured(pki, talk)) as port:
        remote = f"ssl:127.0.0.1:{port}"
        with (
            in_time(),
            pytest.raises(UnavailableError, match=rf"OVSDB at {remote} does not answer within {PATIENCE} s"),
        ):
            Database(remote, PATIENCE)


def test_tls_to_a_plain_server_is_named(secure: SecureSwitch, pki: Path) -> None:
    secure.expected += [r"tcp:.*(SSL data|error parsing|connection dropped|expecting hello)"]
    use(pki)
    plain = secure.listen_on_tcp()
    remote = plain.replace("tcp:", "ssl:")
    with at_once(), pytest.raises(UnavailableError, match=f"OVSDB at {remote} did not start TLS .* pssl: .* is a tcp:"):
        Database(remote)
    secure.vsctl("set-controller", BRIDGE, "ptcp:0:127.0.0.1")
    remote = f"ssl:127.0.0.1:{secure.ports_chosen('vswitchd')[-1]}"
    with at_once(), pytest.raises(UnavailableError, match=rf"OpenFlow at {remote} did not start TLS \(wrong version"):
        OpenFlow(remote).dump()


def test_plain_tcp_to_a_tls_server_is_named(secure: SecureSwitch) -> None:
    secure.expected += [*REFUSED, "received JSON-RPC data on SSL channel"]
    with at_once(), pytest.raises(UnavailableError, match="the connection ended"):
        Database(secure.db.replace("ssl:", "tcp:"))


# What TLS keeps back


def test_several_messages_in_one_tls_record_are_read(pki: Path) -> None:
    """A request of the server's and two answers come as one; none of them waits for more to come."""
    text = "x" * 9000

    def talk(peer: ssl.SSLSocket) -> None:
        peer.recv(4096)
        messages = [{"method": "echo", "params": [], "id": "e"}, {"id": 1, "result": text}, {"id": 2, "result": "two"}]
        peer.sendall("".join(map(json.dumps, messages)).encode())
        peer.recv(4096)
        for part in ('{"id": 3, "result": "', text, text, '"}'):
            peer.sendall(part.encode())
        wait_for_the_end(peer)

    use(pki)
    with server(secured(pki, talk)) as port:
        rpc = Rpc(f"ssl:127.0.0.1:{port}", "a server", 5)
        with at_once():
            assert rpc.call("x", [], 5) == text
            assert rpc.call("x", [], 5) == "two"
            assert rpc.call("x", [], 5) == 2 * text
        rpc.close()


def test_decrypted_data_wakes_the_ovs_library(pki: Path) -> None:
    def talk(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"x" * 8192)
        wait_for_the_end(peer)

    use(pki)
    tls.set_up_ovs_library("x")
    with server(secured(pki, talk)) as port:
        error, stream = Stream.open_block(Stream.open(f"ssl:127.0.0.1:{port}"), 5000)
        assert error == 0
        got = b""
        with at_once():
            while len(got) < 8192:
                error, data = stream.recv(4096)
                got += data or b""
                waiting = poller.Poller()
                stream.recv_wait(waiting)
                if len(got) < 8192:
                    waiting.timer_wait(5000)
                    waiting.block()
        stream.close()
