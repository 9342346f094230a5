# SPDX-License-Identifier: Apache-2.0
"""TLS for `ssl:` remotes: dnsteer's key and certificates, and the meaning of failures.

Imported only where such a remote is used, since Python's ssl takes its time to load.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ovs.stream import SSLStream, Stream

from dnsteer.switch.tools import SwitchError, UnavailableError

_OPTIONS = {
    "--private-key": "DNSTEER_PRIVATE_KEY",
    "--certificate": "DNSTEER_CERTIFICATE",
    "--ca-cert": "DNSTEER_CA_CERT",
}
_LAST_WORD = 0.1
_ALERT = re.compile(r"(?:(?:ssl|tls)v[\d.]+|ssl/tls) alert ")  # since OpenSSL 3.2 the second
# Alerts of a server that has nothing against our certificate.
_NOT_OURS = ("protocol version", "handshake failure", "internal error", "insufficient security")
_PYTHON_EXTRA = re.compile(r"\[[^\]]*\] | ?\(_ssl\.c:\d+\)")
_OPENSSL_ERROR = re.compile(r"\berror:[0-9A-F]+:[^:\n]*:[^:\n]*:(.+)")
_IN_BRACKETS = re.compile(r"\((.*)\)")


@dataclass(frozen=True)
class Tls:
    """The files, all PEM: our private key, our certificate, and the CA certificate that the switch's is checked with."""

    private_key: Path
    certificate: Path
    ca_cert: Path

    def context(self) -> ssl.SSLContext:
        """Read the files. Raises SwitchError that names the file, what is wrong with it and what to do."""
        for option, file in zip(_OPTIONS, (self.private_key, self.certificate, self.ca_cert), strict=True):
            try:
                if file.exists() and not file.is_file() and not file.is_dir():  # a pipe would be waited for
                    raise OSError(errno.EINVAL, "a pipe, a socket or a device")
                file.open("rb").close()
            except OSError as err:
                why = f"{option}: {file}: {err.strerror}; give a PEM file that this user can read"
                raise SwitchError(why) from None
        context = _context()
        _read_certificates(context, self.ca_cert, "--ca-cert", "the certificate of the CA that signed the switch's")
        _read_certificates(_context(), self.certificate, "--certificate", "a certificate")
        try:
            context.load_cert_chain(self.certificate, self.private_key, self._password)
        except ssl.SSLError as err:
            if "MISMATCH" in (err.reason or ""):
                raise SwitchError(
                    f"--private-key: {self.private_key} is not the key of the certificate {self.certificate}; "
                    f"give the two that were made together"
                ) from None
            raise SwitchError(
                f"--private-key: {self.private_key} is not a private key ({_plain(err)}); give one in PEM"
            ) from None
        return context

    def _password(self) -> str:
        # Else OpenSSL would ask at the terminal, here, in the ovs library and in each run of ovs-ofctl.
        raise SwitchError(
            f"--private-key: {self.private_key} has a passphrase, which is not supported; give one without "
            f"(openssl pkey -in {self.private_key} -out FILE) that only its owner can read"
        )

    def arguments(self) -> list[str]:
        """The options of Open vSwitch's programs. Raises SwitchError as context() does."""
        self.context()  # the programs only log what is wrong with a file, and go on without it
        return ["-p", str(self.private_key), "-c", str(self.certificate), "-C", str(self.ca_cert)]


_current: Tls | None = None


def use(tls: Tls | None) -> None:
    """Use these files for all ssl: remotes of this process from now on; None for no TLS."""
    global _current
    _current = tls


def current() -> Tls | None:
    """Return what was given to use()."""
    return _current


def from_options(private_key: Path | None, certificate: Path | None, ca_cert: Path | None) -> Tls | None:
    """The files of the three options, None without any. Raises SwitchError when only some were given."""
    if private_key and certificate and ca_cert:
        return Tls(private_key.absolute(), certificate.absolute(), ca_cert.absolute())
    given = dict(zip(_OPTIONS, (private_key, certificate, ca_cert), strict=True))
    if not any(given.values()):
        return None
    missing = " and ".join(f"{o} ({_OPTIONS[o]})" for o, file in given.items() if not file)
    found = " and ".join(o for o, file in given.items() if file)
    raise SwitchError(f"found {found} without {missing}; give all three, or none where no remote is ssl:")


