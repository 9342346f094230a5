"""Options of `dnsteer agent` about who may reach its console, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dnsteer.console.serve import Security

At = tuple[str, int]


def _file(option: str, variable: str, text: str) -> typer.models.OptionInfo:
    made: typer.models.OptionInfo = typer.Option(option, metavar="FILE", envvar=variable, help=text)
    return made


TlsCert = Annotated[
    Path | None,
    _file(
        "--console-tls-cert",
        "DNSTEER_CONSOLE_TLS_CERT",
        "Serve the console by HTTPS with this certificate, PEM, followed by those of CAs between it and the root.",
    ),
]
TlsKey = Annotated[
    Path | None, _file("--console-tls-key", "DNSTEER_CONSOLE_TLS_KEY", "The certificate's private key, PEM.")
]
ClientCa = Annotated[
    Path | None,
    _file(
        "--console-client-ca",
        "DNSTEER_CONSOLE_CLIENT_CA",
        "Require client certificates signed by this CA, PEM; in addition to tokens, or instead of them if the console "
        "only reads.",
    ),
]
Tokens = Annotated[
    Path | None,
    _file(
        "--console-tokens",
        "DNSTEER_CONSOLE_TOKENS",
        "Ask for a token: a file of mode 0600, each line NAME ROLE SHA256; dnsteer console-token makes them.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--console-name",
        metavar="NAME",
        envvar="DNSTEER_CONSOLE_NAME",
        help="Another host name of the console; may be repeated. By default those of the certificate.",
    ),
]


@dataclass(frozen=True)
class Given:
    """The options as they were given."""

    certificate: Path | None
    key: Path | None
    client_ca: Path | None
    tokens: Path | None
    names: Sequence[str]

    def check(self, console: At | None) -> None:
        """Refuse what does not go together. Raises typer.BadParameter."""
        if (self.certificate is None) != (self.key is None):
            raise typer.BadParameter("give --console-tls-cert and --console-tls-key both, or neither")
        if self.client_ca is not None and self.certificate is None:
            raise typer.BadParameter("--console-client-ca needs --console-tls-cert and --console-tls-key")
        for name in self.names:
            if not name or not name.isascii() or not name.isprintable() or any(c in name for c in "/ @\\"):
                raise typer.BadParameter(f"--console-name: found {name!r}; expected a name such as dpu-1.example.net")
        if console is None or ip_address(console[0]).is_loopback:
            return
        where = f"[{console[0]}]:{console[1]}" if ":" in console[0] else f"{console[0]}:{console[1]}"
        missing = [] if self.certificate else ["TLS (--console-tls-cert, --console-tls-key)"]
        missing += [] if self.tokens or self.client_ca else ["tokens (--console-tokens) or --console-client-ca"]
        if missing:
            raise typer.BadParameter(
                f"--console: found {where!r}; expected a loopback address such as 127.0.0.1:9853, or "
                f"{' and '.join(missing)}. "
                f"From elsewhere without: ssh -L {console[1]}:127.0.0.1:{console[1]} to this machine"
            )

    @property
    def any(self) -> bool:
        """Whether any was given."""
        return any((self.certificate, self.tokens, self.names))

    def security(self, console: At | None, say: Callable[[str], None]) -> Security:
        """Read the files. Raises SwitchError that says what is wrong with one and what to do, and OSError."""
        from dnsteer.console.serve import Security
        from dnsteer.console.tls import ServerTls, TlsFiles
        from dnsteer.console.tokens import TokenFile
        from dnsteer.switch.tools import SwitchError

        tls = None
        if self.certificate is not None and self.key is not None:
            client_ca = self.client_ca.absolute() if self.client_ca is not None else None
            tls = ServerTls(TlsFiles(self.certificate.absolute(), self.key.absolute(), client_ca), say)
        tokens = TokenFile(self.tokens, say) if self.tokens is not None else None
        names = [f"[{name}]" if ":" in name and name[:1] != "[" else name.lower() for name in self.names]
        if console is not None and ip_address(console[0]).is_unspecified and not names and not (tls and tls.names):
            raise SwitchError(
                f"--console: {console[0]} is no name to answer by, and the certificate has none (subjectAltName); "
                f"give --console-name NAME, or an address of this machine"
            )
        return Security(tokens, tls, names)
