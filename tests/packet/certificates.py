# SPDX-License-Identifier: Apache-2.0
"""What tests of TLS need: certificates, a switch that is reached by it, and servers that misbehave."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.packet.switches import BRIDGE, Switch


def make_certificates(folder: Path) -> None:
    """Make two CAs, `ca` and `other`, and certificates: of a server, a client, one that has expired, a stranger, and a web
    server on the loopback, `web` and `again`.
    """

    def openssl(*args: str) -> None:
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True, timeout=30)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for ca in ("ca", "other"):
        openssl("req", "-x509", *key, "-days", "2", "-subj", f"/CN={ca}", "-keyout", f"{ca}.key", "-out", f"{ca}.pem")
    for name, ca, days in (("server", "ca", 2), ("client", "ca", 2), ("expired", "ca", -1), ("stranger", "other", 2)):
        openssl("req", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signer = ["-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", str(days)]
        openssl("x509", "-req", "-in", f"{name}.csr", *signer, "-out", f"{name}.pem")
    (folder / "names").write_text("subjectAltName=DNS:localhost,DNS:dpu-1.example.net,IP:127.0.0.1\n")
    for name, days in (("web", 90), ("again", 91)):
        openssl("req", *key, "-subj", "/CN=web", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", str(days), "-extfile", "names"]
        openssl("x509", "-req", "-in", f"{name}.csr", *signer, "-out", f"{name}.pem")
    openssl("pkey", "-in", "client.key", "-aes128", "-passout", "pass:secret", "-out", "locked.key")
    (folder / "nonsense.pem").write_text("nothing\n")


class SecureSwitch(Switch):
    """A switch as packages start it, with managers as ovs-vsctl sets them, and a bridge that is reached by TLS."""

    def _spawn(self, args: Sequence[str], sock: Path) -> None:
        if args[0] == "ovsdb-server":
            files = {"private-key": "private_key", "certificate": "certificate", "ca-cert": "ca_cert"}
            args = [*args, "--remote=db:Open_vSwitch,Open_vSwitch,manager_options"]
            args += [f"--{option}=db:Open_vSwitch,SSL,{column}" for option, column in files.items()]
        super()._spawn(args, sock)

    def listen(self, pki: Path) -> None:
        """Do what the documentation says."""
        self.vsctl("set-ssl", str(pki / "server.key"), str(pki / "server.pem"), str(pki / "ca.pem"))
        self.vsctl("set-manager", "pssl:0:127.0.0.1")
        self.vsctl("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "fail_mode=secure")
        self.vsctl("set-controller", BRIDGE, "pssl:0:127.0.0.1")
        self.db, self.openflow = (f"ssl:127.0.0.1:{self.port_chosen(daemon)}" for daemon in ("ovsdb", "vswitchd"))


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that accepts one connection after the other, and talks with each."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    talk(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
            thread.join(30)
            assert not thread.is_alive()


def secured(pki: Path, talk: Callable[[ssl.SSLSocket], None]) -> Callable[[socket.socket], None]:
    """The same talk, by TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "server.pem", pki / "server.key")

    def talk_tls(peer: socket.socket) -> None:
        peer.settimeout(10)
        with context.wrap_socket(peer, server_side=True) as secret:
            talk(secret)

    return talk_tls


def wait_for_the_end(peer: socket.socket) -> None:
    """Read what comes, and say nothing."""
    peer.settimeout(10)
    try:
        while peer.recv(4096):
            pass
    except OSError:
        pass
