# SPDX-License-Identifier: Apache-2.0
"""TLS of the console's server: its certificate and key, checked and read again when they change; the names it is for."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from dnsteer.deploy.times import now
from dnsteer.render.atomic_files import naming
from dnsteer.switch.tools import SwitchError

LOOKS = 2.0
"""Seconds between two looks at the files."""
SOON = timedelta(days=14)
"""Time before the end of a certificate from which on it is warned of."""
_CERT, _KEY, _CA = "--console-tls-cert", "--console-tls-key", "--console-client-ca"


@dataclass(frozen=True)
class TlsFiles:
    """The files, all PEM. With *client_ca* browsers and programs need a certificate that is signed by it."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class ServerTls:
    """The TLS context of the server. The files are checked when it is made."""

    def __init__(self, files: TlsFiles, log: Callable[[str], None]) -> None:
        """Read the files. Raises SwitchError that names the file, what is wrong with it and what to do, and OSError."""
        self._files, self._log = files, log
        self._seen = self._signatures()
        self.context = _context(files)
        self.names, self.end = _names(files.certificate, log)
        """The names that the certificate is for, and when it ends."""
        self._now = self.context
        # A server keeps its context: each handshake goes on with the one of the files that were read last.
        self.context.sni_callback = lambda connection, _name, _context: setattr(connection, "context", self._now)

    async def watch(self) -> None:
        """Read the files again when they change, until cancelled. What is wrong with them is said."""
        while True:
            await asyncio.sleep(LOOKS)
            self.check_files()

    def check_files(self) -> None:
        """Read the files again if they have changed."""
        if self._signatures() != self._seen:
            self.read_again()

    def read_again(self) -> None:
        """Read the files again, whether they have changed or not. Connections that there are go on."""
        self._seen = self._signatures()
        try:
            context, (names, end) = _context(self._files), _names(self._files.certificate, self._log)
        except (SwitchError, OSError) as error:
            why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
            self._log(f"console: the certificate of before stays in use: {why}")
        else:
            self._now, self.names, self.end = context, names, end
            self._log("console: certificate and key read again")

    def _signatures(self) -> list[tuple[int, ...]]:
        out: list[tuple[int, ...]] = []
        files = self._files
        for file in filter(None, (files.certificate, files.key, files.client_ca)):
            try:
                found = file.stat()
            except OSError:
                out.append(())
            else:
                out.append((found.st_mtime_ns, found.st_ino, found.st_size))
        return out


def _context(files: TlsFiles) -> ssl.SSLContext:
    """Read the files. Raises as ServerTls does."""
    for file in (files.certificate, files.key, files.client_ca):
        if file is not None:
            with naming(file):
                if file.exists() and not file.is_file():
                    raise SwitchError(f"{file}: expected a PEM file, found something that is no file")
                file.open("rb").close()
    _check_dates(files.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.certificate, files.key, lambda: _refuse_passphrase(files.key))
    except ssl.SSLError as error:
        if "MISMATCH" in (error.reason or ""):
            raise SwitchError(
                f"{_KEY}: {files.key} is not the key of {files.certificate}; give the two that were made together"
            ) from None
        raise SwitchError(f"{_KEY}: {files.key} is not a private key in PEM ({error.reason}); give one") from None
    if files.client_ca is not None:
        _certificates(files.client_ca, _CA, "the certificate of the CA that signs those of clients")
        context.load_verify_locations(files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
        # A ticket would let in who showed a certificate of a CA that is no longer the one.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def _refuse_passphrase(key: Path) -> str:
    raise SwitchError(
        f"{_KEY}: {key} has a passphrase, which nobody is there to type; give one without "
        f"(openssl pkey -in {key} -out FILE) that only its owner can read"
    )


def _certificates(file: Path, option: str, wanted: str) -> list[x509.Certificate]:
    with naming(file):
        data = file.read_bytes()
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        raise SwitchError(f"{option}: {file} is not a certificate in PEM; give {wanted}") from None


def _check_dates(file: Path) -> None:
    found = _certificates(file, _CERT, "the server's, followed by those of the CAs between it and the root")[0]
    begin, end = found.not_valid_before_utc, found.not_valid_after_utc
    if now() >= end:
        raise SwitchError(f"{_CERT}: {file} has expired, on {end:%Y-%m-%d %H:%M} UTC; renew it")
    if now() < begin:
        raise SwitchError(f"{_CERT}: {file} is valid from {begin:%Y-%m-%d %H:%M} UTC on; check the clock, or wait")


def _names(file: Path, log: Callable[[str], None]) -> tuple[frozenset[str], datetime]:
    """The names and addresses that a certificate is for, as a Host header has them, and when it ends."""
    found = _certificates(file, _CERT, "one")[0]
    end = found.not_valid_after_utc
    if end - now() < SOON:
        log(f"console: the certificate {file} expires on {end:%Y-%m-%d %H:%M} UTC; renew it")
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset(), end
    hosts = [name.lower() for name in names.get_values_for_type(x509.DNSName)]
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return frozenset([*hosts, *(f"[{a}]" if ":" in a else a for a in addresses)]), end