def require(name: str) -> Tls:
    """The files, for the remote that messages call *name*. Raises SwitchError when there are none."""
    if _current is None:
        raise SwitchError(
            f"{name} needs {', '.join(_OPTIONS)}, each with a PEM file (or in the environment: "
            f"{', '.join(_OPTIONS.values())})"
        )
    return _current


class _Stream(SSLStream):  # type: ignore[misc]
    """The ovs library's stream, with two defects fixed."""

    def close(self) -> None:
        """End TLS, then close."""
        tls_shutdown(self.socket)
        super().close()

    def wait(self, poller: Any, wait: int) -> None:
        """Do not wait for the network while decrypted data is unread."""
        if wait == Stream.W_RECV and self.socket.pending():
            poller.immediate_wake()
        else:
            super().wait(poller, wait)


def set_up_ovs_library(name: str) -> None:
    """Give the files to the ovs library, which keeps one set for the whole process too. Raises SwitchError."""
    tls = require(name)
    Stream.ssl_set_private_key_file(str(tls.private_key))
    Stream.ssl_set_certificate_file(str(tls.certificate))
    Stream.ssl_set_ca_cert_file(str(tls.ca_cert))
    Stream.register_method("ssl", _Stream)


def connect(address: tuple[str, int], name: str, timeout: float) -> ssl.SSLSocket:
    """Connect and do the handshake within *timeout* seconds.

    Raises SwitchError or UnavailableError about files and TLS, and OSError, TimeoutError too, from the connection below.
    """
    deadline = time.monotonic() + timeout
    tls = require(name)
    context = tls.context()
    sock = socket.create_connection(address, timeout)
    sock.settimeout(max(deadline - time.monotonic(), 0.001))
    try:
        return context.wrap_socket(sock)  # closes it when it fails
    except TimeoutError:
        raise
    except OSError as err:
        raise failure(name, tls, err) from None


def tls_shutdown(sock: socket.socket) -> None:
    """Send close_notify before closing, without waiting: servers log a warning without it."""
    if isinstance(sock, ssl.SSLSocket):
        with suppress(OSError, ValueError):
            sock.settimeout(0)
            sock.unwrap()


def last_word(sock: socket.socket, err: OSError) -> OSError:
    """Return the server's TLS alert, if any. A request that cannot be sent fails before the alert is read."""
    try:
        sock.settimeout(_LAST_WORD)
        sock.recv(1)
    except ssl.SSLError as said:
        return said
    except (OSError, ValueError):
        pass
    return err


def failure(name: str, tls: Tls, said: OSError | str) -> SwitchError:
    """The error for a handshake that failed: *said* is Python's error, or what an Open vSwitch program printed.

    UnavailableError where trying again could help; SwitchError where certificates must be changed first.
    """
    why = _plain(said)
    if "certificate verify failed" in why:
        return SwitchError(
            f"{name} is not trusted ({why}); --ca-cert must be the certificate of the CA that signed the switch's, "
            f"found {tls.ca_cert}"
        )
    if _ALERT.search(why) and not why.endswith(_NOT_OURS):
        return SwitchError(
            f"{name} refused our certificate {tls.certificate} ({why}); it must be valid, and signed by the CA that "
            f"the switch was given (ovs-vsctl get-ssl)"
        )
    return UnavailableError(
        f"{name} did not start TLS ({why}); it must listen with pssl: (what listens with ptcp: is a tcp: remote), and "
        f"trust the CA of {tls.certificate} (ovs-vsctl get-ssl)"
    )


def _context() -> ssl.SSLContext:
    """As the ovs library has it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Certificates of Open vSwitch name a switch, not a host, and a remote is an address; so Open vSwitch itself takes
    # any certificate of the CA, which is one for switches alone. CERT_REQUIRED, which checks that, is on by default.
    context.check_hostname = False
    return context


def _read_certificates(context: ssl.SSLContext, file: Path, option: str, wanted: str) -> None:
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as err:
        raise SwitchError(f"{option}: {file} is not a certificate ({_plain(err)}); give {wanted} in PEM") from None


def _plain(said: OSError | str) -> str:
    """Return OpenSSL's reason alone, in words."""
    if isinstance(said, OSError):
        return _PYTHON_EXTRA.sub("", str(said.strerror or said))
    m = _OPENSSL_ERROR.search(said) or _IN_BRACKETS.search(said)
    return m[1].strip() if m else said
